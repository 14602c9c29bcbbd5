"""Who commands run as on this worker, and within which limits."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.executions.command_limits import caps, effective
from apps.worker.handlers.command_uids import NoCommandUser, TenantUids
from chronoweb.runtime.config import Config


@dataclass(frozen=True)
class CommandPolicy:
    """user_name: a name or number, for all tenants; empty: the worker's own user, or, under root, one for each tenant.

    uids: the numbers of the latter, first-last; empty: those of command_uids.DEFAULT_RANGES.
    """

    user_name: str = ""
    root_allowed: bool = False
    caps: dict[str, int] = field(default_factory=lambda: caps(Config()))
    uids: str = ""

    @classmethod
    def of(cls, config: Config) -> "CommandPolicy":
        return cls(config.command_user, bool(config.command_root_allowed), caps(config), config.command_uids)

    def limits(self, given: Mapping[str, Any], user: tuple[int, int] | None) -> dict[str, int]:
        """What holds for a command whose handler asks for `given`."""
        found = effective(given, self.caps)
        if user is None and "processes" not in given:
            del found["processes"]  # the kernel counts all of the user's, and here that is the worker's own
        return found

    def tenant_uids(self) -> TenantUids | None:
        """What gives each tenant a number of its own; None: all have the user of `user`."""
        return None if self.user_name or os.geteuid() != 0 else TenantUids(self.uids)

    def user(self) -> tuple[int, int] | None:
        """The (uid, gid) of all tenants' commands; None: stay who the worker is. Raises NoCommandUser."""
        worker = os.geteuid()
        name = self.user_name
        if not name:
            return None
        try:
            found = pwd.getpwuid(int(name)) if name.isascii() and name.isdecimal() else pwd.getpwnam(name)
        except (KeyError, OverflowError):
            raise NoCommandUser(
                f"commands would run as the user {name!r}, who does not exist on this worker; name one in "
                "CHRONOWEB_COMMAND_USER"
            ) from None
        if found.pw_uid == 0 and not self.root_allowed:
            raise NoCommandUser(
                "commands do not run as root; name another user in CHRONOWEB_COMMAND_USER, or set "
                "CHRONOWEB_COMMAND_ROOT_ALLOWED=1"
            )
        if worker not in (0, found.pw_uid):
            raise NoCommandUser(
                f"commands would run as the user {name!r} (CHRONOWEB_COMMAND_USER), whom only a worker of root can "
                "change to"
            )
        return (found.pw_uid, found.pw_gid) if worker == 0 else None
