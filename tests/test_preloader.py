"""The preloader: schedules become rows once, rows enter the hot tier, an emptied Redis is filled again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import pytest
import redis
from pytest_django import DjangoDbBlocker

from apps.definitions import services as definitions
from apps.definitions.models import Task
from apps.dispatcher.hot_tier import HotTier
from apps.executions import ids, store
from apps.executions.models import Execution
from apps.executions.rows import Queue
from apps.executions.states import Hold, Overlap, Status
from apps.preloader import daemon as preloader_daemon
from apps.preloader.daemon import Preloader
from apps.preloader.materialise import Materialiser
from apps.quickstart.services import ServiceAddresses
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import LeadershipLost
from tests.factories import make_principal, make_task, now
from tests.stack import EPOCH, Ledger, addresses_of, django_uses, passes, quick_config, running
from tests.waiting import PATIENCE_SECONDS, eventually


@pytest.fixture
def preloader(
    own_ledger: Ledger, services: ServiceAddresses, redis_prefix: str, django_db_blocker: DjangoDbBlocker
) -> Iterator[Preloader]:
    """A preloader that leads, on a database of its own, which Django uses too. Its passes are the test's to run."""
    with django_uses(own_ledger.url, django_db_blocker):
        made = preloader_daemon.build(quick_config(redis_prefix), addresses_of(own_ledger.url, services))
        assert made.leadership.wait_until_leader(PATIENCE_SECONDS)
        yield made
        made.close()


@contextmanager
def another(preloader: Preloader) -> Iterator[Preloader]:
    made = preloader_daemon.build(preloader.config, preloader.addresses)
    try:
        yield made
    finally:
        made.close()


def in_hot_tier(hot_tier: HotTier, ledger: Ledger, identities: list[bytes]) -> bool:
    return hot_tier.size() >= len(identities) and set(ledger.statuses(identities)) == {Status.PRELOADED}


# ---- hydrate ------------------------------------------------------------------------------------------------------


def test_what_comes_due_enters_the_hot_tier_and_the_rest_stays(
    preloader: Preloader, own_ledger: Ledger, hot_tier: HotTier
) -> None:
    near = own_ledger.add(50, status=Status.SCHEDULED, due_in_ms=30 * 60_000)
    retrying = own_ledger.add(3, status=Status.RETRYING, due_in_ms=1000)
    far = own_ledger.add(5, status=Status.SCHEDULED, due_in_ms=3 * 3_600_000)
    held = own_ledger.add(5, status=Status.SCHEDULED, hold=Hold.PAUSED)
    passes(preloader, lambda: in_hot_tier(hot_tier, own_ledger, near + retrying))
    assert hot_tier.size() == 53
    assert set(own_ledger.statuses(far + held)) == {Status.SCHEDULED}
    assert own_ledger.row(far[0])["wake_at"] is not None


def test_the_hot_tier_keeps_a_run_at_that_is_not_scheduled_at(
    preloader: Preloader, own_ledger: Ledger, hot_tier: HotTier, redis_client: redis.Redis
) -> None:
    """Jitter and retries move run_at; scheduled_at, which the id tells, is of the past."""
    [identity] = own_ledger.add(status=Status.SCHEDULED, later_ms=90_000)
    passes(preloader, lambda: hot_tier.size() == 1)
    score = redis_client.zscore(hot_tier.entries_key(ids.shard(identity), 1, own_ledger.tenant.hex()), identity)
    seconds, _ = redis_client.time()
    assert isinstance(score, float)
    assert 0 < score - seconds * 1000 <= 91_500


def test_what_was_released_comes_back_within_a_second(
    preloader: Preloader, own_ledger: Ledger, hot_tier: HotTier
) -> None:
    identities = own_ledger.add(10, status=Status.DISPATCHED)
    with running(preloader):
        store.release(own_ledger.connection, identities, [EPOCH << 32] * 10, worker_id=1)
        eventually(lambda: hot_tier.size() == 10)


def test_a_stale_preloader_writes_nothing(preloader: Preloader, own_ledger: Ledger, hot_tier: HotTier) -> None:
    [identity] = own_ledger.add(status=Status.SCHEDULED)
    own_ledger.lead("preloader", epoch=1_000)
    assert own_ledger.hydrate(ids.day(identity), epoch=1) == []
    assert own_ledger.status(identity) is Status.SCHEDULED
    assert own_ledger.row(identity)["wake_at"] is not None


def test_two_that_hydrate_at_once_double_nothing(own_ledger: Ledger) -> None:
    own_ledger.lead("preloader")
    identities = own_ledger.add(500, status=Status.SCHEDULED)
    start = threading.Barrier(4)
    found: list[bytes] = []

    def race() -> None:
        with postgres.connect("racer", url=own_ledger.url) as connection:
            start.wait()
            for _ in range(10):
                rooms = {Queue(1, own_ledger.tenant): 100}
                rows = store.hydrate(
                    connection,
                    rooms,
                    day=ids.day(identities[0]),
                    lookahead_seconds=60,
                    role="preloader",
                    epoch=EPOCH,
                )
                found.extend(row.id for row in rows)

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == identities


