"""Progress and checkpoints in the ledger: fenced, coalesced, handed to the next attempt, gone when it rests."""

import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from apps.executions import person_store, store
from apps.executions.circuits import CircuitTerms
from apps.executions.rows import Claimed, Note
from apps.executions.states import Outcome, Status
from apps.worker.circuit_reporter import CircuitReporter
from apps.worker.completer import Completer
from apps.worker.jobs import Assignment, RunResult
from apps.worker.load import LoadMeter
from apps.worker.recorder import Recorder
from apps.worker.versions import Versions
from apps.worker.zombies import ZOMBIES
from chronoweb.runtime import postgres
from chronoweb.runtime.config import Config
from chronoweb.runtime.database_clock import DatabaseClock
from tests.stack import EPOCH, Ledger
from tests.test_finish import end
from tests.waiting import PATIENCE_SECONDS, eventually

TOKEN = EPOCH << 32


def said(ledger: Ledger, identity: bytes) -> dict[str, Any] | None:
    """The row of an execution."""
    found = ledger.select("SELECT * FROM progress WHERE execution_id = encode(%s, 'hex')::uuid", identity)
    return found[0] if found else None


def note(ledger: Ledger, *notes: Note, worker: int = 1) -> set[bytes]:
    ordered = sorted(notes, key=lambda one: one.id)
    return store.note_progress(ledger.connection, ordered, worker_id=worker)


# ---- the statements -----------------------------------------------------------------------------------------------


