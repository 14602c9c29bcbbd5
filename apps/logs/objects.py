"""The objects that lines are kept in: `<day>/<random>.jsonl.gz` in Django's storage `logs`.

An object is a row of gzip members, one for each chunk, so it is read whole by `zcat` and in parts by who knows where.
Names are random and never used twice: whoever wrote an object that the index does not name harmed nobody's.
"""

import os
import secrets
import stat
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, Storage, storages

from chronoweb.runtime.sql import day_suffix

ALIAS = "logs"
_LEVEL = 5
_GZIP = 31  # zlib's number for a gzip header


def storage() -> Storage:
    return storages[ALIAS]


class DurableFiles(FileSystemStorage):
    """Files that are on disk once they are saved: the index that names them outlives a power cut, too.

    They are for the user alone whom web processes and log shipper run as: commands of tasks run on the same machine.
    """

    def __init__(self, location: str | None = None) -> None:
        super().__init__(location, file_permissions_mode=0o600, directory_permissions_mode=0o700)

    def close_to_others(self) -> None:
        """Take from others what earlier versions let them read, if there is anything.

        The folder itself only if nothing else lies in it, and not what somebody else owns.
        """
        root = Path(self.location)
        if not root.is_dir():
            return
        names = os.listdir(root)
        days = [root / name for name in names if _day(name) is not None]
        for folder in [root, *days] if len(days) == len(names) else days:
            found = folder.lstat()
            if found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode) and found.st_mode & 0o077:
                folder.chmod(stat.S_IMODE(found.st_mode) & 0o700)

    def _save(self, name: str, content: ContentFile) -> str:
        try:
            saved: str = super()._save(name, content)  # type: ignore[misc] # the stubs do not know it
        except OSError:
            # The disk is full: each try would leave a part, under another name, that takes what room there comes.
            Path(self.path(name)).unlink(missing_ok=True)
            raise
        for path in (Path(self.path(saved)), Path(self.path(saved)).parent):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return saved


def close_to_others() -> None:
    """To be called by who writes, at its start."""
    kept = storage()
    if isinstance(kept, DurableFiles):
        kept.close_to_others()


def member(lines: bytes) -> bytes:
    """One gzip member."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(lines) + packer.flush()


def save(day: int, members: Sequence[bytes]) -> str:
    """Keep an object; its name."""
    name = f"{day_suffix(day)}/{secrets.token_hex(12)}.jsonl.gz"
    return storage().save(name, ContentFile(b"".join(members)))


def read(name: str, start: int, length: int) -> bytes:
    """The lines of one member. Raises FileNotFoundError for an object that is gone."""
    with storage().open(name, "rb") as file:
        file.seek(start)
        return zlib.decompress(file.read(length), _GZIP)


def delete(name: str) -> None:
    storage().delete(name)


def delete_days_before(day: int) -> int:
    """Delete every object of the days before `day`; how many."""
    kept, count = storage(), 0
    try:
        folders, _ = kept.listdir("")
    except FileNotFoundError:
        return 0  # nothing has ever been kept
    for folder in folders:
        if (known := _day(folder)) is None or known >= day:
            continue
        for name in kept.listdir(folder)[1]:
            kept.delete(f"{folder}/{name}")
            count += 1
        if isinstance(kept, FileSystemStorage):
            kept.delete(folder)  # elsewhere a folder is no thing of its own
    return count


def _day(folder: str) -> int | None:
    try:
        return int(datetime.strptime(folder, "%Y%m%d").replace(tzinfo=UTC).timestamp()) // 86400
    except ValueError:
        return None