def test_a_backlog_of_one_tenant_does_not_keep_another_waiting(own_ledger: Ledger, hot_tier: HotTier) -> None:
    own_ledger.lead("preloader")
    other = Ledger(own_ledger.url, own_ledger.connection)
    own_ledger.add(3000, status=Status.SCHEDULED, due_in_ms=-60_000)
    [urgent] = other.add(status=Status.SCHEDULED)
    day = ids.day(urgent)
    queues = store.waiting_queues(own_ledger.connection, day=day, limit=100)
    assert set(queues) == {Queue(1, own_ledger.tenant), Queue(1, other.tenant)}
    rows = store.hydrate(
        own_ledger.connection,
        dict.fromkeys(queues, 100),
        day=day,
        lookahead_seconds=60,
        role="preloader",
        epoch=EPOCH,
    )
    assert urgent in {row.id for row in rows}
    assert len(rows) == 101


# ---- restore ------------------------------------------------------------------------------------------------------


def empty(client: redis.Redis, prefix: str) -> None:
    """As a restart without data would, for this test's keys alone."""
    for key in list(client.scan_iter(match=f"{prefix}*")):
        client.delete(key)


def test_an_emptied_redis_is_filled_again(
    preloader: Preloader, own_ledger: Ledger, hot_tier: HotTier, redis_client: redis.Redis, redis_prefix: str
) -> None:
    identities = own_ledger.add(300, status=Status.SCHEDULED, due_in_ms=1_000)
    with running(preloader):
        eventually(lambda: in_hot_tier(hot_tier, own_ledger, identities))
        empty(redis_client, redis_prefix)
        eventually(lambda: hot_tier.size() == 300 and not hot_tier.incomplete())


def test_one_lost_shard_is_filled_again(
    preloader: Preloader, own_ledger: Ledger, hot_tier: HotTier, redis_client: redis.Redis, redis_prefix: str
) -> None:
    identities = own_ledger.add(300, status=Status.SCHEDULED, due_in_ms=60_000)
    passes(preloader, lambda: in_hot_tier(hot_tier, own_ledger, identities))
    for key in list(redis_client.scan_iter(match=f"{redis_prefix}{{5}}*")):
        redis_client.delete(key)
    assert hot_tier.size() < 300
    passes(preloader, lambda: hot_tier.size() == 300)


def test_what_was_sent_into_an_emptied_redis_is_taken_back_at_once(
    preloader: Preloader, own_ledger: Ledger, hot_tier: HotTier, redis_client: redis.Redis, redis_prefix: str
) -> None:
    """The workers' inboxes went with it; nobody waits for the claim deadline. What runs is left alone."""
    passes(preloader, lambda: not hot_tier.incomplete())
    sent, runs = own_ledger.add(5, status=Status.DISPATCHED), own_ledger.add(5, status=Status.RUNNING)
    empty(redis_client, redis_prefix)
    passes(preloader, lambda: in_hot_tier(hot_tier, own_ledger, sent))
    assert set(own_ledger.statuses(runs)) == {Status.RUNNING}
    assert {own_ledger.row(i)["attempt"] for i in sent} == {0}


def test_a_new_leader_adds_again_what_was_marked_and_not_added(
    preloader: Preloader, own_ledger: Ledger, hot_tier: HotTier
) -> None:
    """Its predecessor died between the commit and the addition."""
    passes(preloader, lambda: not hot_tier.incomplete())
    marked = own_ledger.add(20, status=Status.PRELOADED)
    assert hot_tier.size() == 0
    with another(preloader) as heir:
        preloader.close()
        assert heir.leadership.wait_until_leader(PATIENCE_SECONDS)
        passes(heir, lambda: hot_tier.size() == len(marked))


# ---- materialise --------------------------------------------------------------------------------------------------


def rows_of(task: Task) -> list[Execution]:
    return list(Execution.objects.filter(task_id=task.id).order_by("scheduled_at"))


def test_occurrences_inside_the_lookahead_become_rows_once(preloader: Preloader) -> None:
    principal = make_principal()
    task = make_task(principal, schedule={"type": "cron", "expression": "*/10 * * * *"}, overlap_policy="skip")
    passes(preloader, lambda: rows_of(task))
    rows = rows_of(task)
    assert 5 <= len(rows) <= 7
    nominal = [row.nominal_at for row in rows if row.nominal_at]
    assert all(later - earlier == timedelta(minutes=10) for earlier, later in pairwise(nominal))
    assert {row.slot_key for row in rows} == {f"task:{task.id}"}
    assert {row.overlap for row in rows} == {Overlap.SKIP}
    for _ in range(3):
        preloader.run_once()
    assert [row.id for row in rows_of(task)] == [row.id for row in rows]
    task.refresh_from_db()
    assert task.next_fire_at is not None
    assert task.next_fire_at > now() + timedelta(minutes=50)


