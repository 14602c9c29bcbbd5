"""The worker that ends a node begins the next one itself, where nobody could forbid it; else nothing is different."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from apps.dispatcher.hand_overs import HandOvers
from apps.dispatcher.retry_budget import RetryBudget
from apps.dispatcher.tenant_limits import TenantLimits
from apps.executions import ids, store, usage
from apps.executions.dags.completion import finish_of_runs
from apps.executions.dags.handing_over import Offer, Share
from apps.executions.dags.plan import FailurePolicy
from apps.executions.quotas import Use
from apps.executions.rows import Claimed, Finish, TenantLimit
from apps.executions.states import Hold, Status
from apps.worker.backlog import Backlog
from apps.worker.claimer import Claimer
from apps.worker.class_slots import Lending
from apps.worker.handing_over import HandingOver
from apps.worker.live_state import LiveState
from apps.worker.starter import Starter
from apps.worker.tallies import MOST_TENANTS, Tallies
from apps.worker.versions import Versions
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import Config
from chronoweb.runtime.database_clock import DatabaseClock
from tests.dag_tools import Runs, node, plan
from tests.stack import EPOCH, Ledger

LEAST = EPOCH << 32
FLEET = bytes(16)


@pytest.fixture
def runs(ledger: Ledger) -> Runs:
    """With a worker that is known and believed."""
    return Runs(ledger, worker=ledger.register_worker())


def begun(runs: Runs, run: bytes, name: str = "a") -> list[Finish]:
    """The ends of a node's executions, which run now."""
    found = [row["id"].bytes for row in runs.executions(run, name, waiting=True)]
    runs.begin(found)
    return runs.ends(dict.fromkeys(found, 1))


def hand(runs: Runs, run: bytes, ends: list[Finish], *, most: int = 1, **more: Any) -> list[Claimed]:
    """End attempts with an offer; what was begun."""
    fields = {"rooms": [4, 4, 4], "labels": ["cpu"], "recent": 0, **more}
    share = Share(most, LEAST, fields.pop("recent"))
    offer = Offer(runs.worker, runs={run: share}, **fields)
    written, settled = finish_of_runs(runs.ledger.connection, ends, worker_id=runs.worker, offer=offer)
    assert written == {end.id for end in ends}
    return settled.begun


# ---- what it leaves -----------------------------------------------------------------------------------------------


def test_the_row_is_as_dispatch_and_claim_would_have_left_it(runs: Runs) -> None:
    """The same DAG twice: one node begun by hand-over, its twin by way of the hot tier."""
    ledger = runs.ledger
    ledger.lead()
    ledger.lead("preloader")
    plans = [plan(ledger, "ab", [("a", "b")]) for _ in range(2)]
    handed, usual = (runs.start(one) for one in plans)
    [claimed] = hand(runs, handed, begun(runs, handed))
    assert finish_of_runs(ledger.connection, begun(runs, usual), worker_id=runs.worker)[1].begun == []
    [twin] = [row["id"].bytes for row in runs.executions(usual, "b")]
    ledger.hydrate(ids.day(twin))
    ledger.dispatch([twin], worker=runs.worker)
    [twin_claimed] = store.claim(ledger.connection, [twin], [ledger.token(twin)], worker_id=runs.worker)
    differs = {"id", "dag_run_id", "idempotency_key", "token", "version", "created_at", "dispatched_at", "run_at"}
    rows = [{k: v for k, v in ledger.row(i).items() if k not in differs} for i in (claimed.id, twin)]
    assert rows[0] | {"scheduled_at": None} == rows[1] | {"scheduled_at": None}
    assert ledger.row(claimed.id)["dispatched_at"] >= ledger.row(claimed.id)["run_at"]
    columns = "worker_id, class, tenant_id"
    query = f"SELECT {columns} FROM outstanding WHERE execution_id = encode(%s, 'hex')::uuid"
    assert ledger.select(query, claimed.id) == ledger.select(query, twin) != []
    own = {"id", "token", "run_at_us", "idempotency_key", "dag_run"}
    first, second = ({k: v for k, v in c._asdict().items() if k not in own} for c in (claimed, twin_claimed))
    assert first == second
    assert claimed.token == ledger.token(claimed.id) >= LEAST
    assert ledger.outstanding()[claimed.id] == (runs.worker, claimed.token)


