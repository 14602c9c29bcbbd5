"""Making and changing tasks by the form: checked while one types, saved only over the version that one has seen."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.template.loader import render_to_string
from django.urls import reverse

from apps.console.clicks import AnotherForm, key_of, once, question_of
from apps.console.detail import readable
from apps.console.posts import posted, seen_version
from apps.console.tasks import checking, form, offered
from apps.definitions import selectors, services
from apps.definitions.models import Task
from apps.executions.models import TaskVersion
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs


@posted
def check(request: HttpRequest, principal: Principal, *, task_id: UUID | None = None) -> JsonResponse:
    """What the document in the form would mean. Writes nothing."""
    task = None if task_id is None else selectors.task(principal, task_id)
    found = checking.check(principal, request.POST, task)
    shown = {
        "checked": found,
        "preview": found.preview,
        "task": task,
        "handler": offered.chosen(found.document),
        "broken": offered.broken(),
    }
    return JsonResponse(
        {
            "errors": found.errors,
            "text": None if found.document is None else readable(found.document),
            "fields": found.fields,
            "beside": render_to_string("console/tasks/_beside.html", shown),
            "changed": bool(found.lines),
        }
    )


@posted
def save(request: HttpRequest, principal: Principal, *, task_id: UUID | None = None) -> JsonResponse:
    """Make the task, or put the document in force if the version that the form was made from still is."""
    if task_id is not None:
        selectors.task(principal, task_id)  # a foreign one is not told what is wrong with the form
    try:
        document = form.document_of(request.POST)
        version = None if task_id is None else seen_version(request)
        answer = once(
            principal,
            key=key_of(request.POST),
            question=question_of(request),
            act=lambda: _saved(principal, task_id, document, version),
        )
    except (InvalidInput, InvalidInputs) as wrong:
        return JsonResponse({"problem": "Nothing was saved.", "errors": checking.told(wrong)}, status=422)
    except services.VersionMismatch as other:
        assert task_id is not None
        return JsonResponse(_overtaken(principal, task_id, other), status=409)
    except AnotherForm:
        raise
    except Conflict as taken:
        errors = [{"pointer": str(taken.extra.get("pointer", "")), "problem": str(taken)}]
        return JsonResponse({"problem": "Nothing was saved.", "errors": errors}, status=409)
    return JsonResponse(answer)


def _saved(principal: Principal, task_id: UUID | None, document: Any, version: int | None) -> dict[str, Any]:
    if task_id is None:
        task = services.create_task(principal=principal, data=document)
    else:
        task = services.update_task(
            principal=principal, task_id=task_id, data=document, partial=False, expected_version=version
        )
    return {"said": "saved", "go": _address(principal, task)}


def _overtaken(principal: Principal, task_id: UUID, other: Conflict) -> dict[str, Any]:
    """Who saved in between, what that changed, and where it can be seen."""
    version = other.extra["version"]
    theirs = scoped(TaskVersion.objects.all(), principal).get(task_id=task_id, number=version)
    changed = ", ".join(other.extra.get("changed", ())) or "something and back"
    return {
        "problem": f"{theirs.created_by} saved version {version} while you edited, and changed {changed}. "
        "Yours was not saved.",
        "theirs": reverse("console:task", args=[principal.tenant_slug, task_id]),
        "version": version,
    }


def _address(principal: Principal, task: Task) -> str:
    return reverse("console:task", args=[principal.tenant_slug, task.id])
