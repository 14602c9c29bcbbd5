"""Containers: closed in on all sides, judged rightly, and gone afterwards, whatever happens. Real podman."""

import http.server
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from apps.executions.handler_spec import validate_handler
from apps.executions.states import Outcome
from apps.quickstart.demo_container import IMAGES, container_task, local_image
from apps.worker.containers.owner import own_mark
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.runner import Assignment
from chronoweb.runtime.config import problems, read
from tests.container_tools import IMAGE, Podman, podman, processes_with
from tests.runner_tools import PYTHON, Watched, alive, assignment, lines, until, watched

STUBBORN = "trap '' TERM INT; setsid sleep {mark} & sleep {mark}"


@pytest.fixture(scope="module")
def engine() -> Iterator[Podman]:
    with podman() as one:
        yield one


@pytest.fixture(scope="module")
def runner(engine: Podman) -> Iterator[Watched]:
    with watched(slots=8, containers=engine.policy) as one:
        until(lambda: one.runner.inline.capabilities == ("container",), "the engine")
        yield one


def container(*command: str, timeout: float = 60.0, parameters: Any = None, **fields: Any) -> Assignment:
    spec = {"type": "container", "image": IMAGE, "command": list(command), **fields}
    return assignment(spec, timeout=timeout, **(parameters or {}))


def shell(script: str, **fields: Any) -> Assignment:
    return container("/bin/sh", "-c", script, **fields)


LOOK = """
cat /proc/self/status; echo hello > /tmp/x && cat /tmp/x
touch /x /etc/x /var/x /run/x && echo WRITABLE
cat /proc/net/dev; nc -w 1 1.1.1.1 80 </dev/null && echo REACHED
cat /proc/mounts; env
"""


def test_it_is_closed_in_and_removed_afterwards(
    runner: Watched, engine: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "do not tell")
    monkeypatch.setenv("HTTP_PROXY", "http://somebody:password@proxy.example")
    given = shell(LOOK, environment={"GIVEN": "$HOME; id", "HOME": "/x"}, parameters={"p": "$(id)\n; id"})
    (result,) = runner.run(given)
    assert result.outcome is Outcome.SUCCEEDED, result.error
    seen = json.loads(result.result_json or b"")["stdout"].splitlines()
    status = dict(line.split(":\t", 1) for line in seen if ":\t" in line)
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"65534"}
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "hello" in seen
    assert not {"WRITABLE", "REACHED"} & set(seen)
    assert [line.split(":")[0].strip() for line in seen if line.count(":") == 1 and len(line.split()) == 17] == ["lo"]
    mounts = {
        words[1]: words[3].split(",") for words in map(str.split, seen) if len(words) == 6 and words[1][:1] == "/"
    }
    assert "ro" in mounts["/"]
    assert {"rw", "nosuid", "nodev"} <= set(mounts["/tmp"])  # noqa: S108 - inside the container
    environment = dict(line.split("=", 1) for line in seen if "=" in line and " " not in line.split("=")[0])
    assert json.loads(environment["CHRONOWEB_PARAMETERS"]) == {"p": "$(id)\n; id"}
    assert environment["CHRONOWEB_EXECUTION_ID"] == str(UUID(bytes=given.execution_id))
    assert (environment["GIVEN"], environment["HOME"]) == ("$HOME; id", "/x")
    assert "SECRET_KEY" not in environment
    assert "password" not in " ".join(seen)
    until(lambda: not engine.containers(), "its removal")


def test_ends_are_told_apart(runner: Watched) -> None:
    small = {"cpu": "500m", "memory": "16Mi"}
    given = {
        "exit code 7": shell("echo half; echo why >&2; exit 7"),
        "own 127": shell("exit 127"),
        "not in the image": container("/no/such/program"),
        "no image": container("/bin/sh", image="localhost/no-such-image:1"),
        "memory": shell("tail /dev/zero", resource_requirements=small),
        "memory of the first": container("tail", "/dev/zero", resource_requirements=small),
        "killed": shell("sh -c 'kill -9 $$'; exit 137"),
    }
    ends = dict(zip(given, runner.run(*given.values()), strict=True))
    errors: dict[str, Any] = {name: end.error for name, end in ends.items()}
    assert all(errors.values())
    kinds = {name: (error["type"], error["exit_code"], error["permanent"]) for name, error in errors.items()}
    assert kinds == {
        "exit code 7": ("ContainerFailed", 7, False),
        "own 127": ("ContainerFailed", 127, False),
        "not in the image": ("ContainerNotStarted", 127, True),
        "no image": ("ContainerNotStarted", 125, False),
        "memory": ("OutOfMemory", 137, False),
        "memory of the first": ("OutOfMemory", 137, False),
        "killed": ("ContainerKilled", 137, False),
    }
    assert (errors["exit code 7"]["stdout"], errors["exit code 7"]["stderr"]) == ("half\n", "why\n")
    assert "no-such-image" in errors["no image"]["message"]


