"""Dead letters that go round again: all or nothing, and once, however often and by whomever it is asked."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from apps.executions import services
from apps.executions.models import DeadLetter, Execution
from apps.executions.states import Status
from apps.tenants.models import Tenant
from chronoweb.runtime.errors import Conflict
from tests.factories import execution, make_principal, make_task, reasons, reread
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)


class _Aborted(Exception):
    pass


def test_aborted_in_the_middle_loses_nothing() -> None:
    """Behaviour 5.6: the mark and the removal from the dead letters are one transaction."""
    tenant = Tenant.objects.create(slug="aborted", name="aborted")
    principal = make_principal(tenant)
    task = make_task(principal)
    rows = [execution(task, Status.DEAD_LETTER) for _ in range(20)]

    def half() -> None:
        with transaction.atomic():
            for row in rows[:10]:
                services.replay(principal=principal, execution_id=row.id)
            raise _Aborted

    with pytest.raises(_Aborted):
        half()
    assert {reread(row).status for row in rows} == {Status.DEAD_LETTER}
    assert DeadLetter.objects.filter(task_id=task.id).count() == 20
    assert {len(reasons(row)) for row in rows} == {0}


def test_two_persons_at_once_replay_each_once() -> None:
    tenant = Tenant.objects.create(slug="at-once", name="at-once")
    principal = make_principal(tenant)
    task = make_task(principal)
    rows = [execution(task, Status.DEAD_LETTER) for _ in range(30)]
    together = threading.Barrier(2)

    def replay_all(_: int) -> int:
        done = 0
        try:
            together.wait(PATIENCE_SECONDS)
            for row in rows:
                try:
                    services.replay(principal=principal, execution_id=row.id)
                    done += 1
                except Conflict:
                    continue
        finally:
            connection.close()
        return done

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(replay_all, range(2))) == 30
    assert set(Execution.objects.filter(task_id=task.id).values_list("status", flat=True)) == {Status.SCHEDULED}
    assert {tuple(reasons(row)) for row in rows} == {("replayed from the dead letters",)}
    assert not DeadLetter.objects.filter(task_id=task.id).exists()
