"""Executions name a route: the labels that their worker must carry. Workers say which they carry, and their class slots."""

import django.contrib.postgres.fields
from django.db import migrations, models

# The preloader takes (class, tenant, route) in turn: what waits for rare workers is not in the way of the rest.
WAKE = "CREATE INDEX executions_wake ON executions (class, tenant_id, route_id, wake_at) WHERE wake_at IS NOT NULL"
WAKE_BEFORE = "CREATE INDEX executions_wake ON executions (class, tenant_id, wake_at) WHERE wake_at IS NOT NULL"
DROP_WAKE = "DROP INDEX executions_wake"

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


class Migration(migrations.Migration):
    dependencies = [
        ("executions", "0004_concurrency_keys"),
    ]

    operations = [
        migrations.CreateModel(
            name="Route",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                (
                    "labels",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), help_text="sorted", size=None, unique=True
                    ),
                ),
            ],
            options={
                "db_table": "routes",
            },
        ),
        migrations.CreateModel(
            name="RouteWaiter",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "route_id",
                        "tenant_id",
                        "scheduled_at",
                        "execution_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("route_id", models.IntegerField()),
                ("tenant_id", models.UUIDField()),
                ("scheduled_at", models.DateTimeField()),
                ("execution_id", models.UUIDField()),
            ],
            options={
                "db_table": "route_waiters",
            },
        ),
        migrations.AddField(
            model_name="execution",
            name="route_id",
            field=models.IntegerField(db_default=0, default=0, help_text="which labels its worker must carry; 0: none"),
        ),
        migrations.AddField(
            model_name="worker",
            name="class_slots",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.IntegerField(),
                db_default=[],
                default=list,
                help_text="slots of critical, standard, bulk work's own",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="class_used",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.IntegerField(),
                db_default=[],
                default=list,
                help_text="slots in use by critical, standard, bulk work",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="labels",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(), db_default=[], default=list, size=None
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="tenant_id",
            field=models.UUIDField(help_text="the only tenant that it serves", null=True),
        ),
        migrations.AlterField(
            model_name="execution",
            name="hold",
            field=models.SmallIntegerField(
                choices=[
                    (0, "none"),
                    (1, "paused"),
                    (2, "deleted"),
                    (3, "frozen"),
                    (4, "overlap"),
                    (5, "circuit"),
                    (6, "retry_budget"),
                    (8, "no_worker"),
                ],
                default=0,
            ),
        ),
        migrations.AlterField(
            model_name="standinghold",
            name="reason",
            field=models.SmallIntegerField(
                choices=[
                    (0, "none"),
                    (1, "paused"),
                    (2, "deleted"),
                    (3, "frozen"),
                    (4, "overlap"),
                    (5, "circuit"),
                    (6, "retry_budget"),
                    (8, "no_worker"),
                ]
            ),
        ),
        migrations.RunSQL(HOLDS.replace("HIGHEST", "8"), HOLDS.replace("HIGHEST", "6")),
        migrations.RunSQL([DROP_WAKE, WAKE], [DROP_WAKE, WAKE_BEFORE]),
    ]
