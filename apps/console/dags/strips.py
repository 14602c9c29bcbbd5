"""Runs as small marks in a row: colour and shape by state, the story on hover."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from apps.console.dags import words
from apps.console.wording import duration
from apps.executions.dags import selectors
from apps.executions.dags.selectors import RunLine
from apps.tenants.principal import Principal

SHOWN = 20
BACK = timedelta(days=30)


@dataclass(frozen=True)
class Mark:
    """One run. title: how it went, in words."""

    id: UUID
    dag_id: UUID
    version: int
    state: str
    title: str
    at: datetime


def mark(run: RunLine) -> Mark:
    began = max(run.run_at, run.created_at)
    took = "" if run.finished_at is None else f" in {duration(max(began, run.finished_at) - began)}"
    state = run.word
    return Mark(run.id, run.dag_id, run.version, state, f"{words.label(state)}{took}", run.run_at)


def of_dags(
    principal: Principal, dag_ids: Sequence[UUID], *, now: datetime, each: int = SHOWN
) -> dict[UUID, list[Mark]]:
    """The last runs of each of these DAGs, oldest first; one query."""
    found: dict[UUID, list[Mark]] = {dag_id: [] for dag_id in dag_ids}
    if dag_ids:
        for run in selectors.latest_runs(principal, dag_ids, each=each, since=now - BACK):
            found[run.dag_id].insert(0, mark(run))
    return found


def message(shown: Mark, tenant_slug: str) -> dict[str, Any]:
    """What the socket sends of a run."""
    html = render_to_string("console/dags/_mark.html", {"mark": shown, "tenant_slug": tenant_slug})
    return {"id": str(shown.id), "dag": str(shown.dag_id), "version": shown.version, "state": shown.state, "html": html}
