"""/api/v1/admin/dlq/retry-all, …/replays and …/discard-all: many dead letters go round again, at a pace, with progress
and a stop, or nobody wants them any more; by filter, or one by one by their ids.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
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
from apps.executions import dead_letter_acts, dead_letters, person_store, services
from apps.executions.dead_letters import DEFAULT_PER_SECOND, MOST_IDS, MOST_PER_SECOND, DeadLetterFilter
from apps.executions.models import Replay
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import InvalidInputs
from chronoweb.runtime.uuids import parse_uuid

FILTER = ("task_id", "fingerprint", "since", "until", "ids")
FIELDS = (*FILTER, "per_second", "from_start", "current_version", "dry_run")
DISCARD_FIELDS = (*FILTER, "reason", "dry_run")
FINGERPRINT_CHARACTERS = 200


class RetryAll(ApiView):
    """All that the filter means and that are dead now. With dry_run they are counted, and nothing is done.

    While a replay of the same filter and terms goes on, that one is the answer: a second call does nothing more. Ids
    that are no dead letters of the tenant hinder nothing: `refused` says why of each.
    """

    @documented(
        "Replay dead letters by filter",
        takes="RetryAllInput",
        body_optional=True,
        gives={
            200: Answer({"application/json": "RetryAllCount"}),
            202: Answer({"application/json": "DeadLetterReplay"}, headers=("Location",)),
        },
        fails=(409,),
    )
    def post(self, request: Request) -> Response:
        data = body_object(request, fields=FIELDS)
        reader = Reader(data)
        wanted = _filter(data, reader)
        per_second = reader.whole("per_second", 1, MOST_PER_SECOND)
        flags = _flags(data, reader, "from_start", "current_version", "dry_run")
        if reader.errors:
            raise InvalidInputs(reader.errors)
        who = principal(request)
        if flags["dry_run"]:
            return Response({"matching": dead_letters.count(who, wanted)})
        made = dead_letters.start_replay(
            principal=who,
            wanted=wanted,
            per_second=per_second or DEFAULT_PER_SECOND,
            from_start=flags["from_start"],
            current_version=flags["current_version"],
        )
        return Response(shown(made), status=202, headers={"Location": f"/api/v1/admin/dlq/replays/{made.id}"})


class DiscardAll(ApiView):
    """Up to 200 of a filter in one request, the earliest due first; `remaining` are for the next one. With dry_run they
    are counted; with the `counted_at` of that as `until`, what has died since is not meant.
    """

    @documented(
        "Discard dead letters by filter",
        takes="DiscardAllInput",
        gives={200: Answer({"application/json": "DiscardAllAnswer"})},
    )
    def post(self, request: Request) -> Response:
        data = body_object(request, fields=DISCARD_FIELDS, needed=True)
        reader = Reader(data)
        wanted = _filter(data, reader)
        dry_run = _flags(data, reader, "dry_run")["dry_run"]
        if reader.errors:
            raise InvalidInputs(reader.errors)
        reason = "" if data.get("reason") is None else data["reason"]
        services.check_reason(reason)  # though there may be nothing to discard
        who = principal(request)
        if dry_run:
            now = person_store.database_now(postgres.raw(django_connection))
            return Response({"matching": dead_letters.count(who, wanted), "counted_at": moment(now)})
        done = dead_letter_acts.discard(principal=who, wanted=wanted, reason=reason)
        looked_at = len(done.done) + len(done.refused)
        remaining = len(wanted.ids) - looked_at if wanted.ids is not None else dead_letters.count(who, wanted)
        return Response({"done": len(done.done), "refused": _refused(done.refused), "remaining": remaining})


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
        "filter": {"ids": None, **row.filter},
        "per_second": row.per_second,
        "from_start": row.from_start,
        "current_version": row.current_version,
        "total": row.total,
        "replayed": row.replayed,
        "left_out": row.left_out,
        "refused": _refused(row.refused),
        "created_at": moment(row.created_at),
        "created_by": row.created_by,
        "ended_at": moment(row.ended_at),
    }


def _refused(found: Mapping[Any, str]) -> list[dict[str, str]]:
    return [{"id": str(identity), "detail": why} for identity, why in found.items()]


def _filter(data: dict[str, Any], reader: Reader) -> DeadLetterFilter:
    """What is wrong is told to the reader."""
    since, until = (reader.moment(name, "UTC", last_pass=False) for name in ("since", "until"))
    if since and until and since >= until:
        reader.refuse("until", "is not after since", "a later date-time")
    fingerprint = data.get("fingerprint")
    if fingerprint is not None and (
        not isinstance(fingerprint, str) or len(fingerprint) > FINGERPRINT_CHARACTERS or "\0" in fingerprint
    ):
        reader.refuse("fingerprint", "is no fingerprint", f"text of at most {FINGERPRINT_CHARACTERS} characters")
    return DeadLetterFilter(
        _identity(data.get("task_id"), reader), fingerprint, since, until, _ids(data.get("ids"), reader)
    )


def _flags(data: dict[str, Any], reader: Reader, *names: str) -> dict[str, bool]:
    for name in names:
        if data.get(name) is not None and not isinstance(data[name], bool):
            reader.refuse(name, "must be true or false", ("true", "false"))
    return {name: data.get(name) is True for name in names}


def _ids(value: Any, reader: Reader) -> tuple[UUID, ...] | None:
    """None, which is no choice, is no empty choice: an act on all instead of some cannot be undone."""
    if value is None:
        return None
    texts = value if isinstance(value, list) else []
    found = [parse_uuid(one) if isinstance(one, str) else None for one in texts]
    if not found or None in found or len(found) > MOST_IDS:
        reader.refuse("ids", "are no ids of dead letters", f"a list of 1 to {MOST_IDS} UUIDs")
        return ()
    return tuple(dict.fromkeys(one for one in found if one))


def _identity(value: Any, reader: Reader) -> UUID | None:
    if value is None:
        return None
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        reader.refuse("task_id", "is not an id", "a UUID")
        return None
