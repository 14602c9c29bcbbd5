"""A chronoweb to be broken: a database and a Redis prefix of its own, daemons as processes, a count of what ran.

Processes are what is killed and what heals; daemons that only stand by run in threads, which costs a test less.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from django.conf import settings

from apps.dispatcher import daemon as dispatcher_daemon
from apps.dispatcher.hot_tier import HotTier
from apps.executions import ids
from apps.executions.states import Outcome, Status
from apps.preloader import daemon as preloader_daemon
from apps.quickstart.bench.handlers import RECORD_VARIABLE, recorded
from apps.watchdog import daemon as watchdog_daemon
from apps.worker import daemon as worker_daemon
from chronoweb.runtime import postgres
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.config import Config, read
from chronoweb.runtime.loop import Daemon, Stop
from tests.nursery import nursery
from tests.stack import Ledger, Running, ledger_on
from tests.waiting import PATIENCE_SECONDS, eventually

RECORD = {"type": "python", "name": "bench.record"}
QUICK = {
    "CHRONOWEB_PRELOADER_POLL_SECONDS": "0.2",
    "CHRONOWEB_LOCK_LOST_SECONDS": "0.5",
    "CHRONOWEB_PARTITION_DAYS_AHEAD": "2",
    "CHRONOWEB_PARTITION_DAYS_BACK": "1",
    "CHRONOWEB_WORKER_SLOTS": "4",
    "CHRONOWEB_COMMAND_USER": str(os.geteuid()),  # commands write into a folder of the test's own
    "CHRONOWEB_COMMAND_ROOT_ALLOWED": "1",
    "CHRONOWEB_CONTAINER_ENGINE": "none",
    "CHRONOWEB_CLAIM_DEADLINE_SECONDS": "600",  # or a test that waits long would be healed by it
}
"""What differs from the defaults, so that a test takes seconds."""

START_SECONDS = PATIENCE_SECONDS


def sleeping(seconds: float, record: Path) -> dict[str, Any]:
    """A handler that takes its time, and notes its execution and token at the end."""
    script = f'sleep {seconds}; echo "$CHRONOWEB_EXECUTION_ID $CHRONOWEB_FENCING_TOKEN" >> {record}/slow'
    return {"type": "command", "argv": ["/bin/sh", "-c", script]}


def held(folder: Path) -> dict[str, Any]:
    """A handler that notes that it has begun (see `Rig.begun`), and ends once the test calls `Rig.let_end`."""
    script = f"echo >> {folder}/begun; while [ ! -e {folder}/let_end ]; do sleep 0.1; done"
    return {"type": "command", "argv": ["/bin/sh", "-c", script]}


@dataclass
class Rig:
    """One installation. `environment` is what its processes get over this one's own."""

    ledger: Ledger
    redis: redis.Redis
    prefix: str
    folder: Path
    environment: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    threads: dict[str, Running] = field(default_factory=dict)

    # ---- processes ----

    def start(
        self,
        name: str,
        *arguments: str,
        fault: str = "",
        off: Sequence[str] = (),
        mishaps: Sequence[str] = (),
        gate: str = "",
        before: Sequence[str] = (),
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Start `manage.py name`; fault: the point to die at; off, mishaps: see without.py; gate: for `open_gate`;
        before: a command that is to run it.
        """
        key = name if name not in self.running else f"{name}-{len(self.running)}"
        program = [str(settings.BASE_DIR / "manage.py")]
        if off or mishaps or gate:
            program = [str(Path(__file__).with_name("without.py"))]
            program += ["--gate", str(self.folder / gate)] if gate else []
            program += [word for path in off for word in ("--off", path)]
            program += [word for one in mishaps for word in ("--mishap", one)] + ["--"]
        argv = [*program, name, *arguments]
        variables = {**os.environ, **self.environment, "CHRONOWEB_FAULT": fault, **environment}
        log = self.folder / f"{key}.log"
        if before:
            self.running[key] = _run_by(before, argv, variables, log)
        else:
            self.running[key] = nursery().start(argv, environment=variables, log=log, death_signal=signal.SIGKILL)
        return self.running[key]

    def open_gate(self, name: str) -> None:
        """Let the processes begin that were started with this gate."""
        (self.folder / name).touch()

    def log(self, process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
        """What a process has logged: one document a line."""
        [key] = [key for key, one in self.running.items() if one is process]
        lines = (self.folder / f"{key}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def actions(self, process: subprocess.Popen[bytes]) -> Counter[str]:
        return Counter(str(line.get("action")) for line in self.log(process))

    def port(self, process: subprocess.Popen[bytes], *, resumed: bool = False) -> int:
        """Where a process that was given --health-port 0 answers; resumed: let it go on first."""
        if resumed:
            process.send_signal(signal.SIGCONT)
        return int(eventually(lambda: next((line["port"] for line in self.log(process) if "port" in line), 0)))

    def logs(self) -> str:
        """The ends of all logs, for a test that fails."""
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in sorted(self.folder.glob("*.log")))

    # ---- threads ----

    def config(self, **changes: Any) -> Config:
        names = {f"CHRONOWEB_{name.upper()}": str(value) for name, value in changes.items()}
        return read({**self.environment, **names})

    @property
    def addresses(self) -> Addresses:
        return Addresses(
            self.environment["DATABASE_URL"],
            self.environment["DATABASE_URL"],
            self.environment["REDIS_URL"],
            self.environment["KAFKA_BOOTSTRAP_SERVERS"],
        )

    def stand_by(self, *names: str, **changes: Any) -> None:
        """Run daemons in threads; changes: of their configuration."""
        config = self.config(**changes)
        stop = Stop()
        makers = self._makers(config, stop)
        for name in names:
            self.threads[name] = Running(makers[name](), stop if name == "worker" else Stop())

    def _makers(self, config: Config, stop: Stop) -> dict[str, Callable[[], Daemon]]:
        return {
            "preloader": lambda: preloader_daemon.build(config, self.addresses),
            "dispatcher": lambda: dispatcher_daemon.build(config, self.addresses),
            "watchdog": lambda: watchdog_daemon.build(config, self.addresses),
            "worker": lambda: worker_daemon.build(config, self.addresses, stop, slots=config.worker_slots),
        }

    def another(self, name: str) -> Running:
        """One more daemon in a thread, beside those that run."""
        key = f"{name}-{len(self.threads)}"
        self.threads[key] = Running(self._makers(self.config(), Stop())[name](), Stop())
        return self.threads[key]

    def retire(self, *names: str) -> None:
        """End daemons that run in threads, in order."""
        for name in names:
            self.threads.pop(name).stop()

    def warm_up(self) -> None:
        """Send one execution through: from then on handlers are loaded, and what is timed is not their loading."""
        self.wait_completed(self.due(in_ms=0))

    def replace_worker(self) -> None:
        """Another worker, in a thread, ready to run what comes back from a dead one."""
        self.stand_by("worker")
        let_pass(1.2)  # the dead one is believed to live for a second; the warm-up would go to it
        self.warm_up()

    # ---- work ----

    def due(self, count: int = 1, *, in_ms: int = 300, **more: Any) -> list[bytes]:
        """Executions as the API or the preloader leave them: SCHEDULED, due soon."""
        identities = self.ledger.add(count, status=Status.SCHEDULED, due_in_ms=in_ms, **more)
        self.wake()
        return identities

    def wake(self) -> None:
        self.ledger.connection.execute("SELECT pg_notify('chronoweb_preloader', '')")

    @property
    def record(self) -> Path:
        return self.folder / "runs"

    def runs(self) -> Counter[bytes]:
        """How often the handler ran, by execution."""
        return Counter(recorded(self.record))

    def counted(self, identities: Sequence[bytes]) -> Counter[Status]:
        return Counter(self.ledger.statuses(identities))

    def completed(self, identities: Sequence[bytes]) -> bool:
        return self.counted(identities)[Status.COMPLETED] == len(identities)

    def begun(self) -> int:
        """How many runs of `held` have begun."""
        notes = self.folder / "begun"
        return len(notes.read_text().splitlines()) if notes.exists() else 0

    def let_end(self) -> None:
        """Runs of `held` end, and those that begin from now on."""
        (self.folder / "let_end").touch()

    def wait_completed(self, identities: Sequence[bytes], *, within: float = START_SECONDS) -> float:
        """Until all are completed; how long that took."""
        began = time.monotonic()
        try:
            eventually(lambda: self.completed(identities), seconds=within, every=0.05)
        except AssertionError:
            raise AssertionError(f"{dict(self.counted(identities))} after {within:g} s\n{self.logs()}") from None
        return time.monotonic() - began

    def assert_once(self, identities: Sequence[bytes]) -> None:
        """Each has been committed once, and nothing of it is left behind."""
        rows = self.ledger.select(
            "SELECT execution_id, count(*) AS times FROM attempts WHERE outcome = %s"
            " AND tenant_id = encode(%s, 'hex')::uuid GROUP BY 1",
            int(Outcome.SUCCEEDED),
            self.ledger.tenant,
        )
        times = {row["execution_id"].bytes: row["times"] for row in rows}
        assert {i: times.get(i, 0) for i in identities} == dict.fromkeys(identities, 1)
        assert not set(identities) & self.ledger.outstanding().keys()

    def reconnect(self) -> None:
        """The rig's own session has been cut too."""
        self.ledger.connection.close()
        self.ledger.connection = postgres.connect("test", url=self.ledger.url)

    # ---- who leads ----

    def holder(self, role: str) -> tuple[str, int] | None:
        """(holder, epoch) of a lease that stands."""
        found = self.ledger.select(
            "SELECT holder, epoch FROM leases WHERE role = %s AND expires_at > clock_timestamp()", role
        )
        return (str(found[0]["holder"]), found[0]["epoch"]) if found else None

    def wait_led(self, role: str, *, after: tuple[str, int] | None = None) -> tuple[str, int]:
        """Until somebody (else than `after`) holds the role."""

        def held() -> tuple[str, int] | None:
            now = self.holder(role)
            return now if now is not None and (after is None or now[0] != after[0]) else None

        found = eventually(held)
        assert found is not None
        return found

    def epochs(self) -> dict[int, int]:
        """Shard → epoch, whoever holds it."""
        rows = self.ledger.select("SELECT role, epoch FROM leases WHERE role LIKE 'dispatcher/%%'")
        return {int(row["role"].split("/")[1]): row["epoch"] for row in rows}

    def shards(self) -> Counter[str]:
        """How many shards each living dispatcher holds."""
        rows = self.ledger.select(
            "SELECT s.holder::text AS holder FROM leases s JOIN leases m ON m.role = 'dispatcher-member/' || s.holder"
            " WHERE s.role LIKE 'dispatcher/%%' AND s.expires_at > clock_timestamp()"
            " AND m.expires_at > clock_timestamp()"
        )
        return Counter(row["holder"] for row in rows)

    def wait_shared(self, dispatchers: int) -> Counter[str]:
        """Until so many dispatchers hold all shards."""

        def shared() -> Counter[str] | None:
            now = self.shards()
            return now if sum(now.values()) == ids.SHARDS and len(now) == dispatchers else None

        found = eventually(shared)
        assert found is not None
        return found

    def wait_workers(self, count: int) -> None:
        """Until so many workers offer themselves in Redis and hold their lock."""
        query = "SELECT count(*) AS n FROM workers WHERE state = 'active'"
        eventually(lambda: self.ledger.select(query)[0]["n"] >= count)
        eventually(lambda: self.redis.hlen(f"{self.prefix}workers") >= count)

    def hot_tier(self) -> HotTier:
        return HotTier(self.redis, self.prefix)

    def in_flight(self) -> set[bytes]:
        """What the shards have popped and not acknowledged."""
        tier = self.hot_tier()
        return {i for shard in range(ids.SHARDS) for group in tier.in_flight(shard).values() for i in group}


def _run_by(
    before: Sequence[str], argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """A program of Python that another command starts; that one dies with this process."""
    wrapper = settings.BASE_DIR / "apps" / "quickstart" / "exec_with_parent.py"
    dying = (sys.executable, "-I", "-S", str(wrapper), "--parent", str(os.getpid()), "--signal", "9", "--")
    with log.open("ab") as file:
        return subprocess.Popen(
            [*dying, *before, sys.executable, *argv],
            env=environment,
            cwd=settings.BASE_DIR,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )


def let_pass(seconds: float) -> None:
    """Where nothing is to happen, time must pass."""
    threading.Event().wait(max(0.0, seconds))


def died_of_kill(process: subprocess.Popen[bytes], *, within: float = START_SECONDS) -> None:
    """The process killed itself at its fault point, as a power cut would."""
    assert process.wait(within) == -signal.SIGKILL


@contextmanager
def rig_on(
    url: str, redis_url: str, prefix: str, folder: Path, *, kafka: str = "", **environment: str
) -> Iterator[Rig]:
    """A rig on that database and that Redis; its processes and threads end with the block."""
    record = folder / "runs"
    record.mkdir()
    record.chmod(0o777)
    given: Mapping[str, str] = {
        **QUICK,
        "DATABASE_URL": url,
        "DATABASE_DIRECT_URL": url,
        "REDIS_URL": redis_url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka,
        "CHRONOWEB_REDIS_PREFIX": prefix,
        RECORD_VARIABLE: str(record),
        "LOG_LEVEL": "INFO",
        **environment,
    }
    with ExitStack() as stack:
        ledger = stack.enter_context(ledger_on(url))
        ledger.define(handler=RECORD)
        client = redis.Redis.from_url(redis_url)
        stack.callback(client.close)
        rig = Rig(ledger, client, prefix, folder, dict(given))
        stack.callback(lambda: rig.ledger.connection.close())
        stack.callback(_end, rig)
        yield rig


def _end(rig: Rig) -> None:
    for process in rig.running.values():
        if process.poll() is None:
            # Nothing here has to end in order: its database goes with it.
            process.kill()
            process.wait()
    for running in rig.threads.values():
        running.stop_flag.hurry.set()
        running.stop_flag.requested.set()
    for running in rig.threads.values():
        rig.wake()  # a preloader whose poll is switched off waits for nothing else
        running.thread.join(PATIENCE_SECONDS)
        assert not running.thread.is_alive(), f"{running.daemon.name} did not end"
