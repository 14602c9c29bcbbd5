"""What the watchdog does for runs of DAGs: time limits, stops that were not obeyed, ends of which a run never heard."""

import logging

import psycopg

from apps.executions import feed
from apps.executions.dags.completion import settle_ended
from apps.executions.dags.settle import Outcome
from apps.executions.dags.states import RunStatus
from apps.executions.dags.stopping import answer_approval, ask_again, stop_run
from apps.executions.store.statements import fetch_ids, named_sql
from chronoweb.runtime import wakeup

logger = logging.getLogger(__name__)

_ACTOR = "watchdog"
_CHUNK = 1000
_MISSED_SECONDS = 1.0
_RUNS = 100


def keep_time(connection: psycopg.Connection) -> int:
    """Stop runs that are over their time limit; answer approvals that nobody has answered in theirs."""
    over = fetch_ids(connection, named_sql("runs_over_time"), {"limit": _RUNS})
    for run in over:
        with connection.transaction():
            outcome = stop_run(
                connection, run, ending=RunStatus.TIMED_OUT, actor=_ACTOR, reason="timeout: its run is over its time"
            )
        _tell(outcome)
        logger.warning("a run has timed out", extra={"action": "watchdog.run_timed_out", "run": run.hex()})
    late = connection.cursor(binary=True).execute(named_sql("approvals_over_time"), {"limit": _RUNS}).fetchall()
    for run, node, default in late:
        with connection.transaction():
            answered = answer_approval(
                connection, run, node, approved=default == "approve", actor="its time limit", note="nobody has answered"
            )
        if answered is not None:
            _tell(answered)
    return len(over) + len(late)


def stop_what_runs(connection: psycopg.Connection) -> int:
    """Ask again what still runs of runs that were stopped."""
    asked = 0
    for run in fetch_ids(connection, named_sql("runs_stopping"), {"limit": _RUNS}):
        with connection.transaction():
            outcome = ask_again(connection, run, actor=_ACTOR, reason="its run was stopped")
        asked += len(outcome.changed)
        _tell(outcome)
    return asked


def hear_missed_ends(connection: psycopg.Connection) -> int:
    """Tell runs of what has ended without their knowledge."""
    missed: list[bytes] = []
    for query in ("unheard_ends", "unheard_items"):
        missed += fetch_ids(connection, named_sql(query), {"seconds": _MISSED_SECONDS, "limit": _CHUNK})
    if missed:
        settle_ended(connection, sorted(missed))
        logger.warning("runs had not heard", extra={"action": "watchdog.runs_told", "executions": len(missed)})
    return len(missed)


def _tell(outcome: Outcome) -> None:
    feed.changed_many(outcome.changed)
    if outcome.released:
        wakeup.preloader.wake()
