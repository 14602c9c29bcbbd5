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
            **_PLATFORM,
        },
        optional=_PLATFORM,
        about="Machine and load are shown to the platform's own tenants alone.",
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
    "FailoverInput": given({"role": one_of(ROLES)}, required=["role"]),
    "Failover": record(
        {"leases": {"type": "object", "additionalProperties": COUNT, "description": "lease → new epoch"}}
    ),
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "FailoverInput": {"dispatcher": {"role": "dispatcher"}},
    "Failover": {"preloader": {"leases": {"preloader": 7}}},
}
