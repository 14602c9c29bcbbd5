"""The process that children are forked from, and the one that commands are started from.

A worker has threads, and a process with threads must not fork: locks that another thread held would stay
locked in the child. So the worker starts this program (a fresh interpreter), which stays single-threaded, loads
the handlers once, and forks a ready child whenever it is asked to. New code means a new zygote.

    python -m apps.worker.children.zygote CONTROL_FD PARENT_PID SOURCES_JSON

With empty sources it loads nothing and only starts commands. Control messages are marshalled tuples on a
SOCK_SEQPACKET socket, descriptors beside them:

    in   ("fork", key) + [child's socket, shared memory, what its output needs (output/child_output.py)]
         ("spawn", key) + [JSON spec, stdout, stderr]
         ("stop", key)   ("continue", key)   ("kill", key)
    out  ("ready", catalogue)   ("started", key, pid)   ("refused", key, errno, text)
         ("stopped", key)   ("exited", key, status)         status as Popen.returncode: -9 = signal 9

Each thing started has a session of its own, and ends with its whole process group; a program that is "kept" ends
with all of its descendants (keeper.py). The kernel tells this process of the worker's death by SIGTERM; it then
kills everything, starts the "on_death" programs of what was spawned with one, removes the folders, and ends.
"""

import gc
import logging
import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from typing import Any, NoReturn

from apps.worker.children import keeper
from apps.worker.children.confinement import adopt_orphans, hide_memory
from apps.worker.children.descendants import descendants, kill_all
from apps.worker.children.with_parent import die_with_parent

STOP_WAIT_SECONDS = 0.2
KEEPERS_SECONDS = 3.0
ORPHAN_ROUNDS = 1000
MESSAGE_BYTES = 65536


