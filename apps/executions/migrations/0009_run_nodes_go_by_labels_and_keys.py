"""What a node's executions ask of workers and of concurrency limits is copied into its run, like all else."""

from django.db import migrations, models

ADD = """
ALTER TABLE run_nodes ADD COLUMN route_id integer NOT NULL DEFAULT 0, ADD COLUMN concurrency_key text;
"""
DROP = "ALTER TABLE run_nodes DROP COLUMN route_id, DROP COLUMN concurrency_key;"


class Migration(migrations.Migration):
    dependencies = [("executions", "0008_dag_versions")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(ADD, DROP)],
            state_operations=[
                migrations.AddField(
                    model_name="runnode",
                    name="route_id",
                    field=models.IntegerField(
                        db_default=0, default=0, help_text="which labels its worker must carry; 0: none"
                    ),
                ),
                migrations.AddField(
                    model_name="runnode",
                    name="concurrency_key",
                    field=models.TextField(help_text="under which it takes a place; NULL: without limit", null=True),
                ),
            ],
        ),
    ]
