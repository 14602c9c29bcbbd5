"""What webhooks are signed with, by tenant; read again every few seconds, so that a rotation counts soon."""

from collections.abc import Iterable

import psycopg

from apps.executions import store
from apps.tenants.webhook_secrets import OVERLAP
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

_KEPT_SECONDS = 5.0


class WebhookSecrets:
    """One thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._known: dict[bytes, tuple[str, ...]] = {}
        self._read_at = clock.monotonic()

    def load(self, connection: psycopg.Connection, tenants: Iterable[bytes]) -> None:
        """Make sure that these tenants' secrets are known and young."""
        wanted = set(tenants)
        if not wanted:
            return
        if self._clock.monotonic() - self._read_at > _KEPT_SECONDS:
            self._known.clear()
            self._read_at = self._clock.monotonic()
        missing = sorted(wanted - self._known.keys())
        if missing:
            overlap = OVERLAP.total_seconds()
            self._known |= store.webhook_secrets_of(connection, missing, overlap_seconds=overlap)

    def of(self, tenant: bytes) -> tuple[str, ...]:
        """The secret in force first; empty when it is not known."""
        return self._known.get(tenant, ())
