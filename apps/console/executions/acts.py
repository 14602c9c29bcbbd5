"""What persons do to executions from the console: the services of the API, by POST, answered in JSON."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.http import HttpRequest, JsonResponse, QueryDict
from django.urls import reverse

from apps.console import listing
from apps.console.clicks import key_of, once, question_of
from apps.console.executions.asked import Asked
from apps.console.executions.one import waits_to_retry
from apps.console.posts import counted_at, posted, renewed_in
from apps.definitions import triggering
from apps.definitions.replaying import replay_renewed, retry_renewed
from apps.executions import bulk, person_store, selectors, services
from apps.executions.states import Status
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import Conflict, InvalidInput, NotFound
from chronoweb.runtime.uuids import parse_uuid

ROUND = bulk.BATCH
"""Executions of one request: what is beyond is for the next, and who closes the dialog stops there."""
LARGE = 100
"""What is for more is confirmed by typing how many."""
MOST_CHOSEN = 2 * listing.SHOWN
MOST_COUNTED = bulk.MOST
DONE_WORDS = {"cancel": "cancelled", "retry": "sent round again"}


@posted
def one_act(request: HttpRequest, principal: Principal, *, identity: UUID, act: str) -> JsonResponse:
    """retry, cancel, anew (for one that waits for its next attempt); a key per click."""
    known = {"retry": _retry, "cancel": _cancel, "anew": _anew}
    if act not in known:
        raise NotFound(f"{act} is nothing that can be done to an execution")
    key, question = key_of(request.POST), question_of(request)
    return JsonResponse(once(principal, key=key, question=question, act=lambda: known[act](principal, identity)))


def _retry(principal: Principal, identity: UUID) -> dict[str, Any]:
    if selectors.execution(principal, identity).state is Status.DEAD_LETTER:
        made = replay_renewed(principal=principal, execution_id=identity)
    else:
        made = services.retry(principal=principal, execution_id=identity)
    if made == identity:
        return {"said": "sent round again"}
    where = reverse("console:execution", kwargs={"slug": principal.tenant_slug, "identity": made})
    return {"said": "runs again", "go": where}


def _anew(principal: Principal, identity: UUID) -> dict[str, Any]:
    """It is cancelled, which frees its places, and one with its parameters begins, under its task as that is now."""
    found = selectors.execution(principal, identity)
    if not waits_to_retry(found):
        raise Conflict(f"execution {identity} does not wait for another attempt (any more)")
    services.cancel(principal=principal, execution_id=identity)
    made = triggering.trigger(principal=principal, task_id=found.task_id, parameters=found.parameters)
    where = reverse("console:execution", kwargs={"slug": principal.tenant_slug, "identity": made})
    return {"said": "begins anew", "go": where}


def _cancel(principal: Principal, identity: UUID) -> dict[str, Any]:
    services.cancel(principal=principal, execution_id=identity)
    return {"said": "cancelled; what has begun is asked to stop"}


@posted
def some_act(request: HttpRequest, principal: Principal, *, act: str) -> JsonResponse:
    """cancel or retry, of the filter in the address as it was counted, ROUND by ROUND; or of the ids in the form.
    renewed: under their tasks as those are now.

    `behind` is what the answer before said. Answers with how many were done, and who was refused and why.
    """
    if act not in bulk.ACTIONS:
        raise NotFound(f"{act} is nothing that can be done to executions")
    chosen = _chosen(request.POST)
    asked, behind = Asked.of(request.GET), _id(request.POST, "behind")
    counted = None if chosen else _counted(request.POST)
    retry = retry_renewed if renewed_in(request.POST) else services.retry

    def acted() -> dict[str, Any]:
        found = chosen or meant(principal, act, asked, counted=counted, behind=behind, limit=ROUND + 1)
        done = bulk.act(principal=principal, action=act, identities=found[: len(chosen) or ROUND], retry=retry)
        again = not chosen and len(found) > ROUND
        return _done(principal, act, done, behind=found[ROUND - 1] if again else None)

    key = key_of(request.POST)
    question = question_of(request)
    return JsonResponse(once(principal, key=key and f"{key}/{behind or ''}"[-245:], question=question, act=acted))


def meant(
    principal: Principal,
    act: str,
    asked: Asked,
    *,
    counted: datetime | None,
    behind: UUID | None = None,
    limit: int,
) -> list[UUID]:
    """The ids that an act by filter is for: what can be done so, of what was in the ledger when they were counted."""
    now = SYSTEM_CLOCK.now()
    wanted = asked.wanted(counted or now)
    states = (wanted.statuses or bulk.FITTING[act]) & bulk.FITTING[act]
    if not states:
        return []
    wanted = replace(wanted, statuses=states, made_by=counted)
    return selectors.execution_ids(principal, wanted, now=now, behind=behind, limit=limit)


def count(principal: Principal, act: str, asked: Asked) -> dict[str, Any]:
    """How many an act would be for now; an act that names this moment means the same ones. more: there are more."""
    counted = person_store.database_now(postgres.raw(django_connection))
    found = meant(principal, act, asked, counted=counted, limit=MOST_COUNTED + 1)
    more = len(found) > MOST_COUNTED
    return {"count": min(len(found), MOST_COUNTED), "more": more, "counted_at": counted.isoformat()}


def _done(principal: Principal, act: str, done: bulk.Done, *, behind: UUID | None) -> dict[str, Any]:
    refused = done.failed
    names = {row.id: row.task_version.name for row in listing.read(principal, list(refused)[: listing.SHOWN])}
    return {
        "said": f"{done.done:,} {DONE_WORDS[act]}",
        "done": done.done,
        "word": DONE_WORDS[act],
        "refused": [{"id": str(one), "task": names.get(one, ""), "why": why} for one, why in refused.items()],
        "behind": str(behind or ""),
        "again": behind is not None,
    }


def _chosen(given: QueryDict) -> list[UUID]:
    texts = given.getlist("id")
    found = [one for one in map(parse_uuid, texts) if one]
    if len(found) != len(texts) or len(found) > MOST_CHOSEN:
        raise InvalidInput("/id", None, "are no ids that a page shows", f"at most {MOST_CHOSEN} ids")
    return list(dict.fromkeys(found))


def _id(given: QueryDict, name: str) -> UUID | None:
    text = given.get(name, "")
    found = parse_uuid(text) if text else None
    if text and found is None:
        raise InvalidInput(f"/{name}", None, "is not an id", "what the answer before said")
    return found


def _counted(given: QueryDict) -> datetime:
    moment = counted_at(given)
    if moment is None:
        raise InvalidInput("/counted_at", None, "is required", "when they were counted, as an ISO 8601 date-time")
    return moment
