"""Parts of a worker: what waits unclaimed, the timer that is never early and its clock, the verdict, presence."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.executions import locks, store
from apps.executions.circuits import CircuitTerms
from apps.executions.retry import RetryPolicy
from apps.executions.rows import Claimed
from apps.executions.states import Hold, Outcome, Status
from apps.quickstart.services import ServiceAddresses
from apps.worker import daemon, presence, versions
from apps.worker.backlog import Backlog
from apps.worker.circuit_reporter import CircuitReporter
from apps.worker.claimer import Claimer
from apps.worker.class_slots import ClassSlots, Lending
from apps.worker.jobs import Assignment, RunResult
from apps.worker.live_state import LiveState, LiveStates
from apps.worker.load import LoadMeter
from apps.worker.presence import Presence
from apps.worker.second_look import SecondLook
from apps.worker.starter import Starter
from apps.worker.verdict import decide, fingerprint
from apps.worker.versions import Terms, Versions
from chronoweb.runtime import postgres, redis_client
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.database_clock import DatabaseClock
from chronoweb.runtime.loop import Stop
from tests.runner_tools import assignment
from tests.stack import EPOCH, Ledger, Running, addresses_of, quick_config
from tests.waiting import PATIENCE_SECONDS, eventually

TOKEN = EPOCH << 32


# ---- backlog ------------------------------------------------------------------------------------------------------


def record(n: int, due: int = 0) -> tuple[bytes, int, int]:
    return n.to_bytes(16, "big"), TOKEN, due


def test_critical_first_then_by_due_time() -> None:
    backlog = Backlog()
    backlog.add(2, [record(1, 10)])
    backlog.add(1, [record(3, 30), record(2, 20)])
    backlog.add(0, [record(4, 40)])
    taken = backlog.take(100, [10] * 3)
    assert [identity[-1] for _, identity, _ in taken] == [4, 2, 3, 1]
    assert len(backlog) == 0


def test_no_more_than_fits_and_nothing_before_its_time() -> None:
    backlog = Backlog()
    backlog.add(1, [record(n, n) for n in range(1, 11)])
    assert [due for due, _, _ in backlog.take(5, [3] * 3)] == [1, 2, 3]
    assert [due for due, _, _ in backlog.take(5, [3] * 3)] == [4, 5]
    assert backlog.take(5, [3] * 3) == []
    assert backlog.next_due_us([1] * 3) == 6


def test_a_record_that_comes_twice_waits_once() -> None:
    backlog = Backlog()
    backlog.add(1, [record(1), record(1)])
    backlog.add(1, [record(1)])
    assert len(backlog.take(1, [10] * 3)) == 1
    assert backlog.next_due_us([1] * 3) is None


def test_the_same_execution_under_a_new_token_is_another_record() -> None:
    backlog = Backlog()
    backlog.add(1, [record(1), (record(1)[0], TOKEN + 1, 0)])
    assert len(backlog.clear()) == 2
    assert len(backlog) == 0


# ---- the database's clock -----------------------------------------------------------------------------------------


class HandClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.wall, self.mono = 1_790_000_000.0, 50.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.wall, UTC)

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.mono

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.mono += seconds


@given(
    offset=st.integers(-10_000_000, 10_000_000),
    latencies=st.lists(st.integers(0, 500_000), min_size=1, max_size=100),
)
def test_it_never_runs_ahead_of_the_database(offset: int, latencies: list[int]) -> None:
    """offset: database − host. An answer tells the past; however late it comes, the bound stays below the truth."""
    hand = HandClock()
    clock = DatabaseClock(hand)
    for latency in latencies:
        asked = int(hand.time() * 1e6) + offset
        hand.sleep(latency / 1e6)
        clock.observe(asked)
        assert clock.now_us() <= int(hand.time() * 1e6) + offset + 2
    best = min(latencies[-60:])
    assert clock.now_us() >= int(hand.time() * 1e6) + offset - best - 2, "and as close as the best answer allows"


def test_a_step_of_the_hosts_clock_changes_nothing() -> None:
    """Not even until the next answer: what has a limit for all attempts would be dead at once."""
    hand = HandClock()
    clock = DatabaseClock(hand)
    clock.observe(int(hand.time() * 1e6))
    hand.wall += 3600
    assert clock.now_us() == pytest.approx(int((hand.time() - 3600) * 1e6), abs=2)
    clock.observe(int((hand.time() - 3600) * 1e6))
    assert clock.now_us() == pytest.approx(int((hand.time() - 3600) * 1e6), abs=2)
    assert clock.skew_seconds == pytest.approx(-3600, abs=1e-3)
    assert clock.from_host_us(int(hand.time() * 1e6)) == clock.now_us()


@pytest.mark.parametrize("held_at", [1, 2])
def test_who_is_held_up_between_two_clocks_takes_a_moment_for_no_other(held_at: int) -> None:
    """A start would be noted before it was due."""

    class HeldUp(HandClock):
        reads = 0

        def read(self) -> None:
            self.reads += 1
            if self.reads == held_at:
                self.sleep(0.01)

        def time(self) -> float:
            value = self.wall
            self.read()
            return value

        def monotonic(self) -> float:
            value = self.mono
            self.read()
            return value

    hand = HeldUp()
    clock = DatabaseClock(hand)
    clock.observe(int(hand.wall * 1e6))
    hand.reads = 0
    moment = int(hand.wall * 1e6) + 60_000_000
    assert clock.from_host_us(moment) == pytest.approx(moment, abs=2)


# ---- the starter --------------------------------------------------------------------------------------------------


class Started:
    """A starter, and when it handed on what."""

    def __init__(self, clock: DatabaseClock) -> None:
        self.at: dict[bytes, int] = {}
        self.clock = clock
        self.starter = Starter(self._take, clock)
        self.starter.start()

    def _take(self, assignments: Any) -> None:
        now = self.clock.now_us()
        for one in assignments:
            self.at[one.execution_id] = now


@pytest.fixture
def started() -> Iterator[Started]:
    clock = DatabaseClock()
    clock.observe(int(SYSTEM_CLOCK.time() * 1e6) - 40_000)  # a database 40 ms behind this host
    made = Started(clock)
    yield made
    made.starter.close()


def test_never_early_and_each_once(started: Started) -> None:
    now = started.clock.now_us()
    pairs = [(now + (n * 7919) % 420_000 - 20_000, assignment("x")) for n in range(300)]
    for n in range(0, len(pairs), 30):
        started.starter.add(pairs[n : n + 30])
    eventually(lambda: len(started.at) == len(pairs))
    assert all(started.at[one.execution_id] >= run_at for run_at, one in pairs)
    assert len(started.starter) == 0


def test_one_that_is_due_sooner_is_not_kept_behind_one_that_is_due_later(started: Started) -> None:
    now = started.clock.now_us()
    late, soon = assignment("x"), assignment("x")
    started.starter.add([(now + 60_000_000, late)])
    started.starter.add([(now + 50_000, soon)])
    eventually(lambda: soon.execution_id in started.at)
    assert late.execution_id not in started.at


def test_what_was_not_started_is_handed_back_when_it_closes(started: Started) -> None:
    later = [assignment("x") for _ in range(3)]
    started.starter.add([(started.clock.now_us() + 60_000_000, one) for one in later])
    assert {one.execution_id for one in started.starter.close()} == {one.execution_id for one in later}
    assert started.at == {}


def test_nothing_begins_behind_its_end() -> None:
    """Neither what had come due at that moment, nor what is claimed later: it is given back, and would run twice."""
    clock = DatabaseClock()
    clock.observe(int(SYSTEM_CLOCK.time() * 1e6))
    handed_on: list[bytes] = []
    arrived, go, closed = threading.Event(), threading.Event(), threading.Event()

    def submit(assignments: Sequence[Assignment]) -> None:
        arrived.set()
        assert go.wait(PATIENCE_SECONDS)
        handed_on.extend(one.execution_id for one in assignments)

    starter = Starter(submit, clock)
    starter.start()
    due, late = assignment("x"), assignment("x")
    starter.add([(clock.now_us() + 20_000, due)])
    assert arrived.wait(PATIENCE_SECONDS)

    def close() -> None:
        assert starter.close() == []
        closed.set()

    closing = threading.Thread(target=close)
    closing.start()
    assert not closed.wait(0.2)
    go.set()
    closing.join(PATIENCE_SECONDS)
    assert handed_on == [due.execution_id]
    starter.add([(0, late), (clock.now_us() + 1000, late)])
    assert (handed_on, len(starter)) == ([due.execution_id], 0)


# ---- the verdict --------------------------------------------------------------------------------------------------


def claimed(attempt: int = 1, max_attempts: int = 4) -> Claimed:
    return Claimed(bytes(16), TOKEN, attempt, max_attempts, 1, bytes(16), None, 1_000_000, None, None, "key")


def verdict(
    outcome: Outcome,
    *,
    error: dict[str, Any] | None = None,
    attempt: int = 1,
    policy: RetryPolicy | None = None,
    idempotent: bool = True,
) -> Any:
    clock = DatabaseClock()
    clock.observe(int(SYSTEM_CLOCK.time() * 1e6))
    result = RunResult(assignment("x"), outcome, 2_000_000, 3_000_000, None, error)
    policy = policy or RetryPolicy(backoff="fixed", base_delay_seconds=10)
    return decide(claimed(attempt), result, Terms(policy, idempotent), clock)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED])
def test_what_did_not_succeed_is_tried_again_while_attempts_are_left(outcome: Outcome) -> None:
    finish = verdict(outcome, error={"type": "E", "message": "m"})
    assert (finish.target, finish.delay_us) == (Status.RETRYING, 10_000_000)
    last = verdict(outcome, error={"type": "E", "message": "m"}, attempt=4)
    assert (last.target, last.delay_us, last.fingerprint) == (Status.DEAD_LETTER, None, b"E: m")


def test_success_and_cancellation_are_final() -> None:
    assert verdict(Outcome.SUCCEEDED).target is Status.COMPLETED
    assert verdict(Outcome.CANCELLED, error={"type": "Cancelled", "message": ""}).target is Status.CANCELLED


def test_a_permanent_error_is_not_tried_again() -> None:
    assert verdict(Outcome.FAILED, error={"type": "E", "permanent": True}).target is Status.DEAD_LETTER


@pytest.mark.parametrize(("asked", "seconds"), [(None, 10), (5, 10), (90, 90), (9_999_999, 120)])
def test_a_servers_retry_after_lengthens_the_delay_up_to_the_cap(asked: int | None, seconds: int) -> None:
    policy = RetryPolicy(backoff="fixed", base_delay_seconds=10, max_delay_seconds=120)
    finish = verdict(Outcome.FAILED, error={"type": "E", "retry_after_seconds": asked}, policy=policy)
    assert finish.delay_us == seconds * 1_000_000


@pytest.mark.parametrize(
    ("outcome", "error", "kind"),
    [
        (Outcome.FAILED, {"type": "ValueError"}, "transient"),
        (Outcome.FAILED, {"type": "WebhookStatus", "status": 503}, "transient"),
        (Outcome.FAILED, {"type": "WebhookStatus", "status": 429, "retry_after_seconds": 7.0}, "rate_limited"),
        (Outcome.FAILED, {"type": "WebhookStatus", "status": 404, "permanent": True}, "permanent"),
        (Outcome.FAILED, {"type": "WebhookConnectionError", "class": "timeout"}, "timeout"),
        (Outcome.TIMED_OUT, {"type": "TimedOut"}, "timeout"),
        (Outcome.CRASHED, {"type": "WorkerChildLost"}, "crash"),
        (Outcome.CANCELLED, {"type": "Cancelled"}, "cancelled"),
    ],
)
def test_an_error_has_its_class(outcome: Outcome, error: dict[str, Any], kind: str) -> None:
    assert json.loads(verdict(outcome, error=error).error)["class"] == kind


def ruled(*rules: dict[str, Any]) -> RetryPolicy:
    fixed = {"backoff": "fixed", "base_delay_seconds": 10, "max_delay_seconds": 120}
    return RetryPolicy.parse({**fixed, "rules": list(rules)})


@pytest.mark.parametrize(
    ("rule", "outcome", "error", "hit"),
    [
        ("ValueError", Outcome.FAILED, {"type": "ValueError"}, True),
        ("ValueError", Outcome.FAILED, {"type": "KeyError"}, False),
        ("http:5xx", Outcome.FAILED, {"type": "WebhookStatus", "status": 503}, True),
        ("http:503", Outcome.FAILED, {"type": "WebhookStatus", "status": 502}, False),
        ("http:4xx", Outcome.FAILED, {"type": "WebhookStatus", "status": 503}, False),
        ("exit:3", Outcome.FAILED, {"type": "CommandFailed", "exit_code": 3}, True),
        ("exit:3", Outcome.FAILED, {"type": "CommandFailed", "exit_code": 33}, False),
        ("class:timeout", Outcome.TIMED_OUT, {"type": "TimedOut"}, True),
        ("class:crash", Outcome.TIMED_OUT, {"type": "TimedOut"}, False),
    ],
)
def test_a_rule_sends_what_it_means_to_the_dead_letters(
    rule: str, outcome: Outcome, error: dict[str, Any], hit: bool
) -> None:
    finish = verdict(outcome, error=error, policy=ruled({"error": rule, "action": "dead_letter"}))
    assert finish.target is (Status.DEAD_LETTER if hit else Status.RETRYING)


def test_a_rule_retries_what_is_permanent_after_its_own_delay_but_never_beyond_the_attempts() -> None:
    policy = ruled(
        {"error": "http:404", "action": "retry", "base_delay_seconds": 33}, {"error": "http:4xx", "action": "retry"}
    )
    missing = {"type": "WebhookStatus", "status": 404, "permanent": True}
    finish = verdict(Outcome.FAILED, error=missing, policy=policy)
    assert (finish.target, finish.delay_us) == (Status.RETRYING, 33_000_000), "the first that matches decides"
    assert verdict(Outcome.FAILED, error=missing, policy=policy, attempt=4).target is Status.DEAD_LETTER
    gone = verdict(Outcome.FAILED, error={**missing, "status": 410}, policy=policy)
    assert (gone.target, gone.delay_us) == (Status.RETRYING, 10_000_000)


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.FAILED])
def test_what_is_not_idempotent_goes_to_a_person_when_its_fate_is_unknown(outcome: Outcome) -> None:
    unknown = {"type": "E", "message": "signal 9", "fate": "unknown"}
    finish = verdict(outcome, error=unknown, idempotent=False)
    assert finish.target is Status.DEAD_LETTER
    assert json.loads(finish.error)["message"] == "fate unknown: signal 9"
    assert verdict(outcome, error=unknown).target is Status.RETRYING, "what may run twice does"
    known = verdict(outcome, error={"type": "E", "message": "refused"}, idempotent=False)
    assert known.target is Status.RETRYING, "it was not done, and that is known"
    insisted = ruled({"error": "E", "action": "retry"})
    assert verdict(outcome, error=unknown, idempotent=False, policy=insisted).target is Status.RETRYING


def test_what_an_attempt_tells_the_circuit() -> None:
    assert verdict(Outcome.SUCCEEDED).circuit == "S"
    assert verdict(Outcome.FAILED, error={"type": "E", "permanent": True}).circuit == "S", "it answered"
    assert verdict(Outcome.FAILED, error={"type": "E"}).circuit == "F"
    assert verdict(Outcome.TIMED_OUT, error={"type": "E"}).circuit == "F"
    for outcome, error in (
        (Outcome.FAILED, {"type": "E", "status": 429}),
        (Outcome.FAILED, {"type": "HandlerNotLoaded"}),
        (Outcome.CRASHED, {"type": "E"}),
        (Outcome.CANCELLED, {"type": "E"}),
    ):
        assert verdict(outcome, error=error).circuit == ""


def test_errors_of_one_kind_share_a_fingerprint() -> None:
    one = fingerprint({"type": "KeyError", "message": "order 17 at 0x7f3a of 018f2c3a-0000-7000-8000-000000000001"})
    other = fingerprint({"type": "KeyError", "message": "order 4711 at 0x1 of 018f2c3b-1111-7000-8000-000000000002"})
    assert one == other == "KeyError: order # at # of #"
    assert fingerprint({"type": "E", "message": "x" * 5000}) == ("E: " + "x" * 5000)[:200]
    assert fingerprint(None) == "unknown"


# ---- versions -----------------------------------------------------------------------------------------------------


def test_a_full_cache_forgets_nothing_that_is_wanted(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_KEPT", 3)
    cache = Versions()
    made = [ledger.define(policy={"max_attempts": n}, number=n) for n in range(1, 10)]
    for n in range(1, len(made)):
        wanted = {made[0], made[n]}
        cache.load(ledger.connection, wanted)
        for version in wanted:
            found = cache.assignment(claimed()._replace(version_id=version))
            assert found.parameters_json == f'{{"number": {made.index(version) + 1}}}'.encode()
    assert [cache.terms(version).policy.max_attempts for version in made] == list(range(1, 10)), (
        "also those forgotten since"
    )


def test_a_version_that_this_worker_cannot_read_fails_alone_and_may_be_read_elsewhere(ledger: Ledger) -> None:
    """In a rolling deploy the web is newer than some workers: they must not die of what it has written."""
    cache = Versions()
    sound, odd = ledger.define(number=1), ledger.define(policy={"max_attempts": 3, "of_a_later_release": True})
    cache.load(ledger.connection, [sound, odd])
    assert cache.assignment(claimed()._replace(version_id=sound)).problem is None
    problem = cache.assignment(claimed()._replace(version_id=odd)).problem
    assert problem is not None
    assert (problem["type"], problem["permanent"]) == ("UnreadableVersion", False)
    assert cache.terms(odd).policy.max_attempts > 1


def test_a_triggers_parameters_stand_for_the_versions_own(ledger: Ledger) -> None:
    cache = Versions()
    version = ledger.define(number=1)
    cache.load(ledger.connection, [version])
    assert cache.assignment(claimed()._replace(version_id=version, payload='{"a": 2}')).parameters_json == b'{"a": 2}'


# ---- the claimer --------------------------------------------------------------------------------------------------


class Claims:
    """A claimer on a ledger, whose runner has as much room as a test says."""

    def __init__(self, ledger: Ledger, room: int) -> None:
        self.room = room
        self.got: list[Assignment] = []
        self.backlog = Backlog()
        clock = DatabaseClock()
        clock.observe(ledger.now_us())
        self.clock = clock
        self.starter = Starter(self._submit, clock)
        self.starter.start()
        self.claimer = Claimer(
            worker_id=1,
            url=ledger.url,
            config=quick_config("x:"),
            clock=clock,
            backlog=self.backlog,
            starter=self.starter,
            capacity=lambda _, c: self.room if c == 1 else 0,
            free=lambda c: self.room if c == 1 else 0,
            stranded=list,
            lending=Lending(0, SYSTEM_CLOCK),
            versions=Versions(),
            running={},
        )
        self.claimer.start()

    def _submit(self, assignments: Any) -> None:
        self.got += assignments
        self.room -= len(assignments)

    def receive(self, identities: list[bytes], *, due_us: int = 0) -> None:
        self.backlog.add(1, [(identity, TOKEN, due_us) for identity in identities])
        self.claimer.wake()

    def close(self) -> None:
        self.claimer.stop(5)
        self.starter.close()


def test_no_more_is_claimed_than_can_start(ledger: Ledger) -> None:
    """One kill charges an attempt to what runs, not to what was merely received."""
    identities = ledger.add(100, status=Status.DISPATCHED)
    claims = Claims(ledger, room=7)
    try:
        claims.receive(identities)
        eventually(lambda: len(claims.got) == 7)
        assert len(claims.backlog) == 93
        assert ledger.statuses(identities).count(Status.RUNNING) == 7
        claims.room = 100
        claims.claimer.wake()
        eventually(lambda: len(claims.got) == 100)
    finally:
        claims.close()


def test_nothing_is_claimed_long_before_it_is_due(ledger: Ledger) -> None:
    """Until then a pause, a cancel and an edit still reach it."""
    [identity] = ledger.add(status=Status.DISPATCHED, due_in_ms=1_200)
    due_us = int(ledger.row(identity)["run_at"].timestamp() * 1e6)
    claims = Claims(ledger, room=10)
    try:
        claims.receive([identity], due_us=due_us)
        eventually(lambda: ledger.status(identity) is Status.RUNNING, every=0.005)
        assert due_us - ledger.now_us() < 200_000, "claimed more than claim_ahead_ms before its time"
        eventually(lambda: claims.got)
        assert claims.clock.now_us() >= due_us
    finally:
        claims.close()


def test_what_is_refused_is_given_back_uncounted(ledger: Ledger) -> None:
    held = ledger.add(3, status=Status.DISPATCHED, task=b"\7" * 16)
    good = ledger.add(3, status=Status.DISPATCHED)
    ledger.hold(b"\7" * 16, Hold.PAUSED)
    claims = Claims(ledger, room=100)
    try:
        claims.receive(held + good)
        eventually(lambda: set(ledger.statuses(held)) == {Status.PRELOADED})
        assert {one.execution_id for one in claims.got} == set(good)
        assert {ledger.row(i)["attempt"] for i in held} == {0}
    finally:
        claims.close()


# ---- the second look ----------------------------------------------------------------------------------------------


class OneRuns:
    """A runner in which one execution has run for a while."""

    def __init__(self, identity: bytes) -> None:
        self.found = [(identity, int(SYSTEM_CLOCK.time() * 1e6) - 5_000_000)]

    def running(self) -> list[tuple[bytes, int]]:
        return self.found


def test_the_start_of_each_attempt_is_told_though_one_follows_the_other_at_once(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    running: dict[Any, Any] = {(identity, TOKEN): None}
    runner: Any = OneRuns(identity)
    circuits = CircuitReporter(CircuitTerms.of(quick_config("x:")))
    look = SecondLook(worker_id=1, runner=runner, running=running, circuits=circuits, clock=DatabaseClock())
    look.look(ledger.connection)
    assert ledger.row(identity)["started_at"] is not None
    ledger.connection.execute(
        "UPDATE executions SET started_at = NULL, token = token + 1 WHERE id = %s", [UUID(bytes=identity)]
    )
    running[identity, TOKEN + 1] = running.pop((identity, TOKEN))
    look.look(ledger.connection)
    assert ledger.row(identity)["started_at"] is not None


# ---- presence -----------------------------------------------------------------------------------------------------


def a_state() -> LiveState:
    return LiveState(
        claimed=[0, 1, 0],
        slots=[2, 2, 1],
        free=[2, 1, 1],
        mean_run_seconds=[None, 0.1, None],
        inbox={"redis": "x"},
        labels=["cpu", "io"],
    )


class Present:
    """A worker's presence without the worker."""

    def __init__(self, ledger: Ledger, services: ServiceAddresses, prefix: str) -> None:
        config = quick_config(prefix)
        addresses = addresses_of(ledger.url, services)
        identity, connection = presence.register(addresses, config, slots=ClassSlots.shared(4))
        self.id = identity.worker_id
        self.lost: list[str] = []
        self.drains: list[int] = []
        self.ledger = ledger
        self.states = LiveStates(redis_client.connect(services.redis_url), prefix)
        load = LoadMeter()
        self.presence = Presence(
            identity=identity,
            connection=connection,
            addresses=addresses,
            config=config,
            database_clock=DatabaseClock(),
            describe=a_state,
            measure=lambda: load.measure(active=0),
            slots_used=lambda: [0, 1, 0],
            each_second=lambda _: self.presence.receiving(),
            on_lost=self.lost.append,
            on_drain=lambda: self.drains.append(self.id),
        )
        self.presence.start()

    def offered(self) -> bool:
        return self.id in self.states.read(youngest_ms=300)

    def locked(self, connection: psycopg.Connection) -> bool:
        row = connection.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            (locks.WORKER, self.id),
        ).fetchone()
        return row is not None


