"""Redis with all its data is expendable: emptied, killed, replaced by an old copy, full, read-only: nothing is lost."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pytest_django import DjangoDbBlocker

from apps.definitions import services as definitions
from apps.dispatcher.hot_tier import HotTier
from apps.executions import ids
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.quickstart.bench.handlers import RECORD_VARIABLE
from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.services import ServiceAddresses
from apps.quickstart.valkey_server import ValkeyServer
from tests import factories
from tests.chaos.rig import Rig, let_pass, rig_on
from tests.stack import cloned, django_uses
from tests.waiting import eventually

COUNT = 200


@pytest.fixture
def valkey(data_dir: Path) -> Iterator[ValkeyServer]:
    """A server of the test's own."""
    data = DataDirectory(data_dir)
    data.acquire()
    server = ValkeyServer(data)
    server.start()
    server.wait_until_ready()
    yield server
    server.stop()
    data.release()


@pytest.fixture
def rig(
    valkey: ValkeyServer,
    services: ServiceAddresses,
    small_template: str,
    tmp_path: Path,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Rig]:
    monkeypatch.setenv(RECORD_VARIABLE, str(tmp_path / "runs"))
    with (
        cloned(services, small_template) as url,
        django_uses(url, django_db_blocker),
        rig_on(url, valkey.url, "chaos:", tmp_path) as made,
    ):
        yield made


def preloaded(rig: Rig, *, in_ms: int) -> list[bytes]:
    """Executions that are in the hot tier and not due yet."""
    identities = rig.due(COUNT, in_ms=in_ms)
    eventually(lambda: rig.counted(identities)[Status.PRELOADED] == COUNT)
    eventually(lambda: HotTier(rig.redis, rig.prefix).size() >= COUNT)
    return identities


def restart(valkey: ValkeyServer, client: redis.Redis) -> None:
    """Kill it as a power cut would, and start it where it was: empty, or with its last SAVE."""
    process_id = client.info("server")["process_id"]
    os.kill(process_id, signal.SIGKILL)
    eventually(valkey.has_died)
    valkey.start()
    valkey.wait_until_ready()


@pytest.mark.parametrize("healing", [True, False], ids=["healed", "unhealed"])
def test_emptied(rig: Rig, monkeypatch: pytest.MonkeyPatch, healing: bool) -> None:
    """The shards' marks are gone: the preloader adds everything PRELOADED again. Blind to it, it adds nothing."""
    if not healing:
        monkeypatch.setattr(HotTier, "incomplete", lambda self: [])
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    identities = preloaded(rig, in_ms=6000)
    rig.redis.flushall()
    if healing:
        rig.wait_completed(identities)
        rig.assert_once(identities)
    else:
        with pytest.raises(AssertionError, match="after"):
            rig.wait_completed(identities, within=9)
        assert rig.counted(identities) == {Status.PRELOADED: COUNT}


@pytest.mark.drill
def test_killed_and_restarted_empty(rig: Rig, valkey: ValkeyServer) -> None:
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    identities = preloaded(rig, in_ms=4000)
    restart(valkey, rig.redis)
    rig.wait_completed(identities)
    rig.assert_once(identities)


def test_replaced_by_an_old_copy(rig: Rig, valkey: ValkeyServer) -> None:
    """The copy holds what has run since, and lacks what was added since: the first is refused, the second added."""
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    ran = preloaded(rig, in_ms=2000)
    rig.redis.save()
    rig.wait_completed(ran)
    added = preloaded(rig, in_ms=4000)
    restart(valkey, rig.redis)
    rig.wait_completed(added)
    rig.assert_once([*ran, *added])
    assert set(rig.runs().values()) == {1}
    eventually(lambda: HotTier(rig.redis, rig.prefix).size() == 0)


TROUBLE = {
    "full": ({"maxmemory": "1mb"}, {"maxmemory": "0"}),
    "read-only": ({"min-replicas-to-write": "1"}, {"min-replicas-to-write": "0"}),
}


@pytest.mark.parametrize("trouble", ["full", pytest.param("read-only", marks=pytest.mark.drill)])
def test_full_or_read_only(rig: Rig, trouble: str) -> None:
    """A trigger is accepted all the same: it is PostgreSQL that is written. When Redis is well again, all runs."""
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    waiting = preloaded(rig, in_ms=6000)
    worse, better = TROUBLE[trouble]
    for name, value in worse.items():
        rig.redis.config_set(name, value)
    with pytest.raises(redis.ResponseError):
        rig.redis.set("chaos:probe", "1")
    principal = factories.make_principal()
    task = factories.make_task(principal, overlap_policy="allow_all", handler={"type": "python", "name": "demo.noop"})
    definitions.trigger_batch(principal=principal, task_id=task.id, items=[{} for _ in range(50)])
    accepted = Execution.objects.filter(task_id=task.id)
    assert accepted.count() == 50
    eventually(lambda: accepted.filter(status=Status.PRELOADED).count() > 0)
    for name, value in better.items():
        rig.redis.config_set(name, value)
    rig.wait_completed(waiting)
    eventually(lambda: accepted.filter(status=Status.COMPLETED).count() == 50)
    rig.assert_once(waiting)


@pytest.mark.drill
@pytest.mark.timeout(900)
def test_a_hundred_thousand_preloaded_come_back_in_five_seconds(rig: Rig, valkey: ValkeyServer) -> None:
    """Killed and emptied with 100,000 in it: all are in the hot tier again, and each runs once."""
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    # The hot tier takes 50,000 of one tenant and class: half are standard, half are bulk.
    identities = [i for n in range(10) for i in rig.due(10_000, in_ms=90_000, class_index=1 + n % 2)]
    hot_tier = HotTier(rig.redis, rig.prefix)
    eventually(lambda: hot_tier.size() == 100_000, seconds=80)
    restart(valkey, rig.redis)
    began = time.monotonic()
    eventually(lambda: hot_tier.size() >= 100_000)
    took = time.monotonic() - began
    print(f"rehydrated in {took:.1f} s")
    rig.wait_completed(identities, within=300)
    rig.assert_once(identities)
    assert len(set(map(ids.shard, identities))) == ids.SHARDS
    assert took < 5


def test_connections_reset_three_times_in_three_seconds(rig: Rig) -> None:
    """Every client's connection is cut, again and again: consuming goes on."""
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    identities = [i for n in range(12) for i in rig.due(10, in_ms=300 + 300 * n)]
    for _ in range(3):
        rig.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        let_pass(1)
    rig.wait_completed(identities)
    rig.assert_once(identities)
