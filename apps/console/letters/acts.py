"""What persons do to dead letters from the console: the services of the API, by POST, answered in JSON."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.urls import reverse

from apps.console.clicks import key_of, once, question_of
from apps.console.letters.filters import Chosen
from apps.console.posts import counted_at, posted
from apps.definitions.replaying import replay_edited, replay_renewed
from apps.executions import dead_letter_acts, dead_letters, services
from apps.executions.dead_letter_acts import MOST_CANARIES
from apps.executions.dead_letters import DEFAULT_PER_SECOND, MOST_PER_SECOND
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, NotFound

_MOST_CHARACTERS = 1024 * 1024
_TICK = timedelta(microseconds=1)
Given = Mapping[str, str]


@posted
def some_act(request: HttpRequest, principal: Principal, *, act: str) -> JsonResponse:
    """canary (few), replay (per_second), discard (note), of what the filter in the form means; from_start."""
    known = {"canary": _canary, "replay": _replay, "discard": _discard}
    if act not in known:
        raise NotFound(f"{act} is nothing that can be done here")
    return _once(request, principal, lambda: known[act](principal, request.POST))


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


def _once(request: HttpRequest, principal: Principal, act: Callable[[], dict[str, Any]]) -> JsonResponse:
    return JsonResponse(once(principal, key=key_of(request.POST), question=question_of(request), act=act))


def _replay_one(principal: Principal, identity: UUID, given: Given) -> dict[str, Any]:
    who: dict[str, Any] = {"principal": principal, "execution_id": identity, "from_start": "from_start" in given}
    text, renewed = given.get("parameters"), "renewed" in given
    if text is not None:
        made = replay_edited(parameters=_json(text), renewed=renewed, **who)
    else:
        made = replay_renewed(**who) if renewed else services.replay(**who)
    return {"said": "sent round again", "go": _address(principal, made)}


def _discard_one(principal: Principal, identity: UUID, given: Given) -> dict[str, Any]:
    services.discard(principal=principal, execution_id=identity, reason=_note(given))
    return {"said": "discarded", "go": reverse("console:letters", args=[principal.tenant_slug])}


def _canary(principal: Principal, given: Given) -> dict[str, Any]:
    few = _whole(given, "few", MOST_CANARIES)
    chosen = Chosen.of(given)
    found = dead_letter_acts.canary(
        principal=principal, wanted=chosen.wanted(SYSTEM_CLOCK.now()), few=few, from_start="from_start" in given
    )
    address = reverse("console:letters", args=[principal.tenant_slug]) + chosen.query
    watch = "canary=" + ",".join(str(identity) for identity in found.done)
    return {"said": f"{len(found.done)} sent round again", "go": f"{address}{'&' if chosen.query else '?'}{watch}"}


def _replay(principal: Principal, given: Given) -> dict[str, Any]:
    """A pace that is left empty is the usual one."""
    pace = _whole(given, "per_second", MOST_PER_SECOND) if given.get("per_second") else DEFAULT_PER_SECOND
    wanted = Chosen.of(given).wanted(counted_at(given) or SYSTEM_CLOCK.now())
    from_start = "from_start" in given
    made = dead_letters.start_replay(principal=principal, wanted=wanted, per_second=pace, from_start=from_start)
    return {"said": f"{made.total:,} go round again, {made.per_second} a second"}


def _discard(principal: Principal, given: Given) -> dict[str, Any]:
    """Up to MOST_DISCARDED a request; `again` while there are more. Only what was dead when they were counted."""
    counted = counted_at(given)
    if counted is None:
        raise InvalidInput("/counted_at", None, "is required", "when they were counted, as an ISO 8601 date-time")
    wanted = Chosen.of(given).wanted(counted, until=counted + _TICK)
    found = dead_letter_acts.discard(principal=principal, wanted=wanted, reason=_note(given))
    left = dead_letters.count(principal, wanted)
    said = f"{len(found.done):,} discarded"
    return {"said": said, "done": len(found.done), "left": left, "again": bool(found.done and left)}


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
