"""Causes that keep an execution from running, each made alone in the ledger or in Redis, with what must be told."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import redis

from apps.executions import hot_keys, ids, store, usage
from apps.executions.quotas import UNITS, Use
from apps.executions.states import Hold, Status
from apps.explain.words import Code
from apps.worker.live_state import LiveState, LiveStates
from chronoweb.runtime import redis_client
from tests.stack import Ledger

LIMIT, HANDLER = 3, {"type": "webhook", "url": "https://api.example.com/x", "method": "POST"}
WORKER = LiveState(
    claimed=(0, 0, 0), slots=(9, 4, 2), free=(9, 4, 2), mean_run_seconds=(None,) * 3, inbox={"redis": "x"}
)


@dataclass
class Scene:
    """One execution, PRELOADED and due, that nothing keeps from running, and the means to keep it from it."""

    ledger: Ledger
    redis: redis.Redis
    prefix: str
    execution: bytes = b""
    others: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        key = f"key:{self.ledger.tenant.hex()}:customer-42"
        self.ledger.define(handler=HANDLER, concurrency={"key": "customer-42", "limit": LIMIT, "when_full": "queue"})
        self.ledger.lead()
        self.ledger.lead("preloader")
        [self.execution] = self.ledger.add(slot_key=self.ledger.slug, concurrency_key=key)
        self.report()

    @property
    def key(self) -> str:
        return f"key:{self.ledger.tenant.hex()}:customer-42"

    def report(self, **changes: Any) -> None:
        """What the one worker says of itself."""
        fields = {name: getattr(WORKER, name) for name in WORKER.__dataclass_fields__} | changes
        LiveStates(self.redis, self.prefix).report(1, LiveState(**fields))

    def set(self, assignments: str, **values: Any) -> None:
        self.ledger.connection.execute(
            f"UPDATE executions SET {assignments} WHERE id = %(id)s::uuid", {"id": self.execution.hex(), **values}
        )

    def tenant(self, **limits: int | None) -> None:
        for name, value in limits.items():
            query = f"UPDATE tenants SET {name} = %s WHERE id = %s::uuid"
            self.ledger.connection.execute(query, (value, self.ledger.tenant.hex()))

    def used(self, use: Use, amount: int) -> None:
        """What it has used of a quota, as counted where it is used."""
        usage.add(self.ledger.connection, {(self.ledger.tenant, int(use)): amount})

    def run(self, count: int) -> None:
        self.others += self.ledger.add(count, status=Status.RUNNING, class_index=0)


@dataclass(frozen=True)
class Cause:
    """make: brings it about. figures: what must be told at least; a callable is given the scene."""

    code: Code
    make: Callable[[Scene], Any]
    figures: Callable[[Scene], dict[str, Any]] = lambda scene: {}
    clears: bool = False
    """Whether it is told when it ends by itself."""


def _quota(use: Use, limit: int) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        scene.tenant(**{use.quota: limit})
        scene.used(use, limit * UNITS[use])

    return make


def _held_slot(scene: Scene) -> None:
    scene.others += scene.ledger.add(status=Status.RUNNING, slot_key=scene.ledger.slug, class_index=0)


def _held_places(scene: Scene) -> None:
    scene.others += scene.ledger.add(LIMIT, status=Status.RUNNING, concurrency_key=scene.key, class_index=0)


def _circuit(scene: Scene, quarantine: str, slow: str) -> None:
    scene.ledger.connection.execute(
        "INSERT INTO circuit_breakers (tenant_id, key, recent, opened_at, quarantine_until, slow_start_until,"
        " changed_at, last_error, admit_below)"
        " VALUES (%s::uuid, 'webhook:api.example.com', '[[1, true], [2, true]]', now(), now() + %s::interval,"
        " now() + %s::interval, now(), 'HTTP 503', 0)",
        (scene.ledger.tenant.hex(), quarantine, slow),
    )


def _over_rate(scene: Scene) -> None:
    scene.tenant(rate_limit_rps=50)
    now = redis_client.now_ms(scene.redis)
    scene.redis.hset(hot_keys.over_rate_key(scene.prefix), scene.ledger.tenant.hex(), f"{now + 60_000:.0f} 50")


def _concurrent(scene: Scene) -> None:
    scene.run(2)
    scene.tenant(max_concurrent_workers=2)


def _retry(scene: Scene) -> None:
    error = json.dumps({"type": "HTTP", "message": "HTTP 503"})
    scene.set(
        "status = 5, attempt = 1, run_at = now() + interval '40 s', wake_at = now() + interval '40 s',"
        " error = %(e)s::jsonb",
        e=error,
    )
    load(scene)


def load(scene: Scene) -> None:
    """It stands in the hot tier."""
    key = hot_keys.entries_key(
        scene.prefix, ids.shard(scene.execution), 1, hot_keys.member_name(scene.ledger.tenant, 0)
    )
    scene.redis.zadd(key, {scene.execution: redis_client.now_ms(scene.redis)})


def _later(scene: Scene) -> None:
    scene.set("run_at = now() + interval '20 s'")


def _budget(scene: Scene) -> None:
    scene.set(
        f"status = 0, attempt = 1, hold = {int(Hold.RETRY_BUDGET)}, run_at = now() + interval '30 s',"
        " wake_at = now() + interval '30 s'"
    )


def _not_loaded(scene: Scene) -> None:
    scene.set("status = 0, wake_at = run_at")


def _without(role: str) -> Callable[[Scene], Any]:
    def make(scene: Scene) -> None:
        scene.ledger.connection.execute("DELETE FROM leases WHERE role LIKE %s", (role,))

    return make


def _hold(target: str, reason: Hold) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        which = {"task": scene.ledger.task, "tenant": scene.ledger.tenant, "all": bytes(16)}[target]
        parameters = {"target": which.hex(), "reason": int(reason), "note": "for the audit", "actor": "key:ops"}
        scene.ledger.connection.execute(store.named_sql("hold_set"), parameters)

    return make


def _shown(holders: Iterable[bytes | None]) -> list[str]:
    return [str(UUID(bytes=holder)) for holder in holders if holder is not None]


def _said(_: Scene) -> dict[str, Any]:
    return {"note": "for the audit", "by": "key:ops"}


CAUSES = (
    Cause(Code.TASK_PAUSED, _hold("task", Hold.PAUSED), _said),
    Cause(Code.TASK_DELETED, _hold("task", Hold.DELETED), _said),
    Cause(Code.TENANT_FROZEN, _hold("tenant", Hold.FROZEN), _said),
    Cause(Code.SCHEDULER_FROZEN, _hold("all", Hold.FROZEN), _said),
    Cause(
        Code.EXECUTIONS_PER_HOUR,
        _quota(Use.EXECUTIONS, 10_000),
        lambda s: {"used": 10_000, "limit": 10_000},
        clears=True,
    ),
    Cause(
        Code.COMPUTE_MINUTES_PER_MONTH,
        _quota(Use.COMPUTE, 50_000),
        lambda s: {"used": 50_000, "limit": 50_000},
        clears=True,
    ),
    Cause(Code.LOG_STORAGE_GB, _quota(Use.LOGS, 100), lambda s: {"used": 100, "limit": 100}),
    Cause(Code.MAX_CONCURRENT_WORKERS, _concurrent, lambda s: {"used": len(s.ledger.outstanding()), "limit": 2}),
    Cause(Code.RATE_LIMIT_RPS, _over_rate, lambda s: {"limit": 50}),
    Cause(Code.OVERLAP, _held_slot, lambda s: {"held_by": _shown([s.ledger.slot_holder(s.ledger.slug)])}),
    Cause(
        Code.CONCURRENCY_KEY,
        _held_places,
        lambda s: {
            "key": "customer-42",
            "running": LIMIT,
            "limit": LIMIT,
            "when_full": "queue",
            "held_by": _shown(s.ledger.places(s.key).values()),
        },
    ),
    Cause(
        Code.CIRCUIT_OPEN,
        lambda s: _circuit(s, "1 minute", "3 minutes"),
        lambda s: {"key": "webhook:api.example.com", "failures": 2, "last_error": "HTTP 503"},
        clears=True,
    ),
    Cause(
        Code.CIRCUIT_SLOW_START, lambda s: _circuit(s, "-1 minute", "1 minute"), lambda s: {"percent": 5}, clears=True
    ),
    Cause(Code.NOT_DUE, _later, clears=True),
    Cause(Code.RETRY_DELAY, _retry, lambda s: {"attempt": 2, "max_attempts": 4, "error": "HTTP 503"}, clears=True),
    Cause(Code.RETRY_BUDGET, _budget, lambda s: {"attempt": 2, "max_attempts": 4}, clears=True),
    Cause(
        Code.NO_FREE_SLOT,
        lambda s: s.report(free=(9, 0, 2)),
        lambda s: {"class": "standard", "slots": 4, "free": 0, "workers": 1},
    ),
    Cause(Code.NO_WORKER, lambda s: LiveStates(s.redis, s.prefix).withdraw(1), lambda s: {"workers_alive": 0}),
    Cause(Code.NOT_LOADED, _not_loaded, lambda s: {"ahead": 0}),
    Cause(Code.NO_PRELOADER, _without("preloader"), lambda s: {"takeover_seconds": 15}),
    Cause(Code.NO_DISPATCHER, _without("dispatcher/%"), lambda s: {"shard": ids.shard(s.execution)}),
)

EXCLUSIVE = (
    {Code.CIRCUIT_OPEN, Code.CIRCUIT_SLOW_START},
    {Code.NOT_DUE, Code.RETRY_DELAY, Code.RETRY_BUDGET, Code.NOT_LOADED},
    {Code.NO_FREE_SLOT, Code.NO_WORKER},
)
"""Of each only one can hold: one circuit, one time, one fleet."""
