"""What keeps work waiting: slots and places, routes, holds, quotas, circuits."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.executions.quotas import Use
from apps.executions.states import WIDE, Hold
from apps.tenants.models import Tenant


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
        verbose_name = "circuit"
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
