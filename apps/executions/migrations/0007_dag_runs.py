"""Runs of DAGs: their tables, and which executions belong to one."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

from apps.executions.migrations import _dag_tables


class Migration(migrations.Migration):
    dependencies = [
        ("executions", "0006_hold_reasons"),
        ("tenants", "0002_webhook_secret"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(_dag_tables.EXTEND, _dag_tables.EXTEND_BACK),
                migrations.RunSQL(_dag_tables.CREATE, _dag_tables.DROP),
            ],
            state_operations=[
                migrations.CreateModel(
                    name="RunNode",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "run_id",
                                "node",
                                "scheduled_at",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("scheduled_at", models.DateTimeField()),
                        ("run_id", models.UUIDField()),
                        ("task_id", models.UUIDField()),
                        (
                            "execution_id",
                            models.UUIDField(help_text="of its generation; a mapped node has items instead", null=True),
                        ),
                        ("released_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("deadline_at", models.DateTimeField(help_text="of an approval that waits", null=True)),
                        ("version_id", models.BigIntegerField()),
                        ("node", models.IntegerField(help_text="its position in the plan")),
                        ("generation", models.IntegerField(default=1)),
                        ("open", models.IntegerField(help_text="edges into it that have brought nothing yet")),
                        ("succeeded", models.IntegerField(default=0)),
                        ("failed", models.IntegerField(default=0)),
                        ("skipped", models.IntegerField(default=0)),
                        ("errors", models.IntegerField(default=0)),
                        (
                            "items",
                            models.IntegerField(help_text="of a mapped node; NULL until it has been sized", null=True),
                        ),
                        ("items_open", models.IntegerField(default=0)),
                        ("items_succeeded", models.IntegerField(default=0)),
                        ("items_failed", models.IntegerField(default=0)),
                        ("items_skipped", models.IntegerField(default=0)),
                        ("max_attempts", models.IntegerField()),
                        ("queue_seconds", models.IntegerField(null=True)),
                        ("kind", models.SmallIntegerField(choices=[(0, "task"), (1, "mapped"), (2, "approval")])),
                        (
                            "rule",
                            models.SmallIntegerField(
                                choices=[
                                    (0, "all_success"),
                                    (1, "all_done"),
                                    (2, "one_success"),
                                    (3, "one_failed"),
                                    (4, "none_failed"),
                                    (5, "none_failed_min_one_success"),
                                    (6, "always"),
                                ]
                            ),
                        ),
                        ("priority", models.SmallIntegerField()),
                        (
                            "state",
                            models.SmallIntegerField(
                                choices=[
                                    (0, "pending"),
                                    (1, "active"),
                                    (2, "succeeded"),
                                    (3, "failed"),
                                    (4, "skipped"),
                                    (5, "upstream_failed"),
                                    (6, "cancelled"),
                                ]
                            ),
                        ),
                        ("node_id", models.TextField()),
                        (
                            "parents",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.IntegerField(),
                                help_text="positions of the nodes right before it",
                                size=None,
                            ),
                        ),
                        ("map_over", models.TextField(null=True)),
                        ("approval", models.JSONField(null=True)),
                        (
                            "error",
                            models.JSONField(
                                help_text="why it ended without running, or what a person noted", null=True
                            ),
                        ),
                    ],
                    options={
                        "db_table": "run_nodes",
                    },
                ),
                migrations.CreateModel(
                    name="TaskDependency",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "run_id",
                                "parent",
                                "child",
                                "item",
                                "scheduled_at",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("scheduled_at", models.DateTimeField()),
                        ("run_id", models.UUIDField()),
                        ("parent", models.IntegerField()),
                        ("child", models.IntegerField()),
                        ("item", models.IntegerField(default=-1, help_text="−1: an edge")),
                        (
                            "outcome",
                            models.SmallIntegerField(
                                choices=[(0, "success"), (1, "failed"), (2, "skipped"), (3, "error")], null=True
                            ),
                        ),
                        ("condition", models.JSONField(null=True)),
                        ("error", models.JSONField(help_text="why the condition could not be judged", null=True)),
                    ],
                    options={
                        "db_table": "task_dependencies",
                    },
                ),
                migrations.AddField(
                    model_name="execution",
                    name="dag_generation",
                    field=models.IntegerField(help_text="of its node, which grows when it is cleared", null=True),
                ),
                migrations.AddField(
                    model_name="execution",
                    name="dag_item",
                    field=models.IntegerField(help_text="its position in the list that its node maps over", null=True),
                ),
                migrations.AddField(
                    model_name="execution",
                    name="dag_node",
                    field=models.IntegerField(null=True),
                ),
                migrations.AddField(
                    model_name="execution",
                    name="dag_run_id",
                    field=models.UUIDField(help_text="the run that it is part of", null=True),
                ),
                migrations.CreateModel(
                    name="DagRun",
                    fields=[
                        ("id", models.UUIDField(primary_key=True, serialize=False)),
                        ("scheduled_at", models.DateTimeField()),
                        ("run_at", models.DateTimeField(help_text="when its first nodes were due")),
                        (
                            "nominal_at",
                            models.DateTimeField(help_text="the logical time that it stands for", null=True),
                        ),
                        ("created_at", models.DateTimeField()),
                        ("finished_at", models.DateTimeField(null=True)),
                        (
                            "deadline_at",
                            models.DateTimeField(
                                help_text="when it will be stopped; NULL: never, or it was", null=True
                            ),
                        ),
                        ("paused_at", models.DateTimeField(null=True)),
                        ("dag_id", models.UUIDField()),
                        ("dag_version_id", models.BigIntegerField()),
                        ("timeout_seconds", models.IntegerField(null=True)),
                        ("nodes", models.IntegerField()),
                        ("open_nodes", models.IntegerField(help_text="nodes that are not final")),
                        ("version", models.IntegerField(default=1, help_text="grows with each write")),
                        (
                            "status",
                            models.SmallIntegerField(
                                choices=[
                                    (0, "running"),
                                    (1, "succeeded"),
                                    (2, "partially_completed"),
                                    (3, "failed"),
                                    (4, "timed_out"),
                                    (5, "cancelled"),
                                ]
                            ),
                        ),
                        (
                            "ending",
                            models.SmallIntegerField(
                                choices=[
                                    (0, "running"),
                                    (1, "succeeded"),
                                    (2, "partially_completed"),
                                    (3, "failed"),
                                    (4, "timed_out"),
                                    (5, "cancelled"),
                                ],
                                help_text="as what it will end, once it was stopped",
                                null=True,
                            ),
                        ),
                        (
                            "failure_policy",
                            models.SmallIntegerField(
                                choices=[(0, "skip_downstream"), (1, "fail_all"), (2, "continue"), (3, "retry")]
                            ),
                        ),
                        (
                            "origin",
                            models.SmallIntegerField(
                                choices=[(0, "schedule"), (1, "manual"), (2, "backfill"), (3, "dag"), (4, "rerun")]
                            ),
                        ),
                        ("actor", models.TextField()),
                        ("idempotency_key", models.TextField()),
                        ("parameters", models.JSONField()),
                        (
                            "tenant",
                            models.ForeignKey(
                                db_constraint=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="tenants.tenant",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "dag_runs",
                        "ordering": ["-id"],
                    },
                ),
            ],
        ),
    ]
