"""Messages that never arrive: the claim deadline takes back what nobody claimed, and it goes out again, uncounted."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from apps.executions.states import Status
from apps.quickstart.bench.handlers import RECORD_VARIABLE
from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.kafka_broker import KafkaBroker
from apps.quickstart.services import ServiceAddresses
from chronoweb.runtime.transport import CLASSES
from tests.chaos.rig import START_SECONDS, Rig, rig_on, sleeping
from tests.stack import cloned, django_uses
from tests.waiting import eventually

DEADLINE = 1.5


@pytest.mark.parametrize("healing", [True, False], ids=["healed", "unhealed"])
def test_inboxes_emptied(rig: Rig, healing: bool) -> None:
    """The worker is paused when its inbox is deleted; what it never read is taken back at the claim deadline."""
    rig.environment["CHRONOWEB_CLAIM_DEADLINE_SECONDS"] = str(DEADLINE)
    rig.stand_by("preloader", "dispatcher")
    worker = rig.start("worker")
    rig.warm_up()
    [identity] = [row["id"] for row in rig.ledger.select("SELECT id FROM workers")]
    inboxes = [f"{rig.prefix}inbox:{{{identity}}}:{name}" for name in CLASSES]
    identities = rig.due(24, in_ms=400)
    worker.send_signal(signal.SIGSTOP)
    eventually(lambda: sum(map(rig.redis.xlen, inboxes)) > 0)
    eventually(lambda: rig.counted(identities)[Status.DISPATCHED] == 24)
    rig.redis.delete(*inboxes)
    worker.send_signal(signal.SIGCONT)
    rig.start("watchdog", off=() if healing else ("apps.watchdog.daemon.Watchdog.reclaim_unclaimed",))
    rig.wait_led("watchdog")
    if healing:
        rig.wait_completed(identities)
        rig.assert_once(identities)
        assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}
    else:
        with pytest.raises(AssertionError, match="after"):
            rig.wait_completed(identities, within=DEADLINE + 2)
        assert rig.counted(identities)[Status.DISPATCHED] > 0


def test_inboxes_lost_with_redis(rig: Rig) -> None:
    """Redis emptied: nobody waits for the claim deadline (here ten minutes) of what had been in the inboxes."""
    rig.stand_by("preloader", "dispatcher")
    worker = rig.start("worker")
    rig.warm_up()
    identities = rig.due(24, in_ms=400)
    worker.send_signal(signal.SIGSTOP)
    eventually(lambda: rig.counted(identities)[Status.DISPATCHED] == 24)
    for key in rig.redis.scan_iter(match=f"{rig.prefix}*", count=1000):
        rig.redis.delete(key)
    worker.send_signal(signal.SIGCONT)
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}


def test_half_of_all_messages_dropped(rig: Rig) -> None:
    """Each round takes back what the last one lost, until all has arrived."""
    rig.environment["CHRONOWEB_CLAIM_DEADLINE_SECONDS"] = "1"
    rig.stand_by("preloader", "worker", "watchdog")
    rig.start("dispatcher", mishaps=["drop_every_second_message"])
    rig.warm_up()
    identities = [i for n in range(12) for i in rig.due(10, in_ms=500 + 200 * n)]
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}
    lost = [i for i in identities if any(e["actor"] == "watchdog" for e in rig.ledger.events(i))]
    assert len(lost) > 10


@pytest.fixture
def broker(data_dir: Path) -> Iterator[KafkaBroker]:
    """A broker of the test's own: it keeps everything in memory."""
    data = DataDirectory(data_dir)
    data.acquire()
    server = KafkaBroker(data)
    server.start()
    server.wait_until_ready()
    yield server
    server.stop()
    data.release()


@pytest.fixture
def kafka_rig(
    broker: KafkaBroker,
    services: ServiceAddresses,
    small_template: str,
    redis_prefix: str,
    tmp_path: Path,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Rig]:
    monkeypatch.setenv(RECORD_VARIABLE, str(tmp_path / "runs"))
    names = {"CHRONOWEB_KAFKA_PREFIX": redis_prefix.replace(":", "."), "CHRONOWEB_CLAIM_DEADLINE_SECONDS": "3"}
    with (
        cloned(services, small_template) as url,
        django_uses(url, django_db_blocker),
        rig_on(url, services.redis_url, redis_prefix, tmp_path, kafka=broker.bootstrap_servers, **names) as made,
    ):
        yield made


def test_kafka_killed_and_restarted_empty(kafka_rig: Rig, broker: KafkaBroker) -> None:
    """Topics and all messages are gone: they are made again, and what was in them is taken back."""
    rig = kafka_rig
    rig.stand_by("preloader", "watchdog")
    rig.start("dispatcher")
    rig.start("worker")
    rig.warm_up()
    identities = [i for n in range(20) for i in rig.due(10, in_ms=500 + 100 * n)]
    eventually(lambda: rig.counted(identities)[Status.COMPLETED] > 10)
    broker.stop()
    broker.start()
    broker.wait_until_ready()
    rig.wait_completed(identities)
    rig.assert_once(identities)


@pytest.mark.drill
@pytest.mark.timeout(300)
def test_work_longer_than_a_session_stays_where_it_is_through_a_rolling_deploy(kafka_rig: Rig) -> None:
    """Behaviour 10.4: receiving goes on while handlers run, and what was read is acknowledged at once: no rebalance
    repeats it.
    """
    rig = kafka_rig
    rig.environment["CHRONOWEB_CLAIM_DEADLINE_SECONDS"] = "60"
    rig.environment["CHRONOWEB_WORKER_SLOTS"] = "16"  # whoever gets them has a slot for each: the others go elsewhere
    rig.ledger.define(handler=sleeping(15, rig.record))
    rig.stand_by("preloader", "watchdog")
    rig.start("dispatcher")
    workers = [rig.start("worker") for _ in range(3)]
    rig.wait_workers(3)
    identities = rig.due(9)
    eventually(lambda: rig.counted(identities)[Status.RUNNING] == 9)
    workers[0].send_signal(signal.SIGTERM)
    rig.start("worker")
    assert workers[0].wait(START_SECONDS) == 0
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}
    assert not any(event["actor"] == "watchdog" for i in identities for event in rig.ledger.events(i))
