"""The secrets that attempts need: read in batches, opened here and nowhere else, kept in memory for a few seconds.

What lies in Vault is not read here, where every claim passes: attempts are told where it is (distant_secrets.py).
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from apps.executions import store
from apps.executions.rows import KeptSecret
from apps.executions.secret_references import Reference, references
from apps.tenants.secret_names import WEBHOOK, WEBHOOK_BEFORE
from apps.tenants.secret_places import ENVIRONMENT_SETTING, Store, may_read, vault_path
from apps.worker.handlers.report import make_error
from apps.worker.jobs import Distant
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import config
from chronoweb.runtime.encryption import Unreadable, unseal
from chronoweb.runtime.errors import ChronowebError, ConfigurationError

_KEPT_SECONDS = 5.0
_HEADER_BYTES = 16 * 1024
_CONTAINER_BYTES = 32 * 1024


class NotForTenant(ChronowebError):
    """The value may not be read for this tenant, or is not there."""


@dataclass(frozen=True, slots=True)
class InVault:
    """Where a value is. path: below the mount."""

    path: str
    key: str


Known = str | Unreadable | NotForTenant | InVault | None
"""A value; why there is none; where it is; None: there is no such secret."""


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
    distant: tuple[Distant, ...] = ()


NOTHING = Given({}, (), None)


class AttemptSecrets:
    """One thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._known: dict[tuple[bytes, str], Known] = {}
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
        known = [(reference, self._known.get((tenant, reference.name))) for reference in needs.references]
        problem = next((p for r, value in known if (p := _problem(needs.kind, r, value))), None)
        secrets = {} if problem else {r.name: value for r, value in known if isinstance(value, str)}
        distant = () if problem else _distant(needs.kind, known)
        signing = (self._known.get((tenant, name)) for name in (WEBHOOK, WEBHOOK_BEFORE)) if needs.signing else ()
        return Given(secrets, tuple(secret for secret in signing if isinstance(secret, str)), problem, distant)


def values_to_mask(assignment: Any) -> tuple[str, ...]:
    """The values that must not be seen in what this attempt prints, returns or raises."""
    return (*assignment.secrets.values(), *assignment.webhook_secrets)


def unfit(part: str, text: str) -> str | None:
    """Why a value cannot stand where it is referred to; the value itself is not said. part: as Distant's."""
    if part == "headers" and (not text.isascii() or not text.isprintable() or len(text) > _HEADER_BYTES):
        return f"cannot be a header: that is printable ASCII of at most {_HEADER_BYTES} characters"
    if part == "container" and ("\n" in text or "\r" in text or len(text.encode()) > _CONTAINER_BYTES):
        return f"cannot be a container's variable: that is one line of at most {_CONTAINER_BYTES} bytes"
    return None


def in_words(reference: Reference) -> str:
    """The beginning of a sentence about a reference."""
    return f"the secret {reference.name}, which {reference.pointer[1:]} refers to,"


def _problem(kind: str, reference: Reference, value: Known) -> dict[str, Any] | None:
    where = in_words(reference)
    if value is None:
        text = f"{where} does not exist in this tenant; set it again and replay"
        return make_error("SecretMissing", text, permanent=True)
    if isinstance(value, NotForTenant):
        return make_error("SecretMissing", f"{where} {value}; set it again and replay", permanent=True)
    if isinstance(value, Unreadable):
        return make_error("SecretUnreadable", f"{where} cannot be opened by this worker: {value}")
    if isinstance(value, InVault):
        return None
    wrong = unfit(_part(kind, reference), value)
    return make_error("SecretUnfit", f"{where} {wrong}", permanent=True) if wrong else None


def _distant(kind: str, known: Iterable[tuple[Reference, Known]]) -> tuple[Distant, ...]:
    return tuple(
        Distant(reference.name, value.path, value.key, _part(kind, reference), in_words(reference))
        for reference, value in known
        if isinstance(value, InVault)
    )


def _part(kind: str, reference: Reference) -> str:
    return "container" if kind == "container" else reference.part


def _opened(key: tuple[bytes, str], kept: KeptSecret) -> Known:
    tenant, name = key
    place = kept.place or {}
    if kept.store == Store.VAULT:
        return InVault(vault_path(place["path"], kept.slug, config()), place["key"])
    if kept.store == Store.ENVIRONMENT:
        variable = place["variable"]
        if not may_read(variable, kept.slug, config()):
            return NotForTenant(f"is the variable {variable}, which {ENVIRONMENT_SETTING} does not give this tenant")
        return os.environ.get(variable) or NotForTenant(f"is the variable {variable}, which this worker does not have")
    try:
        return unseal(kept.sealed, str(UUID(bytes=tenant)), name)
    except Unreadable as problem:
        return problem
    except ConfigurationError as problem:
        return Unreadable(str(problem))
