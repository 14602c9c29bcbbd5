"""Making and changing tasks by the form: checked while one types, saved only over the version that one has seen."""

from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.template.loader import render_to_string
from django.urls import reverse

from apps.console.detail import readable
from apps.console.documents import save_document
from apps.console.posts import posted, seen_version
from apps.console.tasks import checking, form, offered
from apps.definitions import selectors, services
from apps.executions.models import TaskVersion
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped


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

    def act() -> str:
        document = form.document_of(request.POST)
        if task_id is None:
            task = services.create_task(principal=principal, data=document)
        else:
            version = seen_version(request)
            task = services.update_task(
                principal=principal, task_id=task_id, data=document, partial=False, expected_version=version
            )
        return _address(principal, task.id)

    def author(version: int) -> str:
        assert task_id is not None  # what is new has no version to be overtaken by
        return scoped(TaskVersion.objects.all(), principal).get(task_id=task_id, number=version).created_by

    theirs = "" if task_id is None else _address(principal, task_id)
    return save_document(request, principal, act, told=checking.told, author=author, theirs=theirs)


def _address(principal: Principal, task_id: UUID) -> str:
    return reverse("console:task", args=[principal.tenant_slug, task_id])