def test_it_ends_like_any_other_and_the_run_with_it(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "abc", [("a", "b"), ("b", "c")]))
    [b] = hand(runs, run, begun(runs, run))
    [c] = hand(runs, run, runs.ends({b.id: 1}))
    assert runs.states(run) == {"a": "succeeded", "b": "succeeded", "c": "active"}
    assert hand(runs, run, runs.ends({c.id: 1})) == []
    assert runs.status(run) == "succeeded"
    assert not {b.id, c.id} & runs.ledger.outstanding().keys()
    assert [row["attempt"] for row in runs.ledger.attempts(c.id)] == [1]


def test_nothing_is_left_for_the_preloader(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "abc", [("a", "b"), ("a", "c")]))
    ends = begun(runs, run)
    offer = Offer(runs.worker, [4, 4, 4], [], {run: Share(1, LEAST)})
    _, settled = finish_of_runs(runs.ledger.connection, ends, worker_id=runs.worker, offer=offer)
    assert (len(settled.begun), settled.released) == (1, 1)
    assert len(settled.changed) == 3  # the feed hears of both, and of the run
    assert runs.waiting(run) == ["c"]


def test_the_end_of_a_run_wakes_the_preloader_only_while_another_of_its_dag_waits(runs: Runs) -> None:
    made, other = (plan(runs.ledger, "a", []) for _ in range(2))
    first, alone = runs.start(made), runs.start(other)
    runs.start(made, queued=True)
    for run, woken in ((first, 1), (alone, 0)):
        _, settled = finish_of_runs(runs.ledger.connection, begun(runs, run), worker_id=runs.worker)
        assert (settled.ended, settled.released) == ([run], woken)


def test_of_a_fan_out_one_is_begun_and_the_others_are_everybodys(runs: Runs) -> None:
    names = [f"n{number}" for number in range(30)]
    run = runs.start(plan(runs.ledger, ["a", *names], [("a", name) for name in names]))
    assert len(hand(runs, run, begun(runs, run))) == 1
    assert len(runs.waiting(run)) == 29


def test_it_takes_as_many_statements_for_ten_children_as_for_a_thousand(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = psycopg.Cursor.execute
    counted: list[int] = []
    for width in (10, 1000):
        names = [f"n{number}" for number in range(width)]
        run = runs.start(plan(runs.ledger, ["a", *names], [("a", name) for name in names]))
        ends = begun(runs, run)
        asked: list[Any] = []

        def counting(self: Any, *args: Any, asked: list[Any] = asked, **more: Any) -> Any:
            asked.append(args)
            return execute(self, *args, **more)

        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Cursor, "execute", counting)
            assert len(hand(runs, run, ends)) == 1
        counted.append(len(asked))
    assert counted[0] == counted[1]


def test_of_mapped_items_one_is_begun(runs: Runs) -> None:
    run = runs.start(
        plan(runs.ledger, ["a", node("m", map_over="run.parameters.x")], [("a", "m")]), parameters={"x": [1, 2, 3]}
    )
    [claimed] = hand(runs, run, begun(runs, run))
    assert claimed.dag_item == 0
    assert runs.waiting(run) == ["m[1]", "m[2]"]


def test_the_most_urgent_is_begun(runs: Runs) -> None:
    nodes = ["a", node("low", priority=7), node("high", priority=4)]
    run = runs.start(plan(runs.ledger, nodes, [("a", "low"), ("a", "high")]))
    hand(runs, run, begun(runs, run))
    assert runs.waiting(run) == ["low"]


def test_no_more_are_begun_than_there_are_slots(runs: Runs) -> None:
    started = [runs.start(plan(runs.ledger, "ab", [("a", "b")])) for _ in range(3)]
    ends = sorted((end for run in started for end in begun(runs, run)), key=lambda end: end.id)
    offer = Offer(runs.worker, [0, 2, 0], [], dict.fromkeys(started, Share(1, LEAST)))
    _, settled = finish_of_runs(runs.ledger.connection, ends, worker_id=runs.worker, offer=offer)
    assert len(settled.begun) == 2


# ---- what forbids it ----------------------------------------------------------------------------------------------


def _tenant(ledger: Ledger, **changes: Any) -> None:
    for column, value in changes.items():
        ledger.connection.execute(
            f"UPDATE tenants SET {column} = %s WHERE id = encode(%s, 'hex')::uuid", (value, ledger.tenant)
        )


