"""How attempts end: one fenced write; retries with backoff up to the dead letter; one bad result harms nobody."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from apps.executions import store
from apps.executions.circuits import CircuitTerms
from apps.executions.rows import Claimed, Finish
from apps.executions.states import Outcome, Overlap, Status
from apps.worker import zombies
from apps.worker.circuit_reporter import CircuitReporter
from apps.worker.completer import Completer
from apps.worker.jobs import RunResult
from apps.worker.load import LoadMeter
from apps.worker.versions import Versions
from chronoweb.runtime import postgres
from chronoweb.runtime.config import Config
from chronoweb.runtime.database_clock import DatabaseClock
from tests.stack import EPOCH, Ledger, ledger_on
from tests.waiting import PATIENCE_SECONDS, eventually

TOKEN = EPOCH << 32
WORKER = 1


def end(ledger: Ledger, identity: bytes, target: Status = Status.COMPLETED, **fields: Any) -> Finish:
    now = ledger.now_us()
    known: dict[str, Any] = {
        "token": TOKEN,
        "attempt": 1,
        "outcome": Outcome.SUCCEEDED if target is Status.COMPLETED else Outcome.FAILED,
        "due_us": now,
        "started_us": now,
        "finished_us": now,
        "delay_us": 5_000_000 if target is Status.RETRYING else None,
        "fingerprint": b"ValueError: #" if target is Status.DEAD_LETTER else None,
    }
    return Finish(id=identity, target=target, **{**known, **fields})


def finish(ledger: Ledger, *ends: Finish, worker: int = WORKER) -> set[bytes]:
    return store.finish(ledger.connection, sorted(ends, key=lambda e: e.id), worker_id=worker)


# ---- the statement ------------------------------------------------------------------------------------------------


def test_a_success_is_kept_with_its_attempt_and_leaves_no_place_behind(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, slot_key=ledger.slug, overlap=Overlap.SKIP)
    assert finish(ledger, end(ledger, identity, result=b'{"rows": 3}')) == {identity}
    row = ledger.row(identity)
    assert row["status"] == Status.COMPLETED
    assert row["result"] == {"rows": 3}
    assert row["finished_at"] is not None
    assert row["token"] == TOKEN
    assert ledger.outcomes(identity) == [Outcome.SUCCEEDED]
    assert ledger.outstanding() == {}
    assert ledger.slot_holder(ledger.slug) is None


def test_ending_it_twice_writes_it_once(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    assert finish(ledger, end(ledger, identity, result=b"1")) == {identity}
    after = ledger.row(identity)
    assert finish(ledger, end(ledger, identity, result=b"2")) == set()
    assert ledger.row(identity) == after
    assert len(ledger.attempts(identity)) == 1


@pytest.mark.parametrize("wrong", [{"token": TOKEN - 1}, {"token": TOKEN + 1}])
def test_another_token_writes_nothing(ledger: Ledger, wrong: dict[str, Any]) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    before = ledger.row(identity)
    assert finish(ledger, end(ledger, identity, **wrong)) == set()
    assert ledger.row(identity) == before
    assert len(ledger.outstanding()) == 1
    assert ledger.attempts(identity) == []


def test_another_worker_writes_nothing(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, worker=1)
    assert finish(ledger, end(ledger, identity), worker=2) == set()
    assert ledger.status(identity) is Status.RUNNING


def test_what_was_reclaimed_cannot_be_ended_any_more(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    store.reclaim(ledger.connection, [(identity, TOKEN)], reason="lost", actor="watchdog")
    assert finish(ledger, end(ledger, identity)) == set()
    assert ledger.status(identity) is Status.PRELOADED
    assert ledger.outcomes(identity) == [Outcome.CRASHED]


def test_a_retry_waits_its_delay_by_the_database_and_keeps_its_slot(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, slot_key=ledger.slug, overlap=Overlap.SKIP)
    error = json.dumps({"type": "ValueError", "message": "no"}).encode()
    before = ledger.now_us()
    assert finish(ledger, end(ledger, identity, Status.RETRYING, error=error)) == {identity}
    row = ledger.row(identity)
    assert row["status"] == Status.RETRYING
    assert abs(row["wake_at"] - row["run_at"]) < timedelta(milliseconds=1)
    assert 5.0 <= row["run_at"].timestamp() - before / 1e6 < 7.0
    assert row["finished_at"] is None
    assert row["error"]["type"] == "ValueError"
    assert ledger.slot_holder(ledger.slug) == identity
    assert ledger.outstanding() == {}


def test_another_attempt_of_what_is_to_be_cancelled_is_not_waited_for(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, slot_key=ledger.slug, overlap=Overlap.SKIP)
    ledger.connection.execute(
        "UPDATE executions SET cancel_requested_at = clock_timestamp() WHERE id = encode(%s, 'hex')::uuid", (identity,)
    )
    assert finish(ledger, end(ledger, identity, Status.RETRYING)) == {identity}
    row = ledger.row(identity)
    assert row["status"] == Status.CANCELLED
    assert row["finished_at"] is not None
    assert row["wake_at"] is None
    assert ledger.slot_holder(ledger.slug) is None
    assert ledger.outcomes(identity) == [Outcome.FAILED]


def test_a_dead_letter_is_indexed_and_frees_its_slot(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, slot_key=ledger.slug, overlap=Overlap.SKIP)
    finish(ledger, end(ledger, identity, Status.DEAD_LETTER))
    [letter] = ledger.select("SELECT * FROM dead_letters WHERE execution_id = encode(%s, 'hex')::uuid", identity)
    assert letter["fingerprint"] == "ValueError: #"
    assert letter["task_id"].bytes == ledger.task
    assert letter["tenant_id"].bytes == ledger.tenant
    assert ledger.slot_holder(ledger.slug) is None


def test_batches_in_opposite_order_get_through(own_database: str) -> None:
    """40P01 is tried again: here by the same batches until all is written. Two workers' rows lie interleaved."""
    with ledger_on(own_database) as made, postgres.connect("other", url=own_database) as other:
        identities = made.add(600, status=Status.RUNNING)
        reclaimed: list[bytes] = []

        def reclaim() -> None:
            for start in range(0, 600, 50):
                part = [(i, TOKEN) for i in identities[start : start + 50]]
                found = store.reclaim(other, part, reason="r", actor="watchdog")
                reclaimed.extend(identity for identity, _, _ in found)

        thread = threading.Thread(target=reclaim)
        thread.start()
        written: set[bytes] = set()
        for start in range(550, -1, -50):
            ends = [end(made, i) for i in identities[start : start + 50]]
            for _ in range(5):
                try:
                    written |= finish(made, *ends)
                    break
                except psycopg.errors.DeadlockDetected:
                    continue
        thread.join()
        assert written.isdisjoint(reclaimed)
        assert written | set(reclaimed) == set(identities)
        statuses = dict(zip(identities, made.statuses(identities), strict=True))
        assert {statuses[i] for i in written} <= {Status.COMPLETED}
        assert {statuses[i] for i in reclaimed} <= {Status.PRELOADED}


