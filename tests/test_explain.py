"""Why an execution is not running: each cause alone and in pairs gives its code and its figures, and nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
import redis
from django.conf import settings

from apps.executions import hot_keys, ids
from apps.executions.quotas import Use
from apps.executions.states import ExecutionClass, Hold, Origin, Status
from apps.explain import facts, service, words
from apps.explain.estimate import estimate, position
from apps.explain.facts import Facts
from apps.explain.fleet import Fleet, Line, fleet_of
from apps.explain.queue import Queue
from apps.explain.reasons import reasons
from apps.explain.words import Code, Reason
from apps.worker.live_state import LiveState, LiveStates
from chronoweb.runtime.config import Config
from tests.explain_causes import CAUSES, EXCLUSIVE, HANDLER, WORKER, Cause, Scene, load
from tests.stack import Ledger, ledger_on

NOW = datetime(2026, 3, 2, 1, 20, tzinfo=UTC)
PAIRS = [
    pair for pair in combinations(CAUSES, 2) if not any({cause.code for cause in pair} <= only for only in EXCLUSIVE)
]


@pytest.fixture
def scene(
    module_database: str, redis_client: redis.Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    """In a transaction of its own: holds of everything, and roles, are nobody else's."""
    changed = Config(**{**settings.CHRONOWEB.__dict__, "redis_prefix": redis_prefix})
    monkeypatch.setattr(settings, "CHRONOWEB", changed)
    with ledger_on(module_database) as ledger, ledger.connection.transaction(force_rollback=True):
        yield Scene(ledger, redis_client, redis_prefix)


def explain(scene: Scene, *, whole: bool = False) -> service.Explanation:
    row = facts.read(
        scene.ledger.connection,
        execution_id=UUID(bytes=scene.execution),
        tenant_id=UUID(bytes=scene.ledger.tenant),
        whole=whole,
    )
    return service.of_row(row, whole=whole)


def told(scene: Scene) -> dict[Code, Reason]:
    found = explain(scene).reasons
    by_code = {reason.code: reason for reason in found}
    assert len(by_code) == len(found), "no cause is told twice"
    return by_code


def check(scene: Scene, cause: Cause, reason: Reason) -> None:
    wanted = cause.figures(scene)
    assert {name: reason.figures.get(name) for name in wanted} == wanted
    assert (reason.clears_when is not None) == cause.clears
    assert reason.text


def test_what_is_due_and_held_by_nothing_waits_for_its_turn(scene: Scene) -> None:
    load(scene)
    found = explain(scene)
    assert [reason.code for reason in found.reasons] == [Code.IN_QUEUE]
    assert found.may_run
    assert found.position is not None
    assert (found.position.ahead, found.position.loaded) == (0, True)
    assert found.estimate is not None
    assert found.estimate.at is not None


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.code)
def test_each_cause_alone(scene: Scene, cause: Cause) -> None:
    cause.make(scene)
    found = told(scene)
    assert set(found) == {cause.code}
    check(scene, cause, found[cause.code])


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].code}+{pair[1].code}")
def test_causes_in_pairs(scene: Scene, pair: tuple[Cause, Cause]) -> None:
    for cause in pair:
        cause.make(scene)
    found = told(scene)
    assert set(found) == {cause.code for cause in pair}
    for cause in pair:
        check(scene, cause, found[cause.code])


def test_another_tenants_load_changes_no_answer(scene: Scene) -> None:
    scene.run(2)
    scene.report(free=(9, 0, 2))
    load(scene)
    ring = hot_keys.ring_key(scene.prefix, ids.shard(scene.execution), 1)
    scene.redis.zadd(ring, {hot_keys.member_name(scene.ledger.tenant, 0): 0})

    def answer() -> Any:
        found = explain(scene)
        return found.reasons, found.position, found.estimate

    before = answer()
    assert before[0][0].code is Code.NO_FREE_SLOT
    other = Ledger(scene.ledger.url, scene.ledger.connection)
    other.define(handler=HANDLER)
    busy = other.register_worker()
    other.add(3, status=Status.RUNNING, worker=busy)
    scene.ledger.connection.execute(
        "UPDATE workers SET state = 'active', heartbeat_at = now(), completed_last_minute = 62 WHERE id = %s", (busy,)
    )
    states = LiveStates(scene.redis, scene.prefix)
    states.report(1000, replace(WORKER, tenant=other.tenant.hex()))
    scene.redis.zadd(ring, {hot_keys.member_name(other.tenant, 0): 0})
    assert answer() == before
    platform = explain(scene, whole=True)
    assert platform.reasons[0].figures["outstanding"] == 3
    assert platform.position is not None
    assert platform.position.turns == 2
    assert platform.estimate is not None
    assert "62 ended in the last minute" in platform.estimate.basis
    states.withdraw(1)
    assert explain(scene).reasons[0].figures["workers_alive"] == 0


# ---- pure -----------------------------------------------------------------------------------------------------------


def known(**changes: Any) -> Facts:
    """An execution that waits for its turn."""
    base = Facts(
        now=NOW,
        id=UUID(int=7),
        status=Status.PRELOADED,
        hold=Hold.NONE,
        origin=Origin.SCHEDULE,
        execution_class=ExecutionClass.STANDARD,
        attempt=0,
        max_attempts=4,
        run_at=NOW,
        tenant_id=UUID(int=1),
        task_id=UUID(int=2),
        fleet=Fleet(1, 1, 4, 4),
        leases={"preloader": NOW, "dispatcher/7": NOW},
        line=Line(0, 1),
    )
    return Facts(**{**base.__dict__, **changes})


