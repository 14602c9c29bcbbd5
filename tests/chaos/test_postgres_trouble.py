"""PostgreSQL goes away and comes back: nothing is taken from anybody for it, and every loop recovers by itself."""

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pytest_django import DjangoDbBlocker

from apps.executions.states import Outcome, Status
from apps.quickstart.bench.handlers import RECORD_VARIABLE
from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.postgres_server import PostgresServer
from apps.quickstart.services import ServiceAddresses
from tests.chaos.conftest import migrate
from tests.chaos.rig import START_SECONDS, Rig, held, let_pass, rig_on, sleeping
from tests.waiting import eventually


@pytest.fixture
def postgres(data_dir: Path) -> Iterator[PostgresServer]:
    """A server of the test's own, migrated."""
    data = DataDirectory(data_dir)
    data.acquire()
    server = PostgresServer(data, {"shared_buffers": "128MB"})
    server.start()
    server.wait_until_ready()
    migrate(server.url)
    yield server
    server.stop()
    data.release()


@pytest.fixture
def own_rig(postgres: PostgresServer, services: ServiceAddresses, redis_prefix: str, tmp_path: Path) -> Iterator[Rig]:
    with rig_on(postgres.url, services.redis_url, redis_prefix, tmp_path) as made:
        yield made


def everything(rig: Rig) -> None:
    """All four daemons as processes: Django's own connections are another database's here."""
    for name in ("watchdog", "preloader", "dispatcher", "worker"):
        rig.start(name)
    rig.warm_up()


def restarted_with_running(rig: Rig, postgres: PostgresServer, count: int, seconds: float = 0.0) -> None:
    """seconds: how long each runs; 0: until PostgreSQL is away."""
    rig.environment["CHRONOWEB_WORKER_SLOTS"] = str(count)
    everything(rig)
    rig.start("worker")  # a class may use but a part of each worker's slots
    rig.wait_workers(2)
    wait = {"type": "python", "name": "playground.wait"}
    rig.ledger.define(handler=wait if seconds else held(rig.folder), seconds=seconds)
    identities = rig.due(count)
    eventually(lambda: rig.counted(identities)[Status.RUNNING] == count)
    postgres.stop()
    rig.let_end()
    let_pass(1)
    postgres.start()
    postgres.wait_until_ready()
    rig.reconnect()
    rig.wait_completed(identities, within=seconds + START_SECONDS)
    rig.assert_once(identities)
    assert rig.ledger.select("SELECT * FROM execution_events WHERE actor = 'watchdog'") == []
    for identity in identities:
        assert rig.ledger.outcomes(identity) == [Outcome.SUCCEEDED]
    more = rig.due(20)
    rig.ledger.define(handler={"type": "python", "name": "demo.noop"})
    rig.wait_completed(more, within=seconds + START_SECONDS)


def test_restarted_while_executions_run(own_rig: Rig, postgres: PostgresServer) -> None:
    """Every session is gone for a moment and every lock free: nobody is dead for it, everything commits."""
    restarted_with_running(own_rig, postgres, 32)


def test_daemons_started_before_it_wait_for_it(own_rig: Rig, postgres: PostgresServer) -> None:
    """The worker, too: it registers as soon as somebody is there to register with."""
    rig = own_rig
    postgres.stop()
    processes = [rig.start(name) for name in ("watchdog", "preloader", "dispatcher", "worker")]
    eventually(lambda: rig.actions(processes[-1])["worker.backoff"])
    postgres.start()
    postgres.wait_until_ready()
    rig.reconnect()
    rig.wait_completed(rig.due(20))
    assert [process.poll() for process in processes] == [None] * len(processes)
    assert [row["state"] for row in rig.ledger.select("SELECT state FROM workers")] == ["active"]


@pytest.mark.drill
@pytest.mark.timeout(600)
def test_restarted_with_a_thousand_running(own_rig: Rig, postgres: PostgresServer) -> None:
    restarted_with_running(own_rig, postgres, 1000, 20)


def test_read_only_for_a_while(own_rig: Rig) -> None:
    """As after a failover to what is no primary yet (25006): loops drop their connections and go on by themselves."""
    rig = own_rig
    everything(rig)
    processes = list(rig.running.values())
    identities = rig.due(50, in_ms=1500)
    [name] = [row["name"] for row in rig.ledger.select("SELECT current_database() AS name")]
    with psycopg.connect(rig.ledger.url, autocommit=True) as owner:
        owner.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        let_pass(3)
        owner.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    rig.reconnect()
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert [process.poll() for process in processes] == [None] * len(processes)


def test_only_listen_is_cut(rig: Rig) -> None:
    """The session that hears notifications is gone: polling goes on, and the next pass listens again."""
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    query = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'preloader-listen' AND datname = current_database()"
    )
    [before] = [row["pid"] for row in rig.ledger.select(query)]
    rig.ledger.select("SELECT pg_terminate_backend(%s)", before)
    identities = rig.due(40)
    rig.wait_completed(identities)
    rig.assert_once(identities)
    [after] = [row["pid"] for row in rig.ledger.select(query)]
    assert after != before


def test_deadlocks_are_tried_again(rig: Rig) -> None:
    """40P01 on every third statement of each daemon: no execution is lost, none charged an attempt."""
    rig.start("dispatcher", mishaps=["deadlock:apps.executions.store.dispatch"])
    rig.start("worker", mishaps=["deadlock:apps.executions.store.claim", "deadlock:apps.executions.store.finish"])
    rig.start("watchdog")
    rig.stand_by("preloader")
    rig.warm_up()
    identities = [i for n in range(10) for i in rig.due(10, in_ms=200 + 100 * n)]
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}
    assert set(rig.runs().values()) == {1}


def test_two_batches_in_opposite_order_are_both_written(rig: Rig) -> None:
    """A stranger locks the rows that are being ended, in the opposite order, over and over."""
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    identities = rig.due(50, in_ms=1000)
    stop = threading.Event()

    def lock_backwards() -> None:
        with psycopg.connect(rig.ledger.url) as stranger:
            while not stop.is_set():
                try:
                    stranger.execute(
                        "SELECT 1 FROM (SELECT scheduled_at, id FROM executions"
                        " WHERE tenant_id = encode(%s, 'hex')::uuid ORDER BY id DESC FOR UPDATE) x",
                        (rig.ledger.tenant,),
                    )
                except psycopg.errors.DeadlockDetected:
                    stranger.rollback()
                stranger.commit()

    thread = threading.Thread(target=lock_backwards)
    thread.start()
    try:
        rig.wait_completed(identities)
    finally:
        stop.set()
        thread.join()
    rig.assert_once(identities)
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}


def test_a_slow_handler_outlasts_the_outage(rig: Rig) -> None:
    """The worker's sessions are all cut in the middle of an attempt: it commits all the same, once."""
    rig.stand_by("preloader", "dispatcher", "watchdog")
    worker = rig.start("worker")
    rig.warm_up()
    rig.ledger.define(handler=sleeping(2, rig.record))
    identities = rig.due(2)
    eventually(lambda: rig.counted(identities)[Status.RUNNING] == 2)
    rig.ledger.select(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'worker%%'"
    )
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert worker.poll() is None


@pytest.fixture(autouse=True)
def _record_for_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, django_db_blocker: DjangoDbBlocker) -> None:
    monkeypatch.setenv(RECORD_VARIABLE, str(tmp_path / "runs"))