@pytest.fixture
def present(own_ledger: Ledger, services: ServiceAddresses, redis_prefix: str) -> Iterator[Present]:
    made = Present(own_ledger, services, redis_prefix)
    yield made
    made.presence.close()


def test_a_worker_offers_itself_and_beats_until_it_drains(present: Present) -> None:
    eventually(present.offered)
    assert present.locked(present.ledger.connection)
    [before] = present.ledger.select("SELECT heartbeat_at FROM workers WHERE id = %s", present.id)
    query = "SELECT 1 FROM workers WHERE id = %s AND heartbeat_at > %s"
    eventually(lambda: present.ledger.select(query, present.id, before["heartbeat_at"]))
    present.presence.draining()
    eventually(lambda: not present.offered())  # a report may have been on its way
    eventually(lambda: present.ledger.select("SELECT 1 FROM workers WHERE id = %s AND state = 'draining'", present.id))
    present.presence.close()
    assert present.ledger.select("SELECT state FROM workers WHERE id = %s", present.id) == [{"state": "stopped"}]
    eventually(lambda: not present.locked(present.ledger.connection))


def test_a_worker_that_was_given_up_is_told(present: Present) -> None:
    eventually(present.offered)
    present.ledger.connection.execute("UPDATE workers SET state = 'lost' WHERE id = %s", (present.id,))
    eventually(lambda: present.lost)


