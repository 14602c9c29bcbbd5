"""What Linux is asked to keep a program from: new rights, more than its share, outliving its keeper.

Elsewhere than on Linux the calls that only Linux knows do nothing.
"""

import resource
from collections.abc import Mapping

from apps.worker.children.with_parent import prctl

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_KINDS = {
    "memory": resource.RLIMIT_AS,
    "file_size": resource.RLIMIT_FSIZE,
    "processes": resource.RLIMIT_NPROC,
    "open_files": resource.RLIMIT_NOFILE,
    "cpu_seconds": resource.RLIMIT_CPU,
}


def forbid_new_rights() -> None:
    """No set-user-id program or file capability gives this process, or what it starts, rights that it lacks."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def adopt_orphans() -> None:
    """Descendants whose parent ends become this process's children, also those that made a session of their own."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Nobody of the same user may read this process's environment or memory; what it executes is open again."""
    prctl(PR_SET_DUMPABLE, 0)


def set_limits(limits: Mapping[str, int]) -> None:
    """Lower the limits of this process and of what it starts; none is ever raised. No core files are written."""
    for name, amount in limits.items():
        kind = _KINDS[name]
        _, most = resource.getrlimit(kind)
        # The hard limit of processor time is SIGKILL: who catches SIGXCPU has a second to end.
        hard = amount + 1 if name == "cpu_seconds" else amount
        if most != resource.RLIM_INFINITY:
            amount, hard = min(amount, most), min(hard, most)
        resource.setrlimit(kind, (amount, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