def test_an_occurrence_that_is_there_already_stays_one_row(preloader: Preloader) -> None:
    """next_fire_at was set back, as by a restore of the definitions alone."""
    in_half_an_hour = f"{(now() + timedelta(minutes=30)).minute} * * * *"
    task = make_task(make_principal(), schedule={"type": "cron", "expression": in_half_an_hour})
    passes(preloader, lambda: rows_of(task) and all(row.status == Status.PRELOADED for row in rows_of(task)))
    before = [(row.id, row.version) for row in rows_of(task)]
    Task.objects.filter(id=task.id).update(next_fire_at=now())
    later = now() + timedelta(minutes=30)
    passes(preloader, lambda: Task.objects.filter(id=task.id, next_fire_at__gt=later).exists())
    assert [(row.id, row.version) for row in rows_of(task)] == before


def test_two_preloaders_materialise_each_occurrence_once(preloader: Preloader) -> None:
    """Both believe that they lead, under the epoch that stands: the worst that can be."""
    principal = make_principal()
    tasks = [make_task(principal, schedule={"type": "interval", "every_seconds": 60}) for _ in range(20)]
    epoch = preloader.leadership.epoch
    assert epoch is not None
    start = threading.Barrier(3)
    failures: list[BaseException] = []

    def race() -> None:
        from django.db import connections

        try:
            materialiser = Materialiser(preloader.config, "preloader")
            with postgres.connect("keeper", url=preloader.addresses.database_url, hot=False) as keeper:
                start.wait()
                for _ in range(5):
                    materialiser.materialise(epoch, keeper)
        except BaseException as error:
            failures.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=race) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for task in tasks:
        nominal = [row.nominal_at for row in rows_of(task)]
        assert len(nominal) >= 60
        assert len(set(nominal)) == len(nominal)


def test_a_stale_epoch_materialises_nothing(preloader: Preloader) -> None:
    task = make_task(make_principal(), schedule={"type": "interval", "every_seconds": 60})
    with postgres.connect("keeper", url=preloader.addresses.database_url, hot=False) as keeper:
        with pytest.raises(LeadershipLost):
            Materialiser(preloader.config, "preloader").materialise(0, keeper)
    assert rows_of(task) == []


def test_paused_and_deleted_tasks_make_no_rows(preloader: Preloader) -> None:
    principal = make_principal()
    each_minute = {"type": "interval", "every_seconds": 60}
    paused, deleted, live = (make_task(principal, schedule=each_minute) for _ in range(3))
    definitions.pause_task(principal=principal, task_id=paused.id)
    definitions.delete_task(principal=principal, task_id=deleted.id)
    passes(preloader, lambda: rows_of(live))
    assert rows_of(paused) == rows_of(deleted) == []


def test_missed_occurrences_run_within_the_window_and_are_told_outside_it(preloader: Preloader) -> None:
    """The scheduler was away for an hour; the next slot fires regardless."""
    principal = make_principal()
    each_minute = {"type": "cron", "expression": "* * * * *"}
    tasks = {
        seconds: make_task(principal, schedule=each_minute, strict_timing=True, catchup_seconds=seconds)
        for seconds in (0, 600)
    }
    hour_ago = now() - timedelta(hours=1)
    Task.objects.filter(id__in=[task.id for task in tasks.values()]).update(next_fire_at=hour_ago)
    passes(preloader, lambda: all(rows_of(task) for task in tasks.values()))
    moment = now()
    for seconds, task in tasks.items():
        past = [row for row in rows_of(task) if row.scheduled_at < moment - timedelta(seconds=10)]
        ran = [row for row in past if row.status != Status.SKIPPED]
        assert len(ran) == pytest.approx(seconds / 60, abs=1)
        assert len(past) == pytest.approx(60, abs=2), "each missed one is told"
        assert any(row.scheduled_at > moment for row in rows_of(task))


def test_a_new_leader_follows_new_time_zone_rules_once(preloader: Preloader) -> None:
    schedule = {"type": "cron", "expression": "*/10 * * * *", "timezone": "America/Vancouver"}
    task = make_task(make_principal(), schedule=schedule)
    Task.objects.filter(id=task.id).update(tzdata="2025b", next_fire_at=now() + timedelta(days=2))
    passes(preloader, lambda: Execution.objects.filter(task_id=task.id).exists())
    task.refresh_from_db()
    assert task.tzdata != "2025b"
    Task.objects.filter(id=task.id).update(tzdata="2025b")
    preloader.run_once()
    task.refresh_from_db()
    assert task.tzdata == "2025b", "looked at once a leadership"