def test_each_part_is_kept_until_there_is_something_newer(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    before = ledger.row(identity)["version"]
    assert note(ledger, Note(identity, TOKEN, checkpoint=b'{"a": "\\u0000"}')) == {identity}
    row = said(ledger, identity)
    assert row is not None
    assert (row["done"], row["said_at"], row["checkpoint"]) == (None, None, '{"a": "\\u0000"}')
    note(ledger, Note(identity, TOKEN, 3.0, 10.0))
    note(ledger, Note(identity, TOKEN, 4.0))
    row = said(ledger, identity)
    assert row is not None
    assert (row["done"], row["total"], row["checkpoint"]) == (4.0, None, '{"a": "\\u0000"}')
    assert row["said_at"] > row["checkpointed_at"]
    assert ledger.row(identity)["version"] == before + 3, "pages see that something is new"


@pytest.mark.parametrize(
    ("status", "token", "worker"),
    [
        (Status.RUNNING, TOKEN - 1, 1),
        (Status.RUNNING, TOKEN + 1, 1),
        (Status.RUNNING, TOKEN, 2),
        (Status.DISPATCHED, TOKEN, 1),
        (Status.COMPLETED, TOKEN, 1),
    ],
)
def test_nobody_else_writes(ledger: Ledger, status: Status, token: int, worker: int) -> None:
    [identity] = ledger.add(status=status)
    before = ledger.row(identity)
    assert note(ledger, Note(identity, token, 1.0, 2.0, b"1"), worker=worker) == set()
    assert said(ledger, identity) is None
    assert ledger.row(identity) == before


def test_what_is_taken_away_meanwhile_is_not_written(ledger: Ledger) -> None:
    """The reclaim has the row; the write waits for it, and then finds a higher token."""
    [identity] = ledger.add(status=Status.RUNNING)
    written: list[set[bytes]] = []
    with postgres.connect("other", url=ledger.url) as other, other.transaction():
        store.reclaim(other, [(identity, TOKEN)], reason="r", actor="a")
        writer = threading.Thread(target=lambda: written.append(note(ledger, Note(identity, TOKEN, checkpoint=b"1"))))
        writer.start()
        eventually(lambda: waits_for_a_lock(other))
    writer.join(PATIENCE_SECONDS)
    assert written == [set()]
    assert said(ledger, identity) is None


def waits_for_a_lock(connection: Any) -> bool:
    row = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return bool(row[0])


def test_the_next_attempt_is_handed_what_was_left_wherever_it_runs(ledger: Ledger) -> None:
    left, spoke, silent = ledger.add(3, status=Status.RUNNING)
    note(ledger, Note(left, TOKEN, checkpoint=b'{"row": 7}'), Note(spoke, TOKEN, 1.0))
    store.release(ledger.connection, [left, spoke, silent], [TOKEN] * 3, worker_id=1)
    assert said(ledger, left) is not None
    ledger.dispatch([left, spoke, silent], worker=2)
    tokens = [ledger.token(i) for i in (left, spoke, silent)]
    claimed = store.claim(ledger.connection, [left, spoke, silent], tokens, worker_id=2)
    assert {c.id: c.left_behind for c in claimed} == {left: '{"row": 7}', spoke: "", silent: None}


def put(ledger: Ledger, identity: bytes, status: Status) -> None:
    query = "UPDATE executions SET status = %s WHERE id = encode(%s, 'hex')::uuid"
    ledger.connection.execute(query, (int(status), identity))


def test_what_rests_for_good_says_nothing_more(ledger: Ledger) -> None:
    rests, goes_on, dead = ledger.add(3, status=Status.RUNNING)
    note(ledger, *(Note(i, TOKEN, 1.0) for i in (rests, goes_on, dead)))
    put(ledger, rests, Status.COMPLETED)
    put(ledger, dead, Status.DEAD_LETTER)
    store.forget_progress(ledger.connection, sorted([rests, goes_on, dead]))
    assert [said(ledger, i) is None for i in (rests, goes_on, dead)] == [True, False, False]


@pytest.mark.parametrize("from_start", [False, True])
def test_a_replayed_dead_letter_goes_on_behind_its_checkpoint(ledger: Ledger, from_start: bool) -> None:
    """Unless whoever replays it wants it from the start: the checkpoint may be what it fails at."""
    [identity] = ledger.add(status=Status.RUNNING)
    note(ledger, Note(identity, TOKEN, checkpoint=b'{"row": 7}'))
    dead = end(ledger, identity, Status.DEAD_LETTER)
    assert store.finish(ledger.connection, [dead], worker_id=1)
    store.forget_progress(ledger.connection, [identity])
    assert store.forget_leaked_progress(ledger.connection) == 0
    with ledger.connection.transaction():
        locked = person_store.lock_one(
            ledger.connection, identity=UUID(bytes=identity), tenant_id=UUID(bytes=ledger.tenant)
        )
        assert locked is not None
        replayed = {"attempts": 4, "from_start": from_start, "actor": "test", "reason": "test"}
        unedited = {"edited": False, "payload": None, "concurrency_key": None}
        assert person_store.act(ledger.connection, "replay", locked, **replayed, **unedited)
    put(ledger, identity, Status.PRELOADED)
    ledger.dispatch([identity])
    [claimed] = store.claim(ledger.connection, [identity], [ledger.token(identity)], worker_id=1)
    assert claimed.left_behind == (None if from_start else '{"row": 7}')


def test_a_dead_letter_given_up_says_nothing_more(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    note(ledger, Note(identity, TOKEN, checkpoint=b"1"))
    put(ledger, identity, Status.CANCELLED)
    assert store.forget_leaked_progress(ledger.connection) == 1


def test_the_watchdog_drops_what_others_have_ended(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    note(ledger, Note(identity, TOKEN, 1.0))
    ledger.connection.execute(
        "UPDATE executions SET cancel_requested_at = clock_timestamp() WHERE id = encode(%s, 'hex')::uuid", (identity,)
    )
    store.reclaim(ledger.connection, [(identity, TOKEN)], reason="r", actor="a")
    assert store.forget_leaked_progress(ledger.connection) == 1
    assert said(ledger, identity) is None


# ---- the recorder -------------------------------------------------------------------------------------------------


class Recording:
    """A recorder in its thread, fed as the runner feeds it; answers by execution."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.zombie: list[str] = []
        self.answers: dict[bytes, str | None] = {}
        self.running: dict[tuple[bytes, int], Claimed] = {}
        self.recorder = Recorder(worker_id=1, url=ledger.url, running=self.running, on_zombie=self.zombie.append)

    def assignment(self, identity: bytes, token: int = TOKEN) -> Assignment:
        return Assignment(identity, token, 1, 4, {}, None, 30, "t", "t", None, 0, "k")

    def keep(self, identity: bytes, text: bytes) -> None:
        def answered(problem: str | None) -> None:
            row = said(self.ledger, identity)
            assert problem or (row is not None and row["checkpoint"] == text.decode()), "answered before it was kept"
            self.answers[identity] = problem

        self.recorder.keep(self.assignment(identity), text, answered)

    def wait(self, count: int) -> dict[bytes, str | None]:
        eventually(lambda: len(self.answers) >= count)
        return self.answers


@pytest.fixture
def recording(ledger: Ledger) -> Iterator[Recording]:
    made = Recording(ledger)
    yield made
    made.recorder.stop(PATIENCE_SECONDS)
    assert made.recorder.failure is None


def test_a_checkpoint_is_answered_once_it_is_committed(ledger: Ledger, recording: Recording) -> None:
    identities = ledger.add(20, status=Status.RUNNING)
    for identity in identities:
        recording.keep(identity, identity.hex().join(['"', '"']).encode())
    recording.recorder.progressed([(recording.assignment(identities[0]), 1.0, 2.0)])
    recording.recorder.start()
    assert recording.wait(20) == dict.fromkeys(identities)
    # All that waited went in one statement: each row was written once.
    assert {ledger.row(identity)["version"] for identity in identities} == {ledger.row(identities[0])["version"]}
    row = said(ledger, identities[0])
    assert row is not None
    assert row["done"] == 1.0


def test_the_one_whose_token_is_lost_hears_so_and_this_worker_is_a_zombie(ledger: Ledger, recording: Recording) -> None:
    mine, lost = ledger.add(2, status=Status.RUNNING)
    store.reclaim(ledger.connection, [(lost, TOKEN)], reason="r", actor="a")
    counted = ZOMBIES._value.get()
    recording.keep(mine, b"1")
    recording.keep(lost, b"1")
    recording.recorder.start()
    answers = recording.wait(2)
    assert answers[mine] is None
    assert "no longer this attempt's" in (answers[lost] or "")
    eventually(lambda: recording.zombie)
    assert ZOMBIES._value.get() == counted + 1


def test_what_has_ended_by_our_own_hand_makes_no_zombie(ledger: Ledger, recording: Recording) -> None:
    """Its retry runs elsewhere already, under a higher token, when its last words come to be written."""
    [identity] = ledger.add(status=Status.RUNNING)
    recording.recorder.progressed([(recording.assignment(identity), 1.0, 2.0)])
    recording.keep(identity, b"1")
    recording.recorder._collect()  # they are being written
    recording.recorder.ended([recording.assignment(identity)])
    store.reclaim(ledger.connection, [(identity, TOKEN)], reason="r", actor="a")
    recording.recorder.start()
    recording.wait(1)
    recording.recorder.stop(PATIENCE_SECONDS)
    assert recording.zombie == []
    assert recording.recorder.has_left((identity, TOKEN))
    assert not recording.recorder.has_left((identity, TOKEN)), "asked once"


def test_a_connection_that_breaks_delays_an_answer_and_loses_none(ledger: Ledger, recording: Recording) -> None:
    identities = ledger.add(50, status=Status.RUNNING)
    recording.recorder.start()
    for number, identity in enumerate(identities):
        recording.keep(identity, b"7")
        if number % 10 == 0:
            ledger.connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'worker-recorder'"
                " AND datname = current_database()"
            )
    assert recording.wait(50) == dict.fromkeys(identities)


# ---- the completer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outcome", "kept"), [(Outcome.SUCCEEDED, False), (Outcome.FAILED, True)])
def test_an_end_drops_what_was_said_and_a_retry_keeps_it(ledger: Ledger, outcome: Outcome, kept: bool) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED)
    running: dict[tuple[bytes, int], Claimed] = {}
    recorder = Recorder(worker_id=1, url=ledger.url, running=running, on_zombie=lambda _: None)
    versions, clock = Versions(), DatabaseClock()
    clock.observe(ledger.now_us())
    [claimed] = store.claim(ledger.connection, [identity], [TOKEN], worker_id=1)
    running[claimed.id, claimed.token] = claimed
    versions.load(ledger.connection, [ledger.version])
    completer = Completer(
        worker_id=1,
        url=ledger.url,
        clock=clock,
        versions=versions,
        running=running,
        load=LoadMeter(),
        circuits=CircuitReporter(CircuitTerms.of(Config())),
        on_zombie=lambda _: None,
        on_free=lambda: None,
        has_left=recorder.has_left,
    )
    given = versions.assignment(claimed)
    recorder.progressed([(given, 1.0, 2.0)])
    recorder.step(ledger.connection)
    assert said(ledger, identity) is not None
    now = ledger.now_us()
    recorder.ended([given])
    completer.ended([RunResult(given, outcome, now, now, None, None)])
    completer.step(ledger.connection)
    assert (said(ledger, identity) is not None) is kept
