"""Which of the two forms a crontab has. Pure."""

from collections.abc import Collection, Sequence
from pathlib import PurePath

from apps.definitions.crontab.lines import SYSTEM, USER

_SYSTEM_FILES = ("/etc/crontab",)
_SYSTEM_FOLDERS = ("cron.d",)
COMMON_USERS = frozenset(
    {
        *(
            "root",
            "daemon",
            "bin",
            "sys",
            "games",
            "man",
            "mail",
            "news",
            "uucp",
            "proxy",
            "www-data",
            "backup",
            "list",
        ),
        *("nobody", "postgres", "mysql", "redis", "munin", "smmsp", "amavis", "debian-spamd", "logcheck", "git"),
        *("apache", "nginx", "http", "postfix", "ubuntu", "debian", "ec2-user", "admin", "operator", "wheel"),
    }
)
"""Accounts that crontabs of systems name; a file may come from another machine."""

ACCOUNTS_ONLY = frozenset({"root", "daemon", "nobody", "www-data", "postgres", "ubuntu", "debian", "ec2-user"})
"""Those of them that no program is called."""


def find_form(lines: Sequence[str], *, form: str | None, path: str, users: Collection[str] = ()) -> tuple[str, str]:
    """USER or SYSTEM, and why."""
    if form is not None:
        return form, "as you said"
    place = PurePath(path)
    if path in _SYSTEM_FILES or place.parent.name in _SYSTEM_FOLDERS:
        return SYSTEM, f"{path} is where system crontabs are"
    words = [word for word in map(_behind_times, lines) if word is not None]
    known = COMMON_USERS.union(users)
    if words and all(word.partition(":")[0] in known for word in words):
        return SYSTEM, "behind the times of every entry stands the name of an account"
    return USER, "not every entry has an account's name behind its times"


def _behind_times(line: str) -> str | None:
    """The word there, where more follows; an empty word where nothing does; None for what is no entry."""
    words = line.split()
    if not words or words[0].startswith("#") or "=" in words[0] or words[1:2] == ["="]:
        return None
    count = (2 if words[0].lower() == "@every" else 1) if words[0].startswith("@") else 5
    if len(words) <= count:
        return None
    return words[count] if len(words) > count + 1 else ""
