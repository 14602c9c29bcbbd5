"""Commands: whose rights they have, how much they may take, what they learn of the worker."""

import json
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from apps.executions.states import Outcome
from apps.worker.handlers.command_policy import CommandPolicy, NoCommandUser
from apps.worker.runner import Assignment
from tests.runner_tools import PYTHON, Watched, assignment, until, watched

SECRETS = (
    *("DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS"),
    *("SECRET_KEY", "SECRET_ENCRYPTION_KEYS"),
)


def command(*argv: str, **limits: Any) -> Assignment:
    return assignment({"type": "command", "argv": list(argv), "environment": {}, "limits": limits})


def said(runner: Watched, given: Assignment) -> Any:
    (result,) = runner.run(given)
    assert result.outcome is Outcome.SUCCEEDED, result.error
    return json.loads(result.result_json or b"")["stdout"]


@pytest.fixture(scope="module")
def runner() -> Iterator[Watched]:
    with watched(slots=4) as one:
        yield one


@pytest.fixture
def status(runner: Watched) -> dict[str, str]:
    """/proc/self/status of a command."""
    text = said(runner, command("cat", "/proc/self/status"))
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def test_it_has_no_rights_and_gains_none(status: dict[str, str]) -> None:
    expected = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    assert set(status["Uid"].split()) == {str(expected.pw_uid)}
    assert set(status["Gid"].split()) == {str(expected.pw_gid)}
    assert status["NoNewPrivs"] == "1"
    assert status["CapEff"] == status["CapPrm"] == "0" * 16
    if os.geteuid() == 0:
        assert status["Groups"] == ""


LOOK = """
import os, json
seen, pid = {}, os.getpid()
while pid > 1:
    pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    for name in ("environ", "mem"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                seen[f"{pid} {name}"] = file.read(20000).decode("latin-1") if name == "environ" else "open"
        except OSError:
            continue
print(json.dumps([dict(os.environ), seen if os.getuid() == 65534 else {}, os.listdir("/proc/self/fd")]))
"""


def test_nothing_of_the_worker_reaches_it(runner: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, f"the-{name}-of-the-worker")
    environment, seen, descriptors = json.loads(said(runner, command(PYTHON, "-c", LOOK)))
    assert not set(SECRETS) & set(environment)
    assert seen == {}
    assert len(descriptors) <= 4  # its three pipes, and the folder that is listed


def test_the_zygote_that_starts_it_has_no_secrets_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where commands run as the worker's own user, they may look at its processes."""
    monkeypatch.setenv("SECRET_KEY", "the-secret")
    with watched(slots=1) as runner:
        runner.run(command("true"))
        zygotes = [child for child in psutil.Process().children() if "apps.worker.children.zygote" in child.cmdline()]
        starters = [zygote for zygote in zygotes if zygote.cmdline()[-1] == ""]
        assert starters
        assert all("SECRET_KEY" not in zygote.environ() for zygote in starters)


LIMITS = """
import json, resource as r
print(json.dumps([r.getrlimit(k)[0] for k in (r.RLIMIT_AS, r.RLIMIT_FSIZE, r.RLIMIT_NPROC, r.RLIMIT_NOFILE,
                                              r.RLIMIT_CPU, r.RLIMIT_CORE)]))
"""


def test_limits_of_the_handler_hold(runner: Watched) -> None:
    given = {"memory": "512Mi", "file_size": 4096, "processes": 100, "open_files": 64, "cpu_seconds": 5}
    assert json.loads(said(runner, command(PYTHON, "-c", LIMITS, **given))) == [512 * 1024**2, 4096, 100, 64, 5, 0]


def test_the_installations_limits_are_the_most() -> None:
    caps = {"memory": 64 * 1024**3, "file_size": 1000, "processes": 500, "open_files": 32, "cpu_seconds": 7}
    with watched(slots=1, commands=CommandPolicy(caps=caps)) as runner:
        seen = json.loads(said(runner, command(PYTHON, "-c", LIMITS, file_size="1Gi", open_files=1000)))
    assert (seen[1], seen[3], seen[4]) == (1000, 32, 7)


@pytest.mark.parametrize(
    ("program", "limits", "says"),
    [
        ("x = bytearray(900 * 1024**2)", {"memory": "256Mi"}, "exit code 1"),
        (
            "import signal; signal.signal(25, signal.SIG_DFL); open('x', 'wb').write(bytes(9999))",
            {"file_size": 4096},
            "file_size",
        ),
        ("while True: pass", {"cpu_seconds": 1}, "cpu_seconds"),
        (
            "import os; [os.dup(0) for _ in range(99)]",
            {"open_files": 32},
            "exit code 1",
        ),
    ],
)
def test_who_takes_too_much_fails(runner: Watched, program: str, limits: dict[str, Any], says: str) -> None:
    (result,) = runner.run(command(PYTHON, "-c", program, **limits))
    assert result.error is not None
    assert says in result.error["message"]


def test_users_that_commands_may_not_have() -> None:
    with pytest.raises(NoCommandUser, match="CHRONOWEB_COMMAND_USER"):
        CommandPolicy("no-such-user").user()
    with pytest.raises(NoCommandUser, match="ROOT_ALLOWED"):
        CommandPolicy("root").user()
    if os.geteuid() == 0:
        assert CommandPolicy("0", root_allowed=True).user() == (0, 0)


def test_a_user_who_is_missing_fails_it_for_good() -> None:
    with watched(slots=1, commands=CommandPolicy("no-such-user")) as runner:
        (result,) = runner.run(command("true"))
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == ("CommandNotStarted", True)


def test_its_folder_is_its_own_and_goes_with_it(runner: Watched) -> None:
    script = "umask 077; echo x > file; mkdir -p a/b; chmod 0 a; pwd; stat -c '%U %a' ."
    where, owner = said(runner, command("/bin/sh", "-c", script)).splitlines()
    expected = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    assert owner == f"{expected} 700"
    until(lambda: os.geteuid() != 0 or not Path(where).exists(), "its removal")
