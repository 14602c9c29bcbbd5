"""The secrets that quickstart makes once and keeps in the data directory, readable by their owner only.

secret_key              Django's SECRET_KEY, where the environment gives none
secret_encryption_keys  what seals tenants' secrets, likewise
quickstart.json         url, tenant, api_key, admin_username, admin_password: the same at each start
"""

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from apps.quickstart.data_directory import read_json, write_private
from chronoweb.runtime.encryption import new_key


@dataclass(frozen=True)
class Credentials:
    """What a person or a script needs to get in."""

    url: str
    tenant: str
    api_key: str
    admin_username: str
    admin_password: str

    def write(self, data_dir: Path) -> None:
        write_private(credentials_path(data_dir), json.dumps(asdict(self), indent=2) + "\n")


def credentials_path(data_dir: Path) -> Path:
    return data_dir / "quickstart.json"


def read_credentials(data_dir: Path) -> Credentials | None:
    """Those of the last start; None before the first."""
    found = read_json(credentials_path(data_dir))
    return None if found is None else Credentials(**found)


def ensure_keys(data_dir: Path) -> None:
    """Make the two files of keys, which the settings read.

    What is there stays: without it every session would end, and every secret would be lost.
    """
    for name, make in (("secret_key", lambda: secrets.token_urlsafe(50)), ("secret_encryption_keys", new_key)):
        path = data_dir / name
        if not path.exists():
            write_private(path, make() + "\n")