def test_a_worker_whose_session_broke_locks_again(present: Present) -> None:
    eventually(present.offered)
    present.ledger.connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'worker-presence' AND datname = current_database()"
    )
    eventually(lambda: not present.locked(present.ledger.connection) or present.offered())
    eventually(lambda: present.locked(present.ledger.connection))


def test_a_worker_that_cannot_lock_again_takes_no_work_until_it_can(present: Present) -> None:
    """The server still believes in its last session, as after a broken network: here another session has the lock."""
    eventually(present.offered)
    with postgres.connect("ghost", url=present.ledger.url, hot=False) as ghost:
        taken = threading.Event()

        def take() -> None:
            ghost.execute("SELECT pg_advisory_lock(%s, %s)", (locks.WORKER, present.id))
            taken.set()

        thread = threading.Thread(target=take)
        thread.start()
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND NOT granted"
        eventually(lambda: present.ledger.select(waiting, locks.WORKER))
        present.ledger.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'worker-presence' AND datname = current_database()"
        )
        assert taken.wait(PATIENCE_SECONDS)
        thread.join()
        eventually(lambda: not present.offered())
        still = time.monotonic() + 1.5
        while time.monotonic() < still:
            assert not present.offered(), "it offered itself without its lock"
    eventually(lambda: present.offered() and present.locked(present.ledger.connection))


