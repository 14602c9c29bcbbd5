"""A run keeps the trace of the request that started it, for its executions are made long after."""

from django.db import migrations, models

ADD = "ALTER TABLE dag_runs ADD COLUMN traceparent text;"
DROP = "ALTER TABLE dag_runs DROP COLUMN traceparent;"


class Migration(migrations.Migration):
    dependencies = [("executions", "0014_workers_drain_and_findings")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(ADD, DROP)],
            state_operations=[
                migrations.AddField(
                    model_name="dagrun",
                    name="traceparent",
                    field=models.TextField(
                        help_text="of the request that started it; its executions have it, too", null=True
                    ),
                ),
            ],
        ),
    ]
