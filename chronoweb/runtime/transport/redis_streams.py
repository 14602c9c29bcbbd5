"""Inboxes as Redis streams: one stream per (worker, class), read by that worker alone, without a group.

Key: `<prefix>inbox:{<worker id>}:<class>`; the braces keep a worker's three streams on one node of a cluster.
An entry has the field `body` and one field `h.<name>` per header. The reader deletes what it has acknowledged,
so a stream holds what is unread or unacknowledged and needs no MAXLEN, which could drop unread entries; its
length is bounded by the dispatcher's credits. Each publish renews the stream's time to live, so nothing stays
of workers that are gone. A restarted worker has a new id: what its former self left unread is healed by the
ledger, not from here.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport.base import CLASSES, Confirmation, Incoming, Outgoing

LOG = logging.getLogger(__name__)

STREAM_TTL_SECONDS = 3600
CONNECT_TIMEOUT_SECONDS = 1.0
PUBLISH_TIMEOUT_SECONDS = 2.0
RECEIVE_TIMEOUT_SECONDS = 5.0
LONGEST_BLOCK_SECONDS = 2.0  # under RECEIVE_TIMEOUT_SECONDS, or a quiet stream would look like a dead server

_BODY = b"body"
_HEADER = b"h."
_BEGINNING = b"0-0"


def _client(url: str, *, name: str, timeout_seconds: float) -> Redis:
    # No retries inside the client: they would stall a tick and send twice; every caller here tries again itself.
    return Redis.from_url(
        url,
        client_name=name,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
        decode_responses=False,
    )


class RedisPublisher:
    """Sends a tick's messages in one pipeline, critical ones first, and confirms from its replies."""

    def __init__(self, *, url: str, prefix: str) -> None:
        self._client = _client(url, name=f"{prefix}publisher", timeout_seconds=PUBLISH_TIMEOUT_SECONDS)
        self._buffer: list[tuple[Outgoing, Confirmation]] = []
        self._closed = False

    def publish(self, message: Outgoing) -> Confirmation:
        confirmation = Confirmation()
        if self._closed or "redis" not in message.inbox:
            reason = "the publisher is closed" if self._closed else f"no Redis inbox in {message.inbox!r}"
            confirmation.fail(ServiceUnavailable(f"Not published: {reason}"))
        else:
            self._buffer.append((message, confirmation))
        return confirmation

    def flush_soon(self) -> None:
        if not self._buffer:
            return
        # Stable, so the order within a class stays; a reader that wakes in the middle meets critical work.
        batch = sorted(self._buffer, key=lambda pair: pair[0].class_index)
        self._buffer = []
        pipeline = self._client.pipeline(transaction=False)
        keys = [message.inbox["redis"] + CLASSES[message.class_index] for message, _ in batch]
        for key, (message, _) in zip(keys, batch, strict=True):
            pipeline.execute_command("XADD", key, "*", *_fields(message))
        for key in dict.fromkeys(keys):
            pipeline.execute_command("EXPIRE", key, STREAM_TTL_SECONDS)
        try:
            replies = pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            replies = [error] * len(batch)
        for (_, confirmation), reply in zip(batch, replies, strict=False):
            if isinstance(reply, Exception):
                confirmation.fail(ServiceUnavailable(f"Redis did not take the message: {reply}"))
            else:
                confirmation.confirm()

    def poll(self, timeout_seconds: float) -> None:
        self.flush_soon()

    def close(self) -> None:
        if not self._closed:
            self.flush_soon()
            self._closed = True
            self._client.close()


def _fields(message: Outgoing) -> list[bytes]:
    fields = [_BODY, message.body]
    for name, value in message.headers.items():
        fields += (_HEADER + name.encode(), value.encode())
    return fields


class RedisReceiver:
    """Reads this worker's three streams with one blocking XREAD.

    `_held` has, per class and in reading order, the ids that were returned and are still in the stream. Reading
    starts behind the last of them, and at the very beginning when there is none: then a stream that was lost
    and begun again, even under an earlier clock, is read whole without anybody noticing the loss.
    """

    def __init__(self, worker_id: int, *, url: str, prefix: str) -> None:
        self._base = f"{prefix}inbox:{{{worker_id}}}:"
        self._keys = [f"{self._base}{name}".encode() for name in CLASSES]
        name = f"{prefix}worker-{worker_id}"
        self._client = _client(url, name=name, timeout_seconds=RECEIVE_TIMEOUT_SECONDS)
        self._held: list[dict[bytes, None]] = [{} for _ in CLASSES]
        self._to_delete: list[list[bytes]] = [[] for _ in CLASSES]
        self._stopped = False

    def inbox(self) -> Mapping[str, Any] | None:
        return None if self._stopped else {"redis": self._base}

    def receive(self, timeout_seconds: float, *, max_messages: int) -> list[Incoming]:
        if self._stopped or max_messages <= 0:
            return []
        self._delete_acknowledged()
        command: list[Any] = ["XREAD", "COUNT", max_messages]
        if timeout_seconds > 0:
            command += ["BLOCK", max(1, int(min(timeout_seconds, LONGEST_BLOCK_SECONDS) * 1000))]
        command += ["STREAMS", *self._keys]
        command += [next(reversed(held), _BEGINNING) for held in self._held]
        try:
            streams = dict(self._client.execute_command(*command) or ())
        except (RedisError, OSError) as error:
            raise ServiceUnavailable(f"The inbox {self._base} could not be read: {error}") from error
        return self._take(streams, max_messages)

    def _take(self, streams: Mapping[bytes, Any], max_messages: int) -> list[Incoming]:
        """COUNT is per stream: what exceeds the whole stays unheld, so the next read returns it again."""
        messages: list[Incoming] = []
        for class_index, key in enumerate(self._keys):
            for entry_id, fields in streams.get(key, ())[: max_messages - len(messages)]:
                self._held[class_index][entry_id] = None
                messages.append(_incoming(class_index, entry_id, fields))
        return messages

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        for message in messages:
            if message.receipt in self._held[message.class_index]:
                self._to_delete[message.class_index].append(message.receipt)
        self._delete_acknowledged()

    def _delete_acknowledged(self) -> None:
        if not any(self._to_delete):
            return
        pipeline = self._client.pipeline(transaction=False)
        for key, ids in zip(self._keys, self._to_delete, strict=True):
            if ids:
                pipeline.execute_command("XDEL", key, *ids)
        try:
            pipeline.execute()
        except (RedisError, OSError) as error:
            LOG.warning(
                "Acknowledged entries of %s are still there (%s); the next call deletes them",
                self._base,
                error,
                extra={"action": "transport.acknowledge_failed"},
            )
            return
        for held, ids in zip(self._held, self._to_delete, strict=True):
            for entry_id in ids:
                held.pop(entry_id, None)
            ids.clear()

    def stop_receiving(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._stopped = True
        self._client.close()


def _incoming(class_index: int, entry_id: bytes, fields: Mapping[bytes, bytes] | None) -> Incoming:
    fields = fields or {}
    headers = {
        name[len(_HEADER) :].decode(): value.decode() for name, value in fields.items() if name.startswith(_HEADER)
    }
    return Incoming(class_index, fields.get(_BODY, b""), headers, entry_id)
