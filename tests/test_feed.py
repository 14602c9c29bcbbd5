"""The console's feed: silent when nobody watches, within a second when somebody does, never in the writer's way."""

import asyncio
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from apps.executions import feed, ids
from apps.executions.feed_watch import Batch, watch
from tests.waiting import eventually


@pytest.fixture
def writer(redis_prefix: str) -> Iterator[feed.Feed]:
    made = feed.Feed(prefix=redis_prefix)
    yield made
    made.close()


def some_ids(count: int) -> list[bytes]:
    return ids.new_ids([1_790_000_000_000 + n for n in range(count)])


class Reader:
    """Watches one tenant from a loop of its own."""

    def __init__(self, tenant: uuid.UUID, prefix: str) -> None:
        self.batches: list[Batch] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(tenant, prefix),))
        self._thread.start()

    async def _run(self, tenant: uuid.UUID, prefix: str) -> None:
        async def read(source: AsyncIterator[Batch]) -> None:
            async for batch in source:
                self.batches.append(batch)

        reading = asyncio.create_task(read(watch(tenant, prefix=prefix)))
        await self._stop.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    @property
    def seen(self) -> set[bytes]:
        return {identity for batch in self.batches for identity in batch.ids}


@pytest.fixture
def reader(redis_prefix: str, redis_client: redis.Redis) -> Iterator[tuple[uuid.UUID, Reader]]:
    tenant = uuid.uuid4()
    made = Reader(tenant, redis_prefix)
    eventually(lambda: redis_client.zscore(feed.watching_key(redis_prefix), tenant.bytes))
    yield tenant, made
    made.close()


def test_nobody_watching_publishes_nothing(writer: feed.Feed, redis_client: redis.Redis, redis_prefix: str) -> None:
    tenant = uuid.uuid4()
    listening = redis_client.pubsub(ignore_subscribe_messages=True)
    listening.subscribe(feed.channel(redis_prefix, tenant.bytes))
    writer.changed(tenant, some_ids(10))
    writer.changed_many([(tenant.bytes, identity) for identity in some_ids(10)])
    eventually(lambda: writer._watched is not None)
    writer.changed(tenant, some_ids(10))
    writer.close()
    assert listening.get_message(timeout=0.5) is None
    assert not writer._collected
    listening.close()


def test_what_is_watched_arrives(writer: feed.Feed, reader: tuple[uuid.UUID, Reader]) -> None:
    tenant, heard = reader
    first, other = some_ids(3), some_ids(2)
    writer.changed(tenant, first)
    writer.changed_many([(tenant, uuid.UUID(bytes=other[0])), (uuid.uuid4(), other[1])])
    eventually(lambda: heard.seen == {*first, other[0]})
    later = some_ids(1)
    writer.changed(tenant.bytes, later)
    eventually(lambda: later[0] in heard.seen)


def test_changes_are_coalesced_and_bounded(
    writer: feed.Feed, reader: tuple[uuid.UUID, Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "WINDOW_SECONDS", 600.0)  # longer than the writing of them takes
    tenant, heard = reader
    many = some_ids(1000)
    for start in range(0, 1000, 10):
        writer.changed(tenant, many[start : start + 10])
        writer.changed(tenant, many[start : start + 10])
    writer.close()
    eventually(lambda: sum(len(b.ids) + b.left_out for b in heard.batches) >= 1000)
    assert len(heard.batches) <= 2, "one when it began to listen, and the last"
    assert all(len(batch.ids) <= feed.MOST_IDS for batch in heard.batches)
    assert many[-1] in heard.seen


def test_many_threads_lose_nothing(writer: feed.Feed, reader: tuple[uuid.UUID, Reader]) -> None:
    tenant, heard = reader
    parts = [some_ids(20) for _ in range(8)]

    def write(part: list[bytes]) -> None:
        for identity in part:
            writer.changed(tenant, [identity])

    threads = [threading.Thread(target=write, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eventually(lambda: heard.seen == {i for part in parts for i in part})


def test_redis_away_is_said_once_and_never_raised(caplog: pytest.LogCaptureFixture, redis_prefix: str) -> None:
    away = feed.Feed(prefix=redis_prefix, url="redis://127.0.0.1:1/0")
    with caplog.at_level(logging.WARNING):
        away.changed(uuid.uuid4(), some_ids(3))
        eventually(lambda: away._redis_away)
        for _ in range(3):
            away._give_up_for_now(redis.ConnectionError("still away"))
        away.changed(uuid.uuid4(), some_ids(3))
        away.close()
    assert [r.message for r in caplog.records if r.name == "apps.executions.feed"] == ["the console's feed rests"]


def test_a_viewer_that_went_away_is_forgotten(redis_client: redis.Redis, redis_prefix: str) -> None:
    """A registration lasts for a time only; one that is over counts as nobody."""
    seconds, _ = redis_client.time()
    redis_client.zadd(feed.watching_key(redis_prefix), {uuid.uuid4().bytes: seconds * 1000 - 1})
    writer = feed.Feed(prefix=redis_prefix)
    writer.changed(uuid.uuid4(), some_ids(1))
    assert eventually(lambda: writer._watched is not None)
    assert writer._watched == frozenset()
    writer.close()
