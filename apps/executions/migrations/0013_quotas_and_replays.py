"""Sums of what tenants use, the hold of a tenant that has used up a quota, and replays of many dead letters."""

import django.db.models.deletion
from django.db import migrations, models

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
        ("executions", "0012_queued_runs"),
        ("tenants", "0006_tenant_changed_at"),
    ]

    operations = [
        migrations.CreateModel(
            name="Replay",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                (
                    "state",
                    models.CharField(
                        choices=[("running", "Running"), ("finished", "Finished"), ("stopped", "Stopped")],
                        default="running",
                        max_length=16,
                    ),
                ),
                ("filter", models.JSONField(default=dict, help_text="as it was asked for")),
                ("per_second", models.IntegerField()),
                ("from_start", models.BooleanField(default=False)),
                ("total", models.IntegerField(help_text="dead letters that it was for")),
                ("replayed", models.IntegerField(default=0)),
                (
                    "left_out",
                    models.IntegerField(default=0, help_text="seen to by others meanwhile, or of deleted tasks"),
                ),
                ("cursor", models.UUIDField(help_text="the last execution that it has seen to", null=True)),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=200)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "replays",
            },
        ),
        migrations.CreateModel(
            name="TenantUsage",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "kind",
                        "window_start",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.UUIDField()),
                (
                    "kind",
                    models.SmallIntegerField(
                        choices=[(0, "executions"), (1, "compute"), (2, "logs"), (3, "logs_of_day")]
                    ),
                ),
                ("window_start", models.DateTimeField()),
                ("used", models.BigIntegerField()),
                (
                    "told_at",
                    models.DateTimeField(help_text="when its owners were told that the quota is used up", null=True),
                ),
            ],
            options={
                "db_table": "tenant_usage",
            },
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
                    (7, "concurrency"),
                    (8, "no_worker"),
                    (9, "quota"),
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
                    (7, "concurrency"),
                    (8, "no_worker"),
                    (9, "quota"),
                ]
            ),
        ),
        migrations.AddIndex(
            model_name="standinghold",
            index=models.Index(condition=models.Q(("reason__in", [3, 9])), fields=["reason"], name="holds_wide"),
        ),
        migrations.AddField(
            model_name="replay",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tenants.tenant"
            ),
        ),
        migrations.AddIndex(
            model_name="replay",
            index=models.Index(condition=models.Q(("state", "running")), fields=["state"], name="replays_running"),
        ),
        migrations.RunSQL(HOLDS.replace("HIGHEST", "9"), HOLDS.replace("HIGHEST", "8")),
        # Each sum is updated in place, often.
        migrations.RunSQL("ALTER TABLE tenant_usage SET (fillfactor = 50)", migrations.RunSQL.noop),
    ]
