"""Executions, their attempts and events, and dead letters."""

from typing import Any

from apps.api.dead_letters import FINGERPRINT_CHARACTERS
from apps.api.openapi.shapes import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    MOMENT,
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
    whole,
    words,
)
from apps.executions.dead_letter_acts import MOST_DISCARDED
from apps.executions.dead_letters import DEFAULT_PER_SECOND, MOST_IDS, MOST_PER_SECOND, MOST_TOLD
from apps.executions.models import ReplayState
from apps.executions.services import REASON_CHARACTERS
from apps.executions.states import ExecutionClass, Hold, Origin, Outcome, Status

STATUS = words(Status)
_ERROR = {**OBJECT, "description": "type, message, and what the kind of handler knows"}

_EXECUTION = record(
    {
        "id": UUID,
        "task_id": UUID,
        "task_name": TEXT,
        "task_version": POSITIVE,
        "status": STATUS,
        "hold": or_null({**words(Hold, without=[Hold.NONE]), "description": "why it may not start now"}),
        "reason": or_null({**TEXT, "description": "why it waits, or why it ended as it did"}),
        "concurrency_key": or_null(TEXT),
        "scheduled_at": MOMENT,
        "run_at": MOMENT,
        "nominal_at": or_null(MOMENT),
        "created_at": MOMENT,
        "started_at": or_null(MOMENT),
        "finished_at": or_null(MOMENT),
        "cancel_requested_at": or_null(MOMENT),
        "attempt": COUNT,
        "max_attempts": POSITIVE,
        "priority": whole(1, 10),
        "class": words(ExecutionClass),
        "origin": words(Origin),
        "dag_run_id": or_null(UUID),
        "rerun_of": or_null(UUID),
        "idempotency_key": TEXT,
        "traceparent": or_null(TEXT),
        "parameters": or_null(OBJECT),
        "result": ANYTHING,
        "error": or_null(_ERROR),
        "fencing_token": COUNT,
        "version": COUNT,
    }
)

_FILTER: dict[str, Shape] = {
    "task_id": or_null(UUID),
    "fingerprint": or_null(text(FINGERPRINT_CHARACTERS)),
    "since": or_null({**TEXT, "description": "a date-time: that died then or later"}),
    "until": or_null({**TEXT, "description": "a date-time: that died before"}),
    "ids": or_null({**many(UUID, most=MOST_IDS, least=1), "description": "those of executions: these alone"}),
}
_REFUSED = record({"id": UUID, "detail": {**TEXT, "description": "why not"}})

