"""Backfills."""

from typing import Any

from apps.api.backfills import SHOWN
from apps.api.openapi.shapes import (
    BOOLEAN,
    COUNT,
    MOMENT,
    OBJECT,
    TEXT,
    UUID,
    Shape,
    given,
    many,
    one_of,
    or_null,
    page,
    record,
    whole,
)
from apps.definitions.backfills import DEFAULT_AT_ONCE, MOST_AT_ONCE, MOST_OCCURRENCES, ORDERS
from apps.definitions.models import BackfillState

SCHEMAS: dict[str, Shape] = {
    "BackfillInput": given(
        {
            "start": {**TEXT, "description": "the first instant of the range, a date-time"},
            "end": {**TEXT, "description": "the first instant behind it; at the latest now"},
            "at_once": {**or_null(whole(1, MOST_AT_ONCE)), "default": DEFAULT_AT_ONCE},
            "order": {**or_null(one_of(ORDERS)), "default": ORDERS[0]},
            "parameters": or_null(OBJECT),
            "dry_run": {**or_null(BOOLEAN), "default": False, "description": "list the occurrences, make nothing"},
        },
        required=["start", "end"],
    ),
    "Backfill": record(
        {
            "id": UUID,
            "task_id": or_null(UUID),
            "dag_id": or_null(UUID),
            "start": MOMENT,
            "end": MOMENT,
            "order": one_of(ORDERS),
            "at_once": whole(1, MOST_AT_ONCE),
            "parameters": or_null(OBJECT),
            "state": one_of(BackfillState.values),
            "total": whole(0, MOST_OCCURRENCES),
            "made": COUNT,
            "under_way": COUNT,
            "created_at": MOMENT,
            "created_by": TEXT,
            "ended_at": or_null(MOMENT),
        }
    ),
    "BackfillPage": page("Backfill"),
    "BackfillPreview": record({"total": COUNT, "occurrences": many(MOMENT, most=SHOWN)}),
}
SCHEMAS["BackfillPreview"]["description"] = f"The first {SHOWN} occurrences, in the order in which they would run."

_RANGE = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"}

EXAMPLES: dict[str, dict[str, Any]] = {
    "BackfillInput": {"a_day": _RANGE, "what_would_be_done": {**_RANGE, "dry_run": True}},
    "Backfill": {
        "a_day": {
            "id": "01890a5d-ac96-774b-bcce-b302099a8057",
            "task_id": "01890a5d-0000-774b-bcce-b302099a8057",
            "dag_id": None,
            **_RANGE,
            "order": "oldest_first",
            "at_once": 10,
            "parameters": None,
            "state": "running",
            "total": 24,
            "made": 10,
            "under_way": 10,
            "created_at": "2026-03-03T10:00:00Z",
            "created_by": "key:deploy",
            "ended_at": None,
        }
    },
    "BackfillPreview": {"two": {"total": 2, "occurrences": ["2026-03-01T00:00:00Z", "2026-03-01T12:00:00Z"]}},
}
