"""What the supervisor does when it is asked to: it kills what it will start again, and nothing else."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import redis

from apps.quickstart.break_it.channel import Answer
from apps.quickstart.errors import EmbeddedServiceFailed
from apps.quickstart.services import EmbeddedServices

logger = logging.getLogger(__name__)

KINDS = ("worker", "dispatcher", "preloader")
"""Processes that may be killed: of the web process nobody would see what follows."""


class Processes(Protocol):
    def pids(self) -> dict[str, int]: ...
    def kill(self, name: str) -> int | None: ...


class Breaker:
    """services: None where they are not ours to break."""

    def __init__(self, processes: Processes, services: EmbeddedServices | None) -> None:
        self._processes = processes
        self._services = services

    def __call__(self, question: Mapping[str, Any]) -> Answer:
        """look; kill (name); redis; postgres. What is refused has a `problem`."""
        known: Mapping[object, Callable[[Mapping[str, Any]], Answer]] = {
            "look": self._look,
            "kill": self._kill,
            "redis": self._redis,
            "postgres": self._postgres,
        }
        act = question.get("act")
        return known[act](question) if act in known else ({"problem": "nobody knows how to do that"}, None)

    def _look(self, question: Mapping[str, Any]) -> Answer:
        return {
            "processes": self._processes.pids(),
            "supervisor": os.getpid(),
            "services": self._services is not None,
        }, None

    def _kill(self, question: Mapping[str, Any]) -> Answer:
        name = str(question.get("name"))
        if name.partition("-")[0] not in KINDS:
            return {"problem": f"{name[:40]} is not to be killed"}, None
        pid = self._processes.kill(name)
        if pid is None:
            return {"problem": f"{name[:40]} does not run just now: it is being started again"}, None
        logger.warning("%s was killed because the page asked for it, pid %d", name, pid)
        return {"name": name, "pid": pid}, None

    def _redis(self, question: Mapping[str, Any]) -> Answer:
        if self._services is None:
            return {"problem": "this Redis is not ours to empty"}, None
        try:
            self._services.flush_redis()
        except redis.RedisError as error:
            return {"problem": f"Redis is away: {error}"}, None
        logger.warning("Redis was emptied because the page asked for it")
        return {"name": "redis"}, None

    def _postgres(self, question: Mapping[str, Any]) -> Answer:
        """Answered first: who asks would wait for as long as PostgreSQL is away."""
        services = self._services
        if services is None:
            return {"problem": "this PostgreSQL is not ours to restart"}, None

        def restart() -> None:
            logger.warning("PostgreSQL is restarted because the page asked for it")
            try:
                services.restart_postgres()
            except EmbeddedServiceFailed as error:
                logger.warning("PostgreSQL did not come back at once: %s", str(error).splitlines()[0])

        return {"name": "postgresql"}, restart
