"""A number of its own for each tenant whose commands run under a worker of root: no account, the number alone.

What has the same number may read the other's environment and files, and kill it; so no two tenants have one at the
same time on one machine. A tenant begins at a number that its name decides and takes the next that no other tenant
holds, so that it has the same one again unless that is taken. Files in a folder of root's say who holds what; they
are locked, and the kernel lets go of the locks of a worker that died.
"""

import fcntl
import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from chronoweb.runtime.config import uid_range
from chronoweb.runtime.errors import ChronowebError

SETTING = "CHRONOWEB_COMMAND_UIDS"
DEFAULT_RANGES = (range(1879048192, 1879113728), range(61184, 65520))
"""Far from every account and from what container engines give out; and, for user namespaces that have only the usual
65536 numbers, what is kept for users that exist for a while. The first that the namespace has is used."""
FOLDER = "chronoweb-command-uids"
_NAME_BYTES = 1024


class NoCommandUser(ChronowebError):
    """There is no user that commands may run as here; `passing`: there may be one in a while."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


def mapped(numbers: range, which: str) -> bool:
    """Whether this user namespace has all of the numbers. which: "uid" or "gid"."""
    try:
        lines = Path(f"/proc/self/{which}_map").read_text().splitlines()
    except OSError:
        return True  # no Linux, no namespaces
    parts = sorted((int(first), int(first) + int(count)) for first, _, count in (line.split() for line in lines))
    position = numbers.start
    for first, end in parts:
        if first <= position < end:
            position = end
    return position >= numbers.stop


@dataclass
class _Held:
    number: int
    descriptor: int
    commands: int = 0


@dataclass
class TenantUids:
    """The numbers that tenants hold on this worker. Used by one thread.

    text: the setting. folder: where it is written who holds what; all workers of the machine must see the same.
    """

    text: str = ""
    folder: Path | None = None
    _held: dict[str, _Held] = field(default_factory=dict)
    _numbers: range | None = None

    def take(self, tenant: str) -> int:
        """The tenant's number, for one command more; `release` it afterwards. Raises NoCommandUser."""
        held = self._held.get(tenant)
        if held is None:
            held = self._held[tenant] = self._find(tenant)
        held.commands += 1
        return held.number

    def release(self, tenant: str) -> None:
        """A command of the tenant has ended, with everything that it started."""
        held = self._held[tenant]
        held.commands -= 1
        if not held.commands:
            del self._held[tenant]
            os.close(held.descriptor)

    def _find(self, tenant: str) -> _Held:
        numbers = self._usable()
        folder = self._ready_folder()
        start = int.from_bytes(hashlib.sha256(tenant.encode()).digest()[:8], "big") % len(numbers)
        for offset in range(len(numbers)):
            number = numbers[(start + offset) % len(numbers)]
            descriptor = _hold(folder / str(number), tenant)
            if descriptor is not None:
                return _Held(number, descriptor)
        raise NoCommandUser(
            f"other tenants' commands hold all {len(numbers)} numbers of {SETTING} on this machine", passing=True
        )

    def _usable(self) -> range:
        if self._numbers is None:
            given = uid_range(self.text) if self.text else None
            if self.text and given is None:
                raise NoCommandUser(f"{SETTING}={self.text!r} is not first-last, such as 200000-265535")
            wanted = DEFAULT_RANGES if given is None else (given,)
            usable = [numbers for numbers in wanted if mapped(numbers, "uid") and mapped(numbers, "gid")]
            if not usable:
                shown = " nor ".join(f"{numbers.start}-{numbers.stop - 1}" for numbers in wanted)
                raise NoCommandUser(
                    f"each tenant's commands run as a number of their own, and the worker's user namespace does not "
                    f"have {shown}: name numbers that it has in {SETTING} (first-last), or one user for the commands "
                    "of all tenants in CHRONOWEB_COMMAND_USER"
                )
            self._numbers = usable[0]
        return self._numbers

    def _ready_folder(self) -> Path:
        if self.folder is None:
            run = Path("/run")
            self.folder = (run if os.access(run, os.W_OK) else Path(tempfile.gettempdir())) / FOLDER
        self.folder.mkdir(mode=0o700, exist_ok=True)
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise NoCommandUser(f"{self.folder} must be a folder of the worker's user that nobody else may enter")
        return self.folder


def _hold(path: Path, tenant: str) -> int | None:
    """A descriptor that holds the number for the tenant, with others of the same tenant; None: it is another's."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, tenant.encode(), 0)
        except BlockingIOError:
            pass  # somebody holds it: perhaps another worker, for the same tenant
        # Not one step with the above: another may have come between, so what is written is read once it is locked.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.pread(descriptor, _NAME_BYTES, 0) == tenant.encode():
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None
