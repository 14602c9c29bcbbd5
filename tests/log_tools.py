"""Logs for tests: a desk on the real transport, and what came of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import redis

from apps.logs.desk import LogDesk
from apps.logs.records import BEGINNING, Batch, Position
from apps.logs.transport import LogTail, make_publisher, make_tail
from apps.quickstart.services import ServiceAddresses
from apps.worker.jobs import Assignment
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.config import Config
from tests.stack import quick_config
from tests.waiting import PATIENCE_SECONDS, eventually


@dataclass
class Logs:
    """A transport of a test's own."""

    addresses: Addresses
    config: Config
    desks: list[LogDesk] = field(default_factory=list)

    def desk(self, **options: Any) -> LogDesk:
        desk = LogDesk(make_publisher(self.addresses, self.config), self.config, **options)
        desk.start()
        self.desks.append(desk)
        return desk

    def tail(self, execution: bytes) -> LogTail:
        return make_tail(self.addresses, self.config, execution)

    def waiting(self, execution: bytes) -> list[Batch]:
        """What waits in the transport."""
        tail = self.tail(execution)
        found: list[Batch] = []
        after = BEGINNING
        while batches := tail.read(after, ended=bool(found) and found[-1].ended):
            found += batches
            after = batches[-1].position
        return found

    def lines(self, execution: bytes) -> list[dict[str, Any]]:
        return [json.loads(line) for batch in self.waiting(execution) for _, line in batch.numbered()]

    def has_ended(self, execution: bytes) -> bool:
        return any(batch.ended for batch in self.waiting(execution))

    def of(self, given: Assignment, *, seconds: float = PATIENCE_SECONDS) -> list[dict[str, Any]]:
        """All lines of an attempt, once it has ended."""
        eventually(lambda: self.has_ended(given.execution_id), seconds=seconds)
        found = self.lines(given.execution_id)
        assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
        return found

    def close(self) -> None:
        for desk in self.desks:
            desk.stop(1.0)


@contextmanager
def logs_on(services: ServiceAddresses, prefix: str, *, kafka: bool = False, **config: Any) -> Iterator[Logs]:
    """kafka: on the broker instead of Redis."""
    name = prefix.rstrip(":")
    brokers = services.kafka_bootstrap_servers or "" if kafka else ""
    addresses = Addresses(services.database_url, services.database_url, services.redis_url, brokers)
    made = Logs(addresses, quick_config(prefix, kafka_prefix=f"{name}.", kafka_partitions=2, **config))
    try:
        yield made
    finally:
        made.close()


def texts(lines: list[dict[str, Any]], stream: str = "") -> list[str]:
    return [line["text"] for line in lines if not stream or line["stream"] == stream]


def batch(
    execution: bytes,
    first: int,
    last: int,
    *,
    token: int = 7,
    attempt: int = 1,
    ended: bool = False,
    text: str = "line",
) -> Batch:
    """Lines that say their number."""
    rows = [
        json.dumps({"attempt": attempt, "seq": n, "time": "2026-01-01T00:00:00.000000Z", "stream": "stdout",
                    "text": f"{text} {n}"}, ensure_ascii=False)
        for n in range(first, last + 1)
    ]  # fmt: skip
    data = "".join(f"{row}\n" for row in rows).encode()
    return Batch(execution, token, attempt, first, last, first * 1000, last * 1000, data, ended)


def shard_bytes(client: redis.Redis, prefix: str) -> int:
    """What the transport believes to hold."""
    total = 0
    for key in client.scan_iter(match=f"{prefix}logs:*:sizes"):
        total += int(client.hget(key, "total") or 0)
    return total


__all__ = ["BEGINNING", "Logs", "Position", "batch", "logs_on", "shard_bytes", "texts"]
