"""A run as its viewers are told of it: read as a whole, or only where the feed says that something changed."""

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from apps.console.dags import head, nodes
from apps.console.dags.nodes import NodeView
from apps.executions.dags import selectors
from apps.executions.dags.models import DagRun, RunNode, TaskDependency
from apps.executions.dags.rows import NO_ITEM
from apps.executions.dags.states import EdgeOutcome, RunStatus
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.errors import NotFound

Edge = tuple[int, int]


@dataclass(frozen=True)
class RunUpdate:
    """changed: positions of nodes. views and outcomes: of all of the run. head: HTML; None where it did not change.

    made: what viewers made of it, by their folding, so that it is made once for all who look alike.
    """

    changed: frozenset[int]
    views: dict[int, NodeView]
    outcomes: dict[Edge, str]
    head: str | None
    run_version: int
    made: dict[Hashable, Any] = field(default_factory=dict)


@dataclass
class RunSource:
    """One run; what a hub reads for all who look at it."""

    principal: Principal
    run_id: UUID
    clock: Clock = SYSTEM_CLOCK
    patience_seconds: float = 0.4
    edges: list[Edge] = field(default_factory=list)
    """(parent, child), fixed when the run began."""
    _views: dict[int, NodeView] = field(default_factory=dict)
    _outcomes: dict[Edge, str] = field(default_factory=dict)
    _node_of: dict[UUID, int] = field(default_factory=dict)
    _head: str = ""
    _run: DagRun | None = None

    @classmethod
    def read_now(cls, principal: Principal, run_id: UUID) -> "RunSource":
        """For one reading, without a hub. Raises NotFound."""
        source = cls(principal, run_id)
        source.update(set(), looking=True)
        source.everything()
        return source

    @property
    def run(self) -> DagRun:
        """As it was read last. Raises NotFound."""
        if self._run is None:
            raise NotFound(f"no run with id {self.run_id} in tenant {self.principal.tenant_slug}")
        return self._run

    def everything(self) -> RunUpdate:
        """All that was read, as if all had changed; asks the database nothing. Raises NotFound."""
        version = self.run.version
        return RunUpdate(frozenset(self._views), dict(self._views), dict(self._outcomes), self._head, version)

    @property
    def minds_gaps(self) -> bool:
        return True

    @property
    def look_seconds(self) -> float:
        """What has ended is looked at rarely: only a person moves it."""
        return 2.0 if self._run is None or self._run.status == RunStatus.RUNNING else 15.0

    def wants(self, identities: set[UUID]) -> set[UUID]:
        return {identity for identity in identities if identity == self.run_id or identity in self._node_of}

    def update(self, changed: set[UUID], *, looking: bool) -> RunUpdate | None:
        try:
            run = selectors.run(self.principal, self.run_id)
        except NotFound:
            return None
        whole = looking or self._run is None or _standing(run) != _standing(self._run)
        positions = None if whole else self._stale(run, changed)
        moved = self._read(run, positions)
        shown = head.read(self.principal, run, self._views.values())
        html = render_to_string(
            "console/dags/_run_head.html", {"head": shown, "tenant_slug": self.principal.tenant_slug}
        )
        told = html if html != self._head else None
        self._head, self._run = html, run
        if not moved and told is None:
            return None
        return RunUpdate(frozenset(moved), dict(self._views), dict(self._outcomes), told, run.version)

    def _stale(self, run: DagRun, changed: set[UUID]) -> set[int]:
        """Nodes to be read anew: a run is told of at each node's end, of which a few others change."""
        stale = {self._node_of[one] for one in changed if one in self._node_of}
        if self.run_id in changed:
            rows = RunNode.objects.filter(run_id=run.id, scheduled_at=run.scheduled_at)
            known = {node: view.version[0] for node, view in self._views.items()}
            stale |= {node for node, revision in rows.values_list("node", "revision") if known.get(node) != revision}
        return stale

    def _read(self, run: DagRun, positions: Collection[int] | None) -> list[int]:
        """Read nodes, and where they changed the edges into them; returns which changed."""
        found = nodes.read(self.principal, run, now=self.clock.now(), positions=positions)
        first = not self._views
        moved = [view.node for view in found if self._views.get(view.node) != view]
        self._views |= {view.node: view for view in found}
        self._node_of = {view.execution_id: view.node for view in self._views.values() if view.execution_id}
        if first:
            self._outcomes = _outcomes(run)
            self.edges = list(self._outcomes)
        elif moved:
            self._outcomes |= _outcomes(run, moved)
        return moved


def _standing(run: DagRun) -> tuple[Any, ...]:
    """What lines of nodes say of their run."""
    return run.status, run.ending, run.paused_at, run.queued_since


def _outcomes(run: DagRun, children: Collection[int] | None = None) -> dict[Edge, str]:
    """What the edges of a run, or those into some nodes, have brought; `open`: nothing yet. One query."""
    rows = TaskDependency.objects.filter(run_id=run.id, scheduled_at=run.scheduled_at, item=NO_ITEM)
    if children is not None:
        rows = rows.filter(child__in=children)
    found = rows.order_by("child", "parent").values_list("parent", "child", "outcome")
    return {(p, c): "open" if brought is None else EdgeOutcome(brought).word for p, c, brought in found}
