"""The claimer on a real ledger: a message that comes twice starts its execution once."""

from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

import psycopg
import pytest

from apps.executions.rows import Claimed
from apps.executions.states import Status
from apps.worker.backlog import Backlog
from apps.worker.claimer import Claimer
from apps.worker.class_slots import Lending
from apps.worker.jobs import Assignment
from apps.worker.starter import Starter
from apps.worker.versions import Versions
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import Config
from chronoweb.runtime.database_clock import DatabaseClock
from tests.stack import EPOCH, Ledger

WORKER = 1
TOKEN = EPOCH << 32


class _Starts:
    """What would be started."""

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        self.stranded: list[Assignment] = []
        self.on_add: Callable[[], None] = lambda: None

    def waiting(self, class_index: int) -> int:
        return 0

    def add(self, assignments: Sequence[tuple[int, Assignment]]) -> None:
        self.assignments += [assignment for _, assignment in assignments]
        self.on_add()


def _claimer(ledger: Ledger, backlog: Backlog, starts: _Starts, running: dict[tuple[bytes, int], Claimed]) -> Any:
    return Claimer(
        worker_id=WORKER,
        url=ledger.url,
        config=Config(),
        clock=DatabaseClock(),
        backlog=backlog,
        starter=cast(Starter, starts),
        capacity=lambda seconds, class_index: 16,
        stranded=lambda: starts.stranded,
        free=lambda class_index: 16,
        lending=Lending(0, SYSTEM_CLOCK),
        versions=Versions(),
        running=running,
    )


def test_a_message_that_comes_again_while_its_execution_runs_starts_nothing(ledger: Ledger) -> None:
    """The ledger grants a worker's claim again, for an answer may have been lost: it is the worker that must know."""
    [identity] = ledger.add(status=Status.DISPATCHED, worker=WORKER)
    backlog, starts = Backlog(), _Starts()
    running: dict[tuple[bytes, int], Claimed] = {}
    claimer = _claimer(ledger, backlog, starts, running)
    for _ in range(2):
        backlog.add(1, [(identity, TOKEN, 0)])
        claimer.step(ledger.connection)
    assert [assignment.execution_id for assignment in starts.assignments] == [identity]
    assert ledger.status(identity) is Status.RUNNING
    assert list(running) == [(identity, TOKEN)]


def test_a_claim_whose_answer_was_lost_is_asked_again_and_starts(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, worker=WORKER)
    backlog, starts = Backlog(), _Starts()
    running: dict[tuple[bytes, int], Claimed] = {}
    backlog.add(1, [(identity, TOKEN, 0)])
    _claimer(ledger, backlog, starts, running).step(ledger.connection)
    assert [assignment.execution_id for assignment in starts.assignments] == [identity]


def test_what_waits_in_vain_for_a_slot_goes_back_uncounted(ledger: Ledger) -> None:
    """And stays known until the ledger has it, however often PostgreSQL is away in between."""
    [identity] = ledger.add(status=Status.DISPATCHED, worker=WORKER)
    backlog, starts = Backlog(), _Starts()
    running: dict[tuple[bytes, int], Claimed] = {}
    claimer = _claimer(ledger, backlog, starts, running)
    backlog.add(1, [(identity, TOKEN, 0)])
    claimer.step(ledger.connection)
    starts.stranded, starts.assignments = starts.assignments, []
    with psycopg.connect(ledger.url) as away:
        away.close()
        with pytest.raises(psycopg.OperationalError):
            claimer.step(away)
    starts.stranded = []
    assert list(running) == [(identity, TOKEN)]
    claimer.step(ledger.connection)
    row = ledger.connection.execute(
        "SELECT status, attempt, token FROM executions WHERE id = %s", [UUID(bytes=identity)]
    )
    assert row.fetchone() == (Status.PRELOADED, 0, TOKEN + 1)
    assert running == {}


def test_what_has_begun_is_not_claimed_again_when_postgresql_goes_away_before_the_rest_is_given_back(
    ledger: Ledger,
) -> None:
    """The step is repeated then: the ledger would grant the claim a second time, and the handler would run twice."""
    good, refused = sorted(ledger.add(2, status=Status.DISPATCHED, worker=WORKER))
    ledger.connection.execute(
        "UPDATE executions SET cancel_requested_at = clock_timestamp() WHERE id = %s", [UUID(bytes=refused)]
    )
    backlog, starts = Backlog(), _Starts()
    running: dict[tuple[bytes, int], Claimed] = {}
    claimer = _claimer(ledger, backlog, starts, running)
    backlog.add(1, [(identity, TOKEN, 0) for identity in (good, refused)])
    with postgres.connect("cut", url=ledger.url) as cut:
        starts.on_add = cut.close
        with pytest.raises(psycopg.OperationalError):
            claimer.step(cut)
    assert [identity for _, identity, _ in claimer.unclaimed()] == [refused], "a drain gives that back, nothing else"
    claimer.step(ledger.connection)
    assert [assignment.execution_id for assignment in starts.assignments] == [good]
    assert ledger.statuses([good, refused]) == [Status.RUNNING, Status.CANCELLED]
