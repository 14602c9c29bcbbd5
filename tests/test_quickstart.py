"""One command runs everything; each demo task does what it says; what stops is found again."""

import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.quickstart import backing
from apps.quickstart.processes import child_environment
from apps.quickstart.services import EmbeddedServices, ServiceAddresses
from chronoweb.runtime.errors import ConfigurationError
from tests import scratch
from tests.quickstart_tools import ROOT, Started, bare_environment, command, ending
from tests.waiting import PATIENCE_SECONDS, eventually

DEMO = {
    *("every-minute", "every-5-seconds", "webhook-to-itself", "moody-upstream"),
    *("third-time-lucky", "invoice-with-a-comma", "long-haul"),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Started]:
    """One for all tests that look at it, and for the last of them, which ends it."""
    with tempfile.TemporaryDirectory(prefix="chronoweb-test-data-", dir=scratch.folder()) as folder:
        Path(folder).chmod(0o711)  # PostgreSQL passes through as another user when root runs the tests
        with ending(Started(Path(folder) / "var", "--workers", "1")) as started:
            yield started.wait_until_running()


def test_the_demo_shows_what_tasks_can_be(running: Started) -> None:
    assert set(running.tasks()) == DEMO


def test_credentials_are_written_for_their_owner_only(running: Started) -> None:
    file = running.data_dir / "quickstart.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((running.data_dir / "secret_key").stat().st_mode) == 0o600
    found = running.credentials
    assert (found.url, found.tenant, found.admin_username) == (running.url, "demo", "admin")
    for text in (found.api_key, found.admin_password):
        assert text in running.said()


def test_the_login_link_works_once(running: Started) -> None:
    with httpx.Client(trust_env=False, follow_redirects=True) as browser:
        page = browser.get(running.login_link)
        assert page.status_code == 200
        assert page.url.path == "/t/demo/"
    assert httpx.get(running.login_link, trust_env=False).status_code == 403


