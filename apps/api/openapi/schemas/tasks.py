"""Tasks, and triggers of them."""

from typing import Any

from apps.api.openapi.schemas.definitions import STANDING, lifted, partial, shown
from apps.api.openapi.shapes import OBJECT, TEXT, UUID, Shape, extended, given, many, or_null, page, record, ref, text
from apps.definitions import json_shapes
from apps.definitions.standing import NOTE_CHARACTERS
from apps.definitions.triggering import MOST_ITEMS
from apps.definitions.validation import REQUIRED
from apps.executions.idempotency import LONGEST_KEY

_PROPERTIES = lifted(json_shapes.task_properties())
_INPUT: Shape = {
    "type": "object",
    "description": "null is the same as absent.",
    "properties": _PROPERTIES,
    "required": list(REQUIRED),
    "additionalProperties": False,
}
_SHOWN = shown(json_shapes.task_properties(), nullable=frozenset({"concurrency"}), handler=ref("Handler"))
_TASK = extended(_SHOWN, STANDING)
_TRIGGER = given(
    {
        "run_at": or_null({**TEXT, "description": "a date-time, up to 400 days ahead; now if absent"}),
        "parameters": or_null({**OBJECT, "description": "instead of the task's own"}),
        "idempotency_key": or_null(text(LONGEST_KEY, 1)),
    }
)
_WARNING = record({"pointer": TEXT, "detail": TEXT})

SCHEMAS: dict[str, Shape] = {
    "Handler": lifted(json_shapes.handler()),
    "RetryPolicy": lifted(json_shapes.retry_policy()),
    "TaskInput": _INPUT,
    "TaskPatch": partial(_INPUT),
    "Task": _TASK,
    "DefinedTask": extended(
        _TASK, {"warnings": {**many(_WARNING), "description": "worth a thought, though nothing is wrong"}}
    ),
    "TaskPage": page("Task"),
    "Note": given({"note": or_null(text(NOTE_CHARACTERS))}),
    "Empty": {"type": "object", "additionalProperties": False},
    "Trigger": _TRIGGER,
    "TriggerBatch": given({"items": many("Trigger", most=MOST_ITEMS, least=1)}, required=["items"]),
    "TriggeredBatch": {
        **record({"items": many(record({"id": UUID}))}),
        "description": "In the order of the request's items.",
    },
}

_SCHEDULE = {
    "type": "cron",
    "expression": "0 2 * * *",
    "timezone": "Europe/Paris",
    "every_seconds": None,
    "run_at": None,
    "start_at": None,
    "end_at": None,
    "dst_gap": "shift",
    "dst_fold": "first",
}
_NIGHTLY = {
    "name": "nightly-report",
    "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Paris"},
    "handler": {
        "type": "webhook",
        "url": "https://reports.example.com/run",
        "headers": {"Authorization": {"secret": "REPORTS_TOKEN", "prefix": "Bearer "}},
    },
    "retry_policy": {"max_attempts": 4, "backoff": "exponential_jitter", "base_delay_seconds": 60},
    "tags": ["reports"],
}
_SHOWN_NIGHTLY = {
    "id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "name": "nightly-report",
    "description": "",
    "tags": ["reports"],
    "priority": 5,
    "schedule": _SCHEDULE,
    "strict_timing": False,
    "overlap_policy": "skip",
    "catchup_seconds": 3600,
    "concurrency": None,
    "handler": {
        "type": "webhook",
        "url": "https://reports.example.com/run",
        "method": "POST",
        "headers": {"Authorization": {"secret": "REPORTS_TOKEN", "prefix": "Bearer "}},
    },
    "parameters": {},
    "timeout_seconds": 300,
    "timeouts": {},
    "retry_policy": {
        "max_attempts": 4,
        "backoff": "exponential_jitter",
        "base_delay_seconds": 60,
        "max_delay_seconds": 3600,
    },
    "idempotent": True,
    "requires": [],
    "version": 1,
    "paused_at": None,
    "paused_note": "",
    "next_fire_at": "2026-03-02T01:00:00Z",
    "created_at": "2026-03-01T10:00:00Z",
    "updated_at": "2026-03-01T10:00:00Z",
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "TaskInput": {
        "webhook": _NIGHTLY,
        "container": {
            "name": "embed-documents",
            "schedule": {"type": "interval", "every_seconds": 900},
            "handler": {
                "type": "container",
                "image": "registry.example.com/team/embed:1.2",
                "command": ["python", "-m", "embed"],
                "environment": {"API_KEY": {"secret": "EMBED_KEY"}},
                "resource_requirements": {"cpu": "500m", "memory": "512Mi"},
            },
        },
    },
    "TaskPatch": {"later": {"schedule": {"type": "cron", "expression": "30 3 * * *"}}},
    "Task": {"webhook": _SHOWN_NIGHTLY},
    "DefinedTask": {"webhook": {**_SHOWN_NIGHTLY, "warnings": []}},
    "TaskPage": {"one": {"items": [_SHOWN_NIGHTLY], "next_cursor": None}},
    "Note": {"maintenance": {"note": "until the database is moved"}},
    "Trigger": {"now": {}, "later": {"run_at": "2026-03-02T10:00:00Z", "parameters": {"day": "2026-03-01"}}},
    "TriggerBatch": {"two": {"items": [{"parameters": {"page": 1}}, {"parameters": {"page": 2}}]}},
    "TriggeredBatch": {"two": {"items": [{"id": _SHOWN_NIGHTLY["id"]}, {"id": _SHOWN_NIGHTLY["id"]}]}},
}
