import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import apps.tenants.identity


class Migration(migrations.Migration):
    dependencies = [
        ("definitions", "0005_task_requires"),
        ("tenants", "0002_webhook_secret"),
    ]

    operations = [
        # Nothing could write DAGs before: their tables are made anew, which reads better than altering each column.
        migrations.DeleteModel("DagEdge"),
        migrations.DeleteModel("DagNode"),
        migrations.DeleteModel("Dag"),
        migrations.CreateModel(
            name="Dag",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=apps.tenants.identity.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("description", models.TextField(blank=True, default="")),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=63), blank=True, default=list, size=None
                    ),
                ),
                ("schedule", models.JSONField(help_text="type, expression, timezone, … as the API shows it")),
                ("strict_timing", models.BooleanField(default=False, help_text="no jitter")),
                ("catchup_seconds", models.IntegerField(default=3600)),
                (
                    "overlap_policy",
                    models.CharField(
                        choices=[
                            ("allow_all", "allow_all"),
                            ("skip", "skip"),
                            ("buffer_one", "buffer_one"),
                            ("buffer_all", "buffer_all"),
                            ("cancel_other", "cancel_other"),
                        ],
                        default="skip",
                        max_length=16,
                    ),
                ),
                (
                    "max_active_runs",
                    models.IntegerField(blank=True, help_text="empty: no limit but the overlap policy's", null=True),
                ),
                ("run_timeout_seconds", models.IntegerField(blank=True, null=True)),
                ("failure_policy", models.CharField(default="skip_downstream", max_length=16)),
                (
                    "parameters",
                    models.JSONField(
                        blank=True, default=dict, help_text="of each run, where a trigger says nothing else"
                    ),
                ),
                (
                    "parameters_schema",
                    models.JSONField(blank=True, help_text="JSON Schema that a run's parameters fit", null=True),
                ),
                ("node_count", models.IntegerField(default=0)),
                ("edge_count", models.IntegerField(default=0)),
                ("version", models.IntegerField(default=1, help_text="number of the version in force")),
                ("version_id", models.BigIntegerField(help_text="id of that version in the ledger")),
                ("jitter_ms", models.IntegerField(default=0, help_text="run_at − nominal_at of its scheduled runs")),
                (
                    "next_fire_at",
                    models.DateTimeField(blank=True, help_text="the first occurrence that is not a run yet", null=True),
                ),
                (
                    "waiting_since",
                    models.DateTimeField(
                        blank=True, help_text="since when that occurrence waits for earlier runs to end", null=True
                    ),
                ),
                ("paused_at", models.DateTimeField(blank=True, null=True)),
                ("paused_note", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("deleted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="dags", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "db_table": "dags",
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Backfill",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=apps.tenants.identity.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("schedule", models.JSONField(help_text="as it stood when the backfill was asked for")),
                ("start_at", models.DateTimeField(help_text="the first instant of the range")),
                ("end_at", models.DateTimeField(help_text="the first instant behind it")),
                ("newest_first", models.BooleanField(default=False)),
                ("at_once", models.IntegerField(help_text="how many of it are under way at most")),
                (
                    "parameters",
                    models.JSONField(blank=True, help_text="instead of the definition's own; empty: those", null=True),
                ),
                (
                    "state",
                    models.TextField(
                        choices=[("running", "Running"), ("finished", "Finished"), ("stopped", "Stopped")],
                        default="running",
                    ),
                ),
                ("cursor", models.DateTimeField(blank=True, help_text="the last occurrence that was made", null=True)),
                ("total", models.IntegerField(help_text="occurrences in the range")),
                ("made", models.IntegerField(default=0)),
                (
                    "under_way",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(),
                        blank=True,
                        default=list,
                        help_text="executions or runs not ended",
                        size=None,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=200)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "task",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="backfills",
                        to="definitions.task",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="backfills", to="tenants.tenant"
                    ),
                ),
                (
                    "dag",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="backfills",
                        to="definitions.dag",
                    ),
                ),
            ],
            options={
                "db_table": "backfills",
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="DagNode",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=apps.tenants.identity.new_uuid, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("key", models.CharField(max_length=100)),
                ("position", models.IntegerField(help_text="in the document")),
                ("definition", models.JSONField(help_text="as the document has it, without depends_on")),
                (
                    "version_id",
                    models.BigIntegerField(
                        blank=True,
                        help_text="task version of its own, in the ledger; empty: the task's version in force",
                        null=True,
                    ),
                ),
                (
                    "based_on",
                    models.BigIntegerField(
                        blank=True,
                        help_text="version of the task that its own was made from, if it overrides one",
                        null=True,
                    ),
                ),
                (
                    "dag",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="nodes", to="definitions.dag"
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        blank=True,
                        help_text="empty: defined inline",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="nodes",
                        to="definitions.task",
                    ),
                ),
            ],
            options={
                "db_table": "dag_nodes",
                "ordering": ["position"],
            },
        ),
        migrations.CreateModel(
            name="DagEdge",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "condition",
                    models.JSONField(blank=True, help_text="parent, path, op, value; empty: none", null=True),
                ),
                (
                    "dag",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="edges", to="definitions.dag"
                    ),
                ),
                (
                    "child",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="edges_in", to="definitions.dagnode"
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="edges_out", to="definitions.dagnode"
                    ),
                ),
            ],
            options={
                "db_table": "dag_edges",
            },
        ),
        migrations.AddIndex(
            model_name="dag",
            index=models.Index(
                condition=models.Q(("deleted_at", None), ("next_fire_at__isnull", False), ("paused_at", None)),
                fields=["next_fire_at"],
                name="dags_next_fire",
            ),
        ),
        migrations.AddConstraint(
            model_name="dag",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None)), fields=("tenant", "name"), name="dags_name_is_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="dag",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("overlap_policy__in", ("allow_all", "skip", "buffer_one", "buffer_all", "cancel_other"))
                ),
                name="dags_overlap_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="dag",
            constraint=models.CheckConstraint(
                condition=models.Q(("schedule__type__in", ("cron", "interval", "one_shot", "manual", "event"))),
                name="dags_schedule_type_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="dag",
            constraint=models.CheckConstraint(
                condition=models.Q(("catchup_seconds__gte", 0)), name="dags_catchup_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="dag",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_active_runs", None), ("max_active_runs__gte", 1), _connector="OR"),
                name="dags_active_runs_positive",
            ),
        ),
        migrations.AddIndex(
            model_name="backfill",
            index=models.Index(condition=models.Q(("state", "running")), fields=["id"], name="backfills_running"),
        ),
        migrations.AddConstraint(
            model_name="backfill",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("dag__isnull", True), ("task__isnull", False)),
                    models.Q(("dag__isnull", False), ("task__isnull", True)),
                    _connector="OR",
                ),
                name="backfills_of_one_thing",
            ),
        ),
        migrations.AddConstraint(
            model_name="backfill",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["running", "finished", "stopped"])), name="backfills_state_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="backfill",
            constraint=models.CheckConstraint(
                condition=models.Q(("at_once__gte", 1)), name="backfills_at_once_positive"
            ),
        ),
        migrations.AddConstraint(
            model_name="dagnode",
            constraint=models.UniqueConstraint(fields=("dag", "key"), name="dag_nodes_key_is_unique"),
        ),
        migrations.AddConstraint(
            model_name="dagnode",
            constraint=models.CheckConstraint(
                condition=models.Q(("task__isnull", False), ("version_id__isnull", False), _connector="OR"),
                name="dag_nodes_run_something",
            ),
        ),
        migrations.AddConstraint(
            model_name="dagedge",
            constraint=models.UniqueConstraint(fields=("parent", "child"), name="dag_edges_once"),
        ),
        migrations.AddConstraint(
            model_name="dagedge",
            constraint=models.CheckConstraint(
                condition=models.Q(("parent", models.F("child")), _negated=True), name="dag_edges_no_self_edge"
            ),
        ),
    ]
