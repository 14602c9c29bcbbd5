"""Handlers that the runner's tests run."""

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from apps.worker.handlers import AsyncTaskContext, Interrupted, LeaseLost, PermanentError, TaskContext, task_handler

NEVER = threading.Event()


def note(path: str, text: str) -> None:
    """One line in a file that the test reads; appending a short line is atomic."""
    with Path(path).open("a") as file:
        file.write(text + "\n")


@task_handler("t.noop")
def noop(context: TaskContext, **parameters: Any) -> None:
    return None


@task_handler
def by_default_name(context: TaskContext) -> str:
    return "found"


@task_handler("t.echo")
def echo(context: TaskContext, **parameters: Any) -> Any:
    return {
        "execution_id": str(context.execution_id),
        "attempt": context.attempt,
        "token": context.fencing_token,
        "trace": context.traceparent,
        "key": context.idempotency_key,
        "scheduled_at": context.scheduled_at.isoformat(),
        "nominal_at": context.nominal_at and context.nominal_at.isoformat(),
        "parameters": context.parameters,
        "pid": os.getpid(),
    }


@task_handler("t.note")
def write_note(context: TaskContext, *, path: str, text: str) -> None:
    note(path, text)


@task_handler("t.only_x")
def only_x(context: TaskContext, *, x: int) -> int:
    return x


@task_handler("t.fail")
def fail(context: TaskContext, *, message: str = "no luck") -> None:
    raise ValueError(message)


@task_handler("t.permanent")
def permanent(context: TaskContext) -> None:
    raise PermanentError("never again")


@task_handler("t.leave")
def leave(context: TaskContext) -> None:
    sys.exit(3)


@task_handler("t.return")
def give_back(context: TaskContext, *, size: int = 0, what: str = "") -> Any:
    special: dict[str, Any] = {"nul": {"a\0b": "c\0d"}, "nan": float("nan"), "object": object(), "surrogate": "\ud800"}
    return special[what] if what else "x" * size


@task_handler("t.die")
def die(context: TaskContext, *, path: str = "", code: int = 9) -> None:
    if path:
        note(path, f"died attempt {context.attempt}")
    os._exit(code)


@task_handler("t.mixed")
def mixed(context: TaskContext, *, path: str, name: str, seconds: float, die: bool = False) -> None:
    note(path, name)
    if die:
        os._exit(9)
    NEVER.wait(seconds)


@task_handler("t.crash")
def crash(context: TaskContext) -> None:
    ctypes.string_at(0)


@task_handler("t.sleep")
def sleep(context: TaskContext, *, seconds: float, path: str = "") -> int:
    """In C, and not to be interrupted by Python's own means."""
    if path:
        note(path, str(os.getpid()))
    NEVER.wait(seconds)
    return os.getpid()


@task_handler("t.until")
def until_there(context: TaskContext, *, path: str) -> int:
    """Until the test makes the file."""
    while not Path(path).exists():
        NEVER.wait(0.005)
    return os.getpid()


@task_handler("t.family")
def family(context: TaskContext, *, path: str, session: bool = False) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(argv, start_new_session=session) as grandchild:
        note(path, str(grandchild.pid))
        grandchild.wait()


@task_handler("t.print")
def speak(context: TaskContext) -> None:
    print("x" * 100_000)
    os.write(1, b"raw bytes on descriptor 1\n")


@task_handler("t.thread", isolation="thread")
def in_thread(context: TaskContext, *, seconds: float = 0.0) -> dict[str, Any]:
    NEVER.wait(seconds)
    return {"pid": os.getpid(), "thread": threading.current_thread().name}


@task_handler("t.async", isolation="async")
async def in_loop(context: TaskContext, *, seconds: float = 0.0, path: str = "") -> dict[str, Any]:
    try:
        if path:
            note(path, "begun")
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if path:
            note(path, "cancelled")
        raise
    return {"pid": os.getpid()}


@task_handler("t.async_stubborn", isolation="async")
async def stubborn(context: TaskContext) -> None:
    NEVER.wait(600)


@task_handler("t.async_busy", isolation="async")
async def busy(context: TaskContext, *, seconds: float, path: str) -> None:
    note(path, "begun")
    NEVER.wait(seconds)


@task_handler("t.coroutine_in_child")
async def coroutine_in_child(context: TaskContext) -> int:
    await asyncio.sleep(0)
    return os.getpid()


# ---- handlers that speak while they run: in a child, in a thread and on the loop ----------------------------------


def _talk(context: TaskContext, path: str, done: float, total: float | None) -> Any:
    context.progress(done - 1, total)
    context.progress(done, total)
    note(path, f"left {context.checkpoint_data}")


