"""The secrets that quickstart makes once and keeps in the data directory, readable by their owner only.

secret_key        Django's SECRET_KEY, where the environment gives none
quickstart.json   url, tenant, api_key, admin_username, admin_password: the same at each start
"""

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from apps.quickstart.data_directory import read_json, write_private


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


def ensure_secret_key(data_dir: Path) -> None:
    """Make DATA_DIR/secret_key, which the settings read; one that is there stays, or every session would end."""
    path = data_dir / "secret_key"
    if not path.exists():
        write_private(path, secrets.token_urlsafe(50) + "\n")
