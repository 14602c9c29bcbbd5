"""What persons do to tasks from the console: the services of the API, by POST, answered in JSON."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import reverse

from apps.console.clicks import is_used, key_of, once, question_of
from apps.console.posts import posted
from apps.console.tasks import listing
from apps.console.tasks.asked import Asked
from apps.definitions import selectors, services
from apps.definitions.bulk import act_on_tasks
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import Conflict, InvalidInput, NotFound

TOLD = 5
"""Tasks that an act by filter was refused for, named in its answer."""

DONE_WORDS = {"pause": "paused", "resume": "resumed", "trigger": "started", "delete": "deleted"}
_MOST_CHARACTERS = 256 * 1024


@posted
def task_act(request: HttpRequest, principal: Principal, *, task_id: UUID, act: str) -> JsonResponse:
    """run (with parameters and a key per click), pause (with a note), resume, delete."""
    who: dict[str, Any] = {"principal": principal, "task_id": task_id}
    if act == "run":
        made = services.trigger(
            **who,
            parameters=_parameters(request.POST),
            run_at=request.POST.get("run_at", "").strip() or None,
            idempotency_key=key_of(request.POST),
        )
        address = reverse("console:execution", kwargs={"slug": principal.tenant_slug, "identity": made})
        return JsonResponse({"said": "started", "go": address})
    known: Mapping[str, Callable[[], object]] = {
        "pause": lambda: services.pause_task(**who, note=_note(request.POST)),
        "resume": lambda: services.resume_task(**who),
        "delete": lambda: services.delete_task(**who),
    }
    if act not in known:
        raise NotFound(f"{act} is nothing that can be done to a task")

    def done() -> dict[str, Any]:
        known[act]()
        if act == "delete":
            return {"said": "deleted", "go": reverse("console:tasks", args=[principal.tenant_slug])}
        return {"said": DONE_WORDS[act], "reload": True}

    return JsonResponse(once(principal, key=key_of(request.POST), question=question_of(request), act=done))


@posted
def tasks_act(request: HttpRequest, principal: Principal, *, act: str) -> JsonResponse:
    """pause, resume, trigger or delete all that the filter in the URL finds, if these are as many as `expected`.

    The same key again is the same click: it is answered, and nothing is done once more.
    """
    if act not in DONE_WORDS:
        raise NotFound(f"{act} is nothing that can be done to tasks")
    note = _note(request.POST) if act == "pause" else ""
    found = _claimed(request, principal, act)
    if found is None:
        return JsonResponse({"said": f"{DONE_WORDS[act]} by the first click", "reload": True})
    done = act_on_tasks(principal=principal, action=act, identities=found, note=note)
    said = f"{done.done:,} {DONE_WORDS[act]}"
    if not done.failed:
        return JsonResponse({"said": said, "reload": True})
    problem = f"{said}, {len(done.failed):,} refused. {_reasons(principal, done.failed)}"
    return JsonResponse({"problem": problem, "reload": True}, status=409)


def _claimed(request: HttpRequest, principal: Principal, act: str) -> list[UUID] | None:
    """The ids that the act is for; None where this click has been heard before. Raises Conflict for another count."""
    asked = Asked.of(request.GET)
    most = listing.MOST_COUNTED
    with transaction.atomic():
        if is_used(principal, key=key_of(request.POST), question=question_of(request)):
            return None
        found = list(asked.rows(principal).order_by("id").values_list("id", flat=True)[: most + 1])
        if len(found) > most:
            raise Conflict(f"The filter finds more than {most:,} tasks: narrow it. Nothing was done.")
        if request.GET.get("expected") != str(len(found)):
            raise Conflict(
                f"The filter finds {len(found):,} tasks now, not as many as you saw. Load the page again and look: "
                "nothing was done."
            )
    return found


def _reasons(principal: Principal, failed: Mapping[UUID, str]) -> str:
    shown = list(failed)[:TOLD]
    names = dict(selectors.tasks(principal).filter(id__in=shown).values_list("id", "name"))
    told = "; ".join(f"{names.get(identity, identity)}: {failed[identity]}" for identity in shown)
    return told if len(failed) <= TOLD else f"{told}; and {len(failed) - TOLD:,} more"


def _note(given: Mapping[str, str]) -> str:
    return given.get("note", "").strip()


def _parameters(given: Mapping[str, str]) -> Any:
    """None: the task's own."""
    text = given.get("parameters", "").strip()
    if not text:
        return None
    try:
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"{len(text)} characters")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("/parameters", None, f"is not JSON: {error}", "JSON (RFC 8259)") from None
