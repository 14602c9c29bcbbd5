"""Acts on many things at once."""

from typing import Any

from apps.api.bulk import MOST_CREATED, SHOWN
from apps.api.executions import ExecutionFilters
from apps.api.filters import Filters
from apps.api.openapi.shapes import BOOLEAN, COUNT, TEXT, UUID, Shape, given, many, one_of, or_null, record, text
from apps.api.tasks import TaskFilters
from apps.definitions.bulk import ACTIONS as TASK_ACTIONS
from apps.definitions.standing import NOTE_CHARACTERS
from apps.executions.bulk import ACTIONS as EXECUTION_ACTIONS


def _body(actions: tuple[str, ...], filters: type[Filters], **more: Shape) -> Shape:
    about = "as in the list's query; {} finds everything"
    return given(
        {
            "action": one_of(actions),
            "filter": {
                **given({name: or_null(shape) for name, shape in filters.shapes().items()}),
                "description": about,
            },
            "dry_run": {**BOOLEAN, "default": False, "description": "count, and do nothing"},
            "expected_count": or_null({**COUNT, "description": "do nothing if the filter finds another number"}),
            **more,
        },
        required=["action", "filter"],
    )


_GOES_ON = "what the answer before said: the request goes on with what is scheduled earlier"
_FAILURE = record({"id": UUID, "detail": TEXT})
_CREATED = record({"status": {"const": 201}, "id": UUID, "name": TEXT})
_REFUSED = record({"status": {"enum": [409, 422]}, "problem": "Problem"})


def _answers(counted: dict[str, Shape], **more: Shape) -> Shape:
    remaining = {**COUNT, "description": "counted, and left for another request"}
    done = {"done": COUNT, "failed": COUNT, "failures": many(_FAILURE, most=SHOWN), "remaining": remaining}
    return {
        "oneOf": [
            record({"action": TEXT, **counted, "first": many(UUID, most=SHOWN)}, about="Of a dry run."),
            record({"action": TEXT, **counted, **done, **more}),
        ]
    }


SCHEMAS: dict[str, Shape] = {
    "BulkTasks": _body(TASK_ACTIONS, TaskFilters, note=or_null(text(NOTE_CHARACTERS))),
    "BulkExecutions": _body(
        EXECUTION_ACTIONS,
        ExecutionFilters,
        behind=or_null({**UUID, "description": _GOES_ON}),
        current_version={**BOOLEAN, "default": False, "description": "what runs again: under the version in force"},
    ),
    "BulkAnswer": _answers({"matched": COUNT}),
    "BulkExecutionsAnswer": _answers(
        {
            "matched": {**COUNT, "description": "counting ends at 10,000"},
            "more": {**BOOLEAN, "description": "whether the filter finds more than were counted"},
        },
        behind=or_null({**UUID, "description": "what the next request goes on with; null: all has been acted on"}),
    ),
    "TaskBatch": given({"items": many({}, most=MOST_CREATED, least=1)}, required=["items"]),
    "CreatedTasks": record({"items": many({"oneOf": [_CREATED, _REFUSED]})}),
}
SCHEMAS["TaskBatch"]["description"] = "Items are TaskInput; what is wrong with one is told of that one."

EXAMPLES: dict[str, dict[str, Any]] = {
    "BulkTasks": {
        "how_many": {"action": "pause", "filter": {"tag": "reports", "paused": False}, "dry_run": True},
        "then": {"action": "pause", "filter": {"tag": "reports", "paused": False}, "expected_count": 12},
    },
    "BulkExecutions": {"all_that_waits": {"action": "cancel", "filter": {"status": ["scheduled", "retrying"]}}},
    "BulkAnswer": {"done": {"action": "pause", "matched": 12, "done": 12, "failed": 0, "failures": [], "remaining": 0}},
}
