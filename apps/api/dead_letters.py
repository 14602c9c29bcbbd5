"""/api/v1/admin/dlq/retry-all and …/replays: many dead letters go round again, at a pace, with progress and a stop."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.lists import ListView
from apps.api.openapi.declare import Answer, declared, documented
from apps.api.pagination import Ordering
from apps.api.representations import moment
from apps.definitions.schedule_input import Reader
from apps.executions import dead_letters
from apps.executions.dead_letters import DEFAULT_PER_SECOND, MOST_PER_SECOND, DeadLetterFilter
from apps.executions.models import Replay
from chronoweb.runtime.errors import InvalidInputs

FIELDS = ("task_id", "fingerprint", "since", "until", "per_second", "from_start", "dry_run")
FINGERPRINT_CHARACTERS = 200


class RetryAll(ApiView):
    """All that the filter means and that are dead now. With dry_run they are counted, and nothing is done.

    While a replay of the same filter goes on, that one is the answer: a second call does nothing more.
    """

    @documented(
        "Replay dead letters by filter",
        takes="RetryAllInput",
        body_optional=True,
        gives={
            200: Answer({"application/json": "RetryAllCount"}),
            202: Answer({"application/json": "DeadLetterReplay"}, headers=("Location",)),
        },
    )
    def post(self, request: Request) -> Response:
        data = body_object(request, fields=FIELDS)
        wanted, terms, dry_run = _read(data)
        who = principal(request)
        if dry_run:
            return Response({"matching": dead_letters.count(who, wanted)})
        made = dead_letters.start_replay(principal=who, wanted=wanted, **terms)
        return Response(shown(made), status=202, headers={"Location": f"/api/v1/admin/dlq/replays/{made.id}"})


class Replays(ListView):
    ordering = Ordering({"created_at": "id"}, default="-created_at")
    declares = {"get": declared("List replays of dead letters", gives="DeadLetterReplayPage")}

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return dead_letters.replays(principal(request))

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        return [shown(row) for row in rows]


class OneReplay(ApiView):
    @documented("Read a replay of dead letters", gives="DeadLetterReplay")
    def get(self, request: Request, replay_id: UUID) -> Response:
        return Response(shown(dead_letters.replay(principal(request), replay_id)))


class StopReplay(ApiView):
    """What was replayed goes on."""

    @documented("Stop a replay of dead letters", takes="Empty", body_optional=True, gives="DeadLetterReplay")
    def post(self, request: Request, replay_id: UUID) -> Response:
        body_object(request, fields=())
        return Response(shown(dead_letters.stop_replay(principal=principal(request), replay_id=replay_id)))


def shown(row: Replay) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "state": row.state,
        "filter": row.filter,
        "per_second": row.per_second,
        "from_start": row.from_start,
        "total": row.total,
        "replayed": row.replayed,
        "left_out": row.left_out,
        "created_at": moment(row.created_at),
        "created_by": row.created_by,
        "ended_at": moment(row.ended_at),
    }


def _read(data: dict[str, Any]) -> tuple[DeadLetterFilter, dict[str, Any], bool]:
    """The filter, the terms, and whether only to count. Raises InvalidInputs."""
    reader = Reader(data)
    since, until = (reader.moment(name, "UTC", last_pass=False) for name in ("since", "until"))
    if since and until and since >= until:
        reader.refuse("until", "is not after since", "a later date-time")
    fingerprint = data.get("fingerprint")
    if fingerprint is not None and (
        not isinstance(fingerprint, str) or len(fingerprint) > FINGERPRINT_CHARACTERS or "\0" in fingerprint
    ):
        reader.refuse("fingerprint", "is no fingerprint", f"text of at most {FINGERPRINT_CHARACTERS} characters")
    flags = {name: data.get(name) for name in ("from_start", "dry_run")}
    for name, value in flags.items():
        if value is not None and not isinstance(value, bool):
            reader.refuse(name, "must be true or false", ("true", "false"))
    per_second = reader.whole("per_second", 1, MOST_PER_SECOND)
    task_id = _identity(data.get("task_id"), reader)
    if reader.errors:
        raise InvalidInputs(reader.errors)
    terms = {"per_second": per_second or DEFAULT_PER_SECOND, "from_start": bool(flags["from_start"])}
    return DeadLetterFilter(task_id, fingerprint, since, until), terms, bool(flags["dry_run"])


def _identity(value: Any, reader: Reader) -> UUID | None:
    if value is None:
        return None
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        reader.refuse("task_id", "is not an id", "a UUID")
        return None
