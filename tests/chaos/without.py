"""`manage.py` with a piece of chronoweb taken out, or a mishap put in: what shows that a test of healing can fail.

    python without.py [--off PATH]... [--mishap NAME[:ARGUMENT]]... [--gate FILE] -- dispatcher --health-port 0

--off names a function or method (`apps.dispatcher.recovery.recover`); it then does nothing and returns 0. A mishap is
one of the functions below. --gate has the process ready, and begin when the file appears. Production code has no
switch for any of it.
"""

import functools
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MISHAPS: dict[str, Callable[[str], None]] = {}


def locate(path: str) -> tuple[Any, str]:
    """The object that holds what `path` names, and its name there."""
    words = path.split(".")
    for cut in range(len(words) - 1, 0, -1):
        try:
            holder: Any = importlib.import_module(".".join(words[:cut]))
        except ModuleNotFoundError:
            continue
        for word in words[cut:-1]:
            holder = getattr(holder, word)
        getattr(holder, words[-1])  # a test whose healer has been renamed must not pass as if it were off
        return holder, words[-1]
    raise SystemExit(f"there is no {path}")


def switch_off(path: str) -> None:
    """Let the function do nothing."""
    holder, name = locate(path)

    @functools.wraps(getattr(holder, name))
    def nothing(*args: Any, **kwargs: Any) -> int:
        return 0

    setattr(holder, name, nothing)


def mishap(function: Callable[[str], None]) -> Callable[[str], None]:
    MISHAPS[function.__name__] = function
    return function


@mishap
def lose_second_answer(path: str) -> None:
    """An answer of a statement is lost after its commit: the connection breaks before it is read.

    The second that is not empty: the first is that of a warm-up.
    """
    import psycopg

    holder, name = locate(path)
    original = getattr(holder, name)
    answers: list[bool] = []

    @functools.wraps(original)
    def losing(connection: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(connection, *args, **kwargs)
        answers.append(bool(answer))
        if answer and sum(answers) == 2:
            connection.close()
            raise psycopg.OperationalError("the connection broke before the answer was read")
        return answer

    setattr(holder, name, losing)


@mishap
def forget_written_attempts(_: str) -> None:
    """What this worker has written to `attempts` is not found again."""
    from apps.executions import store

    def none_written(*_: Any, **__: Any) -> set[tuple[bytes, int]]:
        return set()

    store.attempts_written = none_written


@mishap
def deadlock(path: str) -> None:
    """Every third call of a statement is the victim of a deadlock: rolled back, the connection stays."""
    import psycopg

    holder, name = locate(path)
    original = getattr(holder, name)
    calls: list[int] = []

    @functools.wraps(original)
    def victim(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) % 3 == 1:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return original(*args, **kwargs)

    setattr(holder, name, victim)


@mishap
def forget_unanswered_claims(_: str) -> None:
    """The claimer does not ask again for a claim whose answer was lost."""
    from apps.worker.claimer import Claimer

    Claimer._held = property(lambda self: [], lambda self, batch: None)  # type: ignore[assignment]


@mishap
def insert_outside_the_transaction(_: str) -> None:
    """The preloader commits the rows on a connection of their own, before next_fire_at is moved."""
    from apps.executions import store
    from chronoweb.runtime import postgres

    original = store.insert

    def insert(connection: Any, rows: Any) -> Any:
        with postgres.connect("outside", hot=False) as own:
            return original(own, rows)

    store.insert = insert


@mishap
def drop_every_second_message(_: str) -> None:
    """The transport confirms every message and delivers half of them."""
    from chronoweb.runtime import transport
    from chronoweb.runtime.transport.redis_streams import RedisPublisher

    original = RedisPublisher.publish
    count: list[int] = []

    def publish(self: RedisPublisher, message: transport.Outgoing) -> transport.Confirmation:
        count.append(1)
        if len(count) % 2:
            return original(self, message)
        confirmation = transport.Confirmation()
        confirmation.confirm()
        return confirmation

    RedisPublisher.publish = publish  # type: ignore[method-assign]


@mishap
def stop_itself(point: str) -> None:
    """The process stops at a fault point, once, as if it had been paused there: SIGCONT lets it go on."""
    from chronoweb.runtime import faults

    stopped: list[bool] = []

    def pass_or_stop(name: str) -> None:
        if name == point and not stopped:
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)

    faults.point = pass_or_stop


def wait_for(gate: Path) -> None:
    """Everything is imported; begin once the file is there."""
    while not gate.exists():
        threading.Event().wait(0.01)


def main(arguments: list[str]) -> None:
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoweb.settings")
    import django
    from django.core.management import execute_from_command_line

    django.setup()
    options, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    for option, value in zip(options[::2], options[1::2], strict=True):
        name, _, argument = value.partition(":")
        if option == "--off":
            switch_off(value)
        elif option == "--mishap":
            MISHAPS[name](argument)
        elif option == "--gate":
            wait_for(Path(value))
        else:
            raise SystemExit(f"unknown option {option}")
    execute_from_command_line(["manage.py", *command])


if __name__ == "__main__":
    main(sys.argv[1:])
