"""Reads secrets from HashiCorp Vault, or what speaks as it does: version 2 of its key-value store, by token or AppRole.

The class of an error says whether to try again: `VaultAway` may pass, `VaultRefused` will not by itself.
"""

import threading
from typing import Any

import hvac
import requests
from django.conf import settings
from hvac import exceptions

from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import VaultAway, VaultRefused

_MAY_PASS = (
    exceptions.RateLimitExceeded,
    exceptions.InternalServerError,
    exceptions.BadGateway,
    exceptions.VaultDown,
    exceptions.VaultNotInitialized,
    exceptions.PreconditionFailed,
    exceptions.UnexpectedError,
)
_RENEW_AT = 0.8
"""A token is replaced when so much of its life has passed."""


class Vault:
    """Any thread. Values and tokens are in no message."""

    def __init__(
        self, config: Config, *, token: str, role_id: str, secret_id: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._config = config
        self._token = token
        self._role = (role_id, secret_id)
        self._clock = clock
        self._lock = threading.Lock()
        self._client: hvac.Client | None = None
        self._good_until: float | None = None

    @classmethod
    def configured(cls, config: Config) -> "Vault | None":
        """The installation's; None where it has none."""
        if not config.vault_address:
            return None
        return cls(
            config, token=settings.VAULT_TOKEN, role_id=settings.VAULT_ROLE_ID, secret_id=settings.VAULT_SECRET_ID
        )

    def read(self, path: str, key: str) -> str:
        """The text in field `key` of the newest version at `path`, below the mount. Raises VaultAway, VaultRefused."""
        shown = f"{self._config.vault_mount}/{path}"
        try:
            try:
                fields = self._fields(self._connected(), path)
            except exceptions.Forbidden:
                if self._token:
                    raise
                # The token may have been revoked, or have ended while nobody looked.
                fields = self._fields(self._connected(anew=True), path)
        except exceptions.InvalidPath:
            raise VaultRefused(f"Vault has nothing at {shown}, or its newest version is deleted") from None
        except (exceptions.Forbidden, exceptions.Unauthorized):
            raise VaultRefused(f"Vault does not let this installation read {shown}") from None
        except _MAY_PASS as problem:
            raise VaultAway(f"Vault does not answer for {shown}: {type(problem).__name__}") from None
        except exceptions.VaultError as problem:
            raise VaultRefused(f"Vault refuses to read {shown}: {type(problem).__name__}") from None
        except requests.Timeout:
            limit = f"{self._config.vault_timeout_seconds:g} s"
            raise VaultAway(f"Vault did not answer within {limit} for {shown}") from None
        except (requests.RequestException, OSError, ValueError) as problem:
            raise VaultAway(f"Vault cannot be reached for {shown}: {type(problem).__name__}") from None
        value = fields.get(key)
        if not isinstance(value, str) or not value or "\0" in value:
            raise VaultRefused(f"the field {key} of {shown} in Vault is {'missing' if value is None else 'no text'}")
        return value

    def _fields(self, client: hvac.Client, path: str) -> dict[str, Any]:
        answer = client.secrets.kv.v2.read_secret_version(
            path=path, mount_point=self._config.vault_mount, raise_on_deleted_version=True
        )
        fields = answer["data"]["data"] if isinstance(answer, dict) else None
        if not isinstance(fields, dict):
            raise ValueError("no answer of a key-value store")
        return fields

    def _connected(self, *, anew: bool = False) -> hvac.Client:
        with self._lock:
            ended = self._good_until is not None and self._clock.monotonic() >= self._good_until
            if self._client is None or ended or anew:
                self._client = self._made()
            return self._client

    def _made(self) -> hvac.Client:
        session = requests.Session()
        session.trust_env = False
        client = hvac.Client(
            url=self._config.vault_address,
            token=self._token or None,
            namespace=self._config.vault_namespace or None,
            verify=self._config.vault_ca_file or True,
            timeout=self._config.vault_timeout_seconds,
            session=session,
        )
        if not self._token:
            client.token = None  # not what a file or variable of the account's may hold
            role_id, secret_id = self._role
            answer = client.auth.approle.login(
                role_id=role_id, secret_id=secret_id, mount_point=self._config.vault_approle_mount
            )
            lease = answer["auth"].get("lease_duration") or 0
            self._good_until = self._clock.monotonic() + lease * _RENEW_AT if lease else None
        return client