def codes(**changes: Any) -> list[Code]:
    return [reason.code for reason in reasons(known(**changes), Config())]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"status": Status.RUNNING, "worker_id": 3, "attempt": 1}, [Code.RUNNING]),
        (
            {
                "status": Status.RUNNING,
                "dispatched_at": NOW - timedelta(seconds=3),
                "run_at": NOW - timedelta(seconds=3),
                "fleet": Fleet(1, 1, 4, 0, (4, 0)),
            },
            [Code.NO_FREE_SLOT, Code.RUNNING],
        ),
        ({"status": Status.RUNNING, "cancel_requested_at": NOW}, [Code.CANCEL_REQUESTED, Code.RUNNING]),
        ({"status": Status.DISPATCHED, "worker_id": 3}, [Code.AWAITING_CLAIM]),
        (
            {"status": Status.DISPATCHED, "worker_id": 3, "fleet": Fleet(1, 1, 4, 0, (4, 0))},
            [Code.NO_FREE_SLOT, Code.AWAITING_CLAIM],
        ),
        ({"status": Status.WAITING, "node": {"node": "sign", "message": "sure?"}}, [Code.APPROVAL]),
        ({"status": Status.COMPLETED}, [Code.COMPLETED]),
        ({"status": Status.SKIPPED, "event": {"target": 8, "reason": "overlap"}}, [Code.SKIPPED]),
        ({"status": Status.DEAD_LETTER, "error": {"message": "no"}}, [Code.DEAD_LETTER]),
        ({"status": Status.CANCELLED}, [Code.CANCELLED]),
    ],
)
def test_what_does_not_wait_says_where_it_is(changes: dict[str, Any], wanted: list[Code]) -> None:
    assert codes(**changes) == wanted


def test_a_trigger_by_hand_is_not_held_by_a_pause() -> None:
    pause = facts.StandingHold(UUID(int=2), Hold.PAUSED, "", "key:a", NOW)
    assert codes(holds=(pause,)) == [Code.TASK_PAUSED]
    assert codes(holds=(pause,), origin=Origin.MANUAL) == [Code.IN_QUEUE]


def test_without_redis_the_rest_is_told() -> None:
    assert codes(fleet=None, line=None) == [Code.IN_QUEUE]
    assert codes(fleet=None, hold=Hold.NO_WORKER, requires=("gpu",)) == [Code.NO_WORKER]


def test_the_start_is_guessed_from_what_is_known() -> None:
    def guess(**changes: Any) -> Any:
        given = known(**changes)
        return estimate(given, reasons(given, Config()), position(given), slow_start_percent=5)

    assert guess(run_at=NOW + timedelta(minutes=5)).at == NOW + timedelta(minutes=5)
    queued = guess(line=Line(600, 2, 600), ended_last_minute=600)
    assert queued.at == NOW + timedelta(minutes=2)
    assert queued.basis == "1,200 before it, 600 ended in the last minute"
    assert guess(line=Line(600, 1, 600), ended_last_minute=0).at is None, "nothing ended lately: nobody can tell"
    assert (
        guess(line=Line(600, None, 600)).basis == "600 before it, and none of its tenant has ended in the last minute"
    )
    going = guess(line=Line(600, None, 600), queue=Queue(pace={0: 3.0, 1: 20.0}))
    assert going.at == NOW + timedelta(seconds=30)
    assert going.basis == "600 before it, 20 a second have ended lately"
    later = guess(run_at=NOW + timedelta(minutes=5), line=Line(900, None, 600), queue=Queue(pace={1: 20.0}))
    assert later.at == NOW + timedelta(minutes=5), "what is due now goes before its time comes"
    pause = facts.StandingHold(UUID(int=2), Hold.PAUSED, "", "key:a", NOW)
    assert guess(holds=(pause,)).basis == "nobody can tell when this ends: task_paused"
    quota = facts.QuotaUse(Use.EXECUTIONS, 10_000, 10_000, NOW + timedelta(minutes=40))
    assert guess(quotas=(quota,)).at == NOW + timedelta(minutes=40)
    assert guess(status=Status.RUNNING) is None


def test_a_tenants_own_workers_are_all_that_may_run_its_work() -> None:
    def worker(free: int, tenant: str | None = None, *labels: str) -> LiveState:
        return LiveState((0, 0, 0), (8, 8, 8), (free,) * 3, (None,) * 3, {"redis": "x"}, labels, tenant)

    states = [worker(5, None, "gpu"), worker(0, "a" * 32), worker(3, "b" * 32)]
    assert fleet_of(states, tenant="a" * 32, requires=(), class_index=1) == Fleet(2, 1, 8, 0)
    assert fleet_of(states, tenant="a" * 32, requires=("gpu",), class_index=1) == Fleet(2, 1, 8, 5)
    assert fleet_of(states, tenant="c" * 32, requires=("tpu",), class_index=1) == Fleet(1, 0, 0, 0)


def test_figures_are_told_as_people_say_them() -> None:
    assert words.quota(Code.EXECUTIONS_PER_HOUR, 10_000, 10_000) == "quota: 10,000 of 10,000 executions this hour"
    minutes = words.quota(Code.COMPUTE_MINUTES_PER_MONTH, 50_000.25, 50_000)
    assert minutes == "quota: 50,000.25 of 50,000 compute minutes this month"
    assert words.max_concurrent(200, 200) == "limit: 200 of 200 running for its tenant"
    assert words.frozen(Code.SCHEDULER_FROZEN, "the vault is sealed") == "the scheduler is frozen: the vault is sealed"
