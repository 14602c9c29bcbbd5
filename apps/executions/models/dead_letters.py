"""What ran out of attempts, and many of them sent round again."""

from django.db import models
from django.db.models import Q

from apps.tenants.models import Tenant


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
    """Dead letters that a person sends round again, by a filter or one by one chosen, so many a second; the preloader
    moves it on.

    Those that died after they were counted are not its: what fails again is not sent round for ever.
    """

    id = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    state = models.CharField(max_length=16, choices=ReplayState.choices, default=ReplayState.RUNNING)
    filter = models.JSONField(default=dict, help_text="as it was asked for")
    per_second = models.IntegerField()
    from_start = models.BooleanField(default=False)
    current_version = models.BooleanField(
        default=False, db_default=False, help_text="under the versions of their tasks that are in force then"
    )
    total = models.IntegerField(help_text="dead letters that it was for")
    replayed = models.IntegerField(default=0)
    left_out = models.IntegerField(default=0, help_text="seen to by others meanwhile, or of deleted tasks")
    refused = models.JSONField(default=dict, db_default={}, help_text="of those left out, the first: execution and why")
    dead_by = models.DateTimeField(null=True, help_text="when they were counted: what died later is not meant")
    cursor = models.UUIDField(null=True, help_text="the last execution that it has seen to")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "replays"
        indexes = [models.Index(fields=["state"], name="replays_running", condition=Q(state=ReplayState.RUNNING))]

    def __str__(self) -> str:
        return f"replay of {self.created_at:%Y-%m-%d %H:%M:%S} UTC"
