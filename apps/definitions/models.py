"""What and when: tasks, and DAGs of tasks."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q

from apps.tenants.identity import new_uuid
from apps.tenants.models import Tenant

SCHEDULE_TYPES = ("cron", "interval", "one_shot", "manual", "event")
OVERLAP_POLICIES = ("allow_all", "skip", "buffer_one", "buffer_all", "cancel_other")
"""In the order of executions.states.Overlap."""


class Task(models.Model):
    """A definition: what to run and when, with its policies. Its snapshots are the ledger's task_versions."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="tasks")
    name = models.CharField(max_length=200)
    description = models.TextField(default="", blank=True)
    tags = ArrayField(models.CharField(max_length=63), default=list, blank=True)
    priority = models.SmallIntegerField(default=5, help_text="1 the most urgent, 10 the least")
    schedule = models.JSONField(help_text="type, expression, timezone, … as the API shows it")
    strict_timing = models.BooleanField(default=False, help_text="no jitter")
    overlap_policy = models.CharField(max_length=16, choices=[(p, p) for p in OVERLAP_POLICIES], default="skip")
    catchup_seconds = models.IntegerField(
        "catchup, s", default=3600, help_text="misfires that are younger still run when the scheduler is back"
    )
    concurrency = models.JSONField(null=True, blank=True, help_text="key, limit, when_full; null: no limit")
    handler = models.JSONField()
    parameters = models.JSONField(default=dict, blank=True)
    timeout_seconds = models.IntegerField("timeout, s", default=300, help_text="of an attempt")
    timeouts = models.JSONField(
        default=dict, blank=True, help_text="queue_seconds, total_seconds, heartbeat_seconds; absent: none"
    )
    retry_policy = models.JSONField()
    idempotent = models.BooleanField(
        default=True, help_text="may run again although nobody knows whether it was done; else a person decides"
    )
    requires = ArrayField(
        models.TextField(), default=list, blank=True, help_text="labels that a worker must carry to run it"
    )
    notifications = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="on_failure, on_success, on_dlq: channels such as slack://ops",
    )
    route_id = models.IntegerField(default=0, db_default=0, help_text="the ledger's number of those labels; 0: none")
    version = models.IntegerField(default=1, help_text="number of the version in force")
    version_id = models.BigIntegerField(help_text="id of that version in the ledger")
    jitter_ms = models.IntegerField("jitter, ms", default=0, help_text="run_at − scheduled_at of its occurrences")
    tzdata = models.CharField(
        "time zone rules", max_length=16, default="", blank=True, help_text="the time zone rules it is planned by"
    )
    next_fire_at = models.DateTimeField(
        null=True, blank=True, help_text="the first occurrence that is not an execution yet"
    )
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_note = models.TextField(default="", blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "tasks"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(deleted_at=None), name="tasks_name_is_unique"
            ),
            models.CheckConstraint(condition=Q(priority__range=(1, 10)), name="tasks_priority_range"),
            models.CheckConstraint(condition=Q(overlap_policy__in=OVERLAP_POLICIES), name="tasks_overlap_is_known"),
            models.CheckConstraint(condition=Q(schedule__type__in=SCHEDULE_TYPES), name="tasks_schedule_type_is_known"),
            models.CheckConstraint(condition=Q(catchup_seconds__gte=0), name="tasks_catchup_not_negative"),
            models.CheckConstraint(condition=Q(timeout_seconds__gt=0), name="tasks_timeout_positive"),
        ]
        indexes = [
            models.Index(
                fields=["next_fire_at"],
                condition=Q(next_fire_at__isnull=False, paused_at=None, deleted_at=None),
                name="tasks_next_fire",
            ),
            GinIndex(fields=["tags"], name="tasks_tags"),
            models.Index(fields=["tenant", "-updated_at"], condition=Q(deleted_at=None), name="tasks_last_changed"),
        ]

    def __str__(self) -> str:
        return self.name


