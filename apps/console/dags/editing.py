"""Making and editing DAGs as text: checked and drawn while one types, saved only over the version that one has seen."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse

from apps.console.dags import definition
from apps.console.dags.run_page import Folding
from apps.console.documents import save_document
from apps.console.fragments import may_act
from apps.console.posts import posted, seen_version
from apps.console.tasks import preview
from apps.console.tasks.checking import told
from apps.console.views import frame, in_tenant
from apps.definitions.dags import files, making, selectors
from apps.definitions.dags.versions import document_of
from apps.definitions.models import Dag
from apps.definitions.occurrences import Schedule
from apps.executions.models import DagVersion
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import literal_resolve

MOST_CHARACTERS = 1_000_000
"""Of a text in the form; larger ones are files for `dag apply`."""

_TO_BEGIN_WITH = """\
name: my-first-dag
description: What it is for.
schedule: {type: manual}
# schedule: {type: cron, expression: "0 6 * * *", timezone: Europe/Berlin}

nodes:
  - id: extract
    handler: {type: command, argv: [echo, three rows]}

  - id: check
    handler: {type: command, argv: [sleep, "3"]}
    depends_on: [extract]

  - id: publish
    handler: {type: command, argv: [echo, published]}
    depends_on: [check]
    retry_policy: {max_attempts: 3, base_delay_seconds: 5}
"""


@in_tenant
def new_dag(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The form, with a DAG of three nodes to begin with. Viewers are told which role it takes."""
    return _page(request, principal, None, _TO_BEGIN_WITH)


@in_tenant
def edit_dag(request: HttpRequest, principal: Principal, *, dag_id: UUID) -> HttpResponse:
    """The form, with the document in force."""
    dag = selectors.dag(principal, dag_id)
    return _page(request, principal, dag, files.write(document_of(dag)) if may_act(principal) else "")


@posted
def check(request: HttpRequest, principal: Principal, *, dag_id: UUID | None = None) -> JsonResponse:
    """What the text would mean: its graph, its next times, what it changes, or what is wrong in which line.

    Writes nothing, and asks nobody outside: a webhook's host is looked up when it is saved.
    """
    dag = None if dag_id is None else selectors.dag(principal, dag_id)
    text = request.POST.get("text", "")
    try:
        found = making.judge(principal=principal, data=_read(text), dag=dag, resolve=literal_resolve)
    except (InvalidInput, InvalidInputs) as wrong:
        errors = _told(wrong, text)
        beside = render_to_string("console/dags/_checked.html", {"errors": errors})
        return JsonResponse({"errors": errors, "beside": beside, "graph": None, "ready": False})
    values = found.document.values
    lines = [(line[0], line[2:]) for line in (one.line() for one in found.differences)]
    schedule = Schedule.parse(values["schedule"])
    shown = {
        "dag": dag,
        "lines": lines,
        "preview": preview.of(principal, schedule, now=SYSTEM_CLOCK.now(), own=None, is_strict=values["strict_timing"]),
    }
    drawn = definition.picture(values["nodes"], Folding())
    graph = {**vars(drawn), "may_fold": False, "definition": True}
    return JsonResponse(
        {
            "errors": [],
            "beside": render_to_string("console/dags/_checked.html", shown),
            "graph": render_to_string("console/dags/_graph.html", graph),
            "ready": bool(lines),
        }
    )


@posted
def save(request: HttpRequest, principal: Principal, *, dag_id: UUID | None = None) -> JsonResponse:
    """Make the DAG, or put the text in force if the version that the form was made from still is."""
    if dag_id is not None:
        selectors.dag(principal, dag_id)  # a foreign one is not told what is wrong with the text
    text = request.POST.get("text", "")

    def act() -> str:
        document = _read(text)
        if dag_id is None:
            dag = making.create_dag(principal=principal, data=document)
        else:
            version = seen_version(request)
            dag = making.update_dag(
                principal=principal, dag_id=dag_id, data=document, partial=False, expected_version=version
            )
        return _address(principal, dag.id)

    def author(version: int) -> str:
        assert dag_id is not None  # what is new has no version to be overtaken by
        return scoped(DagVersion.objects.all(), principal).get(dag_id=dag_id, number=version).created_by

    theirs = "" if dag_id is None else _address(principal, dag_id)
    return save_document(request, principal, act, told=lambda wrong: _told(wrong, text), author=author, theirs=theirs)


def _address(principal: Principal, dag_id: UUID) -> str:
    return reverse("console:dag", args=[principal.tenant_slug, dag_id])


def _page(request: HttpRequest, principal: Principal, dag: Dag | None, text: str) -> HttpResponse:
    may = may_act(principal)
    context = frame(request, principal) | {"page": "dags", "may": may, "dag": dag, "text": text}
    return render(request, "console/dags/edit.html", context, status=200 if may else 403)


def _read(text: str) -> Any:
    text = text.replace("\r\n", "\n")
    if len(text) > MOST_CHARACTERS:
        legal = f"at most {MOST_CHARACTERS:,} characters; larger ones are files for `manage.py dag apply`"
        raise InvalidInput("", None, f"the text has {len(text):,} characters", legal)
    return files.read(text, name="the text")


def _told(wrong: InvalidInput | InvalidInputs, text: str) -> list[dict[str, Any]]:
    """Each with its line, from 1, where that can be told."""
    errors: list[dict[str, Any]] = list(told(wrong))
    lines = files.lines_of(text.replace("\r\n", "\n"), {one["pointer"] for one in errors if one["pointer"]})
    return [one | {"line": lines.get(one["pointer"])} for one in errors]