# ---- the completer ------------------------------------------------------------------------------------------------


class Ends:
    """A completer in its thread, fed as the runner feeds it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.zombie: list[str] = []
        self.running: dict[tuple[bytes, int], Claimed] = {}
        clock = DatabaseClock()
        clock.observe(ledger.now_us())
        self.versions = Versions()
        self.completer = Completer(
            worker_id=WORKER,
            url=ledger.url,
            clock=clock,
            versions=self.versions,
            running=self.running,
            load=LoadMeter(),
            circuits=CircuitReporter(CircuitTerms.of(Config())),
            on_zombie=self.zombie.append,
            on_free=lambda: None,
        )
        self.completer.start()

    def begin(self, *ledgers_and_ids: tuple[Ledger, list[bytes]]) -> None:
        """Claim what was dispatched, as the claimer does."""
        for ledger, identities in ledgers_and_ids:
            tokens = [TOKEN] * len(identities)
            for claimed in store.claim(ledger.connection, identities, tokens, worker_id=WORKER):
                self.running[claimed.id, claimed.token] = claimed
            self.versions.load(ledger.connection, [ledger.version])

    def result(self, identity: bytes, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> RunResult:
        claimed = next(c for key, c in self.running.items() if key[0] == identity)
        now = self.ledger.now_us()
        known = {"started_at_us": now, "finished_at_us": now, "result_json": None, "error": None}
        return RunResult(assignment=self.versions.assignment(claimed), outcome=outcome, **{**known, **fields})

    def end(self, *results: RunResult) -> None:
        """Hand in, and wait until all is written."""
        self.completer.ended(list(results))
        eventually(lambda: not self.running or not self.completer.alive)
        assert self.completer.failure is None


@pytest.fixture
def ends(ledger: Ledger) -> Iterator[Ends]:
    made = Ends(ledger)
    yield made
    assert made.completer.stop(PATIENCE_SECONDS)


UNSTORABLE = {
    "a NUL character": b'{"text": "a\\u0000b"}',
    "a lone surrogate": b'{"text": "a\\ud800b"}',
    "bytes that are no UTF-8": b'{"text": "\xff"}',
    "a NUL byte": b'{"text": "\x00"}',
    "no JSON": b"{",
    "a number that is none": b"NaN",
    "too deep": b"[" * 20_000 + b"]" * 20_000,
}


@pytest.mark.parametrize("poison", UNSTORABLE.values(), ids=UNSTORABLE.keys())
def test_one_unstorable_result_fails_alone_among_five_hundred(ends: Ends, module_database: str, poison: bytes) -> None:
    with ledger_on(module_database) as other:
        good = [(ends.ledger, ends.ledger.add(250, status=Status.DISPATCHED))]
        good += [(other, other.add(250, status=Status.DISPATCHED))]
        culprit = good[1][1].pop(123)
        ends.begin(*good, (other, [culprit]))
        identities = [i for _, group in good for i in group]
        results = [ends.result(i, result_json=b'{"ok": true}') for i in identities]
        results.insert(200, ends.result(culprit, result_json=poison))
        ends.end(*results)
        assert set(ends.ledger.statuses(identities)) == {Status.COMPLETED}
        row = other.row(culprit)
        assert row["status"] == Status.DEAD_LETTER
        assert row["error"]["type"] == "UnstorableResult"
        assert row["attempt"] == 1, "permanently: another attempt would come to the same"
        assert other.outcomes(culprit) == [Outcome.FAILED]
        assert ends.zombie == []


def test_an_error_that_cannot_be_stored_does_not_stop_the_worker(ends: Ends) -> None:
    identities = ends.ledger.add(3, status=Status.DISPATCHED)
    ends.begin((ends.ledger, identities))
    hostile = {"type": "ValueError", "message": "a\ud800b\0c", "permanent": True}
    ends.end(
        ends.result(identities[0]),
        ends.result(identities[1], Outcome.FAILED, error=hostile),
        ends.result(identities[2]),
    )
    assert ends.ledger.statuses(identities) == [Status.COMPLETED, Status.DEAD_LETTER, Status.COMPLETED]


def test_a_lost_answer_is_no_zombie(ends: Ends) -> None:
    """The write was committed and its answer lost: written again it finds its own outcome, and that is success."""
    [identity] = ends.ledger.add(status=Status.DISPATCHED)
    ends.begin((ends.ledger, [identity]))
    finish(ends.ledger, end(ends.ledger, identity))
    ends.end(ends.result(identity))
    assert ends.zombie == []
    assert ends.ledger.outcomes(identity) == [Outcome.SUCCEEDED]


def test_a_zombie_writes_nothing_is_counted_and_told(ends: Ends) -> None:
    counted = zombies.ZOMBIES._value.get()
    taken, mine = ends.ledger.add(2, status=Status.DISPATCHED)
    ends.begin((ends.ledger, [taken, mine]))
    store.reclaim(ends.ledger.connection, [(taken, TOKEN)], reason="lost", actor="watchdog")
    ends.end(ends.result(taken), ends.result(mine))
    assert ends.ledger.statuses([taken, mine]) == [Status.PRELOADED, Status.COMPLETED]
    assert len(ends.zombie) == 1
    assert taken.hex() in ends.zombie[0]
    assert zombies.ZOMBIES._value.get() == counted + 1


def test_what_was_cancelled_under_its_token_is_no_zombie(ends: Ends) -> None:
    [identity] = ends.ledger.add(status=Status.DISPATCHED)
    ends.begin((ends.ledger, [identity]))
    finish(ends.ledger, end(ends.ledger, identity, Status.CANCELLED, outcome=Outcome.CANCELLED))
    ends.end(ends.result(identity))
    assert ends.zombie == []
    assert ends.ledger.status(identity) is Status.CANCELLED


def test_a_failure_is_tried_again_until_its_attempts_are_spent(ends: Ends) -> None:
    ledger = ends.ledger
    ledger.define(policy={"max_attempts": 3, "backoff": "exponential", "base_delay_seconds": 10.0})
    [identity] = ledger.add(max_attempts=3)
    seen = []
    for attempt in range(1, 4):
        assert ledger.dispatch([identity]) == {identity: Status.DISPATCHED}
        token = ledger.token(identity)
        [claimed] = store.claim(ledger.connection, [identity], [token], worker_id=WORKER)
        assert claimed.attempt == attempt
        ends.running[identity, token] = claimed
        ends.versions.load(ledger.connection, [ledger.version])
        before = ledger.now_us()
        message = f"the order 42 of {attempt} is unknown"
        ends.end(ends.result(identity, Outcome.FAILED, error={"type": "KeyError", "message": message}))
        row = ledger.row(identity)
        seen.append(Status(row["status"]))
        if row["status"] == Status.RETRYING:
            wait = row["run_at"].timestamp() - before / 1e6
            assert 10.0 * 2 ** (attempt - 1) <= wait < 10.0 * 2 ** (attempt - 1) + 3
            ledger.connection.execute(
                "UPDATE executions SET status = 1, wake_at = NULL, run_at = clock_timestamp() WHERE id = %s",
                (row["id"],),
            )
    assert seen == [Status.RETRYING, Status.RETRYING, Status.DEAD_LETTER]
    assert ledger.outcomes(identity) == [Outcome.FAILED] * 3
    [letter] = ledger.select("SELECT * FROM dead_letters WHERE execution_id = encode(%s, 'hex')::uuid", identity)
    assert letter["fingerprint"] == "KeyError: the order # of # is unknown"


def test_a_permanent_failure_is_a_dead_letter_at_once(ends: Ends) -> None:
    [identity] = ends.ledger.add(status=Status.DISPATCHED)
    ends.begin((ends.ledger, [identity]))
    ends.end(ends.result(identity, Outcome.FAILED, error={"type": "E", "message": "m", "permanent": True}))
    assert ends.ledger.status(identity) is Status.DEAD_LETTER


def test_a_completer_outlasts_the_loss_of_its_connection(ends: Ends) -> None:
    identities = ends.ledger.add(2, status=Status.DISPATCHED)
    ends.begin((ends.ledger, identities))
    eventually(lambda: ends.ledger.select("SELECT 1 FROM pg_stat_activity WHERE application_name = 'worker-completer'"))
    ends.ledger.connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'worker-completer'"
        " AND datname = current_database()"
    )
    ends.end(*[ends.result(i) for i in identities])
    assert set(ends.ledger.statuses(identities)) == {Status.COMPLETED}