class Zygote:
    """State: who was started under which key."""

    def __init__(self, control: socket.socket, registry: Any) -> None:
        self._control = control
        self._registry = registry
        self._pids: dict[int, int] = {}
        self._keys: dict[int, int] = {}
        self._keepers: set[int] = set()
        self._specs: dict[int, dict[str, Any]] = {}
        """Of the programs that run."""

    def serve(self) -> NoReturn:
        """Until the worker hangs up or dies."""
        wake_in, wake_out = os.pipe()
        os.set_blocking(wake_in, False)
        os.set_blocking(wake_out, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        while True:
            readable, _, _ = select.select([self._control.fileno(), wake_in], [], [])
            if wake_in in readable:
                os.read(wake_in, 4096)
            self._reap()
            if self._control.fileno() in readable:
                self._receive()

    def _receive(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 8)
        except ConnectionResetError:  # the worker ended with an answer of ours unread
            data, descriptors = b"", []
        if not data:
            self._end()
        message = marshal.loads(data)  # noqa: S302 - from the worker that started this process
        try:
            self._obey(message[0], message[1], descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _obey(self, what: str, key: int, descriptors: list[int]) -> None:
        if what == "fork":
            try:
                pid = self._fork(descriptors)
            except OSError as problem:
                self._say("refused", key, problem.errno, str(problem))
            else:
                self._started(key, pid)
        elif what == "spawn":
            self._spawn(key, descriptors)
        elif key not in self._pids:
            return  # it has ended, and the worker hears of that anyway
        elif what == "stop":
            self._stop(key, self._pids[key])
        elif what == "continue":
            os.kill(self._pids[key], signal.SIGCONT)
        elif what == "kill":
            self._kill(self._pids[key])

    def _fork(self, descriptors: list[int]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with_parent(parent)
        os.setsid()
        self._control.close()
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        from apps.worker.children import child

        child.main(socket.socket(fileno=descriptors[0]), descriptors[1], descriptors[2:], self._registry)
        raise AssertionError("child.main never returns")

    def _spawn(self, key: int, descriptors: list[int]) -> None:
        """A kept program gets a keeper between it and this process; another is a child and a group."""
        spec = keeper.read_spec(descriptors[0])
        parent = os.getpid()
        if spec["kept"]:
            self._spawn_kept(key, spec, descriptors)
            return

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            die_with_parent(parent)

        try:
            pid = keeper.start(spec, descriptors[1], descriptors[2], prepare)
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            self._say(*keeper.refusal(key, problem))
            return
        self._specs[pid] = spec
        self._started(key, pid)

    def _spawn_kept(self, key: int, spec: dict[str, Any], descriptors: list[int]) -> None:
        adopt_orphans()  # a keeper may be killed: then what it kept falls to this process
        parent = os.getpid()
        # Blocked until the keeper waits for them: it must not run this process's handlers.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, keeper.SIGNALS)
        try:
            pid = os.fork()
        except OSError as problem:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            self._say(*keeper.refusal(key, problem))
            return
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            self._keepers.add(pid)
            self._specs[pid] = spec
            self._started(key, pid)
            return
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            os.setsid()
            keeper.keep(key, descriptors, self._control, parent)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(keeper.LEFT_BEHIND)

    def _started(self, key: int, pid: int) -> None:
        self._pids[key] = pid
        self._keys[pid] = key
        self._say("started", key, pid)

    def _stop(self, key: int, pid: int) -> None:
        """Stop the process and say so once it has stopped, or has ended, or will not stop (then it sleeps)."""
        os.kill(pid, signal.SIGSTOP)
        for _ in range(int(STOP_WAIT_SECONDS / 0.0005)):
            # In one question: asked for stops alone, Linux answers of one that has ended that there is no such child.
            seen = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if seen is not None and seen.si_code == os.CLD_STOPPED:
                break
            if seen is not None:
                return
            select.select([], [], [], 0.0005)
        self._say("stopped", key)

    def _reap(self) -> None:
        while self._keys:
            try:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if seen is None:
                return
            # Its group first: until it is reaped nobody else can get its number.
            if seen.si_pid in self._keys:
                self._kill_group(seen.si_pid)
            _, status = os.waitpid(seen.si_pid, 0)
            self._specs.pop(seen.si_pid, None)
            if seen.si_pid in self._keepers:
                self._keepers.discard(seen.si_pid)
                if status:
                    self._kill_orphans()
            key = self._keys.pop(seen.si_pid, None)
            if key is not None:
                del self._pids[key]
                self._say("exited", key, os.waitstatus_to_exitcode(status))

    def _kill(self, pid: int) -> None:
        """A keeper kills what it keeps; of another its group and whoever left that and still has a parent in it."""
        if pid in self._keepers:
            os.kill(pid, signal.SIGTERM)
            return
        family = descendants(pid)
        self._kill_group(pid)
        kill_all(family)

    def _kill_orphans(self) -> None:
        """What a keeper left behind when it was killed itself; until it is gone, for it may fork meanwhile."""
        for _ in range(ORPHAN_ROUNDS):
            kept = {one for pid in self._keepers for one in descendants(pid)} | self._keepers
            orphans = [pid for pid in descendants(os.getpid()) if pid not in kept and pid not in self._keys]
            if not orphans:
                return
            kill_all(orphans)
            select.select([], [], [], 0.002)

    def _kill_group(self, pid: int) -> None:
        for kill in (os.killpg, os.kill):  # it may have been forked just now and not lead its group yet
            try:
                kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                logging.getLogger(__name__).warning("process group %s cannot be killed", pid)

    def _say(self, *message: Any) -> None:
        try:
            self._control.send(marshal.dumps(message))
        except OSError:
            self._end()

    def _end(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may come again meanwhile
        for pid in self._keys:
            self._kill(pid)
        if self._keepers and not self._keepers_ended():
            kill_all(descendants(os.getpid()))
        for spec in self._specs.values():
            if spec["on_death"]:
                _start_and_forget(spec["on_death"], spec["environment"])
            shutil.rmtree(spec["directory"], ignore_errors=True)  # the worker would have removed it
        os._exit(0)

    def _keepers_ended(self) -> bool:
        """Whether every keeper has ended in good order, soon."""
        for _ in range(int(KEEPERS_SECONDS / 0.005)):
            for pid in list(self._keepers):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self._keepers.discard(pid)
            if not self._keepers:
                return not descendants(os.getpid())
            select.select([], [], [], 0.005)
        return False


def _start_and_forget(argv: list[str], environment: dict[str, str]) -> None:
    try:
        subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
    except OSError:
        logging.getLogger(__name__).exception("%s cannot be started", argv[0])


def load(sources_json: str) -> tuple[Any, dict[str, Any]]:
    """The registry of handlers, and what the worker is told about it."""
    if not sources_json:
        return None, {}
    from apps.worker.handlers.sources import HandlerSources, load_all

    registry = load_all(HandlerSources.from_json(sources_json))
    catalogue = {
        "isolations": {name: handler.isolation for name, handler in registry.handlers.items()},
        "broken": registry.broken,
    }
    return registry, catalogue


def main(arguments: list[str]) -> None:
    control = socket.socket(fileno=int(arguments[0]))
    parent = int(arguments[1])
    control.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # While handlers are imported nothing has been started yet, and an import that hangs must not outlive us.
    die_with_parent(parent, signal.SIGKILL)
    registry, catalogue = load(arguments[2])
    if registry is not None:
        from django.conf import settings

        from apps.worker.children import child as child  # loaded before the first fork, not after each

        if settings.configured:
            from django.db import connections

            connections.close_all()
    else:
        hide_memory()  # commands may run as the same user
    gc.collect()
    gc.freeze()
    zygote = Zygote(control, registry)
    try:
        control.send(marshal.dumps(("ready", catalogue)))
    except (BrokenPipeError, ConnectionResetError):
        return  # the worker has ended while this loaded
    die_with_parent(parent, signal.SIGTERM)
    zygote.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
