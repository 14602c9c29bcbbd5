"""Starting `manage.py quickstart` as a person would, and asking it what it did."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from apps.quickstart import child_process
from apps.quickstart.credentials import Credentials, read_credentials
from apps.quickstart.data_directory import free_port
from tests.waiting import PATIENCE_SECONDS, eventually

ROOT = Path(__file__).resolve().parent.parent
OTHERS = (
    "DATABASE_URL",
    "DATABASE_DIRECT_URL",
    "REDIS_URL",
    "KAFKA_BOOTSTRAP_SERVERS",
    "SECRET_KEY",
    "SECRET_ENCRYPTION_KEYS",
)


def bare_environment(**more: str) -> dict[str, str]:
    """This process's, without anything that chronoweb reads."""
    ours = {name: value for name, value in os.environ.items() if name not in OTHERS}
    return {name: value for name, value in ours.items() if not name.startswith("CHRONOWEB_")} | more


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), "quickstart", *arguments]


class Started:
    """A running quickstart; it dies with the tests."""

    def __init__(
        self, data_dir: Path, *arguments: str, port: int | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = data_dir
        self.port = port or free_port(taken=set())
        self.output = data_dir.with_name(f"{data_dir.name}.{self.port}.out")
        self.output.unlink(missing_ok=True)
        self.process = child_process.spawn(
            command("--port", str(self.port), "--data-dir", str(data_dir), *arguments),
            environment=bare_environment(**environment or {}),
            log_path=self.output,
            death_signal=signal.SIGKILL,
        )

    def wait_until_running(self, seconds: float = PATIENCE_SECONDS) -> "Started":
        eventually(lambda: "chronoweb runs." in self.said() or self.process.poll() is not None, seconds=seconds)
        assert self.process.poll() is None, self.said()
        return self

    def said(self) -> str:
        return self.output.read_text()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def credentials(self) -> Credentials:
        found = read_credentials(self.data_dir)
        assert found is not None
        return found

    @property
    def login_link(self) -> str:
        found = re.search(r"http://\S+/login/\S+", self.said())
        assert found is not None, self.said()
        return found[0]

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The answer of the REST API, which must be a success."""
        answer = httpx.request(
            method,
            f"{self.url}/api/v1/{path}",
            json=body,
            params=query,
            headers={"Authorization": f"Bearer {self.credentials.api_key}"},
            timeout=PATIENCE_SECONDS,
            trust_env=False,
        )
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def tasks(self) -> dict[str, Any]:
        """The tenant's tasks by name."""
        return {task["name"]: task for task in self.call("GET", "tasks", limit=100)["items"]}

    def execution_of(self, name: str, *, seconds: float = PATIENCE_SECONDS, that: Callable[[Any], bool]) -> Any:
        """The first ended execution of the task that fits."""
        task_id = self.tasks()[name]["id"]

        def find() -> Any:
            ended = self.call("GET", "executions", task_id=task_id, status="completed,dead_letter", limit=100)["items"]
            return next(filter(that, ended), None)

        return eventually(find, seconds=seconds, every=0.25)

    def processes(self) -> list[psutil.Process]:
        """What runs of it: the daemons by their environment, the servers by their folder."""
        return [process for process in psutil.process_iter() if _belongs(process, str(self.data_dir))]

    def stop(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """For the end of a test, whatever its outcome."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.output.unlink(missing_ok=True)


@contextmanager
def ending(started: Started) -> Iterator[Started]:
    """It ends with the block."""
    try:
        yield started
    finally:
        started.end()


def _belongs(process: psutil.Process, data_dir: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.environ().get("CHRONOWEB_DATA_DIR") == data_dir or process.cwd().startswith(data_dir)
    except psutil.Error:
        return False