SCHEMAS: dict[str, Shape] = {
    "Execution": _EXECUTION,
    "ExecutionPage": extended(
        page("Execution"),
        {
            "searched_to": {
                **or_null(MOMENT),
                "description": "the scheduled_at that the search came to before its time was spent: there may be fewer "
                "items than asked for, or none, and next_cursor goes on from there; null: the page is full, or all was "
                "looked at",
            }
        },
    ),
    "ExecutionDetail": extended(
        _EXECUTION,
        {"progress": or_null("Progress"), "attempts": many("Attempt"), "events": many("ExecutionEvent")},
    ),
    "Progress": record(
        {
            "done": or_null({"type": "number"}),
            "total": or_null({"type": "number"}),
            "text": or_null(TEXT),
            "said_at": or_null(MOMENT),
            "checkpointed_at": or_null(MOMENT),
            "fencing_token": COUNT,
        }
    ),
    "Attempt": record(
        {
            "attempt": COUNT,
            "outcome": words(Outcome),
            "worker_id": {"type": "integer"},
            "fencing_token": COUNT,
            "due_at": MOMENT,
            "started_at": or_null(MOMENT),
            "finished_at": MOMENT,
            "error": or_null(_ERROR),
        }
    ),
    "ExecutionEvent": record(
        {
            "at": MOMENT,
            "from": or_null(STATUS),
            "to": STATUS,
            "actor": TEXT,
            "reason": TEXT,
            "fencing_token": COUNT,
        }
    ),
    "DeadLetter": extended(
        _EXECUTION,
        {"fingerprint": {**TEXT, "description": "alike for what failed alike"}, "since": MOMENT},
    ),
    "DeadLetterPage": page("DeadLetter"),
    "RetryAllInput": given(
        {
            **_FILTER,
            "per_second": {**or_null(whole(1, MOST_PER_SECOND)), "default": DEFAULT_PER_SECOND},
            "from_start": {**or_null(BOOLEAN), "default": False, "description": "leave their checkpoints aside"},
            "current_version": {
                **or_null(BOOLEAN),
                "default": False,
                "description": "each under the version that its task has when it goes round, with the task's "
                "parameters where it has none of its own, instead of under the one that it failed under; nodes of runs "
                "keep theirs",
            },
            "dry_run": {**or_null(BOOLEAN), "default": False, "description": "count them, do nothing"},
        }
    ),
    "RetryAllCount": record({"matching": COUNT}),
    "DeadLetterReplay": record(
        {
            "id": UUID,
            "state": one_of(ReplayState.values),
            "filter": record(
                {
                    "task_id": or_null(UUID),
                    "fingerprint": or_null(TEXT),
                    "since": or_null(MOMENT),
                    "until": or_null(MOMENT),
                    "ids": or_null(many(UUID, most=MOST_IDS)),
                }
            ),
            "per_second": whole(1, MOST_PER_SECOND),
            "from_start": BOOLEAN,
            "current_version": BOOLEAN,
            "total": COUNT,
            "replayed": COUNT,
            "left_out": {**COUNT, "description": "seen to by others meanwhile, of deleted tasks, or no dead letters"},
            "refused": {**many(_REFUSED, most=MOST_TOLD), "description": "the first of those left out"},
            "created_at": MOMENT,
            "created_by": TEXT,
            "ended_at": or_null(MOMENT),
        }
    ),
    "DeadLetterReplayPage": page("DeadLetterReplay"),
    "RunAgain": given(
        {
            "current_version": {
                **BOOLEAN,
                "default": False,
                "description": "under the version that its task has now instead of the one that it had",
            }
        }
    ),
    "DiscardAllInput": given(
        {
            **_FILTER,
            "reason": or_null(text(REASON_CHARACTERS)),
            "dry_run": {**or_null(BOOLEAN), "default": False, "description": "count them, do nothing"},
        }
    ),
    "DiscardAllAnswer": {
        "oneOf": [
            record({"matching": COUNT, "counted_at": MOMENT}, about="Of a dry run."),
            record(
                {
                    "done": COUNT,
                    "refused": many(_REFUSED, most=MOST_DISCARDED),
                    "remaining": {**COUNT, "description": "left for another request"},
                }
            ),
        ]
    },
    "Discard": given({"reason": or_null(text(REASON_CHARACTERS))}),
    "Replay": given(
        {
            "from_start": {**BOOLEAN, "default": False, "description": "leave its checkpoint aside"},
            "parameters": or_null({**OBJECT, "description": "from now on instead of its own; not of nodes of runs"}),
            "current_version": {
                **BOOLEAN,
                "default": False,
                "description": "under the version that its task has now instead of the one that it failed under",
            },
        }
    ),
}

_EXAMPLE = {
    "id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "task_id": "01890a5d-0000-774b-bcce-b302099a8057",
    "task_name": "nightly-report",
    "task_version": 1,
    "status": "scheduled",
    "hold": None,
    "reason": None,
    "concurrency_key": None,
    "scheduled_at": "2026-03-02T01:00:00Z",
    "run_at": "2026-03-02T01:00:00Z",
    "nominal_at": "2026-03-02T01:00:00Z",
    "created_at": "2026-03-02T00:00:00Z",
    "started_at": None,
    "finished_at": None,
    "cancel_requested_at": None,
    "attempt": 0,
    "max_attempts": 4,
    "priority": 5,
    "class": "standard",
    "origin": "manual",
    "dag_run_id": None,
    "rerun_of": None,
    "idempotency_key": "01890a5d-ac96-774b-bcce-b302099a8057",
    "traceparent": None,
    "parameters": {"day": "2026-03-01"},
    "result": None,
    "error": None,
    "fencing_token": 0,
    "version": 0,
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "Execution": {"waiting": _EXAMPLE},
    "ExecutionPage": {"one": {"items": [_EXAMPLE], "next_cursor": None, "searched_to": None}},
    "ExecutionDetail": {"waiting": {**_EXAMPLE, "progress": None, "attempts": [], "events": []}},
    "Replay": {
        "from_its_checkpoint": {},
        "from_the_start": {"from_start": True},
        "mended": {"parameters": {"amount": "12.50"}},
        "task_mended": {"current_version": True},
    },
    "DiscardAllInput": {
        "count_first": {"fingerprint": "HTTP 410", "dry_run": True},
        "chosen": {"ids": ["01890a5d-ac96-774b-bcce-b302099a8057"], "reason": "the customer has left"},
    },
    "DiscardAllAnswer": {"done": {"done": 1, "refused": [], "remaining": 0}},
    "RetryAllInput": {
        "chosen": {"ids": ["01890a5d-ac96-774b-bcce-b302099a8057"], "current_version": True},
        "count_first": {"fingerprint": "HTTP 503", "dry_run": True},
        "gently": {"fingerprint": "HTTP 503", "per_second": 20},
    },
    "Discard": {"known": {"reason": "the customer has left"}},
}