def test_the_tour_of_the_readme_works_when_pasted(running: Started, tmp_path: Path) -> None:
    """Every block of the tour, in one shell that stops at the first error, in a folder whose var is this one's."""
    tour = (ROOT / "README.md").read_text().split("## A tour of five minutes")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", tour, re.DOTALL)
    assert len(blocks) > 5
    (tmp_path / "var").symlink_to(running.data_dir)
    for name in ("manage.py", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    environment = bare_environment(CHRONOWEB_DATA_DIR=str(running.data_dir))
    shell = ["bash", "-euo", "pipefail", "-c", "".join(blocks)]
    result = subprocess.run(
        shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stdout + result.stderr
    for text in ('"2027-03-28T01:00:00Z"', '"status": "completed"', '"hello night"', '"paused_at": "2'):
        assert text in result.stdout


def test_a_second_start_in_the_same_folder_names_the_first(running: Started) -> None:
    arguments = command("--port", "1", "--data-dir", str(running.data_dir))
    result = subprocess.run(
        arguments,
        env=bare_environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert result.returncode != 0
    assert f"in use by the running process {running.process.pid}" in result.stderr


# ---- what the demo's tasks do, in the order in which their times come: meanwhile other tests have taken theirs ------


def test_the_interval_task_runs_every_five_seconds(running: Started) -> None:
    found = running.execution_of("every-5-seconds", that=lambda e: e["status"] == "completed")
    assert found["result"] == {"greeting": "hello chronoweb"}
    assert found["scheduled_at"][17:19] in {f"{second:02}" for second in range(0, 60, 5)}


def test_the_webhook_reaches_the_web_process(running: Started) -> None:
    found = running.execution_of("webhook-to-itself", that=lambda e: e["status"] == "completed")
    assert found["result"]["status"] == 200


def test_the_faulty_task_becomes_a_dead_letter_that_says_why(running: Started) -> None:
    found = running.execution_of("invoice-with-a-comma", that=lambda e: True)
    assert (found["status"], found["attempt"]) == ("dead_letter", 2)
    assert found["error"]["type"] == "ValueError"
    assert 'amount "12,50"' in found["error"]["message"]
    letters = running.call("GET", "admin/dlq")["items"]
    assert found["id"] in {letter["id"] for letter in letters}


def succeeded(answer: httpx.Response) -> bool:
    return answer.is_success


def completed(figures: str) -> int:
    """Of the load, as the page says it; -1 while it cannot be read."""
    found = re.search(r'data-state="completed" href=.*?<b>(\d+)</b>', figures, re.DOTALL)
    return int(found[1]) if found and "PostgreSQL is away" not in figures else -1


def test_what_is_broken_from_the_page_recovers_and_nothing_is_lost(running: Started) -> None:
    """Buttons, socket, supervisor, and the figures that the page shows."""
    credentials = running.credentials
    with httpx.Client(
        base_url=running.url, trust_env=False, follow_redirects=True, timeout=PATIENCE_SECONDS
    ) as browser:

        def post(path: str, **fields: str) -> httpx.Response:
            return browser.post(path, data={"csrfmiddlewaretoken": browser.cookies["csrftoken"], **fields})

        def pieces() -> dict[str, str]:
            answer = browser.get("/t/demo/break-it/state")
            return answer.json()["pieces"] if answer.is_success else dict.fromkeys(("figures", "acts", "alive"), "")

        def hit(act: str) -> str:
            answer = eventually(lambda: next(filter(succeeded, [post(f"/t/demo/break-it/act/{act}")]), None))
            assert answer is not None
            eventually(lambda: f'data-hit="{act}"' in pieces()["acts"])
            return answer.json()["said"]

        browser.get("/login/")
        post("/login/", username=credentials.admin_username, password=credentials.admin_password)
        control = running.data_dir / "break-it" / "control.sock"
        assert stat.S_IMODE(control.stat().st_mode) == 0o600
        assert "400 executions" in post("/t/demo/break-it/act/load").json()["said"]
        eventually(lambda: 'data-state="running"' in pieces()["figures"])

        def names() -> set[str]:
            return {f"worker-{worker['id']}" for worker in running.call("GET", "workers")["items"]}

        known = names()
        hurt = re.match(r"(worker-\d+) is hit, with [1-9]", hit("worker"))
        assert hurt is not None
        assert hurt[1] in known | names(), "as everywhere else"
        eventually(lambda: "began anew under a higher token" in pieces()["acts"])
        eventually(lambda: ">worker-" in pieces()["alive"] and f">{hurt[1]}<" not in pieces()["alive"])
        for act in ("redis", "dispatcher", "postgres"):
            hit(act)
        done = completed(pieces()["figures"])
        eventually(lambda: completed(pieces()["figures"]) > done or completed(pieces()["figures"]) == 400)
        figures = re.sub(r"<[^>]+>", " ", pieces()["figures"])
        assert re.search(r"Lost\s+0\s+of 400 accepted\s+Committed twice\s+0", figures), figures
        acts = {entry["action"] for entry in running.call("GET", "audit-log", limit=50)["items"]}
        assert {"break_it.worker", "break_it.redis", "break_it.dispatcher", "break_it.postgres"} <= acts
        assert post("/t/demo/break-it/act/web").status_code == 404
        assert browser.get("/t/system/break-it/").status_code == 404


def test_the_flaky_task_fails_twice_and_then_succeeds(running: Started) -> None:
    """One whose worker was killed meanwhile would have taken more."""
    found = running.execution_of("third-time-lucky", that=lambda e: e["attempt"] == 3)
    assert found["status"] == "completed"
    assert found["result"] == {"succeeded_on_attempt": 3}


def test_the_cron_task_runs_on_the_minute(running: Started) -> None:
    """It went through the hot tier (PRELOADED) and the transport: only a dispatch gives a token.

    The first one may be made after its minute has begun, and is due at once then; it is left out.
    """

    def made_ahead(execution: Any) -> bool:
        ahead = datetime.fromisoformat(execution["created_at"]) < datetime.fromisoformat(execution["scheduled_at"])
        return ahead and execution["status"] == "completed" and execution["attempt"] == 1

    found = running.execution_of("every-minute", seconds=130, that=made_ahead)
    assert found["scheduled_at"][16:19] == ":00"
    assert found["run_at"] == found["scheduled_at"]
    assert found["fencing_token"] > 0
    assert datetime.fromisoformat(found["started_at"]) >= datetime.fromisoformat(found["run_at"])


def completed_after(earlier: Any) -> Callable[[Any], bool]:
    return lambda execution: execution["status"] == "completed" and execution["id"] > earlier["id"]


def test_what_stopped_is_found_by_the_next_start_after_ctrl_c_and_after_a_kill(running: Started) -> None:
    """The last test of this installation. Its second start is on the Kafka transport, its third on another port.

    Work goes on in each; the task that calls the web process follows it.
    """
    first = running
    kept = first.credentials
    seen = first.execution_of("every-5-seconds", that=lambda e: e["status"] == "completed")
    tasks = first.tasks()
    assert set(tasks) >= DEMO
    first.call("DELETE", f"tasks/{tasks['third-time-lucky']['id']}")
    first.call("PATCH", f"tasks/{tasks['every-5-seconds']['id']}", {"name": "renamed"})
    first.stop()
    first.process.wait(PATIENCE_SECONDS)
    assert first.processes() == []

    def again(port: int | None, *arguments: str) -> Started:
        return Started(first.data_dir, "--workers", "1", *arguments, port=port)

    with ending(again(first.port, "--transport", "kafka")) as second:
        second.wait_until_running()
        assert "Kafka-protocol broker" in second.said()
        assert second.credentials == kept
        assert set(second.tasks()) == set(tasks) - {"every-5-seconds", "third-time-lucky"} | {"renamed"}
        assert second.call("GET", f"executions/{seen['id']}")["status"] == "completed"
        carried = second.execution_of("renamed", that=completed_after(seen))
        assert carried["fencing_token"] > 0
        second.process.send_signal(signal.SIGKILL)
        second.process.wait()
        eventually(lambda: not second.processes())

    with ending(again(None)) as third:
        third.wait_until_running()
        assert third.port != second.port
        assert third.call("GET", f"executions/{seen['id']}")["status"] == "completed"
        assert third.tasks()["webhook-to-itself"]["handler"]["url"] == f"{third.url}/livez"
        found = third.execution_of("renamed", that=completed_after(carried))
        assert found["result"] == {"greeting": "hello chronoweb"}


def test_a_taken_port_is_named(data_dir: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        arguments = command("--port", str(port), "--data-dir", str(data_dir / "var"))
        result = subprocess.run(
            arguments,
            env=bare_environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    assert result.returncode != 0
    assert f"port {port} of 127.0.0.1 is taken" in result.stderr
    assert f"(pid {os.getpid()})" in result.stderr
    assert "Traceback" not in result.stderr


def test_services_of_the_environment_are_used(
    data_dir: Path, services: ServiceAddresses, own_database: str, redis_prefix: str
) -> None:
    """Nothing embedded is started beside them. The database is migrated already, as an installation's would be."""
    given = {
        "DATABASE_URL": own_database,
        "REDIS_URL": services.redis_url,
        "CHRONOWEB_REDIS_PREFIX": redis_prefix,
    }
    with ending(Started(data_dir / "var", "--workers", "1", environment=given)) as started:
        started.wait_until_running()
        assert "PostgreSQL and Redis of the environment are used" in started.said()
        started.execution_of("every-5-seconds", that=lambda e: e["status"] == "completed")
        assert not (started.data_dir / "postgresql").exists()


@pytest.mark.parametrize(
    ("environment", "transport", "problem"),
    [
        ({"DATABASE_URL": "postgres://x/y"}, None, "sets DATABASE_URL but not REDIS_URL"),
        ({"REDIS_URL": "redis://x"}, None, "sets REDIS_URL but not DATABASE_URL"),
        ({"DATABASE_URL": "postgres://x/y", "REDIS_URL": "redis://x"}, "kafka", "needs KAFKA_BOOTSTRAP_SERVERS"),
        ({"KAFKA_BOOTSTRAP_SERVERS": "x:9092"}, None, "neither DATABASE_URL nor REDIS_URL"),
    ],
)
def test_half_of_the_services_is_refused(
    tmp_path: Path, environment: dict[str, str], transport: str | None, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        backing.choose(data_dir=tmp_path, transport=transport, environment=environment)


def test_given_services_are_used(tmp_path: Path) -> None:
    given = {"DATABASE_URL": "postgres://x/y", "REDIS_URL": "redis://x", "KAFKA_BOOTSTRAP_SERVERS": "k:9092"}
    services, description = backing.choose(data_dir=tmp_path, transport=None, environment=given)
    addresses = services.start()
    services.stop()
    assert given.items() <= addresses.environment().items()
    assert "of the environment" in description
    services, _ = backing.choose(data_dir=tmp_path, transport="redis", environment=given)
    assert services.start().kafka_bootstrap_servers is None
    services.stop()


def test_without_any_address_services_are_embedded(tmp_path: Path) -> None:
    services, _ = backing.choose(data_dir=tmp_path, transport=None, environment={})
    assert isinstance(services, EmbeddedServices)


def test_the_processes_keep_a_projects_own_settings_and_modules(tmp_path: Path) -> None:
    """Else workers do not know the functions of a Django project that uses them."""
    addresses = ServiceAddresses("postgres://x/y", "redis://x", None)
    own = {"DJANGO_SETTINGS_MODULE": "tests.shop.settings", "PYTHONPATH": "/srv/shop"}
    made = child_environment(own, addresses, data_dir=tmp_path)
    assert made["DJANGO_SETTINGS_MODULE"] == "tests.shop.settings"
    assert made["PYTHONPATH"] == f"{ROOT}{os.pathsep}/srv/shop"
    bare = child_environment({}, addresses, data_dir=tmp_path)
    assert (bare["DJANGO_SETTINGS_MODULE"], bare["PYTHONPATH"]) == ("chronoweb.settings", str(ROOT))
