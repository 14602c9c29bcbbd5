"""Whether a tenant has workers of its own is asked at every hand-over: most workers are nobody's and not in the index."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("executions", "0010_run_nodes_have_a_revision")]

    operations = [
        migrations.AddIndex(
            model_name="worker",
            index=models.Index(
                fields=["tenant_id"], name="workers_of_a_tenant", condition=models.Q(tenant_id__isnull=False)
            ),
        ),
    ]
