"""Inboxes as Kafka partitions: a worker's inbox is what the group assigned to it of each class's topic.

All workers are one group over the three topics, with the range assignor. One consumer is one poll, one
membership and one rebalance; range hands out every topic by itself, so a worker that gets anything gets a share
of every class (round robin or sticky may leave it without critical partitions). More workers than partitions
leave the surplus without an inbox.

A message that was read and not acknowledged comes again to whoever gets its partition next. Order holds within
a partition only, and a publisher takes an inbox's partitions in turn.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport.base import CLASSES, Incoming
from chronoweb.runtime.transport.kafka_client import CONNECTION, log_error
from chronoweb.runtime.transport.kafka_topics import Topics, is_missing_topic

LOG = logging.getLogger(__name__)

CLOSE_TIMEOUT_SECONDS = 5.0
READ_AHEAD_MESSAGES = 1000
SHARE_TIMEOUT_SECONDS = 20.0
"""A group that has given this member no share for so long will not: a rebalance takes some seconds."""

_CONSUMER = {
    "partition.assignment.strategy": "range",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 2000,
    "fetch.wait.max.ms": 10,
    "fetch.min.bytes": 1,
    "fetch.error.backoff.ms": 100,
    "queued.min.messages": READ_AHEAD_MESSAGES,
}


class KafkaReceiver:
    """One member of the workers' group.

    `_waiting` has what was fetched and not yet returned, by class; `_open` the offsets of each assigned
    partition that were fetched and not yet committed, in order, with whether they are acknowledged: only an
    unbroken run from the first one may be committed.
    """

    def __init__(self, worker_id: int, *, bootstrap_servers: str, topics: Topics, group: str) -> None:
        self._topics = topics
        self._class_of = {name: index for index, name in enumerate(topics.names)}
        settings = {"bootstrap.servers": bootstrap_servers, **CONNECTION, **_CONSUMER}
        settings |= {"group.id": group, "client.id": f"worker-{worker_id}"}
        self._settings = {**settings, "error_cb": self._on_error, "on_commit": _log_commit}
        self._consumer = Consumer(self._settings, logger=LOG)
        self._asked_at: float | None = None  # for a share, monotonic; None once one was given, an empty one included
        self._waiting: list[deque[Incoming]] = [deque() for _ in CLASSES]
        self._open: dict[tuple[str, int], dict[int, bool]] = {}
        self._inbox: Mapping[str, Any] | None = None
        self._subscribed = False
        self._closed = False
        self._away: KafkaError | None = None
        self._unsure = False  # whether the topics are still there: the broker was away, and may be another now

    def inbox(self) -> Mapping[str, Any] | None:
        return self._inbox

    def receive(self, timeout_seconds: float, *, max_messages: int) -> list[Incoming]:
        if self._closed:
            return []
        try:
            if self._asked_at is not None and time.monotonic() - self._asked_at > SHARE_TIMEOUT_SECONDS:
                LOG.warning("The group gives no share; joining anew", extra={"action": "transport.no_share"})
                self._leave()
            if not self._subscribed and not self._subscribe(timeout_seconds):
                return []
            if self._unsure:
                self._make_sure()
            self._fetch(0 if any(self._waiting) else timeout_seconds)
        except KafkaException as error:
            raise ServiceUnavailable(f"The inbox could not be read: {error}") from error
        messages: list[Incoming] = []
        for waiting in self._waiting:
            while waiting and len(messages) < max_messages:
                messages.append(waiting.popleft())
        away, self._away = self._away, None
        if away is not None and not messages:
            raise ServiceUnavailable(f"No Kafka broker answers: {away}; the client goes on trying")
        return messages

    def _subscribe(self, timeout_seconds: float) -> bool:
        """Join the group once the topics exist: before, there would be nothing to share."""
        self._topics.ensure()
        if not self._topics.wait(timeout_seconds):
            return False
        self._consumer.subscribe(
            list(self._topics.names),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )
        self._subscribed = True
        self._asked_at = time.monotonic()
        return True

    def _make_sure(self) -> None:
        """Make the topics anew before the group's next look at them, if the broker has come back empty.

        A member that finds them gone has to leave a group that it is just joining; there are brokers that wait for
        such a member for ever.
        """
        self._topics.ensure()
        try:
            self._unsure = not self._topics.wait(0)
        except ServiceUnavailable:
            return  # still away, and said so elsewhere

    def _leave(self) -> None:
        """Join anew with a new consumer, which is another member of the group.

        A group that lost a member in a restart may wait for it for ever.
        """
        if self._subscribed:
            self._subscribed = False
            self._asked_at = None
            self._end_consumer()
            self._consumer = Consumer(self._settings, logger=LOG)
            self._forget()

    def _fetch(self, timeout_seconds: float) -> None:
        """poll(t), then poll(0) until nothing is left: `consume(n, t)` would wait the whole t.

        With enough read ahead already one poll remains, for it is what serves the group's callbacks.
        """
        room = max(1, READ_AHEAD_MESSAGES - sum(map(len, self._waiting)))
        for wait in chain((timeout_seconds,), repeat(0, room - 1)):
            message = self._consumer.poll(wait)
            if message is None:
                return
            error = message.error()
            if error is not None:
                self._on_error(error)
            else:
                self._keep(message)

    def _keep(self, message: Any) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        self._open.setdefault((topic, partition), {})[offset] = False
        headers = {name: value.decode() for name, value in message.headers() or ()}
        class_index = self._class_of[topic]
        incoming = Incoming(class_index, message.value() or b"", headers, (topic, partition, offset))
        self._waiting[class_index].append(incoming)

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        touched = set()
        for message in messages:
            topic, partition, offset = message.receipt
            if offset in self._open.get((topic, partition), ()):  # else the partition is somebody else's by now
                self._open[topic, partition][offset] = True
                touched.add((topic, partition))
        commits = [TopicPartition(*key, end) for key in touched if (end := _advance(self._open[key])) is not None]
        if not commits or self._closed:
            return
        try:
            self._consumer.commit(offsets=commits, asynchronous=True)
        except KafkaException as error:
            _log_commit(error.args[0], commits)

    def _on_assign(self, _consumer: Consumer, assigned: list[TopicPartition]) -> None:
        shares: dict[str, list[int]] = {str(index): [] for index in range(len(CLASSES))}
        for topic_partition in assigned:
            shares[str(self._class_of[topic_partition.topic])].append(topic_partition.partition)
        # Without a share of every class this worker is one too many, or the topics are just being made.
        self._inbox = {"kafka": shares} if all(shares.values()) else None
        self._asked_at = None
        LOG.info("The inbox is now %s", self._inbox, extra={"action": "transport.assigned"})

    def _on_revoke(self, _consumer: Consumer, _revoked: list[TopicPartition]) -> None:
        """Range rebalances take everything away before they give anything: nothing here is ours now."""
        self._forget()
        if self._subscribed and not self._closed:
            self._asked_at = time.monotonic()

    def _forget(self) -> None:
        self._inbox = None
        self._open.clear()
        for waiting in self._waiting:
            waiting.clear()

    def _on_error(self, error: KafkaError) -> None:
        log_error(error)
        if is_missing_topic(error):
            # The client looks for its topics every few seconds and joins again when they are back. Leaving now, with a
            # join under way, would be worse: see `_make_sure`.
            self._unsure = True
            if self._subscribed and self._inbox is None and self._asked_at is None:
                self._asked_at = time.monotonic()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._away = error
            self._unsure = True

    def stop_receiving(self) -> None:
        """Commits are sent before the group is left, in order; a later acknowledgement changes nothing."""
        self._inbox = None
        if self._closed:
            return
        self._closed = True
        self._end_consumer()
        self._forget()

    def _end_consumer(self) -> None:
        """Leave the group. close() waits for commits under way, and for a broker that is away without end."""
        leaving = threading.Thread(target=self._consumer.close, name="leave-group", daemon=True)
        leaving.start()
        leaving.join(CLOSE_TIMEOUT_SECONDS)
        if leaving.is_alive():
            LOG.warning(
                "The broker does not answer; the group drops this worker when its session ends",
                extra={"action": "transport.leave_timeout"},
            )

    def close(self) -> None:
        self.stop_receiving()


def _advance(offsets: dict[int, bool]) -> int | None:
    """Drop the acknowledged run at the front; the offset to commit, or None when nothing moved."""
    end = None
    while offsets and offsets[first := next(iter(offsets))]:
        del offsets[first]
        end = first + 1
    return end


def _log_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
    if error is not None:
        where = [(each.topic, each.partition, each.offset) for each in partitions]
        LOG.warning(
            "Offsets %s were not committed (%s); what they cover may come again",
            where,
            error,
            extra={"action": "transport.commit_failed"},
        )
