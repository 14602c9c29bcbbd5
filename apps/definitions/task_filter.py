"""Which tasks people mean: what the console's list shows is what its acts by filter act on."""

from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import QuerySet

from apps.definitions.models import Task
from apps.definitions.tasks import live_tasks
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped


@dataclass(frozen=True)
class TaskFilter:
    """search: in any part of the name, capitals or not. tags: carries all of them. paused: None is both.

    chosen: only these ids, where there are any.
    """

    search: str = ""
    tags: tuple[str, ...] = ()
    paused: bool | None = None
    chosen: tuple[UUID, ...] = field(default_factory=tuple)

    @property
    def is_open(self) -> bool:
        """Whether it finds everything."""
        return not (self.search or self.tags or self.chosen) and self.paused is None

    def rows(self, principal: Principal) -> QuerySet[Task]:
        """The tenant's tasks that it finds."""
        rows = scoped(live_tasks(), principal)
        if self.search:
            rows = rows.filter(name__icontains=self.search)
        if self.tags:
            rows = rows.filter(tags__contains=list(self.tags))
        if self.paused is not None:
            rows = rows.filter(paused_at__isnull=not self.paused)
        return rows.filter(id__in=self.chosen) if self.chosen else rows
