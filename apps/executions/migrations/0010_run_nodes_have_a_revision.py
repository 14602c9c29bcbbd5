"""Of two readings of a node, the one with the higher revision is the later one: pages never let a node go backwards."""

from django.db import migrations, models

ADD = "ALTER TABLE run_nodes ADD COLUMN revision integer NOT NULL DEFAULT 1;"
DROP = "ALTER TABLE run_nodes DROP COLUMN revision;"


class Migration(migrations.Migration):
    dependencies = [("executions", "0009_run_nodes_go_by_labels_and_keys")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(ADD, DROP)],
            state_operations=[
                migrations.AddField(
                    model_name="runnode",
                    name="revision",
                    field=models.IntegerField(db_default=1, default=1, help_text="grows with each write"),
                ),
            ],
        ),
    ]
