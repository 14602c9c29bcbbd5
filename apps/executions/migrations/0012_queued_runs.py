"""A run that is asked for while as many as may are active waits in the ledger until one of them has ended."""

from django.db import migrations, models

ADD = """
ALTER TABLE dag_runs ADD COLUMN queued_since timestamptz;
CREATE INDEX dag_runs_queued ON dag_runs (dag_id, id) WHERE queued_since IS NOT NULL;
"""
DROP = """
DROP INDEX dag_runs_queued;
ALTER TABLE dag_runs DROP COLUMN queued_since;
"""


class Migration(migrations.Migration):
    dependencies = [("executions", "0011_workers_of_a_tenant")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(ADD, DROP)],
            state_operations=[
                migrations.AddField(
                    model_name="dagrun",
                    name="queued_since",
                    field=models.DateTimeField(help_text="waits until fewer runs of its DAG are active", null=True),
                ),
            ],
        ),
    ]
