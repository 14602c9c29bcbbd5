"""What persons do to dead letters from the console: the services of the API, by POST, answered in JSON."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse, QueryDict
from django.urls import reverse

from apps.console import listing
from apps.console.clicks import key_of, once, question_of
from apps.console.letters.filters import Chosen, chosen_ids
from apps.console.posts import counted_at, posted, renewed_in
from apps.definitions.replaying import replay_edited, replay_renewed
from apps.executions import dead_letter_acts, dead_letters, services
from apps.executions.dead_letter_acts import MOST_CANARIES
from apps.executions.dead_letters import DEFAULT_PER_SECOND, MOST_PER_SECOND, DeadLetterFilter
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, NotFound
from chronoweb.runtime.uuids import parse_uuid

_MOST_CHARACTERS = 1024 * 1024
_TICK = timedelta(microseconds=1)
Given = Mapping[str, str]


@posted
def some_act(request: HttpRequest, principal: Principal, *, act: str) -> JsonResponse:
    """canary (few), replay (per_second), discard (note), of what the filter in the form means, or of the ids in it
    where it says `chosen`; from_start; renewed: under their tasks as those are now.
    """
    known = {"canary": _canary, "replay": _replay, "discard": _discard}
    if act not in known:
        raise NotFound(f"{act} is nothing that can be done here")
    behind = request.POST.get("behind", "")
    return _once(request, principal, lambda: known[act](principal, request.POST), part=behind)


@posted
def one_act(request: HttpRequest, principal: Principal, *, identity: UUID, act: str) -> JsonResponse:
    """replay (parameters, from_start, renewed: under its task as that is now), discard (note)."""
    known = {"replay": _replay_one, "discard": _discard_one}
    if act not in known:
        raise NotFound(f"{act} is nothing that can be done here")
    return _once(request, principal, lambda: known[act](principal, identity, request.POST))


@posted
def stop(request: HttpRequest, principal: Principal, *, replay_id: UUID) -> JsonResponse:
    """A replay that goes on."""

    def stopped() -> dict[str, Any]:
        found = dead_letters.stop_replay(principal=principal, replay_id=replay_id)
        return {"said": f"stopped after {found.replayed:,}"}

    return _once(request, principal, stopped)


def _once(
    request: HttpRequest, principal: Principal, act: Callable[[], dict[str, Any]], *, part: str = ""
) -> JsonResponse:
    """part: which of the requests that one click takes."""
    key = key_of(request.POST)
    key = key and f"{key}/{part}"[-245:]
    return JsonResponse(once(principal, key=key, question=question_of(request), act=act))


def _replay_one(principal: Principal, identity: UUID, given: Given) -> dict[str, Any]:
    who: dict[str, Any] = {"principal": principal, "execution_id": identity, "from_start": "from_start" in given}
    text, renewed = given.get("parameters"), renewed_in(given)
    if text is not None:
        made = replay_edited(parameters=_json(text), renewed=renewed, **who)
    else:
        made = replay_renewed(**who) if renewed else services.replay(**who)
    return {"said": "sent round again", "go": _address(principal, made)}


def _discard_one(principal: Principal, identity: UUID, given: Given) -> dict[str, Any]:
    services.discard(principal=principal, execution_id=identity, reason=_note(given))
    return {"said": "discarded", "go": reverse("console:letters", args=[principal.tenant_slug])}


def _canary(principal: Principal, given: QueryDict) -> dict[str, Any]:
    few = _whole(given, "few", MOST_CANARIES)
    chosen = Chosen.of(given)
    found = dead_letter_acts.canary(
        principal=principal,
        wanted=chosen.wanted(SYSTEM_CLOCK.now()),
        few=few,
        from_start="from_start" in given,
        replay=replay_renewed if renewed_in(given) else services.replay,
    )
    address = reverse("console:letters", args=[principal.tenant_slug]) + chosen.query
    watch = "canary=" + ",".join(str(identity) for identity in found.done)
    return {
        "said": f"{len(found.done)} sent round again",
        "done": len(found.done),
        "word": "sent round again",
        "refused": _told(principal, found.refused),
        "go": f"{address}{'&' if chosen.query else '?'}{watch}",
    }


def _replay(principal: Principal, given: QueryDict) -> dict[str, Any]:
    """A pace that is left empty is the usual one."""
    pace = _whole(given, "per_second", MOST_PER_SECOND) if given.get("per_second") else DEFAULT_PER_SECOND
    counted = counted_at(given)
    made = dead_letters.start_replay(
        principal=principal,
        wanted=_wanted(given, counted or SYSTEM_CLOCK.now()),
        per_second=pace,
        from_start="from_start" in given,
        current_version=renewed_in(given),
        dead_by=counted,
    )
    words = f"go round again, {made.per_second} a second"
    if "chosen" not in given:
        return {"said": f"{made.total:,} {words}"}
    refused = {UUID(identity): why for identity, why in made.refused.items()}
    done = made.total - len(refused)
    return {"said": f"{done:,} {words}", "done": done, "word": words, "refused": _told(principal, refused)}


def _discard(principal: Principal, given: QueryDict) -> dict[str, Any]:
    """Up to MOST_DISCARDED a request; `again` while there are more. Only what was dead when they were counted."""
    counted = counted_at(given)
    if counted is None:
        raise InvalidInput("/counted_at", None, "is required", "when they were counted, as an ISO 8601 date-time")
    wanted = _wanted(given, counted, until=counted + _TICK)
    behind = parse_uuid(given.get("behind", ""))
    found = dead_letter_acts.discard(principal=principal, wanted=wanted, reason=_note(given), behind=behind)
    left = dead_letters.count(principal, wanted)
    done = len(found.done)
    again = bool(left and done + len(found.refused) == dead_letter_acts.MOST_DISCARDED)
    return {
        "said": f"{done:,} discarded",
        "done": done,
        "word": "discarded",
        "refused": _told(principal, found.refused),
        "left": left,
        "again": again,
        "behind": str(found.behind) if again else "",
    }


def _wanted(given: QueryDict, now: datetime, until: datetime | None = None) -> DeadLetterFilter:
    """What an act is for: the chosen, and they alone, or what the filter means."""
    if "chosen" not in given:
        return Chosen.of(given).wanted(now, until=until)
    return DeadLetterFilter(ids=chosen_ids(given), until=until)


def _told(principal: Principal, refused: Mapping[UUID, str]) -> list[dict[str, str]]:
    """Who was refused, and why. A name is told of the tenant's own alone."""
    names = {row.id: row.task_version.name for row in listing.read(principal, list(refused)[: listing.SHOWN])}
    return [{"id": str(one), "task": names.get(one, ""), "why": why} for one, why in refused.items()]


def _whole(given: Given, name: str, most: int) -> int:
    text = given.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise InvalidInput(f"/{name}", text, "is not a whole number in its range", f"1 to {most}")
    return int(text)


def _json(text: str) -> Any:
    try:
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"{len(text):,} characters are too many")
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput("/parameters", None, f"is not JSON: {error.msg}, {where}", "a JSON object") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput("/parameters", None, f"is not JSON: {error}", "a JSON object") from error


def _note(given: Given) -> str:
    return given.get("note", "").strip()


def _address(principal: Principal, identity: UUID) -> str:
    return reverse("console:execution", kwargs={"slug": principal.tenant_slug, "identity": identity})