def _worker(runs: Runs, assignment: str) -> None:
    runs.ledger.connection.execute(f"UPDATE workers SET {assignment} WHERE id = %s", (runs.worker,))


def _open_circuit(runs: Runs) -> None:
    runs.ledger.connection.execute(
        "INSERT INTO circuit_breakers (tenant_id, key, changed_at, quarantine_until, slow_start_until)"
        " SELECT encode(%s, 'hex')::uuid, 'python:demo.noop', now(), now(), now() + interval '1 h'",
        (runs.ledger.tenant,),
    )


def _own_worker(runs: Runs) -> None:
    parameters = {"host": "own", "process_id": 0, "slots": 1, "lease_seconds": 60.0}
    store.register_worker(runs.ledger.connection, **parameters, tenant_id=UUID(bytes=runs.ledger.tenant))  # type: ignore[arg-type]


def _nothing(runs: Runs) -> None:
    pass


Cause = Callable[[Runs], Any]
FORBIDDEN: dict[str, Cause] = {
    "the task is paused": lambda runs: runs.ledger.hold(runs.ledger.task, Hold.PAUSED),
    "the tenant is frozen": lambda runs: runs.ledger.hold(runs.ledger.tenant, Hold.FROZEN),
    "the tenant's rate is small": lambda runs: _tenant(runs.ledger, rate_limit_rps=3),
    "a circuit is not closed": _open_circuit,
    "the tenant has a worker of its own": _own_worker,
    "the worker drains": lambda runs: _worker(runs, "state = 'draining'"),
    "the worker is given up": lambda runs: _worker(runs, "state = 'lost'"),
    "the worker's lease is over": lambda runs: _worker(runs, "lease_expires_at = now() - interval '1 s'"),
    "the worker is kept for another": lambda runs: _worker(runs, "tenant_id = gen_random_uuid()"),
}


@pytest.mark.parametrize("cause", FORBIDDEN)
def test_what_could_be_forbidden_goes_the_ordinary_way(ledger: Ledger, cause: str) -> None:
    runs = Runs(ledger, worker=ledger.register_worker())
    run = runs.start(plan(ledger, "ab", [("a", "b")]))
    ends = begun(runs, run)
    FORBIDDEN[cause](runs)
    assert hand(runs, run, ends) == []
    assert runs.waiting(run) == ["b"]
    [row] = runs.executions(run, "b")
    assert (row["token"], row["attempt"], row["worker_id"]) == (0, 0, None)
    assert row["wake_at"] is not None


def test_the_fleet_is_frozen(own_ledger: Ledger) -> None:
    runs = Runs(own_ledger, worker=own_ledger.register_worker())
    run = runs.start(plan(own_ledger, "ab", [("a", "b")]))
    ends = begun(runs, run)
    own_ledger.hold(FLEET, Hold.FROZEN)
    assert hand(runs, run, ends) == []


NODES: dict[str, dict[str, Any]] = {
    "a concurrency key": {"concurrency_key": "key:x:y"},
    "a label that the worker lacks": {"route_id": -1},
    "an approval": {"approval": {"timeout_seconds": None, "default": None, "message": ""}},
}


@pytest.mark.parametrize("cause", NODES)
def test_a_node_that_asks_for_more_goes_the_ordinary_way(runs: Runs, cause: str) -> None:
    run = runs.start(plan(runs.ledger, ["a", node("b", **NODES[cause])], [("a", "b")]))
    assert hand(runs, run, begun(runs, run)) == []


def test_a_label_that_the_worker_carries_is_no_hindrance(runs: Runs) -> None:
    [row] = runs.ledger.select("INSERT INTO routes (labels) VALUES (ARRAY['cpu']) RETURNING id")
    run = runs.start(plan(runs.ledger, ["a", node("b", route_id=row["id"])], [("a", "b")]))
    assert len(hand(runs, run, begun(runs, run))) == 1


def test_a_worker_that_is_the_tenants_own_hands_over(runs: Runs) -> None:
    _worker(runs, f"tenant_id = '{runs.ledger.tenant.hex()}'")
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    assert len(hand(runs, run, begun(runs, run))) == 1


