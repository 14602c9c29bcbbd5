"""The audit log as people ask of it: who, what act, on which object, when. The latest first, page by page."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from apps.tenants.models import AuditEntry
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

_SKEW = timedelta(minutes=5)
"""Ids grow with time but for the clocks of hosts: what bounds ids looks so far around."""


@dataclass(frozen=True)
class AuditFilter:
    """Words are taken as a whole; empty: all. since is inclusive, until is not; aware."""

    actor: str = ""
    action: str = ""
    target_type: str = ""
    target_id: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def words(self) -> dict[str, str]:
        names = ("actor", "action", "target_type", "target_id")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def entries(principal: Principal, wanted: AuditFilter, *, before: int | None = None) -> QuerySet[AuditEntry]:
    """Those of the principal's tenant, latest first; before: only those with a lower id.

    A time is turned into an id first (at most two look-ups), so that a page reads what it shows and no more.
    """
    rows = scoped(AuditEntry.objects.all(), principal).filter(**wanted.words)
    bounds: dict[str, Any] = {} if before is None else {"id__lt": before}
    if wanted.since is not None:
        first = _first_id(principal, _moved(wanted.since, -_SKEW))
        if first is None:
            return rows.none()
        bounds |= {"at__gte": wanted.since, "id__gte": first}
    if wanted.until is not None:
        bounds["at__lt"] = wanted.until
        end = _first_id(principal, _moved(wanted.until, _SKEW))
        if end is not None:
            bounds["id__lt"] = end if before is None else min(end, before)
    return rows.filter(**bounds).order_by("-id")


def _moved(at: datetime, by: timedelta) -> datetime:
    """The same where no calendar goes so far."""
    try:
        return at + by
    except OverflowError:
        return at


def _first_id(principal: Principal, at: datetime) -> int | None:
    rows = scoped(AuditEntry.objects.all(), principal).filter(at__gte=at).order_by("at", "id")
    return rows.values_list("id", flat=True).first()
