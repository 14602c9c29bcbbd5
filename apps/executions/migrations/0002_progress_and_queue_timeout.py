"""What running attempts say of themselves, and how long an execution may wait for a worker."""

import django.db.models.deletion
from django.db import migrations, models

QUEUE = "ALTER TABLE executions ADD COLUMN queue_seconds integer"
QUEUE_BACK = "ALTER TABLE executions DROP COLUMN queue_seconds"

TUNE = """
ALTER TABLE progress SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
"""
# Room in each page lets a row be updated in place twice a second; no index but the key's.


class Migration(migrations.Migration):
    dependencies = [("executions", "0001_initial"), ("tenants", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(QUEUE, QUEUE_BACK)],
            state_operations=[
                migrations.AddField(
                    model_name="execution",
                    name="queue_seconds",
                    field=models.IntegerField(
                        help_text="how long after run_at it may be dispatched; NULL: for ever", null=True
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Progress",
            fields=[
                ("execution_id", models.UUIDField(primary_key=True, serialize=False)),
                ("scheduled_at", models.DateTimeField()),
                ("token", models.BigIntegerField(help_text="of the attempt that wrote last")),
                ("done", models.FloatField(null=True)),
                ("total", models.FloatField(null=True)),
                ("said_at", models.DateTimeField(help_text="of done and total", null=True)),
                ("checkpoint", models.TextField(help_text="JSON, for the next attempt", null=True)),
                ("checkpointed_at", models.DateTimeField(null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={"db_table": "progress"},
        ),
        migrations.RunSQL(TUNE, migrations.RunSQL.noop),
    ]
