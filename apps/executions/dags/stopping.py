"""Runs that are stopped before their end, by a person, a time limit or what nobody answered.

Each function is one transaction of the caller's; what was changed is in the Outcome.
"""

import json
from typing import Any

import psycopg

from apps.executions import ids
from apps.executions.dags.settle import TIMED_OUT, Outcome, settle
from apps.executions.dags.states import NodeState, RunStatus
from apps.executions.states import Status
from apps.executions.store.dags import RunStore


def stop_run(connection: psycopg.Connection, run: bytes, *, ending: RunStatus, actor: str, reason: str) -> Outcome:
    """Let a locked or unlocked run end as `ending`: what was never released is final now, what runs is asked to stop.

    Unfinished nodes of a run that has timed out have failed; of one that was cancelled they are cancelled.
    """
    store = RunStore(connection, ids.day(run))
    outcome = Outcome()
    found = store.lock([run])
    if run not in found or not store.stop([run], ending=ending):
        return outcome
    outcome.changed.append((found[run].tenant_id, run))
    timed_out = ending is RunStatus.TIMED_OUT
    state = NodeState.FAILED if timed_out else NodeState.CANCELLED
    closed = store.end_pending_nodes([run], state=state, error=TIMED_OUT if timed_out else None)
    if closed:
        outcome.ended += store.close_nodes(closed)
    _ask(connection, store, run, outcome, actor=actor, reason=reason)
    return outcome


def ask_again(connection: psycopg.Connection, run: bytes, *, actor: str, reason: str) -> Outcome:
    """Ask what still runs of a stopped run: it was just being written when it was asked first, or is to be retried."""
    store = RunStore(connection, ids.day(run))
    outcome = Outcome()
    found = store.lock([run])
    if run in found and found[run].ending is not None and found[run].status is RunStatus.RUNNING:
        _ask(connection, store, run, outcome, actor=actor, reason=reason)
    return outcome


def _ask(
    connection: psycopg.Connection, store: RunStore, run: bytes, outcome: Outcome, *, actor: str, reason: str
) -> None:
    asked = store.stop_executions([run], actor=actor, reason=reason)
    outcome.changed += [(tenant, identity) for identity, _, tenant in asked]
    over = settle(connection, [identity for identity, status, _ in asked if status == Status.CANCELLED])
    outcome.changed += over.changed
    outcome.ended += over.ended


def answer_approval(
    connection: psycopg.Connection, run: bytes, node: int, *, approved: bool, actor: str, note: str = ""
) -> Outcome | None:
    """Answer an approval that waits; None if it does not (any more). A rejected one has failed."""
    store = RunStore(connection, ids.day(run))
    said = f"{'approved' if approved else 'rejected'} by {actor}" + (f": {note}" if note else "")
    result: dict[str, Any] = {"approved": approved, "by": actor, "note": note}
    error = None if approved else json.dumps({"type": "Rejected", "message": said, "class": "permanent"})
    parameters = {"run": _hex(run), "node": node, "approved": approved, "actor": actor, "reason": said}
    answered = store.rows("answer_approval", {**parameters, "result": json.dumps(result), "error": error})
    if not answered:
        return None
    outcome = settle(connection, [identity for identity, _ in answered])
    outcome.changed += [(tenant, identity) for identity, tenant in answered]
    return outcome


def _hex(run: bytes) -> str:
    return run.hex()
