"""What a worker asks and tells the ledger once a second about what it runs."""

import psycopg

from apps.executions import store
from apps.executions.rows import Claimed
from apps.worker.circuit_reporter import CircuitReporter
from apps.worker.runner import Runner
from chronoweb.runtime.database_clock import DatabaseClock

_LONG_US = 1_000_000


class SecondLook:
    """Used by the presence's thread. running: what was claimed and has not ended, by (id, token)."""

    def __init__(
        self,
        *,
        worker_id: int,
        runner: Runner,
        running: dict[tuple[bytes, int], Claimed],
        circuits: CircuitReporter,
        clock: DatabaseClock,
    ) -> None:
        self._worker_id = worker_id
        self._runner = runner
        self._running = running
        self._circuits = circuits
        self._clock = clock
        self._told_started: set[tuple[bytes, int]] = set()

    def look(self, connection: psycopg.Connection) -> None:
        """Stop what is to be cancelled; write the real start of what runs for longer than a moment."""
        for identity in store.to_cancel(connection, worker_id=self._worker_id):
            self._runner.cancel(identity)
        self._circuits.refresh(connection)
        if not self._running:
            self._told_started.clear()
            return
        now = self._clock.now_us()
        tokens = {identity: token for identity, token in list(self._running)}
        long = [
            (identity, tokens[identity], self._clock.from_host_us(started))
            for identity, started in self._runner.running()
            if identity in tokens
            and (identity, tokens[identity]) not in self._told_started
            and now - self._clock.from_host_us(started) > _LONG_US
        ]
        if long:
            store.note_started(connection, sorted(long), worker_id=self._worker_id)
            self._told_started.update((identity, token) for identity, token, _ in long)
        self._told_started.intersection_update(tokens.items())
