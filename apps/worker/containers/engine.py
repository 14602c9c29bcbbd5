"""podman or docker, by their command line."""

import asyncio
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.worker.containers.policy import ContainerPolicy

logger = logging.getLogger(__name__)

OWNER_LABEL = "chronoweb.owner"
CALL_SECONDS = 60.0
_ENVIRONMENT = frozenset(
    {
        *("PATH", "HOME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
        *("DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH"),
        *("DOCKER_TLS_VERIFY", "CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"),
        *("CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    }
)
"""What an engine's client needs of the worker's environment: where its daemon, its images and their registries are."""


class EngineError(Exception):
    """The engine did not do what it was asked."""


def engine_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _ENVIRONMENT}


@dataclass(frozen=True)
class Engine:
    """One engine that answers. `program` is its path with the arguments that come before a subcommand."""

    kind: str
    program: tuple[str, ...]

    @property
    def is_podman(self) -> bool:
        return self.kind == "podman"

    def remove_arguments(self, names: Sequence[str]) -> list[str]:
        """The command that kills and removes containers, with their anonymous volumes."""
        now = ("--time", "0", "--ignore") if self.is_podman else ()
        return [*self.program, "rm", "--force", "--volumes", *now, *names]

    async def remove(self, name: str) -> None:
        """Kill and remove; none of that name is fine. Raises EngineError."""
        try:
            await self._call(self.remove_arguments([name]))
        except EngineError as problem:
            if "no such container" not in str(problem).lower():
                raise

    async def inspect(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """What the engine knows of each; those that are gone are left out. Raises EngineError."""
        if not names:
            return []
        text = await self._call([*self.program, "container", "inspect", *names], must_succeed=False)
        try:
            found = json.loads(text or "[]")
        except ValueError as problem:
            raise EngineError(f"inspect answered no JSON: {problem}") from None
        return [one for one in found if isinstance(one, dict)]

    async def has_image(self, image: str) -> bool:
        """Whether it need not be fetched."""
        try:
            await self._call([*self.program, "image", "inspect", image])
        except EngineError:
            return False
        return True

    async def ours(self) -> list[str]:
        """Ids of all containers that some worker started. Raises EngineError."""
        filters = ("--all", "--quiet", "--no-trunc", "--filter", f"label={OWNER_LABEL}")
        return (await self._call([*self.program, "ps", *filters])).split()

    async def _call(self, arguments: list[str], *, must_succeed: bool = True) -> str:
        return await asyncio.to_thread(_run, arguments, must_succeed)


async def find(policy: ContainerPolicy) -> Engine | None:
    """The first of the policy's engines that is installed and answers; None, with the reasons in the log."""
    for kind in policy.candidates:
        path = shutil.which(kind)
        if path is None:
            continue
        engine = Engine(kind, (path, *policy.engine_arguments))
        try:
            await engine.ours()
        except EngineError as problem:
            extra = {"action": "worker.engine_refused", "engine": kind, "error": str(problem)}
            logger.info("a container engine does not answer", extra=extra)
            continue
        logger.info("container engine found", extra={"action": "worker.engine", "engine": kind})
        return engine
    return None


def _run(arguments: list[str], must_succeed: bool) -> str:
    """Runs in a thread: no preexec_fn, so that starting it does not fork the worker in an unsafe way."""
    try:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CALL_SECONDS,
            env=engine_environment(),
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise EngineError(str(problem)) from problem
    if done.returncode and must_succeed:
        raise EngineError(done.stderr.decode("utf-8", "replace").strip()[-1000:] or f"exit code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")
