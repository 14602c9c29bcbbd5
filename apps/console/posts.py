"""Forms that do something: who may send them, what stands in them, and how a refusal is told, in JSON."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.views.decorators.cache import never_cache

from apps.console.access import principal_of
from apps.console.whole_forms import needs_whole_form
from apps.definitions.json_values import escape, unescape
from apps.executions import ids
from apps.tenants.models import Role
from apps.tenants.regions import WrongRegion
from chronoweb.runtime.errors import ChronowebError, Conflict, InvalidInput, InvalidInputs, NotAllowed, NotFound

NOTE_CHARACTERS = 1000
_OF_EVERY_FORM = ("csrfmiddlewaretoken", "key")
"""What a dialog sends by itself; key: of one click."""


View = Callable[..., JsonResponse]


def posted_by(needed: Role) -> Callable[[View], Callable[..., HttpResponseBase]]:
    """For those with this role in the tenant, by POST; everything that is refused is JSON that says why."""

    def decorate(view: View) -> Callable[..., HttpResponseBase]:
        @needs_whole_form
        @never_cache
        @login_required
        @wraps(view)
        def wrapped(request: HttpRequest, slug: str, **arguments: Any) -> HttpResponseBase:
            try:
                principal = principal_of(request.user, slug)
                if request.method != "POST":
                    raise NotFound("there is nothing to read here")
                _refuse_nul(request)
                if not principal.may(needed):
                    problem = f"This needs the role {needed.value}; yours is {principal.role.value}."
                    return JsonResponse({"problem": problem}, status=403)
                return view(request, principal, **arguments)
            except NotFound as error:
                raise Http404(str(error)) from error
            except (InvalidInput, InvalidInputs) as error:
                return JsonResponse({"problem": "Nothing was done.", "errors": _errors(error)}, status=422)
            except Conflict as error:
                return JsonResponse({"problem": str(error)}, status=409)
            except NotAllowed as error:
                return JsonResponse({"problem": f"Nothing was done: {error}."}, status=403)
            except WrongRegion as error:
                return JsonResponse({"problem": f"Nothing was done: {error}."}, status=421)

        return wrapped

    return decorate


posted = posted_by(Role.OPERATOR)


def _errors(error: ChronowebError) -> list[dict[str, str]]:
    """field: the first step of the pointer below /parameters, or the pointer's own."""
    found = error.errors if isinstance(error, InvalidInputs) else [error]
    told = []
    for one in found:
        assert isinstance(one, InvalidInput)
        steps = one.pointer.strip("/").split("/")
        field = steps[1] if steps[0] == "parameters" and len(steps) > 1 else steps[0]
        told.append({"field": unescape(field), "problem": f"{one.pointer}: {one.problem}"})
    return told


def _refuse_nul(request: HttpRequest) -> None:
    """In what every form may have; other fields are read by services, which refuse it where it may not be."""
    for name in ("key", "note"):
        if any("\0" in text for text in request.POST.getlist(name)):
            raise InvalidInput(f"/{name}", None, "has a NUL character", "a text without it")


def seen_version(request: HttpRequest) -> int:
    """The version that a form was made from."""
    text = request.POST.get("version", "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput("/version", text[:80], "says not which version was edited", "a whole number")
    return int(text)


def counted_at(given: Mapping[str, str]) -> datetime | None:
    """When a page counted what an act is for; aware, of this age. None where the form does not say."""
    text = given.get("counted_at", "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not ids.EARLIEST <= moment < ids.LATEST:
        raise InvalidInput("/counted_at", text[:50], "is not when they were counted", "an ISO 8601 date-time")
    return moment


def renewed_in(given: Mapping[str, str]) -> bool:
    """Whether a form wants what runs again to do so as its task is now, rather than as it was then."""
    text = given.get("renewed", "")
    if text not in ("", "on"):
        raise InvalidInput("/renewed", text[:50], "says not under which version", "on, or nothing")
    return bool(text)


def no_fields(request: HttpRequest) -> None:
    """For what says all by its address. Dialogs send an empty note. Raises InvalidInputs."""
    refuse_unknown(request, {"note"})


def note_of(request: HttpRequest) -> str:
    """The one field of most forms."""
    refuse_unknown(request, {"note"})
    note = request.POST.get("note", "").strip()
    if len(note) > NOTE_CHARACTERS:
        raise InvalidInput("/note", None, "is too long", f"at most {NOTE_CHARACTERS} characters")
    return note


def refuse_unknown(request: HttpRequest, known: Collection[str], several: Collection[str] = ()) -> None:
    """As the API does. several: what may come more than once. Raises InvalidInputs."""
    legal = ", ".join(sorted(known))
    names = [*request.POST, *request.FILES]
    wrong = [
        InvalidInput(f"/{escape(n)}", None, "is no field here", legal)
        for n in names
        if n not in {*known, *_OF_EVERY_FORM}
    ]
    twice = [n for n, values in request.POST.lists() if len(values) > 1 and n not in several]
    wrong += [InvalidInput(f"/{escape(n)}", None, "is given twice", "one value") for n in twice]
    if wrong:
        raise InvalidInputs(wrong)
