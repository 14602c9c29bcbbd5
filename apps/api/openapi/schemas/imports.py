"""Crontabs, and what becomes of them."""

from typing import Any

from apps.api.imports import FORMS
from apps.api.openapi.shapes import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    MOMENT,
    POSITIVE,
    TEXT,
    UUID,
    Shape,
    given,
    many,
    one_of,
    or_null,
    record,
    text,
)
from apps.definitions.crontab import importing, reading
from apps.definitions.crontab.lines import KINDS, SYSTEM, USER
from apps.definitions.crontab.planning import LONGEST_SOURCE

_OUTCOMES = (importing.CREATED, importing.UPDATED, importing.UNCHANGED, importing.REFUSED)
_CHANGE = record({"field": TEXT, "before": ANYTHING, "after": ANYTHING})
_FLAG = or_null(BOOLEAN)

SCHEMAS: dict[str, Shape] = {
    "CrontabInput": given(
        {
            "text": text(reading.MOST_BYTES),
            "timezone": or_null({**TEXT, "description": "of lines without CRON_TZ; UTC if absent"}),
            "source": or_null(
                {**text(LONGEST_SOURCE, 1), "description": "what it is known by when it is imported again"}
            ),
            "form": or_null({**one_of(FORMS), "description": "system: the user stands behind the times"}),
            "strict_timing": {**_FLAG, "description": "no jitter, as cron; true if absent"},
            "prune": {**_FLAG, "description": "delete tasks of this source whose lines are gone"},
            "dry_run": {**_FLAG, "description": "write nothing and say what would be"},
        },
        required=["text"],
    ),
    "CrontabEntry": record(
        {
            "outcome": one_of(_OUTCOMES),
            "problem": {**or_null(TEXT), "description": "why it is refused"},
            "name": or_null(TEXT),
            "task_id": {**or_null(UUID), "description": "null also for what a dry run would create"},
            "schedule": or_null("Schedule"),
            "description": {**or_null(TEXT), "description": "the times in plain words"},
            "next_fire_times": many(MOMENT, most=importing.NEXT_TIMES),
            "clock_changes": {**many(TEXT), "description": "what the next changes of the clock do to it"},
            "jitter": or_null(TEXT),
            "changes": many(_CHANGE),
        }
    ),
    "CrontabLine": record(
        {
            "number": POSITIVE,
            "text": TEXT,
            "kind": one_of(KINDS),
            "notes": many(TEXT),
            "entry": or_null("CrontabEntry"),
        }
    ),
    "ImportedCrontab": record(
        {
            "source": TEXT,
            "form": one_of((USER, SYSTEM)),
            "form_reason": TEXT,
            "dry_run": BOOLEAN,
            "lines": many("CrontabLine"),
            "gone": {
                **many(record({"name": TEXT, "task_id": UUID, "deleted": BOOLEAN})),
                "description": "tasks of this source whose lines are not there any more",
            },
            "counts": record({"lines": COUNT, **dict.fromkeys(_OUTCOMES, COUNT)}),
            "notes": many(TEXT),
        }
    ),
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "CrontabInput": {
        "look first": {"text": "MAILTO=ops\n30 2 * * 1-5 backup --all\n", "timezone": "Europe/Paris", "dry_run": True}
    }
}
