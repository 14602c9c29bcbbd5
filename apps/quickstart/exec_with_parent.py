"""Becomes another program that dies when the process that started it dies.

Run as a script, by path, with `python -I -S`: it imports nothing but the standard library, so that it costs
20 ms. The order is what matters: the kernel forgets the parent-death signal at each change of user, so the
user is changed first; and a parent that died before the signal was set is noticed by comparing its pid.

On systems without PR_SET_PDEATHSIG (not Linux) it only changes the user; leftovers are then found and stopped
by the next start.
"""

import argparse
import contextlib
import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True, help="pid of the process to die with")
    parser.add_argument("--signal", type=int, required=True, help="number of the signal to die by")
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("--nice", type=int, default=0, help="how much it gives way to others, 0 to 19")
    parser.add_argument("argv", nargs="+", help="the program, as an absolute path, and its arguments")
    options = parser.parse_args(arguments)

    if options.nice:
        give_way(options.nice)
    if options.uid is not None:
        os.setgroups([options.gid])
        os.setgid(options.gid)
        os.setuid(options.uid)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, options.signal, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != options.parent:
        raise SystemExit("the parent died before the program could start")
    os.execve(options.argv[0], options.argv, os.environ)  # noqa: S606 - an argument list, no shell


def give_way(nice: int) -> None:
    """Give way to other processes. Linux may weigh sessions rather than processes (sched_autogroup_enabled), by a
    number of their own; a child with a session of its own sets that, too.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as session:
            session.write(str(nice))


if __name__ == "__main__":
    main(sys.argv[1:])
