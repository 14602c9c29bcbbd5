"""Workers, circuits, and the scheduler's own roles."""

from typing import Any

from apps.api.circuits import MOST, STATES
from apps.api.openapi.shapes import (
    BOOLEAN,
    COUNT,
    MOMENT,
    NUMBER,
    TEXT,
    UUID,
    Shape,
    given,
    many,
    one_of,
    or_null,
    record,
    ref,
    text,
)
from apps.executions.failover import ROLES
from apps.executions.freezing import REASON_CHARACTERS
from apps.executions.models import WorkerState
from apps.executions.states import ExecutionClass

_QUANTILES = record({"p50": or_null(NUMBER), "p99": or_null(NUMBER)})
_ID = {"type": "integer", "minimum": 1}
_SLOTS = record({"slots": COUNT, "used": COUNT})
_PLATFORM: dict[str, Shape | str] = {
    "tenant_id": or_null(UUID),
    "host": TEXT,
    "process_id": COUNT,
    "cpu_percent": {**NUMBER, "minimum": 0},
    "memory_bytes": COUNT,
    "completed_last_minute": COUNT,
    "errors_last_minute": COUNT,
}

SCHEMAS: dict[str, Shape] = {
    "Worker": record(
        {
            "id": _ID,
            "state": one_of(WorkerState.values),
            "labels": many(TEXT),
            "dedicated": BOOLEAN,
            "slots": COUNT,
            "classes": record(
                {each.word: _SLOTS for each in ExecutionClass}, optional=[each.word for each in ExecutionClass]
            ),
            "active": COUNT,
            "started_at": MOMENT,
            "heartbeat_at": MOMENT,
            "version": TEXT,
            "drain_requested_at": or_null(MOMENT),
            **_PLATFORM,
        },
        optional=_PLATFORM,
        about="Machine and load are shown to the platform's own tenants, and of a tenant's own workers to it.",
    ),
    "Workers": record({"items": many("Worker", most=1000)}),
    "Circuit": record(
        {
            "id": _ID,
            "key": TEXT,
            "name": TEXT,
            "state": one_of(STATES),
            "trips": COUNT,
            "opened_at": or_null(MOMENT),
            "quarantine_until": or_null(MOMENT),
            "slow_start_until": or_null(MOMENT),
            "recent_failures": COUNT,
            "recent_outcomes": COUNT,
            "last_error": or_null(TEXT),
            "changed_at": MOMENT,
        }
    ),
    "Circuits": record({"items": many("Circuit", most=MOST)}),
    "Freezing": record({"frozen": or_null("Frozen")}),
    "Frozen": record({"reason": TEXT, "by": TEXT, "since": MOMENT}),
    "FreezeInput": given({"reason": text(REASON_CHARACTERS, 1)}, required=["reason"]),
    "SchedulerStatus": record(
        {
            "frozen": or_null({**ref("Frozen"), "description": "while nothing is dispatched, and why"}),
            "leases": many(
                record({"role": TEXT, "holder": UUID, "epoch": COUNT, "acquired_at": MOMENT, "expires_at": MOMENT})
            ),
        }
    ),
    "AdminMetrics": record(
        {
            "at": MOMENT,
            "frozen": or_null("Frozen"),
            "workers": record({"alive": COUNT, "slots": COUNT}),
            "rates": record(
                {"completed_last_minute": COUNT, "failed_last_minute": COUNT, "dispatched_this_hour": COUNT}
            ),
            "latencies": record(
                {
                    "of_the_last": {**COUNT, "description": "how many were looked at"},
                    "start_lateness_ms": _QUANTILES,
                    "run_ms": _QUANTILES,
                }
            ),
            "running": record({"all": COUNT, **{one.word: COUNT for one in ExecutionClass}}),
            "dead_letters": record({"count": COUNT, "at_least": BOOLEAN}),
            "held": record(
                {
                    "paused": {**COUNT, "description": "tasks"},
                    "frozen": {**COUNT, "description": "tenants, or everything"},
                    "quota": {**COUNT, "description": "tenants"},
                }
            ),
            "queues": or_null(
                record(
                    {one.word: record({"waiting": COUNT, "due": COUNT, "at_least": BOOLEAN}) for one in ExecutionClass},
                    about="by class: entries of the hot tier; queues that have work due; null while Redis is away",
                )
            ),
        }
    ),
    "FailoverInput": given({"role": one_of(ROLES)}, required=["role"]),
    "Failover": record(
        {"leases": {"type": "object", "additionalProperties": COUNT, "description": "lease → new epoch"}}
    ),
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "FailoverInput": {"dispatcher": {"role": "dispatcher"}},
    "Failover": {"preloader": {"leases": {"preloader": 7}}},
}
