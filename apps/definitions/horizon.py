"""How far ahead schedules have become executions: for who watches the preloader."""

from datetime import datetime

from apps.definitions.models import Task


def materialised_until() -> datetime | None:
    """Before this instant every occurrence of every tenant's tasks is an execution; None: no schedule fires again.

    Read from the partial index of what fires next: it costs nothing, however many tasks there are.
    """
    live = Task.objects.filter(next_fire_at__isnull=False, paused_at=None, deleted_at=None)
    return live.order_by("next_fire_at").values_list("next_fire_at", flat=True).first()
