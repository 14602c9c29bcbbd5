"""The watchdog finds what silently did not happen: lost workers, lost messages, deaf cancels, a forgetful Redis."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
import redis

from apps.dispatcher.hot_tier import HotTier
from apps.executions import partitions, store
from apps.executions.rows import Preloaded
from apps.executions.states import Hold, Outcome, Overlap, Status
from apps.quickstart.services import ServiceAddresses
from apps.watchdog import daemon as watchdog_daemon
from apps.watchdog.daemon import Watchdog
from apps.worker import presence
from apps.worker.class_slots import ClassSlots
from tests.stack import EPOCH, Ledger, addresses_of, passes, quick_config
from tests.waiting import PATIENCE_SECONDS, eventually

TOKEN = EPOCH << 32


@pytest.fixture
def watchdog(own_ledger: Ledger, services: ServiceAddresses, redis_prefix: str) -> Iterator[Watchdog]:
    """A watchdog that leads; its passes are the test's to run."""
    config = quick_config(redis_prefix, claim_deadline_seconds=1.0, worker_lease_seconds=2.0)
    made = watchdog_daemon.build(config, addresses_of(own_ledger.url, services))
    assert made.leadership.wait_until_leader(PATIENCE_SECONDS)
    made.run_once()
    yield made
    made.close()


@contextmanager
def worker(watchdog: Watchdog) -> Iterator[tuple[int, psycopg.Connection]]:
    """A registered worker that holds its lock: (id, its session). It beats no heart."""
    identity, session = presence.register(watchdog.addresses, watchdog.config, slots=ClassSlots.shared(4))
    try:
        yield identity.worker_id, session
    finally:
        session.close()


def age(ledger: Ledger, identities: list[bytes], seconds: float) -> None:
    """Let what was dispatched have been dispatched so long ago."""
    ledger.connection.execute(
        "UPDATE outstanding SET dispatched_at = dispatched_at - %s * interval '1 second'"
        " WHERE execution_id = ANY(SELECT encode(x, 'hex')::uuid FROM unnest(%s::bytea[]) x)",
        (seconds, identities),
    )


def all_are(ledger: Ledger, identities: list[bytes], status: Status) -> bool:
    return set(ledger.statuses(identities)) == {status}


# ---- lost workers -------------------------------------------------------------------------------------------------


def test_a_worker_whose_session_is_gone_loses_its_work_long_before_its_lease(
    watchdog: Watchdog, own_ledger: Ledger
) -> None:
    with worker(watchdog) as (identity, session):
        own_ledger.connection.execute(
            "UPDATE workers SET lease_expires_at = clock_timestamp() + interval '1 hour' WHERE id = %s", (identity,)
        )
        runs = own_ledger.add(5, status=Status.RUNNING, worker=identity)
        sent = own_ledger.add(5, status=Status.DISPATCHED, worker=identity)
        last = own_ledger.add(1, status=Status.RUNNING, worker=identity, attempt=4)
        others = own_ledger.add(2, status=Status.RUNNING, worker=own_ledger.register_worker())
        watchdog.run_once()
        assert all_are(own_ledger, runs, Status.RUNNING), "it is alive"
        session.close()
        passes(watchdog, lambda: all_are(own_ledger, runs + sent, Status.PRELOADED))
    assert own_ledger.statuses(last) == [Status.DEAD_LETTER]
    assert {own_ledger.row(i)["attempt"] for i in runs} == {1}
    assert {own_ledger.row(i)["attempt"] for i in sent} == {0}
    assert own_ledger.outcomes(runs[0]) == [Outcome.CRASHED]
    assert own_ledger.select("SELECT state FROM workers WHERE id = %s", identity) == [{"state": "lost"}]
    assert all_are(own_ledger, others, Status.RUNNING)
    assert set(own_ledger.outstanding()) == set(others)


def test_a_silent_worker_loses_its_work_with_its_lease(watchdog: Watchdog, own_ledger: Ledger) -> None:
    """Its session stands: the process is stopped, or its host has lost the network."""
    with worker(watchdog) as (identity, _):
        runs = own_ledger.add(3, status=Status.RUNNING, worker=identity)
        own_ledger.connection.execute("UPDATE workers SET lease_expires_at = clock_timestamp() + interval '1 hour'")
        watchdog.run_once()
        assert all_are(own_ledger, runs, Status.RUNNING)
        own_ledger.connection.execute("UPDATE workers SET lease_expires_at = clock_timestamp()")
        passes(watchdog, lambda: all_are(own_ledger, runs, Status.PRELOADED))
        beats = store.workers_alive(own_ledger.connection, lock_class=presence.locks.WORKER)
        assert identity not in {row.id for row in beats}


