"""Work that waits for its turn: who goes before it, how fast that goes, and that all say the same of it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import redis

from apps.console.executions.live import ExecutionsSource
from apps.dispatcher.hot_tier import HotTier
from apps.executions import hot_keys, ids
from apps.executions.models import Execution, Lease, TaskVersion
from apps.executions.rows import Preloaded
from apps.executions.states import ExecutionClass, Status
from apps.explain import queue, turn
from apps.explain.fleet import Fleet
from apps.explain.queue import Entry, Queue
from apps.explain.turn import Standing
from apps.explain.words import Code
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from apps.worker.live_state import LiveStates
from apps.worker.pace import Of, Pace, Told
from chronoweb.runtime import redis_client as clocks
from chronoweb.runtime.clock import SystemClock
from tests.console_ledger import Ledger, make_tenant, now
from tests.explain_causes import WORKER

NOW = datetime(2026, 3, 2, 1, 20, tzinfo=UTC)
TENANT = UUID(int=9)
DUE_MS = 1_700_000_000_000


def identity(shard: int, n: int = 0) -> bytes:
    """The n-th of its shard, in the order of ids."""
    made = ids.new_id(DUE_MS + n)
    return made[:15] + bytes([(made[15] & 0xF0) | shard])


def waits(shard: int, n: int, *, class_index: int = 1, due_in_ms: float = -5000, route: int = 0) -> Preloaded:
    return Preloaded(identity(shard, n), due_in_ms, class_index, TENANT.bytes, route)


def entry(one: Preloaded) -> Entry:
    return Entry(one.id, one.class_index, one.route_id)


def look(client: redis.Redis, prefix: str, *entries: Preloaded, routes: tuple[int, ...] = ()) -> Queue:
    return queue.look(client, prefix, tenant=TENANT, entries=[entry(one) for one in entries], routes=routes)


def test_what_goes_before_an_execution_is_counted_as_shards_take_turns(
    redis_client: redis.Redis, redis_prefix: str
) -> None:
    hot_tier = HotTier(redis_client, redis_prefix)
    assert not look(redis_client, redis_prefix).complete, "an emptied Redis knows of nothing"
    hot_tier.mark(range(ids.SHARDS))
    own = [waits(3, n) for n in range(10)]
    longer, shorter = [waits(4, n) for n in range(50)], [waits(5, n) for n in range(2)]
    urgent = [waits(6, n, class_index=0) for n in range(7)]
    labelled = [waits(7, n, route=12) for n in range(3)]
    later = waits(3, 20, due_in_ms=60_000)
    hot_tier.add([*own, *longer, *shorter, *urgent, *labelled, later])
    seen = look(redis_client, redis_prefix, own[6], later, waits(8, 0), routes=(12,))
    assert seen.complete
    assert seen.due == {0: 7, 1: 10 + 50 + 2 + 3, 2: 0}
    assert seen.oldest_ms is not None
    assert 5000 <= seen.oldest_ms < 60_000
    assert seen.frontier is not None
    assert seen.frontier.bytes == min(own[0].id, longer[0].id, shorter[0].id, urgent[0].id, labelled[0].id)
    place = seen.places[own[6].id]
    assert place.ahead == place.due == 6 + 6 + 2, "of a longer shard as many go before it as of its own"
    assert place.of_tenant == 14 + 7 + 3, "and what is more urgent, and what other labels have in turn"
    assert seen.places[later.id] == queue.Place(ahead=62, due=62, of_tenant=62 + 7 + 3)
    assert waits(8, 0).id not in seen.places


class SteppedClock(SystemClock):
    """Time that a test lets pass."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def test_how_fast_work_ends_is_told_by_who_ends_it(redis_client: redis.Redis, redis_prefix: str) -> None:
    clock, states = SteppedClock(), LiveStates(redis_client, redis_prefix)
    pace = Pace(clock)
    told: Mapping[Of, Told] | None = None
    for second in range(40):
        pace.ended([(TENANT.bytes, 1)] * 50)
        if second % 10 == 0:
            pace.ended([(TENANT.bytes, 2)])
        clock.seconds += 1
        told = pace.to_tell()
        assert pace.to_tell() is None, "once a second"
    assert told is not None
    states.tell_pace(3, told)
    states.tell_pace(4, {(TENANT.bytes, 1): Told((300, 10.0), (300, 60.0))})
    assert look(redis_client, redis_prefix).pace == {1: 50 + 30, 2: 0.1}, "so few are known over the longer time"
    for _ in range(70):
        clock.seconds += 1
        told = pace.to_tell()
    assert told == {}
    # A pace that is over tells nothing of what has ended since.
    states.tell_pace(3, {(TENANT.bytes, 1): Told((0, 10.0), (6000, 60.0))})
    assert look(redis_client, redis_prefix).pace[1] == pytest.approx(30 + 0.1)


def test_a_worker_that_is_silent_tells_no_pace(redis_client: redis.Redis, redis_prefix: str) -> None:
    key, now = hot_keys.pace_key(redis_prefix, TENANT.hex), clocks.now_ms(redis_client)
    fresh, old = hot_keys.pace_field(1, 1), hot_keys.pace_field(1, 2)
    redis_client.hset(key, mapping={fresh: f"{now:.0f} 100 10 600 60", old: f"{now - 30_000:.0f} 900 10 900 60"})
    assert look(redis_client, redis_prefix).pace == {1: 10.0}


