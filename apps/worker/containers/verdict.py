"""What the end of an engine's client means. Pure.

Exit codes of `run`: 125 the engine failed, 126 the command cannot be invoked, 127 it is not in the image; any
other is the container's own. A container may end with these numbers, too: then the engine knows that it ran.
"""

import errno
from typing import Any

from apps.executions.container_spec import Resources
from apps.executions.states import Outcome
from apps.worker.children.zygote_client import death_words
from apps.worker.containers.engine import Engine
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.handlers.report import make_error, report_texts
from apps.worker.jobs import Report

ENGINE_FAILED, CANNOT_INVOKE, NOT_FOUND = 125, 126, 127
KILLED = 137
_HINT_CHARACTERS = 300


def success(outputs: dict[str, str]) -> Report:
    return report_texts({"exit_code": 0}, outputs)


def failure(
    status: int, found: dict[str, Any] | None, *, out_of_memory: bool, asked: Resources, outputs: dict[str, str]
) -> Report:
    """status: of the client, as Popen.returncode; found: what the engine knows of the container, if anything."""
    state = (found or {}).get("State") or {}
    if out_of_memory or state.get("OOMKilled"):
        text = f"the container needed more than its memory of {asked.memory} bytes and was killed"
        return _failed("OutOfMemory", text, status, outputs)
    if status < 0:
        return _failed(
            "ContainerEngineFailed", f"the engine's client ended with {death_words(status)}", status, outputs
        )
    if status in (ENGINE_FAILED, CANNOT_INVOKE, NOT_FOUND) and not _ran(state):
        return _engine_failure(status, outputs)
    if status == KILLED:
        text = "the container was killed by signal 9, from within or by somebody on its machine, not for its memory"
        return _failed("ContainerKilled", text, status, outputs)
    words = f"signal {status - 128}" if 128 < status < 192 else f"exit code {status}"
    return _failed("ContainerFailed", f"the container ended with {words}", status, outputs)


def not_started(text: str, *, permanent: bool) -> Report:
    return Report(int(Outcome.FAILED), None, make_error("ContainerNotStarted", text, permanent=permanent))


def no_engine(policy: ContainerPolicy) -> Report:
    if policy.engine == "none":
        text = "this worker runs no containers: CHRONOWEB_CONTAINER_ENGINE is none"
    else:
        text = (
            f"this worker found no container engine that answers (CHRONOWEB_CONTAINER_ENGINE={policy.engine}, "
            f"looked for {' and '.join(policy.candidates)}; its log says why)"
        )
    return not_started(text, permanent=True)


def refused(engine: Engine, problem: OSError) -> Report:
    if problem.errno == errno.E2BIG:
        text = "parameters and command are too large for a program (128 KiB each)"
        return not_started(text, permanent=True)
    return not_started(f"{engine.kind} cannot be started: {problem.strerror or problem}", permanent=False)


def _ran(state: dict[str, Any]) -> bool:
    """Whether the container's own program had begun."""
    status = state.get("Status")
    return status == "exited" and not str(state.get("StartedAt", "0001")).startswith("0001")


def _engine_failure(status: int, outputs: dict[str, str]) -> Report:
    what = {
        ENGINE_FAILED: "the engine could not run the container",
        CANNOT_INVOKE: "the command cannot be invoked in the container",
        NOT_FOUND: "the command is not in the image",
    }[status]
    hint = outputs["stderr"].strip()[-_HINT_CHARACTERS:]
    return _failed("ContainerNotStarted", f"{what}: {hint}", status, outputs, permanent=status != ENGINE_FAILED)


def _failed(kind: str, text: str, status: int, outputs: dict[str, str], *, permanent: bool = False) -> Report:
    code = status if status > 0 else 128 - status
    return Report(int(Outcome.FAILED), None, {**make_error(kind, text, permanent=permanent, exit_code=code), **outputs})
