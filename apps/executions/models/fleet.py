"""Who does the work: leases of roles, and workers."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q


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
    version = models.TextField(default="", db_default="", help_text="of the program that it runs")
    drain_requested_at = models.DateTimeField(null=True, help_text="when a person asked it to drain and leave")
    drain_requested_by = models.TextField(default="", db_default="")

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


class Finding(models.Model):
    """Something that the watchdog found and mended. The same within a minute is one row that counts."""

    id = models.BigAutoField(primary_key=True)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    kind = models.TextField(help_text="one of the words of findings.py")
    detail = models.TextField(help_text="why, or which worker")
    count = models.IntegerField(help_text="executions, or places")

    class Meta:
        db_table = "findings"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"