@pytest.mark.parametrize(
    ("rate", "used", "count"),
    [(None, 9_001, 0), (None, 9_000, 1), (1000, 8_001, 0), (1000, 8_000, 1)],
    ids=["too little is left", "enough is left", "too little for its rate", "enough for its rate"],
)
def test_near_its_quota_a_tenants_work_is_dispatched_where_it_is_counted(
    own_ledger: Ledger, rate: int | None, used: int, count: int
) -> None:
    runs = Runs(own_ledger, worker=own_ledger.register_worker())
    _tenant(own_ledger, executions_per_hour=10_000, rate_limit_rps=rate)
    usage.add(own_ledger.connection, {(own_ledger.tenant, int(Use.EXECUTIONS)): used})
    run = runs.start(plan(own_ledger, "ab", [("a", "b")]))
    assert len(hand(runs, run, begun(runs, run))) == count


@pytest.mark.parametrize(
    ("offered", "count"),
    [
        ({"rooms": [4, 0, 4]}, 0),
        ({"recent": 250}, 0),
        ({"recent": 249}, 1),
    ],
    ids=["no slot of the class", "the rate's part is used", "a little is left of it"],
)
def test_what_the_worker_has_room_for(runs: Runs, offered: dict[str, Any], count: int) -> None:
    _tenant(runs.ledger, rate_limit_rps=1000, max_concurrent_workers=1)
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    assert len(hand(runs, run, begun(runs, run), **offered)) == count


