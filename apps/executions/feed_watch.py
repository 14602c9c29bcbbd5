"""The feed's other end: one viewer process hears what changed in one tenant."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import redis
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from apps.executions import feed
from chronoweb.runtime.config import config
from chronoweb.runtime.redis_client import redis_url

logger = logging.getLogger(__name__)

WATCH_TTL_SECONDS = 10
_RENEW_SECONDS = 3
_MOST_BACKOFF_SECONDS = 5


@dataclass(frozen=True)
class Batch:
    """Executions and runs that changed within one window of one writer; left_out: how many more did."""

    ids: list[bytes]
    left_out: int


async def watch(tenant_id: UUID, *, prefix: str | None = None, url: str | None = None) -> AsyncIterator[Batch]:
    """What changes in the tenant, from about a second from now on; connects again by itself, and never ends.

    Each call is a subscription of its own: viewers of one process share one (console/live.py).
    """
    key_prefix = config().redis_prefix if prefix is None else prefix
    backoff = 0.1
    while True:
        client = Redis.from_url(url or redis_url(), socket_connect_timeout=2, socket_timeout=None)
        try:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe(feed.channel(key_prefix, tenant_id.bytes))
                async for batch in _batches(client, pubsub, feed.watching_key(key_prefix), tenant_id.bytes):
                    backoff = 0.1
                    yield batch
        except (redis.RedisError, OSError) as error:
            logger.warning("the feed's reader reconnects", extra={"action": "feed.reconnect", "error": str(error)})
        finally:
            await client.aclose()
        await asyncio.sleep(backoff)
        backoff = min(_MOST_BACKOFF_SECONDS, backoff * 2)


async def _batches(client: Redis, pubsub: PubSub, watching: str, tenant: bytes) -> AsyncIterator[Batch]:
    renew_at = 0.0
    while True:
        if time.monotonic() >= renew_at:
            await _register(client, watching, tenant)
            renew_at = time.monotonic() + _RENEW_SECONDS
        patience = max(0.01, renew_at - time.monotonic())
        message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=patience)
        if message is not None:
            yield Batch(*feed.unpack(message["data"]))


async def _register(client: Redis, watching: str, tenant: bytes) -> None:
    """Redis's clock decides, so that writers and viewers on other hosts agree."""
    seconds, microseconds = await client.time()
    now = seconds * 1000 + microseconds / 1000
    async with client.pipeline(transaction=False) as pipeline:
        pipeline.zadd(watching, {tenant: now + WATCH_TTL_SECONDS * 1000}, gt=True)
        pipeline.zremrangebyscore(watching, "-inf", now)
        await pipeline.execute()
