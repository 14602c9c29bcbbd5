"""The ledger, as Django sees it. The hot path writes these tables by the named SQL in sql/, never through the ORM.

Partitioned tables have no foreign keys in the database: with them, attaching a day waits for every open writer
of the table they point to.
"""

from apps.executions.dags.models import DagRun, RunNode, TaskDependency
from apps.executions.models.dead_letters import DeadLetter, Replay, ReplayState
from apps.executions.models.fleet import Finding, Lease, Worker, WorkerState
from apps.executions.models.ledger import (
    Attempt,
    Execution,
    ExecutionEvent,
    ExecutionQuerySet,
    IdempotencyKey,
    Outstanding,
    Progress,
)
from apps.executions.models.versions import DagVersion, TaskVersion
from apps.executions.models.waiting import (
    CircuitBreaker,
    CircuitWaiter,
    Route,
    RouteWaiter,
    Slot,
    SlotWaiter,
    StandingHold,
    TenantUsage,
)

__all__ = [
    "Attempt",
    "CircuitBreaker",
    "CircuitWaiter",
    "DagRun",
    "DagVersion",
    "DeadLetter",
    "Execution",
    "ExecutionEvent",
    "ExecutionQuerySet",
    "Finding",
    "IdempotencyKey",
    "Lease",
    "Outstanding",
    "Progress",
    "Replay",
    "ReplayState",
    "Route",
    "RouteWaiter",
    "RunNode",
    "Slot",
    "SlotWaiter",
    "StandingHold",
    "TaskDependency",
    "TaskVersion",
    "TenantUsage",
    "Worker",
    "WorkerState",
]
