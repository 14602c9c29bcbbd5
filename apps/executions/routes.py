"""Routes: the ledger's numbers for sets of labels, so that the hot path carries a number instead of words."""

from collections.abc import Sequence

from apps.executions.models import Route

ANY_WORKER = 0


def route_of(labels: Sequence[str]) -> int:
    """The number of these labels (sorted), made if it is new; ANY_WORKER for none."""
    return Route.objects.get_or_create(labels=list(labels))[0].id if labels else ANY_WORKER