IDENTITY = identity(3)


def execution(**fields: Any) -> Execution:
    version = TaskVersion(name="job", definition={"handler": {"type": "python", "name": "demo.noop"}})
    due = NOW - timedelta(seconds=30)
    known = {"id": UUID(bytes=IDENTITY), "run_at": due, "created_at": due, "class_index": 1}
    return Execution(**known | fields, task_version=version, task_id=UUID(int=2), status=Status.PRELOADED)


def met(ahead: int | None = 18_400, due: int = 12_000, **changes: Any) -> Standing:
    places = {} if ahead is None else {execution().id.bytes: queue.Place(due, due, ahead)}
    seen = Queue(**{"places": places, "pace": {1: 400.0, 2: 100.0}} | changes.pop("queue", {}))
    return Standing(TENANT, NOW, queue=seen, workers=[WORKER], **changes)


@pytest.mark.parametrize(
    ("standing", "text"),
    [
        (met(queue={"over_rate": 1000}), "rate limit: 1,000/s, 18,400 ahead, starts in about 18 s"),
        (met(0, queue={"over_rate": 1000}), "rate limit: 1,000/s, next in its queue, starts within a second"),
        (met(None, queue={"over_rate": 1000}), "rate limit: 1,000/s"),
        (
            met(999, out=(0, 200, 0), limit=200),
            "limit: 200 of 200 running for its tenant, 999 ahead, starts in about 2 s",
        ),
        (met(), "due now, 12,000 ahead, starts in about 30 s"),
        (met(queue={"pace": {}}), "due now, 12,000 ahead"),
        (met(led=frozenset({1, 2}), queue={"over_rate": 9}), "no dispatcher holds shard 3"),
    ],
)
def test_what_waits_for_its_turn_says_how_many_are_before_it_and_when(standing: Standing, text: str) -> None:
    found = turn.reason(execution(), standing)
    assert found is not None
    assert found.text == text
    if "about" in text:
        assert found.until == found.begins
        assert f"{found.lead} " == text[: text.rindex("about") + 6]
    assert found.clears_when is None, "a guess is no promise"


def test_what_has_just_come_due_is_not_said_to_wait() -> None:
    assert turn.reason(execution(run_at=NOW, created_at=NOW), met()) is None
    assert turn.reason(execution(), met(None)) is None, "due, and nothing is known to go before it"


def test_all_that_waits_is_told_by_when_the_last_starts() -> None:
    limit = turn.of_all(met(queue={"over_rate": 1000}), waiting=18_400)
    assert limit is not None
    assert limit.text == "rate limit: 1,000/s, 18,400 wait, the last starts in about 18 s"
    full = turn.of_all(met(out=(0, 200, 0), limit=200, queue={"over_rate": 1000}), waiting=1000)
    assert full is not None
    assert full.text == "limit: 200 of 200 running for its tenant, 1,000 wait, the last starts in about 2 s"
    assert turn.of_all(met(), waiting=5) is None
    slots = turn.no_slot_for_all(ExecutionClass.STANDARD, Fleet(1, 1, 4, 0), met(), waiting=800)
    assert slots.code is Code.NO_FREE_SLOT
    assert slots.text == "no free slot: all 4 for standard work are in use, 800 wait, the last starts in about 2 s"


@pytest.mark.django_db
def test_a_live_list_says_anew_why_its_rows_wait_though_they_do_not_change(
    redis_client: redis.Redis, redis_prefix: str, settings: Any
) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, redis_prefix=redis_prefix)
    tenant, hot_tier = make_tenant(), HotTier(redis_client, redis_prefix)
    ledger = Ledger(tenant)
    first, last = [ledger.add(Status.PRELOADED) for _ in range(2)]
    for shard in range(ids.SHARDS):
        Lease.objects.create(
            role=f"dispatcher/{shard}",
            epoch=1,
            holder=tenant.id,
            acquired_at=now(),
            expires_at=now() + timedelta(hours=1),
        )
    hot_tier.add(
        Preloaded(row.id.bytes, due, 1, tenant.id.bytes, 0) for row, due in ((first, -90_000), (last, -80_000))
    )
    source = ExecutionsSource(Principal.in_tenant(tenant, role=Role.OPERATOR, actor="user:ada"))

    def look(rate: int) -> dict[str, str]:
        # Told for a minute ahead: a test is no dispatcher, which tells ten times a second.
        at = clocks.now_ms(redis_client) + 60_000
        redis_client.hset(hot_keys.over_rate_key(redis_prefix), tenant.id.hex, f"{at:.0f} {rate}")
        update = source.update(set(), looking=True)
        return {} if update is None else {row["id"]: row["html"] for row in update.rows}

    look(2)
    assert look(2).keys() <= {str(first.id), str(last.id)}
    assert look(2) == {}, "nothing else is said of them"
    found = look(3)
    assert found.keys() == {str(first.id), str(last.id)}
    assert "rate limit: 3/s, next in its queue" in found[str(first.id)]