def test_many_workers_that_vanish_at_once_keep_their_work_until_their_leases_end(
    watchdog: Watchdog, own_ledger: Ledger
) -> None:
    sessions = [presence.register(watchdog.addresses, watchdog.config, slots=ClassSlots.shared(4)) for _ in range(5)]
    own_ledger.connection.execute("UPDATE workers SET lease_expires_at = clock_timestamp() + interval '1 hour'")
    runs = [i for identity, _ in sessions for i in own_ledger.add(status=Status.RUNNING, worker=identity.worker_id)]
    watchdog.run_once()
    for _, session in sessions:
        session.close()
    deadline = time.monotonic() + watchdog.config.lock_lost_seconds + 1
    while time.monotonic() < deadline:
        watchdog.run_once()
        assert all_are(own_ledger, runs, Status.RUNNING), "a network event is not a massacre"
    own_ledger.connection.execute("UPDATE workers SET lease_expires_at = clock_timestamp()")
    passes(watchdog, lambda: all_are(own_ledger, runs, Status.PRELOADED))


def test_what_a_dead_watchdog_left_half_done_is_finished(watchdog: Watchdog, own_ledger: Ledger) -> None:
    """It had marked the worker lost, and taken nothing from it yet."""
    identity = own_ledger.register_worker()
    runs = own_ledger.add(3, status=Status.RUNNING, worker=identity)
    own_ledger.connection.execute("UPDATE workers SET state = 'lost' WHERE id = %s", (identity,))
    passes(watchdog, lambda: all_are(own_ledger, runs, Status.PRELOADED))


def test_a_worker_that_has_just_been_heard_of_is_not_given_up(own_ledger: Ledger) -> None:
    identity = own_ledger.register_worker()
    [seen] = [row for row in store.workers_alive(own_ledger.connection, lock_class=1) if row.id == identity]
    own_ledger.connection.execute("UPDATE workers SET heartbeat_at = clock_timestamp() WHERE id = %s", (identity,))
    assert not store.mark_worker_lost(own_ledger.connection, worker_id=identity, heartbeat_seen=seen.heartbeat)
    [seen] = [row for row in store.workers_alive(own_ledger.connection, lock_class=1) if row.id == identity]
    assert store.mark_worker_lost(own_ledger.connection, worker_id=identity, heartbeat_seen=seen.heartbeat)


# ---- lost messages, deaf cancels ----------------------------------------------------------------------------------


def test_what_nobody_claims_by_the_deadline_is_taken_back_uncounted(watchdog: Watchdog, own_ledger: Ledger) -> None:
    alive = own_ledger.register_worker()
    late, fresh = (own_ledger.add(3, status=Status.DISPATCHED, worker=alive) for _ in range(2))
    runs = own_ledger.add(3, status=Status.RUNNING, worker=alive)
    age(own_ledger, late + runs, 60)
    age(own_ledger, fresh, -60)
    passes(watchdog, lambda: all_are(own_ledger, late, Status.PRELOADED))
    assert all_are(own_ledger, fresh, Status.DISPATCHED)
    assert all_are(own_ledger, runs, Status.RUNNING), "a claim has no deadline; its lease decides"
    assert {own_ledger.row(i)["attempt"] for i in late} == {0}
    assert {own_ledger.token(i) for i in late} == {TOKEN + 1}
    [found] = own_ledger.select("SELECT kind, detail, count FROM findings")
    assert found == {"kind": "reclaimed", "detail": "not claimed within 1 s", "count": 3}


def test_what_is_found_again_within_a_minute_is_one_finding(own_ledger: Ledger) -> None:
    for count in (3, 4):
        store.note_finding(own_ledger.connection, kind="restored", detail="not in the hot tier", count=count)
    own_ledger.connection.execute("UPDATE findings SET last_at = last_at - interval '8 days'")
    store.note_finding(own_ledger.connection, kind="restored", detail="not in the hot tier", count=5)
    assert [row["count"] for row in own_ledger.select("SELECT count FROM findings ORDER BY id")] == [7, 5]
    store.forget_findings(own_ledger.connection, days=7)
    assert [row["count"] for row in own_ledger.select("SELECT count FROM findings")] == [5]


def test_a_cancel_that_its_worker_ignores_is_carried_out_against_it(watchdog: Watchdog, own_ledger: Ledger) -> None:
    alive = own_ledger.register_worker()
    [deaf], [recent] = (own_ledger.add(status=Status.RUNNING, worker=alive) for _ in range(2))
    for identity, seconds in ((deaf, 31), (recent, -600)):
        own_ledger.connection.execute(
            "UPDATE executions SET cancel_requested_at = clock_timestamp() - %s * interval '1 second'"
            " WHERE id = encode(%s, 'hex')::uuid",
            (seconds, identity),
        )
    passes(watchdog, lambda: own_ledger.status(deaf) is Status.CANCELLED)
    assert own_ledger.token(deaf) == TOKEN + 1, "whatever the worker says later is too late"
    assert own_ledger.outcomes(deaf) == [Outcome.CANCELLED]
    assert own_ledger.status(recent) is Status.RUNNING


