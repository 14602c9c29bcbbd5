"""Whoever stands still in the middle of a transaction does not keep others waiting for ever, and goes on later."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import InternalError, connection, transaction

from apps.console.errors import is_passing
from apps.definitions import plans
from apps.executions.models import Lease
from apps.preloader.epoch import database_now
from apps.preloader.materialise import Materialiser
from apps.worker.giving_back import GivingBack
from chronoweb.runtime import postgres
from chronoweb.runtime.away import is_away
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import LeadershipLost
from tests.factories import EACH_MINUTE, make_principal, make_task, now
from tests.stack import Ledger

EPOCH = 7


def test_who_has_locked_something_and_stands_still_loses_its_transaction(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is stopped, or whose machine is gone: the server would believe in it for hours."""
    [identity] = ledger.add()
    lock = "SELECT id FROM executions WHERE id = %s FOR UPDATE"
    # Longer than a busy machine stands still between two statements.
    monkeypatch.setattr(postgres, "IDLE_IN_TRANSACTION_SECONDS", 3)
    with postgres.connect("still", url=ledger.url) as still, postgres.connect("waits", url=ledger.url) as waits:
        still.execute("BEGIN")
        still.execute(lock, [UUID(bytes=identity)])
        waits.execute("SET statement_timeout = '60s'")
        assert waits.execute(lock, [UUID(bytes=identity)]).fetchone() is not None
        with pytest.raises(psycopg.Error) as lost:
            still.execute("SELECT 1")
        assert is_away(lost.value), "it connects anew and tries again"
        assert still.closed


@pytest.mark.django_db(transaction=True)
def test_the_preloader_holds_its_lease_to_write_not_to_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of occurrences take seconds to plan. A lease that is locked meanwhile is not renewed, and if the
    process stands still nobody can take it over."""
    instant = now()
    Lease.objects.create(
        role="preloader", holder=UUID(int=1), epoch=EPOCH, expires_at=instant + timedelta(hours=1), acquired_at=instant
    )
    make_task(make_principal(), schedule=EACH_MINUTE)
    really = plans.materialise_task
    taken: list[int] = []

    def plan(*arguments: Any, **named: Any) -> Any:
        with postgres.connect_like_django("other") as other:
            query = "UPDATE leases SET epoch = epoch + %s WHERE role = 'preloader'"
            other.execute("SET lock_timeout = '1ms'")
            taken.append(other.execute(query, [len(taken)]).rowcount)
        return really(*arguments, **named)

    monkeypatch.setattr(plans, "materialise_task", plan)
    materialiser = Materialiser(Config(), "preloader")
    with postgres.connect_like_django("keeper") as keeper:
        assert materialiser.materialise(EPOCH, keeper) == 1
        assert taken == [1]
        make_task(make_principal(), schedule=EACH_MINUTE)
        with pytest.raises(LeadershipLost):
            materialiser.materialise(EPOCH, keeper)
    assert taken == [1, 1], "another leads since the plan was made: nothing was written"


@pytest.mark.django_db
def test_the_preloaders_transactions_have_the_limit() -> None:
    instant = now()
    Lease.objects.create(
        role="preloader", holder=UUID(int=1), epoch=EPOCH, expires_at=instant + timedelta(hours=1), acquired_at=instant
    )
    with transaction.atomic(), connection.cursor() as cursor:
        database_now("preloader", EPOCH)
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("1min",)


@pytest.mark.django_db
def test_a_database_that_only_reads_is_away() -> None:
    """After a failover, for a moment: pages say so, and load themselves again."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL transaction_read_only = on")
        with pytest.raises(InternalError) as refused:
            cursor.execute("DELETE FROM leases")
        transaction.set_rollback(True)
    assert is_away(refused.value)
    assert is_passing(refused.value)


def test_a_worker_that_drains_while_postgresql_is_away_goes_on_draining() -> None:
    giving_back = GivingBack(worker_id=1, url="postgres://127.0.0.1:1/nobody")
    giving_back.now([(bytes(16), 1)], unread=True)
    giving_back.rest()
