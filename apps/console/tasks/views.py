"""Pages of tasks."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from apps.console.detail import readable
from apps.console.tasks import buttons, changes, checking, detail, fields, form, listing, offered
from apps.console.views import frame, in_tenant
from apps.definitions import selectors
from apps.definitions.confidential import masked_handler
from apps.definitions.models import Task
from apps.definitions.versions import document_of
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK


@in_tenant
def tasks(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The list."""
    found = listing.read(principal, request.GET, now=SYSTEM_CLOCK.now())
    may = principal.may(Role.OPERATOR)
    context = frame(request, principal) | {"page": "tasks", "found": found, "origin": _origin(request), "may": may}
    context["acts"] = [(act, True) for act in buttons.BULK_ACTS] if may else []
    return render(request, "console/tasks/list.html", context)


@in_tenant
def task(request: HttpRequest, principal: Principal, *, task_id: UUID) -> HttpResponse:
    """One task."""
    row = selectors.task(principal, task_id)
    found = detail.read(principal, row, now=SYSTEM_CLOCK.now(), origin=_origin(request))
    may = principal.may(Role.OPERATOR)
    context = frame(request, principal) | {"page": "tasks", "found": found, "may": may, "task": row}
    standing = "paused" if row.paused_at else ""
    context["acts"] = [(act, act.shown(standing)) for act in buttons.TASK_ACTS] if may else []
    return render(request, "console/tasks/task.html", context)


@in_tenant
def new_task(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The form of a task that is not there yet."""
    return _form(request, principal, None, fields.NEW)


@in_tenant
def edit_task(request: HttpRequest, principal: Principal, *, task_id: UUID) -> HttpResponse:
    """The form of one that is."""
    row = selectors.task(principal, task_id)
    document = document_of(row) | {"handler": masked_handler(row.handler, role=principal.role)}
    return _form(request, principal, row, changes.sparse(document))


@in_tenant
def handlers(request: HttpRequest, principal: Principal) -> JsonResponse:
    """Python handlers that the form offers now; `version` changes with them. An open page asks time and again."""
    context = offered.offered()
    return JsonResponse(
        {"version": offered.version(), "html": render_to_string("console/tasks/_handlers.html", context)}
    )


def _form(request: HttpRequest, principal: Principal, row: Task | None, document: dict[str, object]) -> HttpResponse:
    """Viewers are told which role it takes."""
    may = principal.may(Role.OPERATOR)
    text = readable(document)
    checked = checking.check(principal, {"mode": "json", form.DOCUMENT: text}, row) if may else None
    context = frame(request, principal) | {
        "page": "tasks",
        "task": row,
        "may": may,
        "untouched": row is None,
        "sections": form.filled(document),
        "document": text,
        "checked": checked,
        "preview": checked.preview if checked else None,
        "handler": offered.chosen(document),
        "handlers_version": offered.version(),
        **offered.offered(),
    }
    return render(request, "console/tasks/edit.html", context, status=200 if may else 403)


def _origin(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"
