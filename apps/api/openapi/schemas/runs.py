"""Runs of DAGs and their nodes."""

from typing import Any

from apps.api.dag_runs import NOTE_CHARACTERS
from apps.api.openapi.schemas.executions import SCHEMAS as EXECUTIONS
from apps.api.openapi.shapes import (
    BOOLEAN,
    COUNT,
    MOMENT,
    NUMBER,
    OBJECT,
    POSITIVE,
    TEXT,
    UUID,
    Shape,
    extended,
    given,
    many,
    one_of,
    or_null,
    page,
    record,
    text,
    words,
)
from apps.executions.dags.models import RUN_WORDS
from apps.executions.dags.operations import MARKS
from apps.executions.dags.plan import FailurePolicy, NodeKind, TriggerRule
from apps.executions.dags.states import EdgeOutcome, NodeState, RunStatus
from apps.executions.states import Origin, Status

_ERROR = or_null({**OBJECT, "description": "type, message, and what the kind of handler knows"})
_TALLY = {name: COUNT for name in ("open", "succeeded", "failed", "skipped")}
_DOWNSTREAM = {**BOOLEAN, "default": True, "description": "and what comes after it"}

_RUN = record(
    {
        "id": UUID,
        "dag_id": UUID,
        "dag_version": or_null(POSITIVE),
        "status": one_of(RUN_WORDS),
        "ending": or_null({**words(RunStatus), "description": "as what it will end, while it is being stopped"}),
        "paused_at": or_null(MOMENT),
        "queued_since": or_null(MOMENT),
        "waits_for": or_null({**TEXT, "description": "why it has not begun, while it is queued"}),
        "failure_policy": words(FailurePolicy),
        "origin": words(Origin),
        "started_by": TEXT,
        "parameters": OBJECT,
        "nodes_total": POSITIVE,
        "nodes_open": COUNT,
        "nominal_at": or_null(MOMENT),
        "scheduled_at": MOMENT,
        "run_at": MOMENT,
        "created_at": MOMENT,
        "deadline_at": or_null(MOMENT),
        "finished_at": or_null(MOMENT),
        "duration_seconds": or_null({**NUMBER, "minimum": 0}),
        "idempotency_key": TEXT,
        "version": COUNT,
    }
)
_NODE = record(
    {
        "id": TEXT,
        "kind": words(NodeKind),
        "state": words(NodeState),
        "trigger_rule": words(TriggerRule),
        "task_id": UUID,
        "generation": POSITIVE,
        "parents": record({**_TALLY, "errors": COUNT}, about="what the edges into it have brought"),
        "execution_id": or_null(UUID),
        "execution_status": or_null(words(Status)),
        "attempt": or_null(COUNT),
        "items": or_null(record({"total": COUNT, **_TALLY})),
        "map_over": or_null(TEXT),
        "approval": or_null(OBJECT),
        "released_at": or_null(MOMENT),
        "started_at": or_null(MOMENT),
        "finished_at": or_null(MOMENT),
        "deadline_at": or_null(MOMENT),
        "duration_seconds": or_null(NUMBER),
        "error": _ERROR,
    }
)
_EXECUTION_OF_NODE = extended(
    EXECUTIONS["Execution"],
    {
        "generation": POSITIVE,
        "item": or_null({"type": "integer", "minimum": 0}),
        "counts": {**BOOLEAN, "description": "of the generation that counts"},
    },
)
_PATH = record(
    {
        "seconds": NUMBER,
        "nodes": many(record({"id": TEXT, "seconds": or_null(NUMBER)})),
    }
)

SCHEMAS: dict[str, Shape] = {
    "DagRun": _RUN,
    "DagRunPage": page("DagRun"),
    "DagRunDetail": extended(_RUN, {"nodes": many("RunNode"), "edges": many("RunEdge"), "critical_path": _PATH}),
    "RunNode": _NODE,
    "RunNodeDetail": extended(_NODE, {"executions": many(_EXECUTION_OF_NODE)}),
    "RunEdge": record(
        {
            "parent": TEXT,
            "child": TEXT,
            "condition": or_null(OBJECT),
            "outcome": or_null(words(EdgeOutcome)),
            "error": _ERROR,
        }
    ),
    "CancelRun": given({"reason": text(NOTE_CHARACTERS)}),
    "ClearNode": given({"downstream": _DOWNSTREAM}),
    "MarkNode": given({"state": one_of(sorted(MARKS)), "downstream": _DOWNSTREAM}, required=["state"]),
    "AnswerApproval": given({"note": text(NOTE_CHARACTERS)}),
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "CancelRun": {"why": {"reason": "the input was wrong"}},
    "ClearNode": {"with_what_follows": {}, "alone": {"downstream": False}},
    "MarkNode": {"done_by_hand": {"state": "success"}},
    "AnswerApproval": {"noted": {"note": "checked the totals"}},
}
