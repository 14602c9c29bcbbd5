"""Commands: whose rights they have, how much they may take, what they learn of the worker."""

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from apps.executions.states import Outcome
from apps.worker.handlers.command_policy import CommandPolicy
from apps.worker.handlers.command_uids import DEFAULT_RANGES, NoCommandUser, TenantUids, mapped
from apps.worker.runner import Assignment
from chronoweb.runtime.config import Config, problems
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
    if os.geteuid() == 0:
        (uid,) = set(status["Uid"].split())
        assert set(status["Gid"].split()) == {uid}
        assert any(int(uid) in numbers for numbers in DEFAULT_RANGES)
    else:
        assert set(status["Uid"].split()) == {str(os.geteuid())}
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
print(json.dumps([dict(os.environ), seen if os.getuid() >= 60000 else {}, os.listdir("/proc/self/fd")]))
"""


def test_nothing_of_the_worker_reaches_it(runner: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, f"the-{name}-of-the-worker")
    environment, seen, descriptors = json.loads(said(runner, command(PYTHON, "-c", LOOK)))
    assert not set(SECRETS) & set(environment)
    assert seen == {}
    assert len(descriptors) <= 4  # its three pipes, and the folder that is listed


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a command that has just ended
        return []


def test_the_zygote_that_starts_it_has_no_secrets_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where commands run as the worker's own user, they may look at its processes."""
    monkeypatch.setenv("SECRET_KEY", "the-secret")
    with watched(slots=1) as runner:
        runner.run(command("true"))
        zygotes = [child for child in psutil.Process().children() if "apps.worker.children.zygote" in words_of(child)]
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
    script = "umask 077; echo x > file; mkdir -p a/b; chmod 0 a; pwd; stat -c '%u %a' .; id -u"
    where, owner, uid = said(runner, command("/bin/sh", "-c", script)).splitlines()
    assert owner == f"{uid} 700"
    until(lambda: os.geteuid() != 0 or not Path(where).exists(), "its removal")


# ---- tenants ------------------------------------------------------------------------------------------------------

VICTIM = """
import os, sys, time
with open("private", "w") as file:
    file.write("what is acme's")
os.chmod("private", 0o644)
with open(sys.argv[1] + "/victim.part", "w") as file:
    file.write(f"{os.getpid()} {os.getcwd()}")
os.rename(sys.argv[1] + "/victim.part", sys.argv[1] + "/victim")
while not os.path.exists(sys.argv[1] + "/seen"):
    time.sleep(0.02)
print("alive")
"""
INTRUDER = """
import json, os, signal, sys
pid, home = open(sys.argv[1] + "/victim").read().split()
def tried(act):
    try:
        return repr(act())
    except OSError as problem:
        return type(problem).__name__
print(json.dumps([
    tried(lambda: open(f"/proc/{pid}/environ").read()),
    tried(lambda: open(home + "/private").read()),
    tried(lambda: os.listdir(home)),
    tried(lambda: os.kill(int(pid), signal.SIGKILL)),
]))
"""


def test_tenants_cannot_reach_each_others_commands() -> None:
    if os.geteuid() != 0:
        assert CommandPolicy().tenant_uids() is None  # docs/containers.md says what that means
        return
    with tempfile.TemporaryDirectory() as meeting, watched(slots=4) as runner:
        os.chmod(meeting, 0o777)  # noqa: S103 - two users meet here
        victim = command(PYTHON, "-c", VICTIM, meeting)
        runner.runner.submit([victim])
        until(lambda: (Path(meeting) / "victim").exists(), "the victim's start")
        intruder = replace(command(PYTHON, "-c", INTRUDER, meeting), tenant="beta")
        assert set(json.loads(said(runner, intruder))) == {"PermissionError"}
        # The same, of the same tenant, shows that it was not for something else that they were refused.
        own = json.loads(said(runner, command(PYTHON, "-c", INTRUDER.replace("SIGKILL", "SIGCONT"), meeting)))
        assert "CHRONOWEB_EXECUTION_ID" in own[0]
        assert own[1:] == ['"what is acme\'s"', "['private']", "None"]
        (Path(meeting) / "seen").touch()
        end = runner.result_of(victim)
        assert end.outcome is Outcome.SUCCEEDED, end.error


def test_no_two_tenants_hold_a_number_and_one_keeps_its_own(tmp_path: Path) -> None:
    numbers = "200000-200002"
    one, other = TenantUids(numbers, tmp_path / "held"), TenantUids(numbers, tmp_path / "held")  # two workers
    found = {tenant: one.take(tenant) for tenant in ("a", "b")}
    assert other.take("a") == found["a"], "the same tenant may share its number between workers"
    found["c"] = other.take("c")
    assert sorted(found.values()) == [200000, 200001, 200002]
    for worker in (one, other):
        with pytest.raises(NoCommandUser, match="hold all 3") as refused:
            worker.take("d")
        assert refused.value.passing
    one.release("a")
    with pytest.raises(NoCommandUser):
        one.take("d")
    other.release("a")
    assert one.take("d") == found["a"]


def test_a_range_that_is_none_or_is_not_there_is_refused(tmp_path: Path) -> None:
    for text in ("5-10", "9000-8000", "0-4294967295", "many"):
        with pytest.raises(NoCommandUser, match="first-last"):
            TenantUids(text, tmp_path / "held").take("a")
        assert any("COMMAND_UIDS" in one for one in problems(Config(command_uids=text)))
    assert problems(Config(command_uids="200000-265535")) == []
    assert not mapped(range(2**32 - 1, 2**32 + 1), "uid")
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(NoCommandUser, match="nobody else may enter"):
        TenantUids("", tmp_path / "open").take("a")