def test_a_paused_run_releases_nothing(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    ends = begun(runs, run)
    runs.ledger.connection.execute("UPDATE dag_runs SET paused_at = now() WHERE id = encode(%s, 'hex')::uuid", (run,))
    assert hand(runs, run, ends) == []
    assert runs.states(run)["b"] == "pending"


def test_a_run_that_is_stopped_by_the_failure_begins_nothing(runs: Runs) -> None:
    edges = [("a", "c"), ("b", "c")]
    run = runs.start(plan(runs.ledger, ["a", "b", node("c", rule="all_done")], edges, policy=FailurePolicy.FAIL_ALL))
    found = {row["dag_node"]: row["id"].bytes for row in runs.executions(run, waiting=True)}
    runs.begin(list(found.values()))
    ends = runs.ends({found[0]: 1, found[1]: Status.DEAD_LETTER})
    assert hand(runs, run, ends, most=2) == []
    assert runs.status(run) == "failed"


# ---- fencing ------------------------------------------------------------------------------------------------------


def test_a_commit_that_is_refused_begins_nothing(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    ends = begun(runs, run)
    store.reclaim(runs.ledger.connection, [(ends[0].id, ends[0].token)], reason="lost", actor="test")
    offer = Offer(runs.worker, [4, 4, 4], [], {run: Share(1, LEAST)})
    written, settled = finish_of_runs(runs.ledger.connection, ends, worker_id=runs.worker, offer=offer)
    assert (written, settled.begun, runs.states(run)["b"]) == (set(), [], "pending")


def test_where_one_of_two_commits_is_refused_as_many_do_not_begin(runs: Runs) -> None:
    edges = [("a", "c"), ("a", "d")]
    run = runs.start(plan(runs.ledger, ["a", node("b", max_attempts=2), "c", "d"], edges))
    ends = sorted(begun(runs, run) + begun(runs, run, "b"), key=lambda end: end.id)
    lost = next(end for end in ends if end.id == runs.executions(run, "b")[0]["id"].bytes)
    store.reclaim(runs.ledger.connection, [(lost.id, lost.token)], reason="lost", actor="test")
    offer = Offer(runs.worker, [4, 4, 4], [], {run: Share(2, LEAST)})
    written, settled = finish_of_runs(runs.ledger.connection, ends, worker_id=runs.worker, offer=offer)
    assert (len(written), settled.begun) == (1, [])
    assert runs.waiting(run) == ["b", "c", "d"]


def test_what_was_handed_over_is_taken_back_and_its_old_commit_is_refused(runs: Runs) -> None:
    """The worker dies between the commit and the start: reclaimed like any other; was it not dead, it is a zombie."""
    run = runs.start(plan(runs.ledger, ["a", node("b", max_attempts=2)], [("a", "b")]))
    [b] = hand(runs, run, begun(runs, run))
    old = runs.ends({b.id: 1})
    taken = store.reclaim(runs.ledger.connection, [(b.id, b.token)], reason="lost", actor="test")
    assert [status for _, status, _ in taken] == [Status.PRELOADED]
    assert runs.ledger.token(b.id) == b.token + 1
    written, settled = finish_of_runs(runs.ledger.connection, old, worker_id=runs.worker)
    assert (written, settled.ended) == (set(), [])
    assert runs.states(run)["b"] == "active"
    assert b.id not in runs.ledger.outstanding()


def test_an_offer_whose_answer_was_lost_is_asked_for_by_a_claim(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    ends = begun(runs, run)
    offer = Offer(runs.worker, [4, 4, 4], [], {run: Share(1, LEAST)})
    finish_of_runs(runs.ledger.connection, ends, worker_id=runs.worker, offer=offer)
    [(identity, token)] = offer.asked
    [claimed] = store.claim(runs.ledger.connection, [identity], [token], worker_id=runs.worker)
    assert claimed.attempt == 1


# ---- the worker's side --------------------------------------------------------------------------------------------


class Still:
    """A host's clock that stands: only what the ledger tells moves the time that is made of it."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time(), UTC)

    def time(self) -> float:
        return 1_790_000_000.0

    def monotonic(self) -> float:
        return 50.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits here")


class Side:
    """A worker's claimer, that is stepped by the test, and its hand-overs. Time passes with each step alone."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.free = [2, 2, 2]
        self.started: list[bytes] = []
        self.backlog = Backlog()
        self.clock = DatabaseClock(Still())
        self.clock.observe(runs.ledger.now_us())
        self.running: dict[tuple[bytes, int], Claimed] = {}
        self.claimer = Claimer(
            worker_id=runs.worker,
            url=runs.ledger.url,
            config=Config(),
            clock=self.clock,
            backlog=self.backlog,
            starter=Starter(lambda got: self.started.extend(one.execution_id for one in got), self.clock),
            capacity=lambda _, c: self.free[c],
            free=lambda c: self.free[c],
            stranded=list,
            lending=Lending(0, SYSTEM_CLOCK),
            versions=Versions(),
            running=self.running,
        )
        self.handing_over = HandingOver(
            worker_id=runs.worker, claimer=self.claimer, clock=self.clock, carried=lambda: []
        )

    def pairs(self, run: bytes, ends: list[Finish]) -> list[tuple[Claimed, Finish]]:
        tenant = self.runs.ledger.tenant
        return [(Claimed(e.id, e.token, 1, 1, 1, tenant, None, 0, None, None, "", dag_run=run), e) for e in ends]

    def step(self) -> None:
        self.clock.observe(self.runs.ledger.now_us())
        self.claimer.step(self.runs.ledger.connection)


@pytest.fixture
def side(runs: Runs) -> Side:
    return Side(runs)


def test_what_is_begun_starts_and_its_slot_is_kept_for_it(side: Side) -> None:
    run = side.runs.start(plan(side.runs.ledger, "ab", [("a", "b")]))
    ends = begun(side.runs, run)
    offer = side.handing_over.offer(side.pairs(run, ends))
    assert offer is not None
    assert list(offer.rooms) == [1, 1, 1]
    assert side.claimer.promise(most=9) == [1, 1, 1]  # what is promised is promised once
    _, settled = finish_of_runs(side.runs.ledger.connection, ends, worker_id=side.runs.worker, offer=offer)
    side.handing_over.answered(settled.begun)
    side.claimer.begin((), promised=[1, 1, 1])
    assert side.claimer.promise(most=9)[1] == 1  # one is the child's until it runs
    side.claimer.begin((), promised=[2, 1, 2])
    side.step()
    [b] = settled.begun
    assert side.started == [b.id]
    assert (b.id, b.token) in side.running
    assert side.claimer.promise(most=9) == [2, 2, 2]
    assert side.handing_over.tallies.totals() == {side.runs.ledger.tenant.hex(): 1}


@pytest.mark.parametrize(("waits", "rooms"), [(0, [0, 0, 0]), (1, [2, 0, 0]), (2, [2, 2, 0])])
def test_where_work_waits_nothing_is_offered_of_its_class_nor_below(side: Side, waits: int, rooms: list[int]) -> None:
    """What is below may use slots that are lent to it."""
    side.backlog.add(waits, [(bytes(16), 1, 0)])
    assert side.claimer.promise(most=5) == rooms


def test_a_chain_goes_by_the_dispatcher_again_after_a_quarter_second(side: Side) -> None:
    """Whatever has kept the slot for longer, by one long attempt or by many short ones."""
    run = bytes(15) + b"r"
    now = side.clock.now_us()

    def end(identity: bytes, started_us: int) -> list[tuple[Claimed, Finish]]:
        found = Finish(identity, LEAST + 5, 1, Status.COMPLETED, 0, now, started_us, now)  # type: ignore[arg-type]
        return side.pairs(run, [found])

    assert side.handing_over.offer(end(b"a" * 16, now - 300_000)) is None
    offer = side.handing_over.offer(end(b"b" * 16, now - 200_000))
    assert offer is not None
    assert offer.runs == {run: Share(1, LEAST, 0)}
    [(child, _)] = end(b"c" * 16, now)
    side.handing_over.answered([child])
    side.clock.observe(side.runs.ledger.now_us() + 100_000)
    assert side.handing_over.offer(end(b"c" * 16, now)) is None
    side.handing_over.ended(child)


def test_what_failed_gives_its_slots_back_and_is_asked_for(side: Side) -> None:
    run = side.runs.start(plan(side.runs.ledger, "ab", [("a", "b")]))
    ends = begun(side.runs, run)
    pairs = side.pairs(run, ends)
    offer = side.handing_over.offer(pairs)
    finish_of_runs(side.runs.ledger.connection, ends, worker_id=side.runs.worker, offer=offer)
    side.handing_over.failed(unanswered=True)
    assert side.claimer.promise(most=9) == [2, 2, 2]
    side.claimer.begin((), promised=[2, 2, 2])
    side.handing_over.ask_for_unanswered()
    side.step()
    assert side.started == [side.runs.executions(run, "b")[0]["id"].bytes]


def test_a_worker_that_drains_begins_nothing_and_gives_back_what_it_has_not_started(side: Side) -> None:
    run = side.runs.start(plan(side.runs.ledger, "ab", [("a", "b")]))
    ends = begun(side.runs, run)
    offer = side.handing_over.offer(side.pairs(run, ends))
    _, settled = finish_of_runs(side.runs.ledger.connection, ends, worker_id=side.runs.worker, offer=offer)
    side.handing_over.answered(settled.begun)
    side.handing_over.close()
    [b] = settled.begun
    assert [(identity, token) for _, identity, token in side.claimer.unclaimed()] == [(b.id, b.token)]
    assert side.handing_over.offer(side.pairs(run, ends)) is None


# ---- limits -------------------------------------------------------------------------------------------------------


def test_dispatchers_hear_of_it_once() -> None:
    def said(**totals: int) -> dict[int, tuple[float, LiveState]]:
        return {1: (0.0, LiveState([0] * 3, [1] * 3, [1] * 3, [None] * 3, {}, handed_over=totals))}

    heard = HandOvers()
    assert heard.fresh(said(a=500)) == {}  # of before its time
    assert heard.fresh(said(a=507, b=2)) == {"a": 7, "b": 2}
    assert heard.fresh(said(a=507, b=2)) == {}
    assert heard.fresh(said(a=3)) == {"a": 3}  # it had lost its place


def test_it_is_charged_to_the_rate_also_below_zero() -> None:
    limits = TenantLimits()
    tenant = bytes(16)
    limits.know([TenantLimit(tenant, 1, None, 10)])
    limits.count({}, {}, now=0, share=1)
    limits.charge(tenant.hex(), 30)
    limits.count({}, {}, now=1, share=1)
    assert limits.most(tenant.hex(), 0, 1) == 0
    limits.count({}, {}, now=2.5, share=1)
    assert limits.most(tenant.hex(), 0, 1) == 5


def test_it_counts_as_first_attempts_for_the_retry_budget() -> None:
    budget = RetryBudget(percent=20, floor=30)
    tenant = bytes(16)
    budget.handed_over({tenant.hex(): 1000}, now=0, share=0.5)
    room = budget.room(now=1, share=0.5)
    assert (room.tenants, room.rooms) == ([tenant], [100])


def test_few_tenants_have_a_place_and_who_is_idle_loses_it() -> None:
    class Hands:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock = Hands()
    tallies = Tallies(clock)  # type: ignore[arg-type]
    for number in range(MOST_TENANTS):
        tallies.add(bytes([number]))
    assert tallies.recent(b"new") is None
    assert tallies.recent(bytes([1])) == 1
    clock.now = 1.5
    assert tallies.recent(bytes([1])) == 0
    clock.now = 70
    assert tallies.recent(b"new") == 0
