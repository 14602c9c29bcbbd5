"""The secrets that attempts need: read in batches, opened here and nowhere else, kept in memory for a few seconds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from apps.executions import store
from apps.executions.secret_references import Reference, references
from apps.tenants.secret_names import WEBHOOK, WEBHOOK_BEFORE
from apps.worker.handlers.report import make_error
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.encryption import Unreadable, unseal

_KEPT_SECONDS = 5.0
_HEADER_BYTES = 16 * 1024
_CONTAINER_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Needs:
    """What the attempts of one task version need. signing: whether it is a webhook, which is signed."""

    kind: str
    references: tuple[Reference, ...]
    signing: bool

    @classmethod
    def of(cls, handler: Mapping[str, Any]) -> "Needs | None":
        """None: nothing, as most."""
        kind = str(handler.get("type"))
        found = tuple(references(handler))
        return cls(kind, found, kind == "webhook") if found or kind == "webhook" else None

    @property
    def names(self) -> set[str]:
        own = {WEBHOOK, WEBHOOK_BEFORE} if self.signing else set()
        return own | {reference.name for reference in self.references}


@dataclass(frozen=True, slots=True)
class Given:
    """What an attempt gets. signing: the secret in force first. problem: why it cannot run, as an error."""

    secrets: Mapping[str, str]
    signing: tuple[str, ...]
    problem: dict[str, Any] | None


NOTHING = Given({}, (), None)


class AttemptSecrets:
    """One thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._known: dict[tuple[bytes, str], str | Unreadable | None] = {}
        self._read_at = clock.monotonic()

    def load(self, connection: psycopg.Connection, needed: Iterable[tuple[bytes, Needs]]) -> None:
        """Make sure that what these (tenant, needs) name is known and young: one query, or none."""
        wanted = {(tenant, name) for tenant, needs in needed for name in needs.names}
        if not wanted:
            return
        if self._clock.monotonic() - self._read_at > _KEPT_SECONDS:
            self._known.clear()
            self._read_at = self._clock.monotonic()
        missing = sorted(wanted - self._known.keys())
        if missing:
            found = store.secrets_of(connection, missing)
            self._known |= {key: _opened(key, found[key]) if key in found else None for key in missing}

    def give(self, tenant: bytes, needs: Needs) -> Given:
        """What has been loaded for an attempt of this tenant."""
        problem = next((p for r in needs.references if (p := self._problem(tenant, needs.kind, r))), None)
        secrets = {} if problem else {r.name: self._text(tenant, r.name) or "" for r in needs.references}
        signing = (self._text(tenant, name) for name in (WEBHOOK, WEBHOOK_BEFORE)) if needs.signing else ()
        return Given(secrets, tuple(secret for secret in signing if secret), problem)

    def _text(self, tenant: bytes, name: str) -> str | None:
        value = self._known.get((tenant, name))
        return value if isinstance(value, str) else None

    def _problem(self, tenant: bytes, kind: str, reference: Reference) -> dict[str, Any] | None:
        value = self._known.get((tenant, reference.name))
        where = f"the secret {reference.name}, which {reference.part}/{reference.key} refers to,"
        if value is None:
            text = f"{where} does not exist in this tenant; set it again and replay"
            return make_error("SecretMissing", text, permanent=True)
        if isinstance(value, Unreadable):
            return make_error("SecretUnreadable", f"{where} cannot be opened by this worker: {value}")
        unfit = _unfit(kind, reference.prefix + value)
        return make_error("SecretUnfit", f"{where} {unfit}", permanent=True) if unfit else None


def values_to_mask(assignment: Any) -> tuple[str, ...]:
    """The values that must not be seen in what this attempt prints, returns or raises."""
    return (*assignment.secrets.values(), *assignment.webhook_secrets)


def _opened(key: tuple[bytes, str], sealed: str) -> str | Unreadable:
    tenant, name = key
    try:
        return unseal(sealed, str(UUID(bytes=tenant)), name)
    except Unreadable as problem:
        return problem


def _unfit(kind: str, text: str) -> str | None:
    """Why a value cannot stand where it is referred to; the value itself is not said."""
    if kind == "webhook" and (not text.isascii() or not text.isprintable() or len(text) > _HEADER_BYTES):
        return f"cannot be a header: that is printable ASCII of at most {_HEADER_BYTES} characters"
    if kind == "container" and ("\n" in text or "\r" in text or len(text.encode()) > _CONTAINER_BYTES):
        return f"cannot be a container's variable: that is one line of at most {_CONTAINER_BYTES} bytes"
    return None
