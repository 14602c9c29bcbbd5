"""Places for concurrency keys: which key an execution needs, and how many places the key has that one waits for."""

from django.db import migrations, models

KEY = "ALTER TABLE executions ADD COLUMN concurrency_key text"
KEY_BACK = "ALTER TABLE executions DROP COLUMN concurrency_key"

# A partition keeps a constraint of its own when the parent's is dropped: both are replaced.
HOLDS = """
DO $$ DECLARE child regclass; BEGIN
    ALTER TABLE executions DROP CONSTRAINT executions_hold_is_known;
    FOR child IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'executions'::regclass LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS executions_hold_is_known', child);
    END LOOP;
    ALTER TABLE executions ADD CONSTRAINT executions_hold_is_known CHECK (hold BETWEEN 0 AND HIGHEST);
END $$
"""
CHOICES = [
    (0, "none"),
    (1, "paused"),
    (2, "deleted"),
    (3, "frozen"),
    (4, "overlap"),
    (5, "circuit"),
    (6, "retry_budget"),
    (7, "concurrency"),
]


class Migration(migrations.Migration):
    dependencies = [("executions", "0003_circuits")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(KEY, KEY_BACK)],
            state_operations=[
                migrations.AddField(
                    model_name="execution",
                    name="concurrency_key",
                    field=models.TextField(help_text="of which key it needs a place; NULL: of none", null=True),
                ),
            ],
        ),
        migrations.AddField(
            model_name="slotwaiter",
            name="places",
            field=models.IntegerField(
                db_default=1, default=1, help_text="how many its key has: it may go when one is free"
            ),
        ),
        migrations.AlterField(
            model_name="execution",
            name="slot_key",
            field=models.TextField(help_text="which overlap slot it needs; NULL: none", null=True),
        ),
        migrations.AlterField(
            model_name="execution",
            name="hold",
            field=models.SmallIntegerField(choices=CHOICES, default=0),
        ),
        migrations.AlterField(
            model_name="standinghold",
            name="reason",
            field=models.SmallIntegerField(choices=CHOICES),
        ),
        migrations.RunSQL(HOLDS.replace("HIGHEST", "7"), HOLDS.replace("HIGHEST", "6")),
    ]
