"""The ledger, as Django sees it. The hot path writes these tables by the named SQL in sql/, never through the ORM.

Partitioned tables have no foreign keys in the database: with them, attaching a day waits for every open writer
of the table they point to.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.executions import ids
from apps.executions.dags.models import DagRun, RunNode, TaskDependency
from apps.executions.quotas import Use
from apps.executions.states import WIDE, Hold, Origin, Outcome, Overlap, Status
from apps.tenants.models import Tenant

__all__ = [
    "Attempt",
    "CircuitBreaker",
    "CircuitWaiter",
    "DagRun",
    "DeadLetter",
    "Execution",
    "ExecutionEvent",
    "ExecutionQuerySet",
    "IdempotencyKey",
    "Lease",
    "Outstanding",
    "Progress",
    "Replay",
    "ReplayState",
    "RunNode",
    "Slot",
    "SlotWaiter",
    "StandingHold",
    "TaskDependency",
    "TaskVersion",
    "TenantUsage",
    "Worker",
    "WorkerState",
]


class TaskVersion(models.Model):
    """An immutable snapshot of a task: an execution names one, so what runs is what was promised.

    It is part of the ledger so that workers need nothing else to run an execution.
    """

    task_id = models.UUIDField()
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    number = models.IntegerField(help_text="1 for the first version of the task")
    name = models.CharField(max_length=200)
    definition = models.JSONField(help_text="the task as the API shows it")
    circuit_key = models.TextField(null=True, help_text="which circuit its executions share; NULL: none")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200)

    class Meta:
        db_table = "task_versions"
        constraints = [models.UniqueConstraint(fields=["task_id", "number"], name="task_versions_numbered")]

    def __str__(self) -> str:
        return f"{self.name} v{self.number}"


class DagVersion(models.Model):
    """An immutable snapshot of a DAG: a run names one, so people see what it was made from."""

    dag_id = models.UUIDField()
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    number = models.IntegerField(help_text="1 for the first version of the DAG")
    name = models.CharField(max_length=200)
    definition = models.JSONField(help_text="the DAG as the API shows it")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=200)

    class Meta:
        db_table = "dag_versions"
        constraints = [models.UniqueConstraint(fields=["dag_id", "number"], name="dag_versions_numbered")]

    def __str__(self) -> str:
        return f"{self.name} v{self.number}"


class ExecutionQuerySet(models.QuerySet["Execution"]):
    """Adds the partition key that an id carries, so that a lookup touches one day."""

    def with_id(self, identity: UUID) -> "ExecutionQuerySet":
        """The row of this id; nothing when no execution can have it."""
        day = ids.scheduled_at(identity)
        if day is None:
            return self.none()
        return self.filter(id=identity, scheduled_at=day)

    def with_ids(self, identities: Iterable[UUID]) -> "ExecutionQuerySet":
        """The rows of these ids."""
        found = [(identity, day) for identity in identities if (day := ids.scheduled_at(identity)) is not None]
        return self.filter(id__in=[identity for identity, _ in found], scheduled_at__in=[day for _, day in found])


class Execution(models.Model):
    """One row of the ledger: an occurrence, a trigger, a backfill or a DAG node that must run."""

    id = models.UUIDField(primary_key=True)
    scheduled_at = models.DateTimeField(help_text="when it was meant to be due; the partition key; never changes")
    run_at = models.DateTimeField(help_text="when it is next due in fact: moved by jitter, retries, deferrals")
    nominal_at = models.DateTimeField(null=True, help_text="the logical time the occurrence stands for")
    wake_at = models.DateTimeField(null=True, help_text="when the preloader must look at it again")
    created_at = models.DateTimeField()
    dispatched_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    token = models.BigIntegerField(default=0, help_text="the fencing token: grows at each dispatch")
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    task_id = models.UUIDField()
    task_version = models.ForeignKey(TaskVersion, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    worker_id = models.BigIntegerField(null=True)
    version = models.IntegerField(default=1, help_text="grows with each write")
    attempt = models.IntegerField(default=0, help_text="attempts begun; counted at claim")
    max_attempts = models.IntegerField()
    status = models.SmallIntegerField(default=Status.SCHEDULED.value, choices=[(s.value, s.word) for s in Status])
    hold = models.SmallIntegerField(default=Hold.NONE.value, choices=[(h.value, h.word) for h in Hold])
    class_index = models.SmallIntegerField(db_column="class")
    priority = models.SmallIntegerField()
    origin = models.SmallIntegerField(choices=[(o.value, o.word) for o in Origin])
    overlap = models.SmallIntegerField(choices=[(o.value, o.word) for o in Overlap])
    slot_key = models.TextField(null=True, help_text="which overlap slot it needs; NULL: none")
    concurrency_key = models.TextField(null=True, help_text="of which key it needs a place; NULL: of none")
    idempotency_key = models.TextField()
    rerun_of = models.UUIDField(null=True)
    queue_seconds = models.IntegerField(
        null=True, help_text="how long after run_at it may be dispatched; NULL: for ever"
    )
    route_id = models.IntegerField(default=0, db_default=0, help_text="which labels its worker must carry; 0: none")
    dag_run_id = models.UUIDField(null=True, help_text="the run that it is part of")
    dag_node = models.IntegerField(null=True)
    dag_item = models.IntegerField(null=True, help_text="its position in the list that its node maps over")
    dag_generation = models.IntegerField(null=True, help_text="of its node, which grows when it is cleared")
    traceparent = models.TextField(null=True)
    payload = models.JSONField(null=True, help_text="parameters; NULL: the version's own")
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        db_table = "executions"
        ordering = ["-id"]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def state(self) -> Status:
        return Status(self.status)

    @property
    def parameters(self) -> dict[str, Any]:
        """What the handler is given."""
        return self.task_version.definition["parameters"] if self.payload is None else self.payload


class Attempt(models.Model):
    """One try of an execution by one worker."""

    pk = models.CompositePrimaryKey("scheduled_at", "execution_id", "attempt", "token")
    scheduled_at = models.DateTimeField()
    execution_id = models.UUIDField()
    attempt = models.IntegerField()
    token = models.BigIntegerField()
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    worker_id = models.BigIntegerField()
    outcome = models.SmallIntegerField(choices=[(o.value, o.word) for o in Outcome])
    due_at = models.DateTimeField(help_text="run_at as it stood for this attempt")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField()
    error = models.JSONField(null=True)

    class Meta:
        db_table = "attempts"

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {self.execution_id}"


class ExecutionEvent(models.Model):
    """An exceptional transition: who moved the execution, and why. Ordinary ones are in the row and its attempts."""

    pk = models.CompositePrimaryKey("scheduled_at", "execution_id", "event_id")
    scheduled_at = models.DateTimeField()
    execution_id = models.UUIDField()
    event_id = models.BigIntegerField()
    tenant = models.ForeignKey(Tenant, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    at = models.DateTimeField()
    source = models.SmallIntegerField(null=True, choices=[(s.value, s.word) for s in Status])
    target = models.SmallIntegerField(choices=[(s.value, s.word) for s in Status])
    token = models.BigIntegerField()
    actor = models.TextField()
    reason = models.TextField()

    class Meta:
        db_table = "execution_events"

    def __str__(self) -> str:
        return f"{self.execution_id}: {self.reason}"


class Outstanding(models.Model):
    """What is dispatched and not ended: one short-lived row each. Credits and reclaim read it."""

    execution_id = models.UUIDField(primary_key=True)
    scheduled_at = models.DateTimeField()
    worker_id = models.BigIntegerField()
    class_index = models.SmallIntegerField(db_column="class")
    tenant_id = models.UUIDField()
    token = models.BigIntegerField()
    dispatched_at = models.DateTimeField()

    class Meta:
        db_table = "outstanding"

    def __str__(self) -> str:
        return str(self.execution_id)


class Progress(models.Model):
    """What running attempts say: how far they are, and what they leave for the next attempt. Gone when it rests."""

    execution_id = models.UUIDField(primary_key=True)
    scheduled_at = models.DateTimeField()
    tenant = models.ForeignKey(
        Tenant, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    token = models.BigIntegerField(help_text="of the attempt that wrote last")
    done = models.FloatField(null=True)
    total = models.FloatField(null=True)
    said_at = models.DateTimeField(null=True, help_text="of done and total")
    checkpoint = models.TextField(null=True, help_text="JSON, for the next attempt")
    checkpointed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "progress"

    def __str__(self) -> str:
        return f"{self.execution_id}: {self.text}"

    @property
    def text(self) -> str:
        """`64 of 100`; empty while nothing was said but a checkpoint left."""
        if self.done is None:
            return ""
        return f"{self.done:,.12g}" if self.total is None else f"{self.done:,.12g} of {self.total:,.12g}"


class Slot(models.Model):
    """A place that at most one execution holds: n = 0 of an overlap key, 1 to the limit of a concurrency key."""

    pk = models.CompositePrimaryKey("key", "n")
    key = models.TextField()
    n = models.IntegerField()
    execution_id = models.UUIDField()
    scheduled_at = models.DateTimeField()

    class Meta:
        db_table = "slots"

    def __str__(self) -> str:
        return f"{self.key}/{self.n}"


class SlotWaiter(models.Model):
    """An execution that waits for a slot, in the order of its id."""

    pk = models.CompositePrimaryKey("key", "scheduled_at", "execution_id")
    key = models.TextField()
    scheduled_at = models.DateTimeField()
    execution_id = models.UUIDField()
    places = models.IntegerField(default=1, db_default=1, help_text="how many its key has: it may go when one is free")

    class Meta:
        db_table = "slot_waiters"

    def __str__(self) -> str:
        return f"{self.execution_id} waits for {self.key}"


class Route(models.Model):
    """A set of labels that work requires of its worker. Never changed: the number stands for them in the hot path."""

    id = models.AutoField(primary_key=True)
    labels = ArrayField(models.TextField(), unique=True, help_text="sorted")

    class Meta:
        db_table = "routes"

    def __str__(self) -> str:
        return ", ".join(self.labels)


class RouteWaiter(models.Model):
    """An execution that waits for a live worker with its labels."""

    pk = models.CompositePrimaryKey("route_id", "tenant_id", "scheduled_at", "execution_id")
    route_id = models.IntegerField()
    tenant_id = models.UUIDField()
    scheduled_at = models.DateTimeField()
    execution_id = models.UUIDField()

    class Meta:
        db_table = "route_waiters"

    def __str__(self) -> str:
        return f"{self.execution_id} waits for route {self.route_id}"


class StandingHold(models.Model):
    """A flag that the dispatch UPDATE reads: this task, tenant or (nil UUID) the whole fleet may not dispatch."""

    pk = models.CompositePrimaryKey("target_id", "reason")
    target_id = models.UUIDField()
    reason = models.SmallIntegerField(choices=[(h.value, h.word) for h in Hold])
    note = models.TextField(default="")
    actor = models.TextField()
    since = models.DateTimeField()

    class Meta:
        db_table = "holds"
        indexes = [models.Index(fields=["reason"], name="holds_wide", condition=Q(reason__in=[int(h) for h in WIDE]))]

    def __str__(self) -> str:
        return f"{self.target_id} {Hold(self.reason).word}"


class TenantUsage(models.Model):
    """What a tenant has used of a quota in one window, in the unit of its kind (quotas.py)."""

    pk = models.CompositePrimaryKey("tenant_id", "kind", "window_start")
    tenant_id = models.UUIDField()
    kind = models.SmallIntegerField(choices=[(u.value, u.name.lower()) for u in Use])
    window_start = models.DateTimeField()
    used = models.BigIntegerField()
    told_at = models.DateTimeField(null=True, help_text="when its owners were told that the quota is used up")

    class Meta:
        db_table = "tenant_usage"

    def __str__(self) -> str:
        return f"{self.used} of kind {self.kind} by {self.tenant_id}"


class CircuitBreaker(models.Model):
    """What executions of a tenant share (a handler, a program, a webhook's host) and how it has fared: only what has
    failed has a row. Its phase follows from its two instants; circuits.py has the rules.
    """

    id = models.BigAutoField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    key = models.TextField(help_text="webhook:host:port, python:name or command:program")
    recent = models.JSONField(default=list, db_default=[], help_text="[microseconds, failed] of the last outcomes")
    trips = models.IntegerField(default=0, db_default=0, help_text="relapses since it was last closed")
    opened_at = models.DateTimeField(null=True)
    quarantine_until = models.DateTimeField(null=True, help_text="nothing runs until then")
    slow_start_until = models.DateTimeField(null=True, help_text="only a share runs until then")
    admit_below = models.IntegerField(default=0, db_default=0, help_text="lots below this are the share")
    lots_drawn = models.BooleanField(default=False, db_default=False, help_text="whether it was drawn from who waits")
    proven = models.BooleanField(default=False, db_default=False, help_text="something succeeded since it opened")
    settled = models.BooleanField(default=True, db_default=True, help_text="the next success is no news")
    last_error = models.TextField(null=True)
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "circuit_breakers"
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="circuit_breakers_once")]

    def __str__(self) -> str:
        return self.key


class CircuitWaiter(models.Model):
    """An execution that waits for a circuit; the lowest lots go first."""

    pk = models.CompositePrimaryKey("circuit_id", "lot", "scheduled_at", "execution_id")
    circuit_id = models.BigIntegerField()
    lot = models.IntegerField()
    scheduled_at = models.DateTimeField()
    execution_id = models.UUIDField()

    class Meta:
        db_table = "circuit_waiters"

    def __str__(self) -> str:
        return f"{self.execution_id} waits for circuit {self.circuit_id}"


class DeadLetter(models.Model):
    """The index of executions in DEAD_LETTER: no index on executions may name the status."""

    execution_id = models.UUIDField(primary_key=True)
    scheduled_at = models.DateTimeField()
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    task_id = models.UUIDField()
    fingerprint = models.TextField(help_text="errors of one kind share it")
    since = models.DateTimeField()

    class Meta:
        db_table = "dead_letters"
        indexes = [models.Index(fields=["tenant", "-execution_id"], name="dead_letters_of_tenant")]

    def __str__(self) -> str:
        return str(self.execution_id)


class ReplayState(models.TextChoices):
    """Whether a replay of many dead letters goes on."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"


class Replay(models.Model):
    """Dead letters that a person sends round again by a filter, so many a second; the preloader moves it on.

    Those that died after it was asked for are not its: what fails again is not sent round for ever.
    """

    id = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    state = models.CharField(max_length=16, choices=ReplayState.choices, default=ReplayState.RUNNING)
    filter = models.JSONField(default=dict, help_text="as it was asked for")
    per_second = models.IntegerField()
    from_start = models.BooleanField(default=False)
    total = models.IntegerField(help_text="dead letters that it was for")
    replayed = models.IntegerField(default=0)
    left_out = models.IntegerField(default=0, help_text="seen to by others meanwhile, or of deleted tasks")
    cursor = models.UUIDField(null=True, help_text="the last execution that it has seen to")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "replays"
        indexes = [models.Index(fields=["state"], name="replays_running", condition=Q(state=ReplayState.RUNNING))]

    def __str__(self) -> str:
        return f"replay {self.id} of {self.tenant_id}"


class Lease(models.Model):
    """A time-limited right of one process to a role. The epoch grows at each change of holder."""

    role = models.TextField(primary_key=True)
    holder = models.UUIDField()
    epoch = models.BigIntegerField()
    expires_at = models.DateTimeField(help_text="by the database's clock")
    acquired_at = models.DateTimeField()

    class Meta:
        db_table = "leases"

    def __str__(self) -> str:
        return f"{self.role} epoch {self.epoch}"


class WorkerState(models.TextChoices):
    """What a worker process is doing."""

    ACTIVE = "active"
    DRAINING = "draining"
    STOPPED = "stopped"
    LOST = "lost"


class Worker(models.Model):
    """One start of a worker process. The id is never reused and never a host name."""

    id = models.BigAutoField(primary_key=True)
    state = models.TextField(choices=WorkerState.choices, default=WorkerState.ACTIVE)
    host = models.TextField()
    process_id = models.IntegerField()
    slots = models.IntegerField()
    class_slots = ArrayField(
        models.IntegerField(), default=list, db_default=[], help_text="slots of critical, standard, bulk work's own"
    )
    class_used = ArrayField(
        models.IntegerField(), default=list, db_default=[], help_text="slots in use by critical, standard, bulk work"
    )
    labels = ArrayField(models.TextField(), default=list, db_default=[])
    tenant_id = models.UUIDField(null=True, help_text="the only tenant that it serves")
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    lease_expires_at = models.DateTimeField(help_text="by the database's clock")
    cpu_percent = models.FloatField(default=0, help_text="of one core, its children included")
    memory_bytes = models.BigIntegerField(default=0, help_text="resident, its children included")
    active = models.IntegerField(default=0, help_text="attempts begun and not ended")
    completed_last_minute = models.IntegerField(default=0)
    errors_last_minute = models.IntegerField(default=0)

    class Meta:
        db_table = "workers"
        ordering = ["-id"]
        constraints = [models.CheckConstraint(condition=Q(state__in=WorkerState.values), name="workers_state_is_known")]
        indexes = [
            models.Index(fields=["tenant_id"], name="workers_of_a_tenant", condition=Q(tenant_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"worker-{self.id}"

    @property
    def by_class(self) -> list[tuple[int, int]]:
        """(slots in use, slots of its own) of critical, standard and bulk work; none in use before the first heartbeat.

        Empty for a worker of a version that did not say so.
        """
        used = self.class_used or [0] * len(self.class_slots)
        return list(zip(used, self.class_slots, strict=False))


class IdempotencyKey(models.Model):
    """What a tenant's key was used for: the same key and body get the same answer, another body a refusal."""

    pk = models.CompositePrimaryKey("tenant", "key")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    key = models.TextField()
    body_hash = models.TextField(help_text="SHA-256 of method, path and canonical body")
    response_status = models.IntegerField(null=True)
    response_body = models.JSONField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "idempotency_keys"
        indexes = [models.Index(fields=["created_at"], name="idempotency_keys_by_age")]

    def __str__(self) -> str:
        return self.key
