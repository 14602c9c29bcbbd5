"""Pause and resume follow one rule, whoever asks: the API, the admin for one task, the admin for many."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from apps.definitions.models import Task
from apps.executions.states import Status
from tests.console_ledger import make_person
from tests.factories import EACH_MINUTE, Api, make_api, make_task, materialise, now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]
Path = Callable[[Api, list[Task], str], None]


def by_api(api: Api, tasks: list[Task], act: str) -> None:
    for task in tasks:
        assert api.post(f"/tasks/{task.id}/{act}").status_code == 200


def one_by_one(api: Api, tasks: list[Task], act: str) -> None:
    for task in tasks:
        in_bulk(api, [task], act)


def in_bulk(api: Api, tasks: list[Task], act: str) -> None:
    client = Client()
    client.force_login(make_person(None, is_staff=True, is_superuser=True))
    chosen = {"action": act, "_selected_action": [str(task.id) for task in tasks]}
    client.post(reverse("admin:definitions_task_changelist"), chosen)


PATHS: list[Path] = [by_api, one_by_one, in_bulk]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
@pytest.mark.parametrize(("catchup", "runs"), [(0, 0), (300, 5)])
def test_the_catch_up_rule_is_the_same_on_every_path(path: Path, catchup: int, runs: int) -> None:
    """Behaviour 2.2: a minutely task, paused for five minutes and more."""
    api = make_api()
    made = {"schedule": EACH_MINUTE, "strict_timing": True, "catchup_seconds": catchup}
    tasks = [make_task(api.principal, **made) for _ in range(2)]
    Task.objects.filter(id__in=[task.id for task in tasks]).update(next_fire_at=now() - timedelta(minutes=20))
    path(api, tasks, "pause")
    assert Task.objects.filter(id__in=[task.id for task in tasks]).exclude(paused_at=None).count() == 2
    path(api, tasks, "resume")
    for task in tasks:
        task.refresh_from_db()
        late = [row for row in materialise(task) if row.scheduled_at <= now() - timedelta(seconds=15)]
        assert len([row for row in late if row.status == Status.SCHEDULED]) in (runs - (runs > 0), runs)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_no_run_before_tomorrow_on_any_path(path: Path) -> None:
    """Behaviour 2.3: daily 17:00, paused at 16:00, resumed at 18:00, no catching up."""
    api = make_api()
    an_hour_ago = now().replace(second=0, microsecond=0) - timedelta(hours=1)
    daily = {"type": "cron", "expression": f"{an_hour_ago.minute} {an_hour_ago.hour} * * *"}
    tasks = [make_task(api.principal, schedule=daily, strict_timing=True, catchup_seconds=0) for _ in range(2)]
    Task.objects.filter(id__in=[task.id for task in tasks]).update(next_fire_at=an_hour_ago)
    path(api, tasks, "pause")
    path(api, tasks, "resume")
    for task in tasks:
        task.refresh_from_db()
        assert task.next_fire_at == an_hour_ago + timedelta(days=1)
        assert materialise(task) == []
