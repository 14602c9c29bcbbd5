"""Runs of DAGs, as Django sees them. They are written by the named SQL in sql/dag_*.sql, never through the ORM."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.executions.dags.plan import FailurePolicy, NodeKind, TriggerRule
from apps.executions.dags.states import EdgeOutcome, NodeState, RunStatus
from apps.executions.states import Origin
from apps.tenants.models import Tenant

QUEUED = "queued"
RUN_WORDS = (*(status.word for status in RunStatus), QUEUED)
"""What DagRun.word may be."""


class DagRun(models.Model):
    """One run of one version of a DAG; partitioned by the day of scheduled_at, which its executions share."""

    id = models.UUIDField(primary_key=True)
    scheduled_at = models.DateTimeField()
    run_at = models.DateTimeField(help_text="when its first nodes were due")
    nominal_at = models.DateTimeField(null=True, help_text="the logical time that it stands for")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True, help_text="when it will be stopped; NULL: never, or it was")
    paused_at = models.DateTimeField(null=True)
    queued_since = models.DateTimeField(null=True, help_text="waits until fewer runs of its DAG are active")
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    dag_id = models.UUIDField()
    dag_version_id = models.BigIntegerField()
    timeout_seconds = models.IntegerField(null=True)
    nodes = models.IntegerField()
    open_nodes = models.IntegerField(help_text="nodes that are not final")
    version = models.IntegerField(default=1, help_text="grows with each write")
    status = models.SmallIntegerField(choices=[(s.value, s.word) for s in RunStatus])
    ending = models.SmallIntegerField(
        null=True, choices=[(s.value, s.word) for s in RunStatus], help_text="as what it will end, once it was stopped"
    )
    failure_policy = models.SmallIntegerField(choices=[(p.value, p.word) for p in FailurePolicy])
    origin = models.SmallIntegerField(choices=[(o.value, o.word) for o in Origin])
    actor = models.TextField()
    idempotency_key = models.TextField()
    parameters = models.JSONField()
    traceparent = models.TextField(null=True, help_text="of the request that started it; its executions have it, too")

    class Meta:
        db_table = "dag_runs"
        verbose_name = "run of a DAG"
        verbose_name_plural = "runs of DAGs"
        ordering = ["-id"]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def word(self) -> str:
        """Its status as people see it: a run that waits to begin is `queued`."""
        return QUEUED if self.queued_since is not None and self.ending is None else RunStatus(self.status).word


class RunNode(models.Model):
    """A node of a run: how many of its edges have brought what, and where it is.

    generation grows when it is cleared; executions of older generations are history.
    """

    pk = models.CompositePrimaryKey("run_id", "node", "scheduled_at")
    scheduled_at = models.DateTimeField()
    run_id = models.UUIDField()
    task_id = models.UUIDField()
    execution_id = models.UUIDField(null=True, help_text="of its generation; a mapped node has items instead")
    released_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True, help_text="of an approval that waits")
    version_id = models.BigIntegerField()
    node = models.IntegerField(help_text="its position in the plan")
    generation = models.IntegerField(default=1)
    revision = models.IntegerField(default=1, db_default=1, help_text="grows with each write")
    open = models.IntegerField(help_text="edges into it that have brought nothing yet")
    succeeded = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    skipped = models.IntegerField(default=0)
    errors = models.IntegerField(default=0)
    items = models.IntegerField(null=True, help_text="of a mapped node; NULL until it has been sized")
    items_open = models.IntegerField(default=0)
    items_succeeded = models.IntegerField(default=0)
    items_failed = models.IntegerField(default=0)
    items_skipped = models.IntegerField(default=0)
    max_attempts = models.IntegerField()
    queue_seconds = models.IntegerField(null=True)
    kind = models.SmallIntegerField(choices=[(k.value, k.word) for k in NodeKind])
    rule = models.SmallIntegerField(choices=[(r.value, r.word) for r in TriggerRule])
    priority = models.SmallIntegerField()
    state = models.SmallIntegerField(choices=[(s.value, s.word) for s in NodeState])
    node_id = models.TextField()
    parents = ArrayField(models.IntegerField(), help_text="positions of the nodes right before it")
    map_over = models.TextField(null=True)
    approval = models.JSONField(null=True)
    route_id = models.IntegerField(default=0, db_default=0, help_text="which labels its worker must carry; 0: none")
    concurrency_key = models.TextField(null=True, help_text="under which it takes a place; NULL: without limit")
    error = models.JSONField(null=True, help_text="why it ended without running, or what a person noted")

    class Meta:
        db_table = "run_nodes"

    def __str__(self) -> str:
        return f"{self.node_id} of {self.run_id}"


class TaskDependency(models.Model):
    """An edge of a run, or (parent = child) an item of a mapped node: what it has brought is written once."""

    pk = models.CompositePrimaryKey("run_id", "parent", "child", "item", "scheduled_at")
    scheduled_at = models.DateTimeField()
    run_id = models.UUIDField()
    parent = models.IntegerField()
    child = models.IntegerField()
    item = models.IntegerField(default=-1, help_text="−1: an edge")
    outcome = models.SmallIntegerField(null=True, choices=[(o.value, o.word) for o in EdgeOutcome])
    condition = models.JSONField(null=True)
    error = models.JSONField(null=True, help_text="why the condition could not be judged")

    class Meta:
        db_table = "task_dependencies"

    def __str__(self) -> str:
        return f"{self.parent} -> {self.child} of {self.run_id}"
