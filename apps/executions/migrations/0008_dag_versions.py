import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("executions", "0007_dag_runs"),
        ("tenants", "0002_webhook_secret"),
    ]

    operations = [
        migrations.CreateModel(
            name="DagVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("dag_id", models.UUIDField()),
                ("number", models.IntegerField(help_text="1 for the first version of the DAG")),
                ("name", models.CharField(max_length=200)),
                ("definition", models.JSONField(help_text="the DAG as the API shows it")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("created_by", models.CharField(max_length=200)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "db_table": "dag_versions",
                "constraints": [models.UniqueConstraint(fields=("dag_id", "number"), name="dag_versions_numbered")],
            },
        ),
    ]
