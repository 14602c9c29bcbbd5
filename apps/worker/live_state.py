"""What workers say about themselves in Redis, every few ms: the dispatcher gives credits and picks inboxes by it.

It is a hint that may be lost: who holds what stands in PostgreSQL.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import redis

from apps.executions import hot_keys
from apps.worker.class_slots import CLASSES
from apps.worker.pace import Of, Told
from chronoweb.runtime import redis_client

_REPORT = (Path(__file__).parent / "lua" / "report.lua").read_text()
_PACE_KEPT_MS = 10_000


@dataclass(frozen=True)
class LiveState:
    """One worker's word; figures by class of work. claimed: executions begun since it started; slots: the most that it
    may use; free: those that nothing it holds is going to take; mean_run_seconds: of what it ran lately, None while
    nothing is known.

    inbox: where messages reach it. labels: what it carries, such as "gpu" or "container". tenant: id (hex) of the only
    tenant that it serves. handed_over: tenant (hex) → nodes of DAGs that it has begun without a dispatcher.
    """

    claimed: Sequence[int]
    slots: Sequence[int]
    free: Sequence[int]
    mean_run_seconds: Sequence[float | None]
    inbox: Mapping[str, Any]
    labels: Sequence[str] = ()
    tenant: str | None = None
    handed_over: Mapping[str, int] = field(default_factory=dict)


class LiveStates:
    """The hash of all live workers."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._redis = client
        self._prefix = prefix
        self._key = f"{prefix}workers"
        self._script = client.register_script(_REPORT)

    def report(self, worker_id: int, state: LiveState) -> None:
        """Say that `worker_id` lives, and how it is."""
        document = json.dumps(asdict(state))
        self._script(keys=[self._key], args=[worker_id, document])

    def tell_pace(self, worker_id: int, told: Mapping[Of, Told]) -> None:
        """Say how fast tenants' attempts end here: for who estimates when what waits will begin."""
        if not told:
            return
        now = redis_client.now_ms(self._redis)
        pipeline = self._redis.pipeline(transaction=False)
        for (tenant, class_index), pace in told.items():
            key = hot_keys.pace_key(self._prefix, tenant.hex())
            figures = " ".join(f"{figure:.10g}" for figure in (*pace.short, *pace.long))
            pipeline.hset(key, hot_keys.pace_field(class_index, worker_id), f"{now:.0f} {figures}")
            pipeline.pexpire(key, _PACE_KEPT_MS)
        pipeline.execute()

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
                state = _state(json.loads(document))
                if state is not None:
                    alive[int(name)] = (float(stamp), state)
            elif age > 60_000:
                self._redis.hdel(self._key, name)
        return alive


def _state(document: dict[str, Any]) -> LiveState | None:
    """None for a worker of another version, which says other things: it gets nothing, and nothing stops for it."""
    names = {one.name for one in fields(LiveState)}
    known = {name: value for name, value in document.items() if name in names}
    try:
        state = LiveState(**known)
        by_class = (state.claimed, state.slots, state.free, state.mean_run_seconds)
        return state if all(len(figures) == CLASSES for figures in by_class) else None
    except TypeError:
        return None
