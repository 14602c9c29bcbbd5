"""Something to break: a few hundred short executions, a handful in flight at any moment."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from apps.definitions.services import create_task, trigger_batch
from apps.definitions.tasks import live_tasks
from apps.quickstart.chaos.workload import Load
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.clock import Clock

NAME = "break-it-load"
COUNT = 400
EVERY = timedelta(milliseconds=100)
SECONDS = 1.0
LOAD = Load(NAME, 5, 1.0, {})
"""What the audit holds each of them against: it must end COMPLETED."""

DOCUMENT: dict[str, Any] = {
    "name": NAME,
    "description": "What the page “Break it” starts: short work, so that something is in flight when something breaks.",
    "tags": ["demo"],
    "schedule": {"type": "manual"},
    "overlap_policy": "allow_all",
    "handler": {"type": "python", "name": "demo.work"},
    "parameters": {"seconds": SECONDS},
    "timeout_seconds": 30,
    # Each kill costs an attempt of what it hit: with so many nothing ends as a dead letter.
    "retry_policy": {"max_attempts": 20, "backoff": "fixed", "base_delay_seconds": 0.5},
}


def start(principal: Principal, clock: Clock) -> tuple[UUID, list[UUID]]:
    """The task, made where it is missing, and the ids of what was accepted."""
    task = scoped(live_tasks(), principal).filter(name=NAME).first()
    if task is None:
        task = create_task(principal=principal, data=DOCUMENT)
    now = clock.now()
    items = [{"run_at": (now + n * EVERY).isoformat()} for n in range(COUNT)]
    return task.id, trigger_batch(principal=principal, task_id=task.id, items=items)