@pytest.mark.parametrize("how", ["timeout", "its own timeout", "cancel"])
def test_one_that_is_stopped_leaves_nothing(runner: Watched, engine: Podman, unique: str, how: str) -> None:
    mark = str(100_000 + int(unique[1:], 16) % 900_000)
    seen = False
    for seconds in (2.5, 25.0, 80.0):  # on a busy machine a container may take longer to start than a short timeout
        limits = {"timeout_seconds": seconds} if how == "its own timeout" else {}
        timeout = seconds if how == "timeout" else 600.0
        given = shell(STUBBORN.format(mark=mark), timeout=timeout, resource_requirements=limits)
        runner.runner.submit([given])
        until(lambda: len(processes_with(mark)) >= 2 or runner.has_ended(given), "its processes")  # noqa: B023
        seen = not runner.has_ended(given)
        if seen:
            break
    assert seen
    if how == "cancel":
        assert runner.runner.cancel(given.execution_id)
    result = runner.result_of(given)
    assert result.outcome is (Outcome.CANCELLED if how == "cancel" else Outcome.TIMED_OUT)
    assert not processes_with(mark)
    until(lambda: not engine.containers(), "its removal")


PROGRAM = """
import signal, sys, threading, time
from apps.worker.containers.policy import ContainerPolicy
from tests.runner_tools import SOURCES, assignment, watched
path, mark, shell, python, daemon, how = sys.argv[1:7]
engine, run = (tuple(text.split(",")) for text in sys.argv[7:9])
options = dict(engine="podman", engine_arguments=engine, run_arguments=run, pull="never")
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
with watched(slots=6, containers=ContainerPolicy(**options)) as runner:
    runner.runner.submit([
        assignment("t.deaf", path=path),
        assignment({"type": "command", "argv": [python, "-c", daemon, path, "600"]}),
        assignment({"type": "container", "image": sys.argv[9], "command": ["/bin/sh", "-c", shell]}),
    ])
    ended.wait()
    assert len(runner.runner.drain(0.1)) == 3
"""
DAEMON = """
import os, signal, sys, time
for number in (1, 2, 3, 15):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        open(sys.argv[1], "a").write(str(os.getpid()) + chr(10))
        time.sleep(600)
    os._exit(0)
open(sys.argv[1], "a").write(str(os.getpid()) + chr(10))
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_survives_its_worker(engine: Podman, open_dir: Path, unique: str, how: signal.Signals) -> None:
    """A Python child that ignores signals, a command with a daemon, a container: drained, and killed outright."""
    mark = str(100_000 + int(unique[1:], 16) % 900_000)
    path = open_dir / "pids"
    path.touch()
    path.chmod(0o666)
    engine_arguments, run_arguments = ",".join(engine.policy.engine_arguments), ",".join(engine.policy.run_arguments)
    shell = STUBBORN.format(mark=mark)
    arguments = [str(path), mark, shell, PYTHON, DAEMON, how.name, engine_arguments, run_arguments, IMAGE]
    folders = open_dir / "folders"
    folders.mkdir()
    folders.chmod(0o777)
    environment = {**os.environ, "TMPDIR": str(folders)}
    worker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments], env=environment)
    try:
        pids = until(lambda: [int(pid) for pid in lines(path)] if len(lines(path)) == 3 else None, "the processes")
        until(lambda: len(processes_with(mark)) >= 2, "the container's processes")
    finally:
        worker.send_signal(how)
        code = worker.wait(timeout=60)
    assert code == (0 if how is signal.SIGTERM else -how)
    until(lambda: not any(alive(pid) for pid in pids) and not processes_with(mark), "the end of all", 20)
    until(lambda: not list(folders.glob("chronoweb-*")), "the removal of the working folders")
    until(lambda: not engine.containers(), "its removal")


def test_what_a_crashed_worker_left_is_swept(engine: Podman) -> None:
    """And only that: not what a living worker runs, nor what is no worker's."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    place = own_mark().rsplit("/", 2)[0]
    owners = {"of-the-dead": f"{place}/{ended.pid}/12345", "of-another-machine": "boot/1/2/3", "of-nobody": ""}
    for name, owner in owners.items():
        labels = ["--label", f"chronoweb.owner={owner}", "--label", "chronoweb.deadline=99999999999"] if owner else []
        engine.call(
            "run",
            "--detach",
            "--name",
            name,
            "--network=none",
            *engine.policy.run_arguments,
            *labels,
            IMAGE,
            "sleep",
            "600",
        )
    with watched(slots=1, containers=replace(engine.policy, sweep_seconds=0.2)):
        until(lambda: "of-the-dead" not in engine.containers(), "its removal")
        late = ["--label", "chronoweb.owner=boot/1/2/3", "--label", "chronoweb.deadline=1"]
        engine.call(
            "create", "--name", "late", "--network=none", *engine.policy.run_arguments, *late, IMAGE, "sleep", "600"
        )
        until(lambda: "late" not in engine.containers(), "its removal")
        assert set(engine.containers()) == {"of-another-machine", "of-nobody"}
    engine.call("rm", "--force", "--time=0", "of-another-machine", "of-nobody")


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from " + (self.headers["Host"] or "").encode())

    def log_message(self, *arguments: Any) -> None:
        pass


