"""Saving a document that somebody has edited: once a click, and only over the version that they have seen."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, JsonResponse

from apps.console.clicks import AnotherForm, key_of, once, question_of
from apps.definitions.mismatch import VersionMismatch
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs

Told = Callable[[InvalidInput | InvalidInputs], list[dict[str, Any]]]


def save_document(
    request: HttpRequest,
    principal: Principal,
    act: Callable[[], str],
    *,
    told: Told,
    author: Callable[[int], str],
    theirs: str,
) -> JsonResponse:
    """What the page is told. act: saves, and answers with where it leads. told: errors as the page places them.

    author: who made a version. theirs: where the one that came in between is seen; empty: what is new has none.
    """
    try:
        answer = once(
            principal,
            key=key_of(request.POST),
            question=question_of(request),
            act=lambda: {"said": "saved", "go": act()},
        )
    except (InvalidInput, InvalidInputs) as wrong:
        return JsonResponse({"problem": "Nothing was saved.", "errors": told(wrong)}, status=422)
    except VersionMismatch as other:
        version = other.extra["version"]
        changed = ", ".join(other.extra.get("changed", ())) or "something and back"
        problem = f"{author(version)} saved version {version} while you edited, and changed {changed}."
        told_of = {"problem": f"{problem} Yours was not saved.", "theirs": theirs, "version": version}
        return JsonResponse(told_of, status=409)
    except AnotherForm:
        raise
    except Conflict as taken:
        errors = [{"pointer": str(taken.extra.get("pointer", "")), "problem": str(taken)}]
        return JsonResponse({"problem": "Nothing was saved.", "errors": errors}, status=409)
    return JsonResponse(answer)
