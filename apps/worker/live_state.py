"""What workers say about themselves in Redis, every few ms: the dispatcher gives credits and picks inboxes by it.

It is a hint that may be lost: who holds what stands in PostgreSQL.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis

_REPORT = (Path(__file__).parent / "lua" / "report.lua").read_text()


@dataclass(frozen=True)
class LiveState:
    """One worker's word. claimed: executions begun since it started; inbox: where messages reach it.

    mean_run_seconds: of what it ran lately; None while nothing is known. capabilities: what it can do and others
    may not, such as "container".
    """

    claimed: int
    slots: int
    mean_run_seconds: float | None
    inbox: Mapping[str, Any]
    capabilities: tuple[str, ...] = ()


class LiveStates:
    """The hash of all live workers."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._redis = client
        self._key = f"{prefix}workers"
        self._script = client.register_script(_REPORT)

    def report(self, worker_id: int, state: LiveState) -> None:
        """Say that `worker_id` lives, and how it is."""
        document = json.dumps(asdict(state))
        self._script(keys=[self._key], args=[worker_id, document])

    def withdraw(self, worker_id: int) -> None:
        """The worker takes no more work."""
        self._redis.hdel(self._key, str(worker_id))

    def read(self, *, youngest_ms: float = 1000) -> dict[int, tuple[float, LiveState]]:
        """Workers heard of within `youngest_ms`: id → (stamp in ms by Redis's clock, state)."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.time()
        pipeline.hgetall(self._key)
        (seconds, microseconds), entries = pipeline.execute()
        now = seconds * 1000 + microseconds / 1000
        alive: dict[int, tuple[float, LiveState]] = {}
        for name, value in entries.items():
            stamp, document = value.split(b" ", 1)
            age = now - float(stamp)
            if age <= youngest_ms:
                fields = json.loads(document)
                fields["capabilities"] = tuple(fields.get("capabilities", ()))
                alive[int(name)] = (float(stamp), LiveState(**fields))
            elif age > 60_000:
                self._redis.hdel(self._key, name)
        return alive
