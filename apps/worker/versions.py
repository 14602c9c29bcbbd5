"""Task versions, kept in memory: they never change, so each is read once."""

import json
from collections.abc import Iterable

import psycopg

from apps.executions import ids, store
from apps.executions.retry import RetryPolicy
from apps.executions.rows import Claimed, VersionRow
from apps.worker.jobs import Assignment

_KEPT = 10_000


class Versions:
    """Reads versions on demand; one thread."""

    def __init__(self) -> None:
        self._rows: dict[int, VersionRow] = {}
        # Kept when rows are forgotten: an attempt may end long after it was claimed. Equal policies are one object.
        self._policies: dict[int, RetryPolicy] = {}
        self._distinct: dict[RetryPolicy, RetryPolicy] = {}

    def load(self, connection: psycopg.Connection, wanted: Iterable[int]) -> None:
        """Make sure that these are known."""
        wanted = set(wanted)
        missing = wanted - self._rows.keys()
        if not missing:
            return
        if len(self._rows) > _KEPT:
            self._rows.clear()
            missing = wanted
        for row in store.versions_of(connection, sorted(missing)):
            self._rows[row.id] = row
            policy = RetryPolicy.parse(row.definition["retry_policy"])
            self._policies[row.id] = self._distinct.setdefault(policy, policy)

    def policy(self, version_id: int) -> RetryPolicy:
        """The retry policy of a version that has been loaded, however long ago."""
        return self._policies[version_id]

    def assignment(self, claimed: Claimed) -> Assignment:
        """What the runner needs to run `claimed`, whose version is known."""
        row = self._rows[claimed.version_id]
        definition = row.definition
        return Assignment(
            execution_id=claimed.id,
            token=claimed.token,
            attempt=claimed.attempt,
            max_attempts=claimed.max_attempts,
            handler=definition["handler"],
            parameters_json=self._parameters(claimed, row),
            timeout_seconds=definition["timeout_seconds"],
            tenant=row.tenant_slug,
            task_name=row.task_name,
            nominal_at_us=claimed.nominal_at_us,
            scheduled_at_us=ids.milliseconds(claimed.id) * 1000,
            idempotency_key=claimed.idempotency_key,
        )

    def _parameters(self, claimed: Claimed, row: VersionRow) -> bytes | None:
        if claimed.payload is not None:
            return claimed.payload.encode()
        own = row.definition["parameters"]
        return json.dumps(own).encode() if own else None
