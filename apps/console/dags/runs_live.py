"""The socket of pages that show runs as marks: the list of DAGs, and the page of one.

Messages: `snapshot` and `runs`, both {"runs": [{id, dag, version, state, html}]}.
"""

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from apps.console import hub
from apps.console.dags import strips
from apps.console.sockets import LiveConsumer
from apps.executions.dags import selectors
from apps.executions.dags.models import DagRun
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.clock import SYSTEM_CLOCK

_NEWEST = 100
_BACK = timedelta(days=2)
Messages = list[dict[str, Any]]
Update = dict[str, Any]
"""A message, the same one for all who are told."""


class RunsSource:
    """One tenant's runs, as marks."""

    look_seconds = 5.0
    patience_seconds = 2.0
    minds_gaps = False

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        self._known: dict[UUID, int] = {}

    def wants(self, identities: set[UUID]) -> set[UUID]:
        return identities

    def update(self, changed: set[UUID], *, looking: bool) -> Update | None:
        wanted = set(changed)
        if looking:
            newest = newest_runs(self._principal)
            wanted |= {identity for identity, version in newest.items() if self._known.get(identity) != version}
        found = selectors.lines(self._principal, wanted)
        if looking:
            self._known = newest
        self._known |= {run.id: run.version for run in found}
        return {"type": "runs", "runs": marks(self._principal, found)} if found else None


def newest_runs(principal: Principal) -> dict[UUID, int]:
    """The versions of the tenant's last runs."""
    since = SYSTEM_CLOCK.now() - _BACK
    rows = scoped(DagRun.objects.all(), principal).filter(scheduled_at__gte=since).order_by("-id")
    return dict(rows.values_list("id", "version")[:_NEWEST])


def marks(principal: Principal, runs: list[selectors.RunLine]) -> Messages:
    ordered = sorted(runs, key=lambda run: run.id)
    return [strips.message(strips.mark(run), principal.tenant_slug) for run in ordered]


def snapshot(principal: Principal) -> dict[str, Any]:
    """The last runs of the tenant, as a message."""
    found = selectors.lines(principal, list(newest_runs(principal)))
    return {"type": "snapshot", "runs": marks(principal, found)}


class RunsConsumer(LiveConsumer[Update]):
    def joined(self) -> Any:
        tenant = self.principal.tenant_id
        return hub.joined(("runs", tenant), tenant, partial(RunsSource, self.principal))

    async def snapshot(self, hub: hub.Hub[Update]) -> dict[str, Any]:
        return await hub.shared("snapshot", partial(snapshot, self.principal))

    def message(self, update: Update) -> dict[str, Any] | None:
        return update
