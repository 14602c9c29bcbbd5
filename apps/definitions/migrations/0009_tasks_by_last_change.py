"""The list of tasks can begin with those that were changed last without sorting them all."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("definitions", "0008_dag_tzdata"),
        ("tenants", "0006_tenant_changed_at"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="task",
            index=models.Index(
                fields=["tenant", "-updated_at"], condition=models.Q(deleted_at=None), name="tasks_last_changed"
            ),
        ),
    ]
