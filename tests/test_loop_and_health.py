"""The shell around every daemon: it outlasts services that are away and faults of ours, and says how it is."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
import redis

from chronoweb.runtime import health as health_module
from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.health import Health
from chronoweb.runtime.loop import Result, Stop, run_until_signal
from tests.test_worker_parts import HandClock
from tests.waiting import PATIENCE_SECONDS, eventually


class Scripted:
    """A daemon that does in each pass what a test says, the last thing for ever."""

    name = "scripted"

    def __init__(self, *script: Callable[[], Result] | Exception) -> None:
        self._script = list(script)
        self.passes = self.resets = self.closes = 0
        self.waits: list[float] = []
        self.woken = threading.Event()

    def run_once(self) -> Result:
        step = self._script[min(self.passes, len(self._script) - 1)]
        self.passes += 1
        if isinstance(step, Exception):
            raise step
        return step()

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.woken.wait(min(seconds, 0.01))

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        self.closes += 1


def fine() -> Result:
    return Result(1, 0.01)


@contextmanager
def looped(daemon: Scripted) -> Iterator[tuple[Stop, Health]]:
    stop, health = Stop(), Health("scripted")
    thread = threading.Thread(target=run_until_signal, args=(daemon,), kwargs={"stop": stop, "health": health})
    thread.start()
    try:
        yield stop, health
    finally:
        stop.requested.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        assert daemon.closes == 1


@pytest.mark.parametrize(
    "away",
    [
        psycopg.OperationalError("gone"),
        psycopg.errors.DeadlockDetected("40P01"),
        psycopg.InterfaceError("closed"),
        psycopg.errors.ReadOnlySqlTransaction("25006"),
        psycopg.errors.IdleInTransactionSessionTimeout("25P03"),
        redis.ConnectionError("gone"),
        ServiceUnavailable("gone"),
        ConnectionResetError(),
    ],
)
def test_a_service_that_is_away_is_waited_for(away: Exception) -> None:
    daemon = Scripted(fine, away, away, fine)
    with looped(daemon) as (_, health):
        eventually(lambda: daemon.passes > 5)
        assert daemon.resets == 2, "connections are made anew"
        assert health.report()["failed_passes"] == 0
        assert health.ready()


def test_a_fault_of_ours_is_counted_and_ends_nothing() -> None:
    daemon = Scripted(fine, ValueError("a fault"), fine)
    with looped(daemon) as (_, health):
        eventually(lambda: daemon.passes > 4)
        assert daemon.resets == 1
        assert health.report()["failed_passes"] == 1


def test_the_pauses_grow_while_a_service_stays_away() -> None:
    daemon = Scripted(psycopg.OperationalError("gone"))
    with looped(daemon):
        began = time.monotonic()
        eventually(lambda: daemon.passes >= 5)
        assert time.monotonic() - began > 0.05 + 0.1 + 0.2 + 0.4
        before = daemon.passes
    assert daemon.passes <= before + 1, "a stop ends the pause"


def test_a_daemon_that_has_more_to_do_is_not_made_to_wait() -> None:
    daemon = Scripted(lambda: Result(5, 0), lambda: Result(5, 0), fine)
    with looped(daemon):
        eventually(lambda: daemon.waits)
        assert daemon.passes >= 3
        assert daemon.waits[0] == 0.01


def test_one_pass_raises_its_errors_and_closes() -> None:
    daemon = Scripted(fine)
    run_until_signal(daemon, stop=Stop(), health=Health("scripted"), once=True)
    assert (daemon.passes, daemon.closes) == (1, 1)
    broken = Scripted(ValueError("a fault"))
    with pytest.raises(ValueError, match="a fault"):
        run_until_signal(broken, stop=Stop(), health=Health("scripted"), once=True)
    assert broken.closes == 1


def test_a_second_signal_says_hurry() -> None:
    stop = Stop()
    stop._on_signal(15, None)
    assert stop.requested.is_set()
    assert not stop.hurry.is_set()
    stop._on_signal(2, None)
    assert stop.hurry.is_set()


# ---- health -------------------------------------------------------------------------------------------------------


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_readiness_is_about_progress_and_liveness_is_not() -> None:
    clock = HandClock()
    health = Health("scripted", stale_after_seconds=15, clock=clock)
    server = health_module.serve(health, port=0)
    try:
        port = server.server_port
        assert ask(port, "/livez")[0] == 200
        code, body = ask(port, "/readyz")
        assert code == 503
        assert json.loads(body)["last_success_age_seconds"] is None
        health.succeeded()
        clock.sleep(14)
        assert ask(port, "/readyz")[0] == 200
        clock.sleep(2)
        code, body = ask(port, "/readyz")
        assert code == 503
        assert json.loads(body)["last_success_age_seconds"] == 16
        assert ask(port, "/livez")[0] == 200, "a daemon that waits for its database is not to be killed for it"
        assert "python_info" in ask(port, "/metrics")[1]
        assert ask(port, "/else")[0] == 404
    finally:
        server.shutdown()
        server.server_close()
