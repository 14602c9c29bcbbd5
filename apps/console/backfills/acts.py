"""What persons do about backfills: look ahead, start one, stop one; by POST, answered in JSON."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.template.loader import render_to_string

from apps.console.backfills import asked
from apps.console.backfills.asked import Asked
from apps.console.clicks import key_of, once, question_of
from apps.console.posts import no_fields, posted, refuse_unknown
from apps.definitions import backfills
from apps.definitions.backfill_preview import Outlook, outlook
from apps.definitions.models import Dag, Task
from apps.definitions.told import lines
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs

TYPED_ABOVE = 100
"""So many are started only by who types their number."""
SHOWN = 8


@posted
def check(request: HttpRequest, principal: Principal, **of: UUID) -> JsonResponse:
    """What the form would start, or what is wrong with it. Writes nothing."""
    target = backfills.target(principal, **of)
    try:
        found = _read(request, target)
    except InvalidInputs as wrong:
        return JsonResponse({"errors": told(wrong), "beside": "", "total": 0})
    ahead = outlook(principal, target, found.request, show=SHOWN)
    context = {
        "tenant_slug": principal.tenant_slug,
        "asked": found,
        "ahead": ahead,
        "is_dag": isinstance(target, Dag),
        "first": found.local(ahead.first),
        "last": found.local(ahead.last),
        "lines": [(found.local(one.at), one) for one in ahead.shown],
        "left": found.request.total - len(ahead.shown),
    }
    total = found.request.total
    return JsonResponse(
        {
            "errors": [],
            "beside": render_to_string("console/backfills/_preview.html", context),
            "total": total,
            "title": f"Start {_count(total, target)} of {target.name}?",
            "text": _question(found, ahead),
            "typed": f"backfill {total}" if total > TYPED_ABOVE else "",
        }
    )


@posted
def start(request: HttpRequest, principal: Principal, **of: UUID) -> JsonResponse:
    """Begin what the form asks for, if that is as many as `expected`: as many as were seen."""
    target = backfills.target(principal, **of)

    def act() -> dict[str, Any]:
        found = _read(request, target)
        total = found.request.total
        if request.POST.get("expected", "") != str(total):
            raise Conflict(
                f"The range has {_count(total, target)} now, not as many as you saw. Look again: nothing was started."
            )
        made = backfills.start_backfill(principal=principal, of=target, request=found.request)
        return {"said": "started", "reload": True, "id": str(made.id)}

    try:
        return JsonResponse(_once(request, principal, act))
    except (InvalidInput, InvalidInputs) as wrong:
        return JsonResponse({"problem": "Nothing was started.", "errors": told(wrong)}, status=422)


@posted
def stop(request: HttpRequest, principal: Principal, *, backfill_id: UUID) -> JsonResponse:
    """Make nothing more of it. It takes transactions of its own, and comes to the same however often it is sent."""
    no_fields(request)
    found = backfills.stop_backfill(principal=principal, backfill_id=backfill_id)
    return JsonResponse({"said": f"{found.get_state_display().lower()} after {found.made:,} of {found.total:,}"})


def told(wrong: InvalidInput | InvalidInputs) -> list[dict[str, str]]:
    """By field, each with the value and what is legal."""
    errors = [wrong] if isinstance(wrong, InvalidInput) else wrong.errors
    said = [line.removeprefix("form ").removeprefix("form: ") for line in lines(wrong, source="form")]
    return [
        {"field": one.pointer.strip("/").split("/")[0], "problem": words}
        for one, words in zip(errors, said, strict=True)
    ]


def _read(request: HttpRequest, target: Task | Dag) -> Asked:
    refuse_unknown(request, asked.FIELDS)
    return asked.read(target, request.POST)


def _once(request: HttpRequest, principal: Principal, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return once(principal, key=key_of(request.POST), question=question_of(request), act=act)


def _count(total: int, target: Task | Dag) -> str:
    word = "run" if isinstance(target, Dag) else "execution"
    return f"{total:,} {word}{'' if total == 1 else 's'}"


def _question(found: Asked, ahead: Outlook) -> str:
    request = found.request
    again = ""
    if ahead.there:
        again = f" {ahead.there:,} of them {'has' if ahead.there == 1 else 'have'} run before and will run once more."
    order = "newest first" if request.newest_first else "oldest first"
    return (
        f"From {found.local(ahead.first)} to {found.local(ahead.last)}, {found.zone}; {order}, at most "
        f"{request.at_once:,} at once, after all that is due now.{again} You can stop it at any time."
    )
