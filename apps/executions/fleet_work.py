"""What workers hold now: the asking tenant's own executions by id, everybody's as a count."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Count, F, Q, Window
from django.db.models.functions import RowNumber

from apps.executions.models import Outstanding
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped


@dataclass
class Held:
    """By one worker, sent or running. own: how many are the principal's; ids: the first of those."""

    all: int = 0
    own: int = 0
    ids: list[UUID] = field(default_factory=list)

    @property
    def others(self) -> int:
        return self.all - self.own


def held_by(principal: Principal, workers: Sequence[int], *, shown: int) -> dict[int, Held]:
    """Two queries over the small table of what is dispatched. shown: ids a worker."""
    found = {worker: Held() for worker in workers}
    rows = Outstanding.objects.filter(worker_id__in=workers)
    own = Count("execution_id", filter=Q(tenant_id=principal.tenant_id))
    counts = rows.values("worker_id").annotate(everybody=Count("execution_id"), own=own).order_by("worker_id")
    for worker, everybody, mine in counts.values_list("worker_id", "everybody", "own"):
        found[worker] = Held(everybody, mine)
    place = Window(RowNumber(), partition_by=F("worker_id"), order_by=F("execution_id").asc())
    first = scoped(rows, principal).annotate(place=place).filter(place__lte=shown).order_by("execution_id")
    for worker, identity in first.values_list("worker_id", "execution_id"):
        found[worker].ids.append(identity)
    return found
