"""Removing containers that nobody waits for any more: their worker crashed, or a removal failed."""

import logging
from collections.abc import Container
from typing import Any

from apps.worker.containers.arguments import DEADLINE_LABEL
from apps.worker.containers.engine import OWNER_LABEL, Engine, EngineError
from apps.worker.containers.owner import is_gone, own_mark

logger = logging.getLogger(__name__)


async def sweep(engine: Engine, *, mine: Container[str], now: float) -> int:
    """Remove orphans; how many. mine: names that this worker uses; now: seconds since the epoch. Raises EngineError."""
    removed = 0
    for found in await engine.inspect(await engine.ours()):
        name = str(found.get("Name", "")).lstrip("/")
        if name in mine or not is_orphan(labels_of(found), now=now):
            continue
        try:
            await engine.remove(name)
        except EngineError as problem:
            extra = {"action": "worker.sweep_failed", "container": name, "error": str(problem)}
            logger.warning("a container that was left behind cannot be removed", extra=extra)
            continue
        removed += 1
        logger.warning(
            "a container that was left behind was removed", extra={"action": "worker.swept", "container": name}
        )
    return removed


def is_orphan(labels: dict[str, str], *, now: float) -> bool:
    """Whether nobody waits for a container with these labels, which is none of those that this worker runs."""
    owner = labels.get(OWNER_LABEL, "")
    if owner == own_mark() or is_gone(owner):
        return True
    deadline = labels.get(DEADLINE_LABEL, "")
    return deadline.isdecimal() and int(deadline) < now


def labels_of(found: dict[str, Any]) -> dict[str, str]:
    return (found.get("Config") or {}).get("Labels") or {}