# ---- what leaked --------------------------------------------------------------------------------------------------


def test_what_the_hot_tier_has_lost_is_woken_and_what_it_has_is_left_alone(
    watchdog: Watchdog, own_ledger: Ledger, hot_tier: HotTier
) -> None:
    lost, kept = own_ledger.add(4, due_in_ms=-10_000), own_ledger.add(4, due_in_ms=-10_000)
    hot_tier.add([Preloaded(i, -10_000.0, 1, own_ledger.tenant) for i in kept])
    passes(watchdog, lambda: all(own_ledger.row(i)["wake_at"] for i in lost))
    assert not any(own_ledger.row(i)["wake_at"] for i in kept)


def test_what_was_lost_long_ago_is_found_by_the_slow_walk(watchdog: Watchdog, own_ledger: Ledger) -> None:
    old = own_ledger.add(3, due_in_ms=-2 * 86_400_000)
    passes(watchdog, lambda: all(own_ledger.row(i)["wake_at"] for i in old))


def test_a_lost_wake_up_of_a_waiter_is_made_up_for(watchdog: Watchdog, own_ledger: Ledger) -> None:
    [waiting] = own_ledger.add(
        status=Status.SCHEDULED, hold=Hold.OVERLAP, slot_key="k", overlap=Overlap.BUFFER_ONE, due_in_ms=-1000
    )
    alive = own_ledger.register_worker()
    [taken] = own_ledger.add(status=Status.RUNNING, worker=alive, slot_key="taken", overlap=Overlap.BUFFER_ONE)
    [patient] = own_ledger.add(status=Status.SCHEDULED, hold=Hold.OVERLAP, slot_key="taken", overlap=Overlap.BUFFER_ONE)
    assert own_ledger.waiters("k") == [waiting]
    passes(watchdog, lambda: own_ledger.row(waiting)["hold"] == Hold.NONE)
    assert own_ledger.row(waiting)["wake_at"] is not None
    assert own_ledger.row(patient)["hold"] == Hold.OVERLAP
    assert own_ledger.slot_holder("taken") == taken


def test_places_of_what_has_ended_are_removed(watchdog: Watchdog, own_ledger: Ledger) -> None:
    alive = own_ledger.register_worker()
    ended, active = (own_ledger.add(3, status=Status.RUNNING, worker=alive) for _ in range(2))
    own_ledger.connection.execute(
        "UPDATE executions SET status = %s WHERE id = ANY(SELECT encode(x, 'hex')::uuid FROM unnest(%s::bytea[]) x)",
        (int(Status.COMPLETED), ended),
    )
    age(own_ledger, ended + active, 60)
    passes(watchdog, lambda: set(own_ledger.outstanding()) == set(active))


# ---- itself -------------------------------------------------------------------------------------------------------


def test_partitions_stand_fourteen_days_ahead(watchdog: Watchdog, own_ledger: Ledger) -> None:
    day = own_ledger.now_us() // 86_400_000_000
    assert set(range(day, day + 15)) <= partitions.existing_days(own_ledger.connection)


def test_a_standby_does_nothing(watchdog: Watchdog, own_ledger: Ledger, services: ServiceAddresses) -> None:
    late = own_ledger.add(3, status=Status.DISPATCHED)
    age(own_ledger, late, 60)
    standby = watchdog_daemon.build(watchdog.config, watchdog.addresses)
    try:
        for _ in range(3):
            assert standby.run_once().did == 0
        assert all_are(own_ledger, late, Status.DISPATCHED)
        watchdog.close()
        assert standby.leadership.wait_until_leader(PATIENCE_SECONDS)
        passes(standby, lambda: all_are(own_ledger, late, Status.PRELOADED))
    finally:
        standby.close()


def test_a_duty_that_fails_keeps_those_behind_it_from_nothing(
    watchdog: Watchdog, own_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(links: object) -> int:
        raise ValueError("a fault")

    fails.__name__ = "reclaim_from_lost_workers"
    monkeypatch.setattr(watchdog, fails.__name__, fails)
    sent = own_ledger.add(2, status=Status.DISPATCHED)
    age(own_ledger, sent, 60)
    with pytest.raises(ValueError, match="a fault"):
        watchdog.run_once()
    watchdog.reset()
    passes(watchdog, lambda: all_are(own_ledger, sent, Status.PRELOADED))


def test_it_outlasts_the_loss_of_its_connections(
    watchdog: Watchdog, own_ledger: Ledger, redis_client: redis.Redis
) -> None:
    own_ledger.connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE 'watchdog%' AND datname = current_database()"
    )
    with pytest.raises(psycopg.OperationalError):
        eventually(lambda: watchdog.run_once() and False)
    watchdog.reset()
    late = own_ledger.add(1, status=Status.DISPATCHED)
    age(own_ledger, late, 60)
    passes(watchdog, lambda: all_are(own_ledger, late, Status.PRELOADED))