@task_handler("t.talk")
def talk(context: TaskContext, *, path: str, data: Any = None) -> str:
    _talk(context, path, 64, 100)
    try:
        context.checkpoint(data)
    except (LeaseLost, ValueError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return "kept"


@task_handler("t.talk_thread", isolation="thread")
def talk_thread(context: TaskContext, *, path: str, data: Any = None) -> str:
    return talk(context, path=path, data=data)


@task_handler("t.talk_async", isolation="async")
async def talk_async(context: AsyncTaskContext, *, path: str, data: Any = None) -> str:
    _talk(context, path, 64, 100)
    try:
        await context.checkpoint(data)
    except (LeaseLost, ValueError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return "kept"


@task_handler("t.talk_coroutine")
async def talk_coroutine(context: AsyncTaskContext, *, path: str, data: Any = None) -> str:
    """A coroutine function in a child."""
    return await talk_async(context, path=path, data=data)


@task_handler("t.last_words")
def last_words(context: TaskContext, *, path: str, obey: bool = True, checkpoint: bool = False) -> str:
    """Looks whether it is asked to stop; leaves a checkpoint then, and lets itself be interrupted."""
    if checkpoint:
        context.checkpoint({"at": "first"})
    note(path, "began")
    while not context.cancelled or not obey:
        NEVER.wait(0.005)
    note(path, "asked")
    context.checkpoint({"at": "last"})
    raise Interrupted("as asked")


@task_handler("t.last_words_thread", isolation="thread")
def last_words_thread(context: TaskContext, *, path: str, obey: bool = True, checkpoint: bool = False) -> str:
    return last_words(context, path=path, obey=obey, checkpoint=checkpoint)


@task_handler("t.last_words_async", isolation="async")
async def last_words_async(
    context: AsyncTaskContext, *, path: str, obey: bool = True, checkpoint: bool = False
) -> None:
    if checkpoint:
        await context.checkpoint({"at": "first"})
    note(path, "began")
    while not context.cancelled or not obey:
        await asyncio.sleep(0.005)
    note(path, "asked")
    await context.checkpoint({"at": "last"})
    raise Interrupted("as asked")


@task_handler("t.fall_silent")
def fall_silent(context: TaskContext, *, words: int = 1) -> None:
    for done in range(words):
        context.progress(done)
        NEVER.wait(0.1)
    NEVER.wait()


@task_handler("t.fall_silent_thread", isolation="thread")
def fall_silent_thread(context: TaskContext) -> None:
    context.progress(1)
    NEVER.wait(20)


@task_handler("t.fall_silent_async", isolation="async")
async def fall_silent_async(context: AsyncTaskContext) -> None:
    await context.checkpoint(1)
    await asyncio.sleep(600)


@task_handler("t.interrupted")
def interrupts_itself(context: TaskContext) -> None:
    raise Interrupted("for no reason")


@task_handler("t.chatter")
def chatter(context: TaskContext, *, words: int) -> None:
    for done in range(words):
        context.progress(done + 1, words)
    NEVER.wait(1.5)


@task_handler("t.log")
def logs(context: TaskContext) -> None:
    context.log("plain", rows=3)
    context.log.warning("careful")


@task_handler("t.late")
def late(context: TaskContext, *, path: str) -> None:
    """A thread of it outlives the attempt, and speaks then."""

    def speak_late() -> None:
        NEVER.wait(0.2)
        try:
            context.checkpoint({"too": "late"})
        except LeaseLost as problem:
            note(path, str(problem))

    threading.Thread(target=speak_late, daemon=True).start()


@task_handler("t.deaf")
def deaf(context: TaskContext, *, path: str) -> None:
    """Ignores every signal that can be ignored, and blocks the others."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    note(path, str(os.getpid()))
    NEVER.wait()


@task_handler("t.of_run")
def of_run(context: TaskContext) -> dict[str, Any]:
    """What a node of a run is told."""
    return {
        "parents": context.parents,
        "states": context.parent_states,
        "run": context.run,
        "item": context.item,
        "index": context.index,
    }


# ---- what they print ----------------------------------------------------------------------------------------------


@task_handler("t.out")
def prints(context: TaskContext, *, words: str, times: int = 1) -> None:
    for number in range(times):
        print(f"{words} {number}")
    print(f"{words} on stderr", file=sys.stderr)


@task_handler("t.out_thread", isolation="thread")
def prints_in_a_thread(context: TaskContext, *, words: str, times: int = 1) -> None:
    prints(context, words=words, times=times)
    context.log("said in the thread", words=words)


@task_handler("t.out_async", isolation="async")
async def prints_on_the_loop(context: AsyncTaskContext, *, words: str, times: int = 1) -> None:
    for number in range(times):
        print(f"{words} {number}")
        await asyncio.sleep(0)
    await asyncio.to_thread(print, f"{words} from another thread")
    context.log("said on the loop", words=words)


@task_handler("t.out_pieces")
def prints_pieces(context: TaskContext, *, pieces: list[str], then: str = "") -> None:
    for piece in pieces:
        sys.stdout.write(piece)
        sys.stdout.flush()
    if then == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if then == "hang":
        NEVER.wait()


@task_handler("t.out_raw")
def prints_round_python(context: TaskContext, *, words: str, seconds: float = 0.0) -> None:
    """As a library in C does, and a program that inherits the streams."""
    os.write(1, f"{words} raw\n".encode())
    subprocess.run(["/bin/sh", "-c", f"echo '{words} program'; echo '{words} program error' >&2"], check=True)
    NEVER.wait(seconds)


@task_handler("t.out_fork")
def prints_in_a_fork(context: TaskContext, *, words: str) -> None:
    pid = os.fork()
    if not pid:
        print(f"{words} fork")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    logging.getLogger("of.a.library").warning("%s logging", words)


@task_handler("t.out_much")
def prints_much(context: TaskContext, *, lines: int, width: int = 60) -> None:
    filler = "x" * width
    for number in range(lines):
        print(f"{number} {filler}")


@task_handler("t.out_log")
def prints_records(context: TaskContext, *, secret: str = "") -> None:
    context.log("of two\nlines", rows=3, secret=secret)
    context.log.error("broken", nested={"secret": [secret, 12.5]})


@task_handler("t.leave_a_thread")
def leaves_a_thread(context: TaskContext, *, words: str) -> None:
    def speak() -> None:
        for number in range(30):
            print(f"{words} of the thread {number}")
            NEVER.wait(0.02)

    threading.Thread(target=speak, daemon=True).start()
    NEVER.wait(0.05)
