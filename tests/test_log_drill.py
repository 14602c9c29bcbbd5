"""One attempt prints a lot, people look on through two web processes, and the shipper is killed in the middle."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from django.conf import settings
from pytest_django import DjangoDbBlocker

from apps.definitions import services as definitions
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.quickstart.services import ServiceAddresses
from apps.tenants.keys import issue
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.factories import make_principal
from tests.stack import Processes, cloned, django_uses, processes
from tests.waiting import eventually

START_SECONDS = 90
MIB = 1 << 20
WIDTH = 100


class Site:
    """A web process of its own."""

    def __init__(self, environment: dict[str, str], folder: Path, name: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "chronoweb.asgi:application"]
        with (folder / f"{name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=settings.BASE_DIR,
                env={**environment, "PYTHONPATH": str(settings.BASE_DIR)},
                stdout=log,
                stderr=log,
            )

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/livez", timeout=1).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@dataclass
class Peaks:
    """The most memory that each process took, looked at ten times a second."""

    pids: dict[str, int]
    most: dict[str, int] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.stopped.wait(0.1):
            for name, pid in list(self.pids.items()):
                try:
                    process = psutil.Process(pid)
                    family = [process, *process.children(recursive=True)] if name == "worker" else [process]
                    size = max(one.memory_info().rss for one in family)
                except psutil.Error:
                    continue
                self.most[name] = max(self.most.get(name, 0), size)


class Viewer(threading.Thread):
    """Reads the live tail; goes to another web process whenever the connection ends, behind the last line."""

    def __init__(self, sites: list[Site], path: str, key: str, *, leave_after: int) -> None:
        super().__init__(daemon=True)
        self._sites = sites
        self._path = path
        self._key = key
        self._leave_after = leave_after
        self.numbers: list[int] = []
        self.last = ""
        self.end: dict[str, Any] | None = None
        self.connections = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while self.end is None:
                self._connect()
        except Exception as error:
            self.failure = error

    def _connect(self) -> None:
        site = self._sites[self.connections % len(self._sites)]
        self.connections += 1
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "text/event-stream"}
        if self.last:
            headers["Last-Event-ID"] = self.last
        seen = 0
        with httpx.stream("GET", site.url + self._path, headers=headers, timeout=60) as answer:
            assert answer.status_code == 200
            kind = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "id":
                    self.last = value
                elif name == "data" and kind == "end":
                    self.end = json.loads(value)
                    return
                elif name == "data":
                    self.numbers.append(json.loads(value)["seq"])
                    seen += 1
                elif not line and seen > self._leave_after:
                    return  # as if the connection broke


def lateness(site: Site, principal: Principal, key: str) -> list[float]:
    """Seconds from the print of a line now and then to its event."""
    data = {
        "name": "speaks now and then",
        "schedule": {"type": "manual"},
        "handler": {"type": "python", "name": "demo.long_haul"},
        "parameters": {"steps": 12, "seconds_each": 0.2},
    }
    task = definitions.create_task(principal=principal, data=data)
    identity = definitions.trigger(principal=principal, task_id=task.id)
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}
    found = []
    with httpx.stream("GET", f"{site.url}/api/v1/executions/{identity}/logs", headers=headers, timeout=60) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and '"stream":"stdout"' in line:
                printed = datetime.fromisoformat(json.loads(line[6:])["time"])
                found.append((SYSTEM_CLOCK.now() - printed).total_seconds())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def daemons(
    services: ServiceAddresses,
    template_database: str,
    django_db_blocker: DjangoDbBlocker,
    redis_prefix: str,
    folder: Path,
) -> Iterator[Processes]:
    with (
        cloned(services, template_database) as url,
        django_uses(url, django_db_blocker),
        processes(url, services, redis_prefix, folder, LOG_DIRECTORY=str(folder / "kept")) as started,
    ):
        for name in ("preloader", "dispatcher", "worker"):
            started.start(name, name)
        yield started


@pytest.mark.parametrize("lines", [20_000, pytest.param(200_000, marks=pytest.mark.drill)])
@pytest.mark.timeout(600)
def test_a_killed_shipper_costs_no_line_and_memory_is_bounded(daemons: Processes, folder: Path, lines: int) -> None:
    daemons.start("logshipper", "logshipper")
    principal = make_principal()
    key = issue(tenant=Tenant.objects.get(id=principal.tenant_id), name="test", role=Role.VIEWER)
    sites = [Site(daemons.environment, folder, f"web-{n}") for n in range(2)]
    peaks = Peaks({name: process.pid for name, process in daemons.running.items()})
    peaks.pids |= {f"web-{n}": site.process.pid for n, site in enumerate(sites)}
    try:
        eventually(lambda: all(site.answers() for site in sites))
        task = definitions.create_task(
            principal=principal,
            data={
                "name": "chatter",
                "schedule": {"type": "manual"},
                "handler": {"type": "python", "name": "demo.chatter"},
                "parameters": {"lines": lines, "width": WIDTH},
                "timeout_seconds": 300,
            },
        )
        identity = definitions.trigger(principal=principal, task_id=task.id)
        path = f"/api/v1/executions/{identity}/logs"
        viewer = Viewer(sites, path, key, leave_after=lines // 3)
        threading.Thread(target=peaks.watch, daemon=True).start()
        viewer.start()
        eventually(lambda: viewer.failure or len(viewer.numbers) > lines // 10)
        daemons.kill("logshipper")
        eventually(lambda: viewer.failure or len(viewer.numbers) > lines // 5)
        daemons.start("logshipper", "logshipper")
        peaks.pids["logshipper"] = daemons.running["logshipper"].pid
        viewer.join(300)
        assert viewer.failure is None, viewer.failure
        assert viewer.end is not None
        assert viewer.end["status"] == "completed"
        assert viewer.numbers == list(range(1, lines + 1))
        assert viewer.connections >= 3
        headers = {"Authorization": f"Bearer {key}"}
        text = httpx.get(f"{sites[0].url}{path}/download?format=text", headers=headers, timeout=120).text
        assert text.splitlines() == [f"{n} {'.' * WIDTH}" for n in range(1, lines + 1)]
        found = httpx.get(f"{sites[1].url}{path}?search={lines - 1}&limit=10", headers=headers, timeout=60).json()
        assert lines - 1 in [item["seq"] for item in found["items"]] or found["next_cursor"]
        assert Execution.objects.with_id(identity).get().state is Status.COMPLETED
        late = lateness(sites[0], principal, key)
    finally:
        peaks.stopped.set()
        for site in sites:
            site.stop()
    print(f"from print to event: {sorted(round(one * 1000) for one in late)} ms")
    assert sorted(late)[len(late) // 2] < 0.5
    shown = {name: f"{size / MIB:.0f} MiB" for name, size in sorted(peaks.most.items())}
    print(f"{lines:,} lines, peaks of resident memory: {shown}")
    assert max(peaks.most.values()) < 400 * MIB, shown
