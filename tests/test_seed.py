"""manage.py seed: what it writes is a ledger that pages can read, and it writes into no other's."""

from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from apps.definitions.models import Dag, Task
from apps.executions.models import Attempt, DagRun, DeadLetter, Execution, ExecutionEvent, Outstanding, RunNode
from apps.executions.states import RESTING, Status
from apps.quickstart.bench import admin_pages, pages
from apps.quickstart.seeding import seed
from apps.quickstart.seeding.progress import Bar
from apps.quickstart.seeding.sizes import RUNS_EACH, Sizes
from chronoweb.runtime import postgres

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = Sizes(executions=3000, tasks=60, dags=2, days=2, tenants=("acme", "globex"))


@pytest.fixture(autouse=True)
def _in_this_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "connect", lambda name, **_: postgres.connect_like_django(name))


def test_a_seeded_ledger_is_whole_and_every_page_of_it_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "QUESTIONS", {"tasks": ("sort=changed", "after={task_id}")})
    monkeypatch.setattr(admin_pages, "QUESTIONS", {"execution": ("q={identity}",)})
    lines = StringIO()
    seed.seed(SMALL, bar=Bar(lines))
    assert "executions: 3,000 of 3,000" in lines.getvalue()
    of_tasks = Execution.objects.filter(dag_run_id=None)
    assert of_tasks.count() == 3000
    assert set(of_tasks.values_list("status", flat=True)) >= {*RESTING, Status.PRELOADED, Status.RETRYING}
    begun = set(of_tasks.filter(status=Status.COMPLETED).values_list("id", flat=True))
    assert begun <= set(Attempt.objects.values_list("execution_id", flat=True))
    dead = set(of_tasks.filter(status=Status.DEAD_LETTER).values_list("id", flat=True))
    assert set(DeadLetter.objects.values_list("execution_id", flat=True)) == dead
    active = set(of_tasks.filter(status__in=(Status.RUNNING, Status.DISPATCHED)).values_list("id", flat=True))
    assert set(Outstanding.objects.values_list("execution_id", flat=True)) == active
    assert ExecutionEvent.objects.exists()
    assert Task.objects.filter(paused_at=None).exclude(next_fire_at=None).exists()
    assert DagRun.objects.filter(finished_at__isnull=False).count() == (SMALL.dags + 1) * RUNS_EACH
    assert RunNode.objects.filter(node_id="n9-49").count() == RUNS_EACH + 1
    assert {run.word for run in DagRun.objects.filter(dag_id=_waits().id)} == {"running", "queued"}
    found = pages.pages("acme", requests=1, say=lambda _: None)
    assert {page.page: page.status for page in found.pages if page.status != 200} == {}
    assert {"overview", "executions", "tasks", "task", "letter", "dag", "run"} <= {page.page for page in found.pages}
    assert {page.page: page.queries for page in found.pages if page.queries >= 40} == {}
    with pytest.raises(CommandError, match="tasks or executions already"):
        call_command("seed", executions=1, tasks=1, stderr=StringIO())


def _waits() -> Dag:
    return Dag.objects.get(name__startswith="waits-for-itself")


def test_a_dry_run_and_a_wrong_size_write_nothing() -> None:
    said = StringIO()
    call_command("seed", "--dry-run", "--tenant", "acme", stdout=said)
    assert "nothing speaks against it" in said.getvalue()
    assert "would write 2,000,000 executions" in said.getvalue()
    for wrong in ({"days": 0}, {"executions": 10**9}, {"tenant": ["a", "a"]}):
        options: dict[str, Any] = {"executions": 10, "tasks": 10, **wrong}
        with pytest.raises(CommandError):
            call_command("seed", **options)
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM tasks), EXISTS (SELECT FROM executions)")
        assert cursor.fetchone() == (False, False)


def test_addresses_are_those_of_the_console() -> None:
    """A page that is added is measured; what cannot be asked for is told."""
    known = {"slug": "acme", "identity": UUID(int=5), "task_id": UUID(int=6)}
    found = {name: address for name, _, address in pages.addresses(known)}
    assert found["overview"] == "t/acme/"
    assert found["task_edit"] == f"t/acme/tasks/{UUID(int=6)}/edit"
    assert found["run"] is None
