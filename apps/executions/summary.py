"""The whole installation in figures, from what costs little: small tables, and a bounded sample of the ledger."""

from typing import Any

import psycopg

from apps.executions.states import ExecutionClass, Hold
from apps.executions.store import named_sql

SAMPLE = 1000
_MINUTES = 15
MOST_COUNTED = 100_001


def summary(connection: psycopg.Connection) -> dict[str, Any]:
    """Rates, latencies, what runs and waits for claims by class, dead letters, who is held. Times in milliseconds."""
    parameters = {"sample": SAMPLE, "minutes": _MINUTES, "most": MOST_COUNTED}
    row = connection.execute(named_sql("summary"), parameters).fetchone()
    assert row is not None
    (workers, slots, completed, errors, sent, dead, of_hour, late50, late99, ran50, ran99, sampled) = row[:12]
    by_class = {int(c): count for c, count in connection.execute(named_sql("summary_outstanding"))}
    holds = {Hold(reason).word: count for reason, count in connection.execute(named_sql("summary_holds"))}
    return {
        "workers": {"alive": workers, "slots": slots},
        "rates": {
            "completed_last_minute": completed,
            "failed_last_minute": errors,
            "dispatched_this_hour": of_hour,
        },
        "latencies": {
            "of_the_last": sampled,
            "start_lateness_ms": {"p50": late50, "p99": late99},
            "run_ms": {"p50": ran50, "p99": ran99},
        },
        "running": {"all": sent, **{one.word: by_class.get(int(one), 0) for one in ExecutionClass}},
        "dead_letters": {"count": min(dead, MOST_COUNTED - 1), "at_least": dead >= MOST_COUNTED},
        "held": {word: holds.get(word, 0) for word in ("paused", "frozen", "quota")},
    }