def test_only_listed_pairs_are_reached(engine: Podman) -> None:
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server,
        watched(slots=2, containers=engine.limited_to("127.0.0.0/8")) as runner,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        script = (
            f"wget -q -O - http://localhost:{port}/x; echo; wget -q -O - http://localhost:{port + 1}/ || echo REFUSED; "
            f"export no_proxy=*; unset http_proxy; wget -q -O - http://127.0.0.1:{port}/ || echo NO WAY AROUND"
        )
        network = {"allow": [f"localhost:{port}"]}
        (result,) = runner.run(shell(script, network=network, environment={"no_proxy": "x"}))
        server.shutdown()
    assert result.outcome is Outcome.SUCCEEDED, result.error
    said = json.loads(result.result_json or b"")
    assert said["stdout"].splitlines() == [f"hello from localhost:{port}", "REFUSED", "NO WAY AROUND"]
    assert "403" in said["stderr"]


@pytest.mark.parametrize(
    "policy", [ContainerPolicy(), ContainerPolicy(engine="docker", engine_arguments=("--host=unix:///nowhere",))]
)
def test_without_an_engine_it_fails_for_good(policy: ContainerPolicy) -> None:
    with watched(slots=1, containers=policy) as runner:
        (result,) = runner.run(container("true"))
        assert runner.runner.inline.capabilities == ()
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == ("ContainerNotStarted", True)
    assert "CHRONOWEB_CONTAINER_ENGINE" in result.error["message"]


def test_the_demo_has_a_container_task_where_an_image_is_at_hand(engine: Podman) -> None:
    assert local_image(ContainerPolicy()) is None
    assert local_image(engine.policy) is None
    engine.call("tag", IMAGE, IMAGES[1])
    image = local_image(engine.policy)
    assert image == IMAGES[1]
    handler = validate_handler(container_task(image)["handler"])
    with watched(slots=1, containers=engine.policy) as runner:
        (result,) = runner.run(assignment(handler))
    assert result.outcome is Outcome.SUCCEEDED, result.error
    assert b"65534" in (result.result_json or b"")


def test_the_settings_reach_the_worker() -> None:
    given = read(
        {
            "CHRONOWEB_CONTAINER_ENGINE": "podman",
            "CHRONOWEB_CONTAINER_ENGINE_ARGUMENTS": "--runtime=runc,--storage-driver=vfs",
            "CHRONOWEB_CONTAINER_RUN_ARGUMENTS": "--ulimit=nofile=1024:1024",
            "CHRONOWEB_CONTAINER_PULL": "sometimes",
        }
    )
    policy = ContainerPolicy.of(given, worker=3)
    assert (policy.engine, policy.candidates, policy.worker) == ("podman", ("podman",), "3")
    assert policy.engine_arguments == ("--runtime=runc", "--storage-driver=vfs")
    assert policy.run_arguments == ("--ulimit=nofile=1024:1024",)
    assert problems(given) == ["CHRONOWEB_CONTAINER_PULL='sometimes' is none of always, missing, never"]