DRAIN = "UPDATE workers SET drain_requested_at = clock_timestamp() RETURNING id"


def test_a_worker_that_a_person_asks_to_drain_hears_it_once_it_looks(present: Present) -> None:
    eventually(present.offered)
    assert present.drains == []
    present.ledger.connection.execute(DRAIN)
    eventually(lambda: present.drains)
    present.presence.draining()
    told = len(present.drains)
    eventually(lambda: not present.offered())
    assert len(present.drains) <= told + 1, "who drains need not be told"


def test_an_asked_worker_leaves_in_order(own_ledger: Ledger, services: ServiceAddresses, redis_prefix: str) -> None:
    made = daemon.build(quick_config(redis_prefix), addresses_of(own_ledger.url, services), Stop(), slots=2)
    process = Running(made, made.stop)
    try:
        eventually(lambda: own_ledger.select("SELECT 1 FROM workers"))
        own_ledger.connection.execute(DRAIN)
        process.thread.join(PATIENCE_SECONDS)
        assert not process.thread.is_alive()
        assert own_ledger.select("SELECT state FROM workers") == [{"state": "stopped"}]
    finally:
        process.stop()


def test_live_states_grow_old(services: ServiceAddresses, redis_prefix: str) -> None:
    states = LiveStates(redis_client.connect(services.redis_url), redis_prefix)
    states.report(5, a_state())
    assert states.read()[5][1] == a_state()
    eventually(lambda: 5 not in states.read(youngest_ms=100))
    assert 5 in states.read(youngest_ms=60_000)
    redis_client.connect(services.redis_url).hset(f"{redis_prefix}workers", "6", f'{2**53} {{"claimed": 1}}')
    assert list(states.read(youngest_ms=60_000)) == [5], "one of another version stops nobody"
    states.withdraw(5)
    assert states.read(youngest_ms=60_000) == {}


def test_a_worker_is_never_registered_under_a_used_id(ledger: Ledger) -> None:
    seen = [ledger.register_worker() for _ in range(3)]
    store.stop_worker(ledger.connection, worker_id=seen[-1])
    assert ledger.register_worker() not in seen
