"""Schedules and their previews."""

from typing import Any

from apps.api.openapi.schemas.definitions import lifted
from apps.api.openapi.shapes import MOMENT, TEXT, Shape, extended, many, one_of, or_null, record, whole
from apps.api.schedules import LARGEST_COUNT
from apps.definitions import json_shapes
from apps.definitions.schedules import DST_FOLD, DST_GAP, MAX_EVERY_SECONDS, TYPES

_INPUT = lifted(json_shapes.schedule())

_PREVIEW = record(
    {
        "fire_times": many(MOMENT, most=LARGEST_COUNT),
        "description": {**TEXT, "description": "in plain words"},
        "timezone": TEXT,
        "tzdata": {**TEXT, "description": "the time zone rules that were used"},
    }
)

SCHEMAS: dict[str, Shape] = {
    "ScheduleInput": _INPUT,
    "Schedule": record(
        {
            "type": one_of(TYPES),
            "expression": or_null(TEXT),
            "timezone": TEXT,
            "every_seconds": or_null(whole(1, MAX_EVERY_SECONDS)),
            "run_at": or_null(MOMENT),
            "start_at": or_null(MOMENT),
            "end_at": or_null(MOMENT),
            "dst_gap": one_of(DST_GAP),
            "dst_fold": one_of(DST_FOLD),
        }
    ),
    "SchedulePreviewInput": {
        **_INPUT,
        "properties": {
            **_INPUT["properties"],
            "after": or_null({**TEXT, "description": "a date-time; now if absent"}),
            "count": or_null(whole(1, LARGEST_COUNT)),
        },
    },
    "SchedulePreview": _PREVIEW,
    "NextTimes": extended(_PREVIEW, {"paused_at": or_null({**MOMENT, "description": "nothing runs until resumed"})}),
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "SchedulePreviewInput": {
        "weekdays": {"type": "cron", "expression": "0 9 * * MON-FRI", "timezone": "Europe/Paris", "count": 3}
    },
    "SchedulePreview": {
        "weekdays": {
            "fire_times": ["2026-03-02T08:00:00Z", "2026-03-03T08:00:00Z", "2026-03-04T08:00:00Z"],
            "description": "at 09:00, Monday to Friday",
            "timezone": "Europe/Paris",
            "tzdata": "2026.1",
        }
    },
}
