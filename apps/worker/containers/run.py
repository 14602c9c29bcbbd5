"""Containers: one for each attempt, closed in on all sides, and removed afterwards.

The engine's client runs as a program of the zygote, attached, so that the output arrives here; if the worker dies,
the zygote has the engine remove the container. What that misses, a sweep finds by its labels.
"""

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from apps.executions.container_spec import Resources, allowed_pairs, check_registry, resources
from apps.executions.failure import FATE_UNKNOWN
from apps.executions.secret_references import put_in
from apps.executions.states import Outcome
from apps.logs.attempt_log import AttemptLog
from apps.worker.containers import gate as gates
from apps.worker.containers import verdict
from apps.worker.containers.arguments import container_name, run_arguments
from apps.worker.containers.engine import Engine, EngineError, engine_environment, find
from apps.worker.containers.gate import Gate, NoGate
from apps.worker.containers.owner import own_mark
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.containers.sweep import sweep
from apps.worker.handlers.command import attempt_variables
from apps.worker.handlers.programs import Program, Programs, Started
from apps.worker.handlers.report import make_error
from apps.worker.jobs import Assignment, Report
from chronoweb.runtime.clock import Clock
from chronoweb.runtime.errors import InvalidInput
from chronoweb.runtime.outbound import system_resolve

logger = logging.getLogger(__name__)

FIND_SECONDS = 30.0
DEADLINE_GRACE_SECONDS = 120.0
"""How long after its timeout a container may be removed by anybody."""
CLOSE_SECONDS = 10.0


