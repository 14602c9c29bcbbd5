"""What the palette finds: by a whole id, or by a part of a name; a tenant's own, a few of each kind."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.urls import reverse

from apps.console.access import Person, tenants_of
from apps.console.rows import label
from apps.definitions import selectors as definitions
from apps.definitions.dags import selectors as dag_definitions
from apps.definitions.models import Dag
from apps.executions import ids
from apps.executions.dags.models import DagRun
from apps.executions.models import Execution
from apps.executions.task_history import latest_of_tasks
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.uuids import parse_uuid

LEAST, LONGEST = 2, 200
"""Characters of a question; a shorter one finds nothing, of a longer one the rest is not looked at."""
EACH = 6
_BACK = timedelta(days=14)
Found = list[dict[str, Any]]


def find(principal: Principal, person: Person, text: str, *, now: datetime) -> Found:
    """At most 4 x EACH; four queries for a name, five for an id."""
    text = text.replace("\0", "").strip()[:LONGEST]
    if len(text) < LEAST:
        return []
    identity = parse_uuid(text)
    return _named(principal, person, text, now) if identity is None else _identified(principal, identity)


def _named(principal: Principal, person: Person, text: str, now: datetime) -> Found:
    slug = principal.tenant_slug
    tasks = list(definitions.narrowed(definitions.tasks(principal), search=text).order_by("name")[:EACH])
    dags = dag_definitions.dags(principal).filter(name__icontains=text).order_by("name")[:EACH]
    last = latest_of_tasks(principal, [task.id for task in tasks], each=1, since=now - _BACK, now=now)
    names = {task.id: task.name for task in tasks}
    found = [_task(slug, task.id, task.name, "paused" if task.paused_at else "") for task in tasks]
    found += [_dag(slug, dag.id, dag.name, "paused" if dag.paused_at else f"{dag.node_count} nodes") for dag in dags]
    found += [
        _execution(slug, line.id, f"{names[line.task_id]}, the last one", line.state.word, label(line.state))
        for line in last
    ]
    others = tenants_of(person).filter(slug__icontains=text).exclude(slug=slug).order_by("slug")[:EACH]
    return found + [
        {"group": "Tenants", "icon": "tenant", "label": one.slug, "href": reverse("console:overview", args=[one.slug])}
        for one in others
    ]


def _identified(principal: Principal, identity: UUID) -> Found:
    slug = principal.tenant_slug
    found = [_task(slug, task.id, task.name) for task in definitions.tasks(principal).filter(id=identity)]
    found += [_dag(slug, dag.id, dag.name) for dag in dag_definitions.dags(principal).filter(id=identity)]
    for row in scoped(Execution.objects.with_id(identity), principal).select_related("task_version"):
        found.append(_execution(slug, row.id, row.task_version.name, row.state.word, label(row.state)))
    return found + _runs(principal, identity)


def _runs(principal: Principal, identity: UUID) -> Found:
    day = ids.scheduled_at(identity)
    run = scoped(DagRun.objects.filter(id=identity, scheduled_at=day), principal).first() if day else None
    if run is None:
        return []
    name = Dag.objects.filter(id=run.dag_id).values_list("name", flat=True).first() or "a DAG that is gone"
    href = reverse("console:run", args=[principal.tenant_slug, run.id])
    return [{"group": "Runs", "icon": "dag", "label": f"run of {name}", "note": str(run.id), "href": href}]


def _task(slug: str, task_id: UUID, name: str, note: str = "") -> dict[str, Any]:
    href = reverse("console:task", args=[slug, task_id])
    return {"group": "Tasks", "icon": "task", "label": name, "note": note, "href": href}


def _dag(slug: str, dag_id: UUID, name: str, note: str = "") -> dict[str, Any]:
    href = reverse("console:dag", args=[slug, dag_id])
    return {"group": "DAGs", "icon": "dag", "label": name, "note": note, "href": href}


def _execution(slug: str, identity: UUID, name: str, state: str, words: str) -> dict[str, Any]:
    href = reverse("console:execution", args=[slug, identity])
    return {"group": "Executions", "icon": state, "state": state, "label": name, "note": words, "href": href}
