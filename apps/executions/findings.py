"""What the watchdog finds and mends, as it tells persons: kinds, words, and the last ones."""

from django.db import models

from apps.executions.models import Finding


class Kind(models.TextChoices):
    """Watchdogs write them, one a duty."""

    LOST_WORKER = "lost_worker"
    RECLAIMED = "reclaimed"
    RESTORED = "restored"
    LEAKED = "leaked"
    WOKEN = "woken"


WORDS = {
    Kind.LOST_WORKER: "a worker was given up for lost",
    Kind.RECLAIMED: "taken back from where it got stuck",
    Kind.RESTORED: "put into the hot tier again",
    Kind.LEAKED: "places of what had ended were freed",
    Kind.WOKEN: "woken, since its wake-up had got lost",
}


def words_of(kind: str) -> str:
    """Of a kind that a newer watchdog wrote, the kind itself."""
    return WORDS[Kind(kind)] if kind in Kind.values else kind


def last(most: int) -> list[Finding]:
    """The latest first. They sum over all tenants: for the platform alone."""
    return list(Finding.objects.order_by("-id")[:most])
