"""Explaining one execution, or a node of a run that has none yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection as django_connection

from apps.executions import ids
from apps.executions.dags.states import NodeState, RunStatus
from apps.executions.labels import required_by
from apps.executions.store import named_sql
from apps.explain import facts, fleet
from apps.explain.estimate import Estimate, Position, estimate, position
from apps.explain.reasons import reasons
from apps.explain.words import Code, Reason
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import NotFound


@dataclass(frozen=True)
class Explanation:
    """reasons: every one that holds, what persons and quotas forbid first. facts: what they were made from."""

    facts: facts.Facts
    reasons: Sequence[Reason]
    position: Position | None
    estimate: Estimate | None

    @property
    def may_run(self) -> bool:
        """Whether nothing but its turn is between it and a worker."""
        return [reason.code for reason in self.reasons] == [Code.IN_QUEUE]


def explain(principal: Principal, execution_id: UUID) -> Explanation:
    """Why an execution of the principal's tenant is not running. Raises NotFound."""
    connection, whole = postgres.raw(django_connection), principal.is_platform
    try:
        row = facts.read(connection, execution_id=execution_id, tenant_id=principal.tenant_id, whole=whole)
    except NotFound:
        raise NotFound(f"no execution with id {execution_id} in tenant {principal.tenant_slug}") from None
    return of_row(row, whole=whole)


def of_row(row: dict[str, Any], *, whole: bool = False) -> Explanation:
    """The explanation of what `facts.read` has found."""
    sight = fleet.look(row, requires=row["labels"] or required_by(row["definition"]), whole=whole)
    known = facts.facts_of(row, fleet=sight.fleet, line=sight.line, queue=sight.queue)
    found = reasons(known, config())
    place = position(known)
    guess = estimate(known, found, place, slow_start_percent=config().circuit_slow_start_percent)
    return Explanation(known, found, place, guess)


@dataclass(frozen=True)
class NodeExplanation:
    """A node of a run: its own reasons, and its execution's where it has one."""

    state: NodeState
    reasons: Sequence[Reason]
    execution: Explanation | None


def explain_node(principal: Principal, run_id: UUID, node_id: str) -> NodeExplanation:
    """Why a node of a run of the principal's tenant has not begun. Raises NotFound."""
    scheduled = ids.scheduled_at(run_id)
    row = None
    if scheduled is not None and "\0" not in node_id:
        parameters = {"run": run_id, "scheduled": scheduled, "tenant": principal.tenant_id, "node": node_id}
        row = facts.first_row(postgres.raw(django_connection).execute(named_sql("explain_node"), parameters))
    if row is None:
        raise NotFound(f"no node {node_id} in a run with id {run_id} in tenant {principal.tenant_slug}")
    state = NodeState(row["state"])
    own = None
    if row["execution_id"] is not None:
        own = explain(principal, row["execution_id"])
    return NodeExplanation(state, _of_node(row, state), own)


def _of_node(row: dict[str, Any], state: NodeState) -> list[Reason]:
    if state is NodeState.ACTIVE:
        if row["items"] is None:
            return []
        figures = {"items": row["items"], "open": row["items_open"]}
        return [Reason(Code.RUNNING, f"{row['items_open']:,} of {row['items']:,} items are open", figures)]
    if state is not NodeState.PENDING:
        error = row["error"] if isinstance(row["error"], dict) else {}
        text = f"it is {state.word.replace('_', ' ')}"
        figures = {"state": state.word, "error": error.get("message")}
        return [Reason(Code.NODE_FINAL, text, figures, row["finished_at"])]
    found = []
    if row["ending"] is not None or row["status"] != RunStatus.RUNNING:
        ending = row["status"] if row["ending"] is None else row["ending"]
        found.append(Reason(Code.RUN_STOPPED, "its run was stopped", {"ending": RunStatus(ending).word}))
    if row["paused_at"] is not None:
        found.append(Reason(Code.RUN_PAUSED, "its run is paused", since=row["paused_at"]))
    if row["open"]:
        parents = [{"node": p["node"], "state": NodeState(p["state"]).word} for p in row["parents"] or ()]
        names = ", ".join(parent["node"] for parent in parents)
        figures = {"open": row["open"], "parents": parents}
        found.append(Reason(Code.OPEN_DEPENDENCIES, f"waits for {row['open']:,} before it: {names}", figures))
    return found
