"""What changed, for people who look: writers say which executions and runs changed, consoles hear it in half a second.

A message holds ids only; who hears it reads the rows from PostgreSQL. So losing one is harmless: a console also looks
by itself now and then. Nobody watching costs the hot path one attribute read and one set lookup.

    <prefix>feed:watching      ZSET: tenant (16 bytes) → until when somebody watches it, ms by Redis's clock
    <prefix>feed:<tenant hex>  pub/sub channel: count of ids left out (4 bytes, big endian), then ids of 16 bytes
"""

import atexit
import logging
import os
import struct
import threading
import time
from collections.abc import Iterable
from typing import cast
from uuid import UUID

import redis

from chronoweb.runtime import redis_client
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import ConfigurationError

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 0.25
REFRESH_SECONDS = 1.0
MOST_IDS = 200
"""Ids in one message; a console shows about as many rows, and reads the rest when it looks by itself."""
_MOST_COLLECTED = 20_000

Identity = bytes | UUID


def watching_key(prefix: str) -> str:
    """Where viewers say which tenants they watch."""
    return f"{prefix}feed:watching"


def channel(prefix: str, tenant: bytes) -> str:
    """Where a tenant's changes are published."""
    return f"{prefix}feed:{tenant.hex()}"


def pack(identities: Iterable[bytes], left_out: int) -> bytes:
    """A message."""
    return struct.pack(">I", min(left_out, 0xFFFF_FFFF)) + b"".join(identities)


def unpack(message: bytes) -> tuple[list[bytes], int]:
    """(ids, how many more changed) of a message."""
    return [message[at : at + 16] for at in range(4, len(message), 16)], struct.unpack_from(">I", message)[0]


class Feed:
    """Collects changes of this process and publishes them from a thread of its own. Threads may share it."""

    def __init__(self, *, prefix: str | None = None, url: str | None = None) -> None:
        self._prefix = prefix
        self._url = url
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._watched: frozenset[bytes] | None = None  # None until Redis has been asked
        self._collected: dict[bytes, list[Identity]] = {}
        self._overflow: dict[bytes, int] = {}
        self._client: redis.Redis | None = None
        self._redis_away = False

    def changed(self, tenant_id: Identity, ids: Iterable[Identity]) -> None:
        """These executions or runs of one tenant changed, and that is committed. Returns at once and never raises."""
        if self._thread is None:
            self._start()
        watched = self._watched
        tenant = tenant_id if isinstance(tenant_id, bytes) else tenant_id.bytes
        if watched is None or tenant in watched:
            with self._lock:
                self._collect(tenant, list(ids))

    def changed_many(self, pairs: Iterable[tuple[Identity, Identity]]) -> None:
        """The same for (tenant, id) pairs of several tenants."""
        if self._thread is None:
            self._start()
        watched = self._watched
        if watched is not None and not watched:
            return
        groups: dict[bytes, list[Identity]] = {}
        for tenant_id, identity in pairs:
            tenant = tenant_id if isinstance(tenant_id, bytes) else tenant_id.bytes
            if watched is None or tenant in watched:
                groups.setdefault(tenant, []).append(identity)
        with self._lock:
            for tenant, ids in groups.items():
                self._collect(tenant, ids)

    def close(self) -> None:
        """Publish what is collected and end the thread; a later `changed` starts it again."""
        thread = self._thread
        if thread is not None:
            self._stopping.set()
            thread.join(timeout=5)
            self._thread = None

    def forget_after_fork(self) -> None:
        """In a forked child: threads and connections are the parent's."""
        self.__init__(prefix=self._prefix, url=self._url)  # type: ignore[misc]

    def _collect(self, tenant: bytes, ids: list[Identity]) -> None:
        collected = self._collected.setdefault(tenant, [])
        room = _MOST_COLLECTED - len(collected)
        collected += ids[:room] if len(ids) > room else ids
        if len(ids) > room:
            self._overflow[tenant] = self._overflow.get(tenant, 0) + len(ids) - room

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._stopping.clear()
                self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        refresh_at = 0.0
        stopping = False
        while not stopping:
            try:
                if time.monotonic() >= refresh_at:
                    self._watched = self._ask_who_watches()
                    refresh_at = time.monotonic() + REFRESH_SECONDS
                self._publish()
                self._redis_away = False
            except (redis.RedisError, ConfigurationError, OSError) as error:
                self._give_up_for_now(error)
                refresh_at = time.monotonic() + REFRESH_SECONDS
            stopping = self._stopping.wait(WINDOW_SECONDS if self._watched else REFRESH_SECONDS)
            if stopping:
                self._publish_last()

    def _connection(self) -> redis.Redis:
        if self._client is None:
            self._client = redis_client.connect(self._url)
        return self._client

    def _key_prefix(self) -> str:
        if self._prefix is None:
            self._prefix = config().redis_prefix
        return self._prefix

    def _ask_who_watches(self) -> frozenset[bytes]:
        client = self._connection()
        now = redis_client.now_ms(client)
        tenants = client.zrangebyscore(watching_key(self._key_prefix()), now, "+inf")
        return frozenset(cast("list[bytes]", tenants))

    def _take(self) -> tuple[dict[bytes, list[Identity]], dict[bytes, int]]:
        with self._lock:
            taken = self._collected, self._overflow
            self._collected, self._overflow = {}, {}
        return taken

    def _publish(self) -> None:
        collected, overflow = self._take()
        watched = self._watched or frozenset()
        for tenant, changed in collected.items():
            if tenant in watched:
                # The latest changes first: what is left out changed earlier in this window.
                distinct = list(dict.fromkeys(i if isinstance(i, bytes) else i.bytes for i in reversed(changed)))
                left_out = max(0, len(distinct) - MOST_IDS) + overflow.get(tenant, 0)
                self._connection().publish(channel(self._key_prefix(), tenant), pack(distinct[:MOST_IDS], left_out))

    def _publish_last(self) -> None:
        try:
            self._publish()
        except (redis.RedisError, OSError) as error:
            self._give_up_for_now(error)

    def _give_up_for_now(self, error: Exception) -> None:
        self._watched = frozenset()
        self._take()
        if not self._redis_away:
            self._redis_away = True
            logger.warning("the console's feed rests", extra={"action": "feed.away", "error": str(error)})


_feed = Feed()
os.register_at_fork(after_in_child=_feed.forget_after_fork)

changed = _feed.changed
changed_many = _feed.changed_many
close = _feed.close
atexit.register(close)