class ContainerRunner:
    """Runs containers on one event loop. `start` once on that loop, then `run`, at the end `close`."""

    def __init__(self, policy: ContainerPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._programs = Programs()
        self._finding: asyncio.Task[Engine | None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._names: set[str] = set()
        self._removals: set[asyncio.Task[None]] = set()
        self.engine: Engine | None = None
        """Safe to read from any thread; None while none has been found."""

    def start(self) -> None:
        """Look for an engine, and sweep from then on."""
        self._finding = asyncio.create_task(find(self._policy))
        self._sweeping = asyncio.create_task(self._sweep())

    async def run(self, assignment: Assignment, extra: dict[str, Any], log: AttemptLog | None = None) -> Report:
        """One attempt. Exit code 0 succeeds. Cancelled, it removes the container and leaves the output in `extra`."""
        if self._finding is None:
            self.start()
        assert self._finding is not None
        try:
            async with asyncio.timeout(FIND_SECONDS):
                engine = await asyncio.shield(self._finding)
        except TimeoutError:
            return verdict.not_started("the container engine does not answer yet", permanent=False)
        if engine is None:
            return verdict.no_engine(self._policy)
        directory = tempfile.mkdtemp(prefix="chronoweb-container-")
        name = container_name(assignment)
        self._names.add(name)
        gate: Gate | None = None
        try:
            if refusal := await self._registry_refused(str(assignment.handler["image"])):
                return verdict.not_started(refusal, permanent=True)
            pairs = allowed_pairs(assignment.handler)
            if pairs:
                gate = await Gate.open(engine, pairs, self._policy.allowed_networks)
            return await self._attempt(engine, assignment, name, directory, gate, extra, log)
        except NoGate as problem:
            return verdict.not_started(str(problem), permanent=True)
        finally:
            self._later(self._clean_up(engine, name, directory, gate))

    async def close(self) -> None:
        """Remove what is left, end the zygote."""
        for task in (self._finding, self._sweeping):
            if task is not None:
                task.cancel()
        if self._removals:
            await asyncio.wait(set(self._removals), timeout=CLOSE_SECONDS)
        self._programs.close()

    async def _registry_refused(self, image: str) -> str | None:
        """Why the image may not be fetched from where it says. The engine looks the name up once more by itself."""
        if self._policy.pull == "never":
            return None
        found: list[InvalidInput] = []
        networks = self._policy.allowed_networks
        await asyncio.to_thread(check_registry, "", image, found, networks=networks, resolve=system_resolve)
        return f"the image {image} {found[0].problem}" if found else None

    async def _attempt(
        self,
        engine: Engine,
        assignment: Assignment,
        name: str,
        directory: str,
        gate: Gate | None,
        extra: dict[str, Any],
        log: AttemptLog | None,
    ) -> Report:
        asked = resources(assignment.handler)
        started = self._programs.start(self._program(engine, assignment, asked, directory, gate), log)
        try:
            async with asyncio.timeout(asked.timeout_seconds):
                status = await self._programs.end_of(started)
        except asyncio.CancelledError:
            # In a task of its own: a second cancel must not leave the container running.
            await asyncio.shield(asyncio.ensure_future(self._stop(engine, name, started)))
            extra.update(started.outputs())
            raise
        except TimeoutError:
            await self._stop(engine, name, started)
            limit = f"resource_requirements.timeout_seconds ({asked.timeout_seconds:g} s)"
            error = make_error("TimedOut", f"ran longer than {limit} and was stopped", fate=FATE_UNKNOWN)
            return Report(int(Outcome.TIMED_OUT), None, {**error, **started.outputs()})
        if started.refused is not None:
            started.outputs()
            return verdict.refused(engine, started.refused)
        if status == 0:
            return verdict.success(started.outputs())
        found = await self._inspect(engine, name)
        # podman's monitor notes an OOM kill in a file of its working folder; with control groups v1 some versions of
        # podman look for it elsewhere and say that there was none.
        out_of_memory = os.path.exists(f"{directory}/oom")
        return verdict.failure(status, found, out_of_memory=out_of_memory, asked=asked, outputs=started.outputs())

    def _program(
        self, engine: Engine, assignment: Assignment, asked: Resources, directory: str, gate: Gate | None
    ) -> Program:
        own = put_in(assignment.handler.get("environment"), assignment.secrets, assignment.secret_mark)
        given = {"HOME": "/tmp", **own, **(gates.VARIABLES if gate else {})}  # noqa: S108 - inside
        variables = Path(directory, "environment")
        variables.touch(mode=0o600)
        variables.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        passed_on = attempt_variables(assignment)
        seconds = min(assignment.timeout_seconds, asked.timeout_seconds or assignment.timeout_seconds)
        arguments = run_arguments(
            assignment,
            engine=engine,
            policy=self._policy,
            asked=asked,
            network=gate.network if gate else "none",
            owner=own_mark(),
            deadline=self._clock.time() + seconds + DEADLINE_GRACE_SECONDS,
            variables_file=str(variables),
            passed_on=passed_on,
        )
        return Program(
            argv=arguments,
            directory=directory,
            environment={**engine_environment(), **passed_on},
            on_death=engine.remove_arguments([container_name(assignment)]),
        )

    async def _stop(self, engine: Engine, name: str, started: Started) -> None:
        """Kill the container, then the client, then what the client may have made in between."""
        await self._remove(engine, name)
        await self._programs.kill(started)
        await self._remove(engine, name)

    async def _inspect(self, engine: Engine, name: str) -> dict[str, Any] | None:
        try:
            found = await engine.inspect([name])
        except EngineError as problem:
            logger.warning("a container cannot be inspected: %s", problem, extra={"action": "worker.engine_error"})
            return None
        return found[0] if found else None

    async def _remove(self, engine: Engine, name: str) -> None:
        try:
            await engine.remove(name)
        except EngineError as problem:
            extra = {"action": "worker.engine_error", "container": name, "error": str(problem)}
            logger.warning("a container cannot be removed now; a sweep will", extra=extra)

    async def _clean_up(self, engine: Engine, name: str, directory: str, gate: Gate | None) -> None:
        await self._remove(engine, name)
        self._names.discard(name)
        if gate is not None:
            await gate.close()
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def _later(self, removal: Coroutine[Any, Any, None]) -> None:
        """The report does not wait for it; `close` does."""
        task = asyncio.create_task(removal)
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _sweep(self) -> None:
        assert self._finding is not None
        engine = self.engine = await asyncio.shield(self._finding)
        while engine is not None:
            try:
                await sweep(engine, mine=self._names, now=self._clock.time())
            except EngineError as problem:
                logger.warning("no sweep: %s", problem, extra={"action": "worker.engine_error"})
            await asyncio.sleep(self._policy.sweep_seconds)
