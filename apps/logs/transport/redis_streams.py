"""Log lines in Redis: a stream for each execution, whose entries' ids are (token, sequence number).

So a batch that is offered twice is known, an attempt that was overtaken is refused, and a viewer reads on from any
line. What waits of a shard is bounded (`CHRONOWEB_LOG_SHARD_MIB`); a shard's keys share a hash tag:

    <prefix>logs:{<shard>}:<execution hex>   the stream; entries go when they are in the index
    <prefix>logs:{<shard>}:sizes, :due, :claimed   see lua/
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import NoScriptError, OutOfMemoryError, RedisError, ResponseError

from apps.executions import ids
from apps.logs.records import Batch, Position
from apps.logs.transport.base import Load, Taken
from chronoweb.runtime import redis_client
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import ServiceUnavailable

URGENT_BYTES = 512 * 1024
"""A stream of so many bytes need not wait for the end of its attempt to be shipped."""
EXECUTIONS = 64
"""Of one shard in one pass."""
READ_ENTRIES = 8
PASS_BYTES = 4 << 20

_ANSWERS = {1: Taken.YES, 0: Taken.NOT_NOW, -1: Taken.FENCED}


@cache
def script(name: str) -> str:
    return (Path(__file__).parent.parent / "lua" / f"{name}.lua").read_text()


class Keys:
    """Names of keys."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def of_shard(self, shard: int) -> tuple[str, str, str]:
        """sizes, due, claimed."""
        base = f"{self._prefix}logs:{{{shard}}}:"
        return f"{base}sizes", f"{base}due", f"{base}claimed"

    def stream(self, execution: bytes) -> str:
        return f"{self._prefix}logs:{{{ids.shard(execution)}}}:{execution.hex()}"


def entry_id(position: Position, *, ended: bool) -> str:
    return f"{position.token}-{2 * position.sequence + ended}"


class RedisLogPublisher:
    """Offers batches in one pipeline."""

    def __init__(self, client: redis.Redis, config: Config) -> None:
        self._client = client
        self._keys = Keys(config.redis_prefix)
        self._most = int(config.log_shard_mib * (1 << 20))
        self._wait_ms = int(config.log_ship_seconds * 1000)
        self._sha = ""

    def publish(self, batches: Sequence[Batch]) -> list[Taken]:
        if not batches:
            return []
        try:
            if not self._sha:
                self._sha = str(self._client.script_load(script("append")))
            pipeline = self._client.pipeline(transaction=False)
            for batch in batches:
                sizes, due, _ = self._keys.of_shard(ids.shard(batch.execution))
                pipeline.evalsha(
                    self._sha, 3, self._keys.stream(batch.execution), sizes, due,
                    entry_id(batch.position, ended=batch.ended), batch.pack(), self._most, batch.execution,
                    int(batch.ended), self._wait_ms, URGENT_BYTES,
                )  # fmt: skip
            replies = pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            raise ServiceUnavailable(f"Redis did not take log lines: {error}") from error
        return [self._answer(reply) for reply in replies]

    def _answer(self, reply: Any) -> Taken:
        if isinstance(reply, NoScriptError):
            self._sha = ""
            return Taken.NOT_NOW
        if isinstance(reply, OutOfMemoryError) or (isinstance(reply, ResponseError) and "OOM" in str(reply)):
            return Taken.NOT_NOW
        if isinstance(reply, Exception):
            raise ServiceUnavailable(f"Redis did not take log lines: {reply}") from reply
        return _ANSWERS[int(reply)]

    def close(self) -> None:
        self._client.close()


class RedisLogSource:
    """Claims executions for some seconds; a shipper that dies gives them up by that."""

    def __init__(self, client: redis.Redis, config: Config) -> None:
        self._client = client
        self._keys = Keys(config.redis_prefix)
        self._wait_ms = int(config.log_ship_seconds * 1000)
        self._claim_ms = int(config.log_claim_seconds * 1000)
        self._claim = client.register_script(script("claim"))
        self._settle = client.register_script(script("settle"))
        self._lag_ms = 0.0
        self._next_shard = 0

    def take(self) -> list[Load]:
        loads: list[Load] = []
        size, self._lag_ms = 0, 0.0
        self._next_shard = (self._next_shard + 1) % ids.SHARDS
        pipeline = self._client.pipeline(transaction=False)
        shards = [(self._next_shard + n) % ids.SHARDS for n in range(ids.SHARDS)]
        for shard in shards:
            _, due, claimed = self._keys.of_shard(shard)
            self._claim(keys=[due, claimed], args=[EXECUTIONS, self._claim_ms], client=pipeline)
        for lag, *executions in pipeline.execute():
            self._lag_ms = max(self._lag_ms, float(lag))
            for execution, batches in zip(executions, self._read(executions), strict=True):
                if size >= PASS_BYTES:
                    batches = []  # given back by `settle`, unread
                size += sum(len(batch.lines) for batch in batches)
                loads.append(Load(execution, batches))
        return loads

    def _read(self, executions: Sequence[bytes]) -> list[list[Batch]]:
        pipeline = self._client.pipeline(transaction=False)
        for execution in executions:
            pipeline.xrange(self._keys.stream(execution), count=READ_ENTRIES)
        return [_batches(entries) for entries in pipeline.execute()] if executions else []

    def settle(self, shipped: Sequence[tuple[Load, Batch | None]]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for load, last in shipped:
            sizes, due, claimed = self._keys.of_shard(ids.shard(load.execution))
            upto = "" if last is None else entry_id(last.position, ended=last.ended)
            self._settle(
                keys=[self._keys.stream(load.execution), sizes, due, claimed],
                args=[upto, load.execution, self._wait_ms, URGENT_BYTES],
                client=pipeline,
            )
        pipeline.execute()

    def lag_seconds(self) -> float:
        return self._lag_ms / 1000

    def close(self) -> None:
        self._client.close()


class RedisLogTail:
    """Reads the execution's stream; waits in it without a thread."""

    def __init__(self, url: str, config: Config, execution: bytes) -> None:
        self._url = url
        self._key = Keys(config.redis_prefix).stream(execution)
        self._client: redis.Redis | None = None
        self._async: redis.asyncio.Redis | None = None

    def read(self, after: Position, *, ended: bool = False) -> list[Batch]:
        if self._client is None:
            self._client = redis_client.connect(self._url)
        try:
            entries = self._client.xrange(self._key, min=f"({entry_id(after, ended=ended)}", count=READ_ENTRIES)
        except (RedisError, OSError) as error:
            raise ServiceUnavailable(f"Redis does not answer: {error}") from error
        return _batches(entries)

    async def follow(self, after: Position, seconds: float, *, ended: bool = False) -> list[Batch]:
        if self._async is None:
            self._async = redis_client.connect_async(self._url)
        try:
            found = await self._async.xread(
                {self._key: entry_id(after, ended=ended)}, count=READ_ENTRIES, block=max(1, int(seconds * 1000))
            )
        except (RedisError, OSError) as error:
            raise ServiceUnavailable(f"Redis does not answer: {error}") from error
        streams = list(found.values()) if isinstance(found, dict) else [entries for _, entries in found or ()]
        return [batch for entries in streams for batch in _batches(_flat(entries))]

    async def close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._async is not None:
            await self._async.aclose()


def _flat(entries: Any) -> Any:
    """RESP3 replies nest one list more than RESP2's."""
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _batches(entries: Any) -> list[Batch]:
    return [Batch.unpack(fields[b"b"]) for _, fields in entries]