class Dag(models.Model):
    """A definition of a workflow. Nodes and edges are rows of their own; its snapshots the ledger's dag_versions."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="dags")
    name = models.CharField(max_length=200)
    description = models.TextField(default="", blank=True)
    tags = ArrayField(models.CharField(max_length=63), default=list, blank=True)
    schedule = models.JSONField(help_text="type, expression, timezone, … as the API shows it")
    strict_timing = models.BooleanField(default=False, help_text="no jitter")
    catchup_seconds = models.IntegerField(
        "catchup, s", default=3600, help_text="misfires that are younger still run when the scheduler is back"
    )
    overlap_policy = models.CharField(max_length=16, choices=[(p, p) for p in OVERLAP_POLICIES], default="skip")
    max_active_runs = models.IntegerField(null=True, blank=True, help_text="empty: no limit but the overlap policy's")
    run_timeout_seconds = models.IntegerField(null=True, blank=True)
    failure_policy = models.CharField(max_length=16, default="skip_downstream")
    parameters = models.JSONField(default=dict, blank=True, help_text="of each run, where a trigger says nothing else")
    parameters_schema = models.JSONField(null=True, blank=True, help_text="JSON Schema that a run's parameters fit")
    notifications = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="on_failure, on_success, on_dlq: channels such as slack://ops",
    )
    node_count = models.IntegerField(default=0)
    edge_count = models.IntegerField(default=0)
    version = models.IntegerField(default=1, help_text="number of the version in force")
    version_id = models.BigIntegerField(help_text="id of that version in the ledger")
    jitter_ms = models.IntegerField("jitter, ms", default=0, help_text="run_at − nominal_at of its scheduled runs")
    tzdata = models.CharField(
        "time zone rules", max_length=16, default="", blank=True, help_text="the time zone rules it is planned by"
    )
    next_fire_at = models.DateTimeField(null=True, blank=True, help_text="the first occurrence that is not a run yet")
    waiting_since = models.DateTimeField(
        null=True, blank=True, help_text="since when that occurrence waits for earlier runs to end"
    )
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_note = models.TextField(default="", blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "dags"
        verbose_name = "DAG"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(deleted_at=None), name="dags_name_is_unique"
            ),
            models.CheckConstraint(condition=Q(overlap_policy__in=OVERLAP_POLICIES), name="dags_overlap_is_known"),
            models.CheckConstraint(condition=Q(schedule__type__in=SCHEDULE_TYPES), name="dags_schedule_type_is_known"),
            models.CheckConstraint(condition=Q(catchup_seconds__gte=0), name="dags_catchup_not_negative"),
            models.CheckConstraint(
                condition=Q(max_active_runs=None) | Q(max_active_runs__gte=1), name="dags_active_runs_positive"
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_fire_at"],
                condition=Q(next_fire_at__isnull=False, paused_at=None, deleted_at=None),
                name="dags_next_fire",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class DagNode(models.Model):
    """A node has a key that edges and people use. It keeps its id over the DAG's versions while it keeps its key."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    dag = models.ForeignKey(Dag, on_delete=models.CASCADE, related_name="nodes")
    key = models.CharField(max_length=100)
    position = models.IntegerField(help_text="in the document")
    definition = models.JSONField(help_text="as the document has it, without depends_on")
    task = models.ForeignKey(
        Task, on_delete=models.PROTECT, null=True, blank=True, related_name="nodes", help_text="empty: defined inline"
    )
    version_id = models.BigIntegerField(
        null=True, blank=True, help_text="task version of its own, in the ledger; empty: the task's version in force"
    )
    based_on = models.BigIntegerField(
        null=True, blank=True, help_text="version of the task that its own was made from, if it overrides one"
    )

    class Meta:
        db_table = "dag_nodes"
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["dag", "key"], name="dag_nodes_key_is_unique"),
            models.CheckConstraint(
                condition=Q(task__isnull=False) | Q(version_id__isnull=False), name="dag_nodes_run_something"
            ),
        ]

    def __str__(self) -> str:
        return self.key


class DagEdge(models.Model):
    """An edge orders two nodes of one DAG."""

    dag = models.ForeignKey(Dag, on_delete=models.CASCADE, related_name="edges")
    parent = models.ForeignKey(DagNode, on_delete=models.CASCADE, related_name="edges_out")
    child = models.ForeignKey(DagNode, on_delete=models.CASCADE, related_name="edges_in")
    condition = models.JSONField(null=True, blank=True, help_text="parent, path, op, value; empty: none")

    class Meta:
        db_table = "dag_edges"
        constraints = [
            models.UniqueConstraint(fields=["parent", "child"], name="dag_edges_once"),
            models.CheckConstraint(condition=~Q(parent=F("child")), name="dag_edges_no_self_edge"),
        ]

    def __str__(self) -> str:
        return f"{self.parent} -> {self.child}"


class BackfillState(models.TextChoices):
    """Where a backfill is."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"


class Backfill(models.Model):
    """A range of a schedule's past to be run on request, a few occurrences at a time."""

    id = models.UUIDField(primary_key=True, default=new_uuid, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="backfills")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, null=True, blank=True, related_name="backfills")
    dag = models.ForeignKey(Dag, on_delete=models.PROTECT, null=True, blank=True, related_name="backfills")
    schedule = models.JSONField(help_text="as it stood when the backfill was asked for")
    start_at = models.DateTimeField(help_text="the first instant of the range")
    end_at = models.DateTimeField(help_text="the first instant behind it")
    newest_first = models.BooleanField(default=False)
    at_once = models.IntegerField(help_text="how many of it are under way at most")
    parameters = models.JSONField(null=True, blank=True, help_text="instead of the definition's own; empty: those")
    state = models.TextField(choices=BackfillState.choices, default=BackfillState.RUNNING)
    cursor = models.DateTimeField(null=True, blank=True, help_text="the last occurrence that was made")
    total = models.IntegerField(help_text="occurrences in the range")
    made = models.IntegerField(default=0)
    under_way = ArrayField(models.UUIDField(), default=list, blank=True, help_text="executions or runs not ended")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "backfills"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(task__isnull=False, dag__isnull=True) | Q(task__isnull=True, dag__isnull=False),
                name="backfills_of_one_thing",
            ),
            models.CheckConstraint(condition=Q(state__in=BackfillState.values), name="backfills_state_is_known"),
            models.CheckConstraint(condition=Q(at_once__gte=1), name="backfills_at_once_positive"),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(state="running"), name="backfills_running"),
        ]

    def __str__(self) -> str:
        return f"backfill of {self.task or self.dag}"
