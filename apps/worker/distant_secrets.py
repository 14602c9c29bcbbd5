"""Secrets that lie in Vault: read when an attempt that refers to them begins, by a few threads, beside everything else.

A slow Vault holds up the attempts that need it, within their own time, and nobody else's. What was read is kept for
some seconds; attempts that ask for the same at once ask once.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from prometheus_client import Counter

from apps.worker.attempt_secrets import unfit
from apps.worker.handlers.report import make_error
from apps.worker.jobs import Assignment, Distant
from chronoweb.runtime.clock import Clock
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import VaultAway, VaultRefused

if TYPE_CHECKING:
    from chronoweb.runtime.vault import Vault

_KEPT_SECONDS = 5.0
_THREADS = 4

READS = Counter("chronoweb_vault_reads_total", "Secrets read from Vault", ["outcome"])


class DistantSecrets:
    """One event loop."""

    def __init__(self, clock: Clock, vault: "Vault | None" = None) -> None:
        self._clock = clock
        self._vault = vault
        self._threads: ThreadPoolExecutor | None = None
        self._known: dict[tuple[str, str], tuple[float, asyncio.Future[str]]] = {}

    async def fetch(self, assignment: Assignment) -> dict[str, Any] | None:
        """Put the attempt's secrets into it. The error with which it ends, if one cannot be had."""
        found = dict(assignment.secrets)
        for one in assignment.distant:
            try:
                found[one.name] = value = await self._value(one)
            except VaultAway as problem:
                return make_error("SecretUnavailable", f"{one.where} cannot be read now: {problem}")
            except VaultRefused as problem:
                return make_error("SecretMissing", f"{one.where} cannot be read: {problem}", permanent=True)
            if wrong := unfit(one.part, value):
                return make_error("SecretUnfit", f"{one.where} {wrong}", permanent=True)
        assignment.secrets = found
        return None

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _value(self, one: Distant) -> str:
        now = self._clock.monotonic()
        asked = (one.path, one.key)
        known = self._known.get(asked)
        if known is None or now >= known[0]:
            self._known = {key: value for key, value in self._known.items() if value[0] > now}
            known = (now + _KEPT_SECONDS, asyncio.ensure_future(self._read(one)))
            self._known[asked] = known
            known[1].add_done_callback(lambda done: self._forget(asked, done))
        # Shielded: one attempt that is stopped does not take the answer from the others.
        return await asyncio.shield(known[1])

    def _forget(self, asked: tuple[str, str], done: "asyncio.Future[str]") -> None:
        """What failed is asked again by the next."""
        if done.cancelled() or done.exception() is not None:
            self._known.pop(asked, None)

    async def _read(self, one: Distant) -> str:
        vault = self._connected()
        try:
            value = await asyncio.get_running_loop().run_in_executor(self._threads, vault.read, one.path, one.key)
        except VaultAway:
            READS.labels("away").inc()
            raise
        except VaultRefused:
            READS.labels("refused").inc()
            raise
        READS.labels("read").inc()
        return value

    def _connected(self) -> "Vault":
        if self._vault is None:
            from chronoweb.runtime.vault import Vault  # its client takes long to load, and few workers need it

            self._vault = Vault.configured(config())
        if self._vault is None:
            raise VaultRefused("this worker knows no Vault: CHRONOWEB_VAULT_ADDRESS is not set")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="vault")
        return self._vault
