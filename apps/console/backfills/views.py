"""The page of the backfills of a task or a DAG."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse

from apps.console.backfills.page import BackfillsPage
from apps.console.fragments import may_act, polled
from apps.console.views import frame, in_tenant
from apps.definitions import backfills
from apps.definitions.backfills import DEFAULT_AT_ONCE, MOST_AT_ONCE
from apps.definitions.models import Dag, Task
from apps.definitions.occurrences import Schedule
from apps.definitions.wording import describe
from apps.definitions.zones import zone
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK

ORDERS = (("oldest_first", "oldest first"), ("newest_first", "newest first"))


@in_tenant
def page(request: HttpRequest, principal: Principal, **of: UUID) -> HttpResponse:
    """Its form, and its backfills."""
    found = backfills.target(principal, **of)
    shown = BackfillsPage(principal, found)
    pieces, may = shown.pieces(), may_act(principal)
    schedule = Schedule.parse(found.schedule)
    context = frame(request, principal) | {
        "page": "dags" if isinstance(found, Dag) else "tasks",
        "of": found,
        "may": may,
        "pieces": pieces,
        "is_any_going": shown.is_any_going,
        "repeats": schedule.type in ("cron", "interval"),
        "words": describe(schedule),
        **_addresses(principal, found),
        **_form(schedule.timezone or "UTC", SYSTEM_CLOCK.now()),
    }
    return render(request, "console/backfills/page.html", context)


@in_tenant
def state(request: HttpRequest, principal: Principal, **of: UUID) -> JsonResponse:
    """What the page's socket sends first, for pages whose socket does not open."""
    return JsonResponse(polled(BackfillsPage(principal, backfills.target(principal, **of))))


def _form(zone_name: str, now: datetime) -> dict[str, Any]:
    """Yesterday, in the schedule's zone."""
    today = now.astimezone(zone(zone_name)).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    return {
        "zones": list(dict.fromkeys((zone_name, "UTC"))),
        "begin": (today - timedelta(days=1)).isoformat(timespec="minutes"),
        "end": today.isoformat(timespec="minutes"),
        "at_once": DEFAULT_AT_ONCE,
        "most_at_once": MOST_AT_ONCE,
        "orders": ORDERS,
    }


def _addresses(principal: Principal, of: Task | Dag) -> dict[str, str]:
    kind = "dag" if isinstance(of, Dag) else "task"
    given = [principal.tenant_slug, of.id]
    return {
        "kind": "DAG" if kind == "dag" else kind,
        "up": reverse(f"console:{kind}", args=given),
        "lists": reverse(f"console:{kind}s", args=given[:1]),
        "base": reverse(f"console:{kind}_backfills", args=given),
    }
