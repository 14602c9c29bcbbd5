"""Task versions, kept in memory: they never change, so each is read once."""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from apps.executions import ids, store
from apps.executions.retry import RetryPolicy
from apps.executions.rows import Claimed, VersionRow
from apps.worker.attempt_secrets import NOTHING, AttemptSecrets, Needs
from apps.worker.handlers.report import make_error
from apps.worker.jobs import Assignment

logger = logging.getLogger(__name__)

_KEPT = 10_000
_UNREADABLE: dict[str, Any] = {"handler": {}, "parameters": {}, "timeout_seconds": 1, "retry_policy": None}
"""Stands for a definition that this worker cannot read."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What decides about an attempt that has ended."""

    policy: RetryPolicy
    idempotent: bool = True
    circuit_key: str | None = None


class Versions:
    """Reads versions on demand; one thread."""

    def __init__(self) -> None:
        self._rows: dict[int, VersionRow] = {}
        # Kept when rows are forgotten: an attempt may end long after it was claimed. Equal terms are one object.
        self._terms: dict[int, Terms] = {}
        self._distinct: dict[Terms, Terms] = {}
        self._limits: dict[int, dict[str, float]] = {}
        self._needs: dict[int, Needs] = {}
        self._unreadable: set[int] = set()
        self._secrets = AttemptSecrets()

    def load(self, connection: psycopg.Connection, wanted: Iterable[int]) -> None:
        """Make sure that these are known."""
        wanted = set(wanted)
        missing = wanted - self._rows.keys()
        if not missing:
            return
        if len(self._rows) > _KEPT:
            self._rows.clear()
            self._needs.clear()
            missing = wanted
        for row in store.versions_of(connection, sorted(missing)):
            try:
                self._take(row)
            except Exception:
                # Written by a later release, say: the worker must not die of it, with all that it runs.
                logger.exception("a task version cannot be read", extra={"action": "worker.version", "version": row.id})
                self._take(row._replace(definition=_UNREADABLE))
                self._unreadable.add(row.id)

    def _take(self, row: VersionRow) -> None:
        policy = RetryPolicy.parse(row.definition["retry_policy"])
        terms = Terms(policy, row.definition.get("idempotent", True), row.circuit_key)
        needs = Needs.of(row.definition["handler"])
        self._limits[row.id] = dict(row.definition.get("timeouts") or {})
        self._terms[row.id] = self._distinct.setdefault(terms, terms)
        self._rows[row.id] = row
        self._unreadable.discard(row.id)
        if needs:
            self._needs[row.id] = needs

    def load_secrets(self, connection: psycopg.Connection, claimed: Iterable[Claimed]) -> None:
        """Make sure that the secrets of these are known; their versions are."""
        self._secrets.load(
            connection, ((c.tenant_id, needs) for c in claimed if (needs := self._needs.get(c.version_id)))
        )

    def terms(self, version_id: int) -> Terms:
        """The terms of a version that has been loaded, however long ago."""
        return self._terms[version_id]

    def counts_after(self, claimed: Claimed) -> int | None:
        """After which attempt those begin that share total_seconds: a replay starts afresh. None: no such limit."""
        if "total_seconds" not in self._limits[claimed.version_id]:
            return None
        return max(0, claimed.max_attempts - self._terms[claimed.version_id].policy.max_attempts)

    def assignment(self, claimed: Claimed, *, first_start_us: int | None = None, now_us: int = 0) -> Assignment:
        """What the runner needs to run `claimed`, whose version is known.

        first_start_us: when the first attempt of an execution with total_seconds began; None if none has. now_us is
        used with it; both by the database's clock.
        """
        row = self._rows[claimed.version_id]
        definition = row.definition
        limits = self._limits[claimed.version_id]
        timeout, total = definition["timeout_seconds"], limits.get("total_seconds")
        left = total
        if total is not None and first_start_us is not None:
            left = total - (max(now_us, claimed.run_at_us) - first_start_us) / 1e6
        total_is_nearer = left is not None and left < timeout
        needs = self._needs.get(claimed.version_id)
        given = NOTHING if needs is None else self._secrets.give(claimed.tenant_id, needs)
        return Assignment(
            execution_id=claimed.id,
            token=claimed.token,
            attempt=claimed.attempt,
            max_attempts=claimed.max_attempts,
            handler=definition["handler"],
            parameters_json=self._parameters(claimed, row),
            timeout_seconds=left if left is not None and total_is_nearer else timeout,
            tenant=row.tenant_slug,
            task_name=row.task_name,
            nominal_at_us=claimed.nominal_at_us,
            scheduled_at_us=ids.milliseconds(claimed.id) * 1000,
            idempotency_key=claimed.idempotency_key,
            checkpoint_json=claimed.left_behind.encode() if claimed.left_behind else None,
            heartbeat_seconds=limits.get("heartbeat_seconds"),
            total_seconds=total,
            first_start_us=first_start_us,
            total_is_nearer=total_is_nearer,
            idempotent=definition.get("idempotent", True),
            class_index=claimed.class_index,
            traceparent=claimed.traceparent,
            webhook_secrets=given.signing,
            secrets=given.secrets,
            distant=given.distant,
            problem=_problem(row) if row.id in self._unreadable else given.problem,
        )

    def _parameters(self, claimed: Claimed, row: VersionRow) -> bytes | None:
        if claimed.payload is not None:
            return claimed.payload.encode()
        own = row.definition["parameters"]
        return json.dumps(own).encode() if own else None


def _problem(row: VersionRow) -> dict[str, Any]:
    text = f"this worker cannot read version {row.id} of {row.task_name}, which a later release may have written"
    return make_error("UnreadableVersion", f"{text}; another worker may")
