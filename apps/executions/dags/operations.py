"""What persons do to runs: each function is one transaction, its audit entry included.

Two of them, or one and a completion, may meet in opposite order; PostgreSQL then lets one go on and the other is tried
again.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

import psycopg
from django.db import OperationalError, transaction
from django.db import connection as django_connection

from apps.executions import feed, ids
from apps.executions.dags import reopening, stopping
from apps.executions.dags.graph import Graph
from apps.executions.dags.models import DagRun
from apps.executions.dags.queue import release_ready
from apps.executions.dags.rows import Run
from apps.executions.dags.settle import Outcome
from apps.executions.dags.states import BAD, NodeState, RunStatus
from apps.executions.store.dags import RunStore
from apps.tenants import audit
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import Conflict, InvalidInput, NotFound

_TRIES = 5
MARKS = {"success": NodeState.SUCCEEDED, "failed": NodeState.FAILED}

P = ParamSpec("P")
R = TypeVar("R")


def _tried_again(act: Callable[P, R]) -> Callable[P, R]:
    """One transaction; after a deadlock, in which nothing was written, once more."""

    @wraps(act)
    def tried(*args: P.args, **kwargs: P.kwargs) -> R:
        for attempt in range(_TRIES):
            try:
                with transaction.atomic():
                    return act(*args, **kwargs)
            except (psycopg.errors.DeadlockDetected, OperationalError) as error:
                deadlock = isinstance(error, psycopg.errors.DeadlockDetected) or isinstance(
                    error.__cause__, psycopg.errors.DeadlockDetected
                )
                if not deadlock or attempt == _TRIES - 1 or django_connection.in_atomic_block:
                    raise
        raise AssertionError("unreachable")

    return tried


@_tried_again
def cancel_run(*, principal: Principal, run_id: UUID, reason: str = "") -> None:
    """Stop a run: what waits is cancelled, what runs is asked to stop; then it is CANCELLED. Repeating changes nothing.

    Raises NotFound; Conflict when it has ended otherwise.
    """
    _, run = _locked(principal, run_id)
    if run.status is RunStatus.CANCELLED or run.ending is RunStatus.CANCELLED:
        return
    if run.status is not RunStatus.RUNNING:
        raise _conflict(run_id, run, "cancelled")
    said = "its run was cancelled" + (f": {reason}" if reason else "")
    connection = postgres.raw(django_connection)
    if run.ending is not None:
        raise Conflict(f"run {run_id} is being stopped already: it will end as {run.ending.word}")
    outcome = stopping.stop_run(connection, run.id, ending=RunStatus.CANCELLED, actor=principal.actor, reason=said)
    _tell(principal, "dag_run.cancel", run_id, outcome, reason=reason)


@_tried_again
def pause_run(*, principal: Principal, run_id: UUID) -> None:
    """Release nothing more until it is resumed; what has been released goes on. Raises NotFound, Conflict."""
    store, run = _locked(principal, run_id)
    if run.status is not RunStatus.RUNNING:
        raise _conflict(run_id, run, "paused")
    if not run.paused:
        store.execute("pause_run", {"run": run_id, "paused": True})
        _tell(principal, "dag_run.pause", run_id, Outcome())


@_tried_again
def resume_run(*, principal: Principal, run_id: UUID) -> None:
    """Let a paused run go on, with what has become ready meanwhile. Raises NotFound, Conflict."""
    store, run = _locked(principal, run_id)
    if run.status is not RunStatus.RUNNING:
        raise _conflict(run_id, run, "resumed")
    if not run.paused:
        return
    store.execute("pause_run", {"run": run_id, "paused": False})
    run.paused = False
    outcome = Outcome()
    release_ready(store, run, outcome)
    _tell(principal, "dag_run.resume", run_id, outcome)


@_tried_again
def rerun_from_failed(*, principal: Principal, run_id: UUID) -> None:
    """Run what failed, was cancelled or could not run once more, and everything after it; the run goes on.

    Raises NotFound; Conflict when nothing has failed, or while the run is being stopped.
    """
    store, run = _reopenable(principal, run_id)
    graph, _ = reopening.graph_of(store, run.id)
    bad = [node for node, state in graph.states.items() if state in BAD]
    if not bad:
        raise Conflict(f"run {run_id} has no node that failed: there is nothing to run again")
    reason = "cleared: rerun from what failed"
    outcome = _reopen(principal, store, run, graph, graph.with_below(bad), {}, reason)
    _tell(principal, "dag_run.rerun_from_failed", run_id, outcome, nodes=len(bad))


@_tried_again
def clear_node(*, principal: Principal, run_id: UUID, node_id: str, downstream: bool = True) -> None:
    """Run a node once more, in a generation of its own, and with `downstream` all that comes after it.

    What runs of them now commits nothing any more. Raises NotFound; Conflict while the run is being stopped.
    """
    store, run = _reopenable(principal, run_id)
    graph, node = _find(store, run, node_id)
    cleared = graph.with_below([node]) if downstream else {node}
    reason = f"cleared: {node_id}" + (" and what comes after it" if downstream else "")
    outcome = _reopen(principal, store, run, graph, cleared, {}, reason)
    _tell(principal, "dag_run.clear", run_id, outcome, node=node_id, downstream=downstream)


@_tried_again
def mark_node(*, principal: Principal, run_id: UUID, node_id: str, state: str, downstream: bool = True) -> None:
    """Say how a node ended, whatever it did: "success" or "failed". What runs of it is stopped.

    downstream: what comes after it is decided anew; else only what was not decided yet. Raises NotFound, InvalidInput;
    Conflict while the run is being stopped.
    """
    if state not in MARKS:
        raise InvalidInput("/state", state, "is not a state to mark a node with", sorted(MARKS))
    _decide(principal, run_id, node_id, MARKS[state], "dag_run.mark", downstream=downstream)


@_tried_again
def skip_node(*, principal: Principal, run_id: UUID, node_id: str, downstream: bool = True) -> None:
    """Let a node count as skipped; what comes after it is decided by its rules. Raises NotFound; Conflict as above."""
    _decide(principal, run_id, node_id, NodeState.SKIPPED, "dag_run.skip", downstream=downstream)


@_tried_again
def decide_approval(*, principal: Principal, run_id: UUID, node_id: str, approve: bool, note: str = "") -> None:
    """Answer an approval that waits. Raises NotFound; Conflict when it does not wait."""
    store, run = _locked(principal, run_id)
    _, node = _find(store, run, node_id)
    outcome = stopping.answer_approval(
        postgres.raw(django_connection), run.id, node, approved=approve, actor=principal.actor, note=note
    )
    if outcome is None:
        raise Conflict(f"node {node_id} of run {run_id} does not wait for an answer")
    _tell(principal, "dag_run.approve" if approve else "dag_run.reject", run_id, outcome, node=node_id, note=note)


def _decide(
    principal: Principal, run_id: UUID, node_id: str, state: NodeState, action: str, *, downstream: bool
) -> None:
    store, run = _reopenable(principal, run_id)
    graph, node = _find(store, run, node_id)
    cleared = graph.with_below([node]) if downstream else {node}
    reason = f"marked {state.word} by {principal.actor}"
    if state is NodeState.SUCCEEDED:
        marked = {"run": run_id, "node": node, "actor": principal.actor, "reason": reason}
        store.rows("mark_completed", marked)
    outcome = _reopen(principal, store, run, graph, cleared, {node: state}, reason)
    _tell(principal, action, run_id, outcome, node=node_id, state=state.word, downstream=downstream)


def _reopen(
    principal: Principal,
    store: RunStore,
    run: Run,
    graph: Graph,
    cleared: Iterable[int],
    decided: dict[int, NodeState],
    reason: str,
) -> Outcome:
    return reopening.reopen(
        postgres.raw(django_connection),
        store,
        run,
        graph,
        set(cleared),
        decided=decided,
        actor=principal.actor,
        reason=reason,
    )


def _locked(principal: Principal, run_id: UUID) -> tuple[RunStore, Run]:
    found = None
    scheduled = ids.scheduled_at(run_id)
    # The statements of runs name a day's partitions, and of an id that nobody gave the day may have none.
    if scheduled is not None and DagRun.objects.filter(id=run_id, scheduled_at=scheduled).exists():
        found = reopening.lock(postgres.raw(django_connection), run_id.bytes, tenant_id=principal.tenant_id)
    if found is None:
        raise NotFound(f"no run with id {run_id} in tenant {principal.tenant_slug}")
    return found


def _reopenable(principal: Principal, run_id: UUID) -> tuple[RunStore, Run]:
    """Not one that is being stopped: what still ends of it would be counted as the end of what is to run again."""
    store, run = _locked(principal, run_id)
    if run.status is RunStatus.RUNNING and run.ending is not None:
        said = f"run {run_id} is being stopped and will end as {run.ending.word}: try again when it has ended"
        raise Conflict(said, run_status=run.status.word)
    return store, run


def _find(store: RunStore, run: Run, node_id: str) -> tuple[Graph, int]:
    graph, positions = reopening.graph_of(store, run.id)
    if node_id not in positions:
        raise NotFound(f"run {UUID(bytes=run.id)} has no node {node_id!r}")
    return graph, positions[node_id]


def _conflict(run_id: UUID, run: Run, verb: str) -> Conflict:
    return Conflict(f"run {run_id} is {run.status.word}: only a running one can be {verb}", run_status=run.status.word)


def _tell(principal: Principal, action: str, run_id: UUID, outcome: Outcome, **detail: Any) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="dag_run",
        target_id=run_id,
        detail=detail,
    )
    changed: list[tuple[feed.Identity, feed.Identity]] = [(principal.tenant_id, run_id), *outcome.changed]
    transaction.on_commit(lambda: feed.changed_many(changed))
    if outcome.released:
        transaction.on_commit(wakeup.preloader.wake)
