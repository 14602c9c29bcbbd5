"""Executions, their attempts and events, what of them is outstanding, and what they said on their way."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import models

from apps.executions import ids
from apps.executions.models.versions import TaskVersion
from apps.executions.states import Hold, Origin, Outcome, Overlap, Status
from apps.tenants.models import Tenant


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
    class_index = models.SmallIntegerField("class", db_column="class")
    priority = models.SmallIntegerField()
    origin = models.SmallIntegerField(choices=[(o.value, o.word) for o in Origin])
    overlap = models.SmallIntegerField(choices=[(o.value, o.word) for o in Overlap])
    slot_key = models.TextField(null=True, help_text="which overlap slot it needs; NULL: none")
    concurrency_key = models.TextField(null=True, help_text="of which key it needs a place; NULL: of none")
    idempotency_key = models.TextField()
    rerun_of = models.UUIDField(null=True, help_text="the execution that it runs again")
    queue_seconds = models.IntegerField(
        null=True, help_text="how long after run_at it may be dispatched; NULL: for ever"
    )
    route_id = models.IntegerField(default=0, db_default=0, help_text="which labels its worker must carry; 0: none")
    dag_run_id = models.UUIDField("run", null=True, help_text="the run that it is part of")
    dag_node = models.IntegerField("node", null=True, help_text="its position in the run's plan")
    dag_item = models.IntegerField("item", null=True, help_text="its position in the list that its node maps over")
    dag_generation = models.IntegerField(
        "generation", null=True, help_text="of its node, which grows when it is cleared"
    )
    traceparent = models.TextField(null=True)
    payload = models.JSONField("parameters", null=True, help_text="of its own; NULL: the version's")
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
    class_index = models.SmallIntegerField("class", db_column="class")
    tenant_id = models.UUIDField()
    token = models.BigIntegerField()
    dispatched_at = models.DateTimeField()

    class Meta:
        db_table = "outstanding"
        verbose_name = verbose_name_plural = "outstanding"

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
