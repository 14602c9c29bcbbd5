"""The engine's command line for one attempt. Pure; an argument list, never a shell."""

from collections.abc import Mapping
from uuid import UUID

from apps.executions.container_spec import Resources
from apps.worker.containers.engine import OWNER_LABEL, Engine
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.jobs import Assignment

USER = "65534:65534"
EXECUTION_LABEL = "chronoweb.execution"
WORKER_LABEL = "chronoweb.worker"
DEADLINE_LABEL = "chronoweb.deadline"


def container_name(assignment: Assignment) -> str:
    """One of a kind: the token grows with each dispatch."""
    return f"chronoweb-{assignment.execution_id.hex()}-{assignment.token}"


def run_arguments(
    assignment: Assignment,
    *,
    engine: Engine,
    policy: ContainerPolicy,
    asked: Resources,
    network: str,
    owner: str,
    deadline: float,
    variables_file: str,
    passed_on: Mapping[str, str],
) -> list[str]:
    """The whole command.

    network: as for the engine's --network. deadline: seconds since the epoch after which anybody may remove it.
    variables_file: NAME=value lines. passed_on: variables whose values the client's environment holds, so that
    they stand in no process list.
    """
    return [
        *(*engine.program, "run"),
        *("--name", container_name(assignment)),
        *_labels(assignment, policy, owner, deadline),
        *("--network", network),
        *("--read-only", "--tmpfs", _tmp(engine, policy)),
        *("--user", USER, "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--pids-limit", str(policy.processes), "--ulimit", "core=0:0"),
        *("--memory", str(asked.memory), "--memory-swap", str(asked.memory), "--cpus", f"{asked.cpu:.4g}"),
        *("--log-driver", "none", "--pull", policy.pull),
        *(_PODMAN if engine.is_podman else ()),
        *("--env-file", variables_file),
        *(word for name in passed_on for word in ("--env", name)),
        *policy.run_arguments,
        assignment.handler["image"],
        *assignment.handler.get("command", ()),
    ]


_PODMAN = ("--read-only-tmpfs=false", "--http-proxy=false", "--image-volume=ignore", "--systemd=false")
"""No writable place but /tmp, no variables of the worker's, no volumes that an image asks for."""


def _tmp(engine: Engine, policy: ContainerPolicy) -> str:
    """The user's own: runc may give it the mode of the image's /tmp. podman would copy that one's files, too."""
    uid, gid = USER.split(":")
    owner = "U,notmpcopyup" if engine.is_podman else f"uid={uid},gid={gid}"
    return f"/tmp:rw,nosuid,nodev,mode=1777,{owner},size={policy.tmp_mib}m"  # noqa: S108 - inside the container


def _labels(assignment: Assignment, policy: ContainerPolicy, owner: str, deadline: float) -> list[str]:
    labels = {
        EXECUTION_LABEL: str(UUID(bytes=assignment.execution_id)),
        WORKER_LABEL: policy.worker,
        OWNER_LABEL: owner,
        DEADLINE_LABEL: str(int(deadline)),
    }
    return [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]
