"""Why an execution is not running."""

from typing import Any

from apps.api.openapi.shapes import (
    BOOLEAN,
    COUNT,
    MOMENT,
    OBJECT,
    POSITIVE,
    TEXT,
    UUID,
    Shape,
    many,
    one_of,
    or_null,
    record,
    words,
)
from apps.executions.dags.states import NodeState
from apps.executions.states import ExecutionClass, Hold, Status
from apps.explain.words import Code

SCHEMAS: dict[str, Shape] = {
    "Reason": record(
        {
            "code": {**one_of(Code), "description": "limits and quotas are called as the tenant's fields are"},
            "text": TEXT,
            "figures": {**OBJECT, "description": "such as used and limit; which ones, its code says"},
            "since": or_null(MOMENT),
            "clears_when": or_null({**MOMENT, "description": "when it ends by itself; null: nobody knows"}),
        }
    ),
    "Explanation": record(
        {
            "id": UUID,
            "status": words(Status),
            "hold": or_null(words(Hold, without=[Hold.NONE])),
            "class": words(ExecutionClass),
            "at": {**MOMENT, "description": "when it was looked at"},
            "reasons": many("Reason", least=1),
            "position": or_null("QueuePosition"),
            "estimated_start": or_null(record({"at": or_null(MOMENT), "basis": TEXT})),
        }
    ),
    "QueuePosition": record(
        {
            "ahead": {**COUNT, "description": "of its tenant, class and labels that come before it"},
            "at_least": {**BOOLEAN, "description": "the count ended at its bound"},
            "turns": or_null(
                {
                    **POSITIVE,
                    "description": "queues of its class with work due, its own included; told to the platform alone",
                }
            ),
            "loaded": {**BOOLEAN, "description": "whether it stands in the hot tier"},
        }
    ),
    "NodeExplanation": record(
        {"state": words(NodeState), "reasons": many("Reason"), "execution": or_null("Explanation")}
    ),
}

_EXAMPLE = {
    "id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "status": "preloaded",
    "hold": None,
    "class": "standard",
    "at": "2026-03-02T01:20:00Z",
    "reasons": [
        {
            "code": "executions_per_hour",
            "text": "quota: 10,000 of 10,000 executions this hour",
            "figures": {"used": 10000, "limit": 10000},
            "since": "2026-03-02T01:17:11Z",
            "clears_when": "2026-03-02T02:00:00Z",
        }
    ],
    "position": {"ahead": 41, "at_least": False, "turns": None, "loaded": True},
    "estimated_start": {"at": "2026-03-02T02:00:04Z", "basis": "after executions_per_hour; 41 before it, 615 ended …"},
}

EXAMPLES: dict[str, dict[str, Any]] = {"Explanation": {"over_quota": _EXAMPLE}}
