"""Every status change is a row of the transition table: each statement is driven from each state of the ledger."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from apps.executions import ids, person_store, states, store
from apps.executions.dags.handing_over import Offer, Share, hand_over
from apps.executions.dags.rows import Settled
from apps.executions.person_store import Move, Pending
from apps.executions.rows import Finish, Note, RetryRoom
from apps.executions.states import (
    ACTIVE,
    PENDING,
    RESTING,
    TRANSITIONS,
    ExecutionClass,
    Hold,
    Origin,
    Outcome,
    Overlap,
    Status,
    may,
    sources_of,
)
from apps.executions.store.dags import RunStore
from chronoweb.runtime.postgres import instants, int8s, uuids
from tests.stack import EPOCH, Ledger, all_shards, ledger_on

TOKEN = EPOCH << 32
PERSONS = {
    (Status.DEAD_LETTER, Status.SCHEDULED),
    (Status.DEAD_LETTER, Status.CANCELLED),
    (Status.DEAD_LETTER, Status.COMPLETED),
    (Status.CANCELLED, Status.COMPLETED),
    (Status.SKIPPED, Status.COMPLETED),
    (Status.CANCELLED, Status.SCHEDULED),
}


# ---- the table itself ---------------------------------------------------------------------------------------------


def test_no_process_moves_a_row_out_of_a_resting_state() -> None:
    out = {(row.source, row.target) for row in TRANSITIONS if row.source in RESTING}
    assert out == PERSONS


def test_each_pair_stands_once_and_leads_elsewhere() -> None:
    pairs = [(row.source, row.target) for row in TRANSITIONS]
    assert len(set(pairs)) == len(pairs)
    assert all(source is not target for source, target in pairs)
    assert all(may(source, target) for source, target in pairs)


def test_every_state_is_reached_and_every_one_that_does_not_rest_is_left() -> None:
    assert {row.target for row in TRANSITIONS} == set(Status)
    assert {row.source for row in TRANSITIONS} >= set(Status) - RESTING
    assert RESTING | ACTIVE | PENDING | {Status.WAITING} == set(Status)


def test_whatever_does_not_rest_can_be_cancelled() -> None:
    assert set(sources_of(Status.CANCELLED)) == set(Status) - RESTING | {Status.DEAD_LETTER}


def test_what_runs_was_dispatched_or_handed_over_and_what_is_dispatched_was_preloaded() -> None:
    assert sources_of(Status.RUNNING) == (Status.SCHEDULED, Status.DISPATCHED)
    assert sources_of(Status.DISPATCHED) == (Status.PRELOADED,)


def test_sql_takes_its_numbers_from_the_table() -> None:
    constants = states.sql_constants()
    assert constants["RUNNING"] == "3"
    assert constants["HOLD_PAUSED"] == "1"
    assert constants["IN_RESTING"] == "(6, 7, 8, 9)"
    assert constants["IN_ACTIVE"] == "(2, 3)"
    assert constants["BEFORE_RUNNING"] == "(0, 2)"


@pytest.mark.parametrize("status", Status)
def test_words_are_the_names_in_lower_case(status: Status) -> None:
    assert Status.from_word(status.word) is status
    assert status.word == status.name.lower()


def test_classes_of_priorities() -> None:
    found = [ExecutionClass.of_priority(p).word for p in range(1, 11)]
    assert found == ["critical"] * 3 + ["standard"] * 4 + ["bulk"] * 3


# ---- the statements -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Driven:
    """One way to call a statement. changes: exactly what it makes of each state; the others it leaves alone."""

    query: str
    run: Callable[[Ledger, bytes], Any]
    changes: dict[Status, Status]
    rival: Overlap | None = None
    cancel: bool = False
    wake: bool = False
    holds_slot: bool = False
    attempt: int = 1


def _finish(target: Status) -> Callable[[Ledger, bytes], Any]:
    def run(ledger: Ledger, identity: bytes) -> None:
        now = ledger.now_us()
        delay = 1_000_000 if target is Status.RETRYING else None
        end = Finish(identity, TOKEN, 1, target, Outcome.FAILED, now, now, now, delay, fingerprint=b"x")
        store.finish(ledger.connection, [end], worker_id=1)

    return run


def _reclaim(*, only_unclaimed: bool) -> Callable[[Ledger, bytes], Any]:
    def run(ledger: Ledger, identity: bytes) -> None:
        taken = [(identity, TOKEN)]
        store.reclaim(ledger.connection, taken, reason="r", actor="a", only_unclaimed=only_unclaimed)

    return run


def _replay_many(ledger: Ledger, identity: bytes) -> None:
    parameters = {
        "ids": uuids([identity]),
        "scheduled": instants([ids.milliseconds(identity) * 1000]),
        "from_start": False,
        "actor": "test",
        "reason": "test",
    }
    ledger.connection.execute(store.named_sql("replay_many", ids.day(identity)), parameters)


def _dispatch_held(reason: Hold) -> Callable[[Ledger, bytes], Any]:
    def run(ledger: Ledger, identity: bytes) -> None:
        ledger.hold(ledger.task, reason)
        ledger.dispatch([identity])
        ledger.release_hold(ledger.task, reason)

    return run


def _dispatch_late(ledger: Ledger, identity: bytes) -> None:
    ledger.connection.execute(
        "UPDATE executions SET queue_seconds = 5, run_at = clock_timestamp() - interval '6 seconds',"
        " version = version + 1 WHERE id = encode(%s, 'hex')::uuid AND status = 1",
        (identity,),
    )
    ledger.dispatch([identity])


def _dispatch_into_open_circuit(ledger: Ledger, identity: bytes) -> None:
    ledger.connection.execute(
        "INSERT INTO circuit_breakers (tenant_id, key, changed_at, quarantine_until, slow_start_until)"
        " SELECT encode(%s, 'hex')::uuid, 'python:demo.noop', now(), now() + interval '1 hour', now() + interval '2 h'",
        (ledger.tenant,),
    )
    ledger.dispatch([identity])
    ledger.connection.execute("DELETE FROM circuit_breakers")


def _dispatch_above_budget(ledger: Ledger, identity: bytes) -> None:
    query = "UPDATE executions SET attempt = 1, dispatched_at = now() WHERE id = encode(%s, 'hex')::uuid AND status = 1"
    ledger.connection.execute(query, (identity,))
    ledger.dispatch([identity], retries=RetryRoom([], [], [], 0, 10))


def _wake_from_circuit(ledger: Ledger, identity: bytes) -> None:
    ledger.connection.execute(
        "UPDATE executions SET hold = 5, wake_at = NULL WHERE id = encode(%s, 'hex')::uuid AND status = 0", (identity,)
    )
    scheduled = instants([ids.milliseconds(identity) * 1000])
    parameters = {"ids": uuids([identity]), "scheduled": scheduled}
    ledger.connection.execute(store.named_sql("circuit_wake", ids.day(identity)), parameters)


def _wake_route(ledger: Ledger, identity: bytes) -> None:
    query = "UPDATE executions SET hold = 8, wake_at = NULL WHERE id = encode(%s, 'hex')::uuid AND status = 0"
    ledger.connection.execute(query, (identity,))
    parameters = {"ids": uuids([identity]), "scheduled": instants([ids.milliseconds(identity) * 1000])}
    ledger.connection.execute(store.named_sql("wake_route_waiters", ids.day(identity)), parameters)


def _insert_again(ledger: Ledger, identity: bytes) -> None:
    """The row is there already; it stays as it is."""
    row = ledger.row(identity)
    ledger.connection.execute(
        "INSERT INTO executions SELECT (e).* FROM (SELECT e FROM executions e WHERE id = %s) x"
        " ON CONFLICT (tenant_id, idempotency_key, scheduled_at) DO NOTHING",
        (row["id"],),
    )


def _pending(ledger: Ledger, identity: bytes, **changes: Any) -> Pending:
    found = person_store.lock_one(ledger.connection, identity=UUID(bytes=identity), tenant_id=UUID(bytes=ledger.tenant))
    assert found is not None
    return found._replace(**changes)


def _move(target: Status) -> Callable[[Ledger, bytes], Any]:
    """As the services do: they judge the locked row by the table, and the statement expects the state they saw."""

    def run(ledger: Ledger, identity: bytes) -> None:
        row = _pending(ledger, identity)
        if row.status in PENDING and (row.status is target or may(row.status, target)):
            person_store.move(ledger.connection, [Move(row, target)], actor="a")

    return run


def _rewrite(ledger: Ledger, identity: bytes) -> None:
    row = _pending(ledger, identity)
    if row.status in (Status.SCHEDULED, Status.PRELOADED, Status.CANCELLED):
        plan = {
            "version_id": ledger.version,
            "max_attempts": 1,
            "class_index": 1,
            "priority": 5,
            "overlap": Overlap.SKIP,
            "slot_key": None,
            "concurrency_key": None,
            "queue_seconds": None,
            "route_id": 3,
        }
        person_store.rewrite(ledger.connection, [Move(row, Status.SCHEDULED)], plan=plan, actor="a")


def _act(statement: str, **parameters: Any) -> Callable[[Ledger, bytes], Any]:
    return lambda ledger, identity: person_store.act(
        ledger.connection, statement, _pending(ledger, identity), actor="a", reason="r", **parameters
    )


def _request_cancels(ledger: Ledger, identity: bytes) -> None:
    person_store.request_cancels(ledger.connection, [_pending(ledger, identity)], actor="a", reason="r")


def _claim(ledger: Ledger, identity: bytes) -> Any:
    return store.claim(ledger.connection, [identity], [TOKEN], worker_id=1)


def _release(ledger: Ledger, identity: bytes) -> Any:
    return store.release(ledger.connection, [identity], [TOKEN], worker_id=1)


def _of_run(act: Callable[[RunStore, bytes, Settled], Any]) -> Callable[[Ledger, bytes], Any]:
    """The execution is made the one node of a run first."""

    def run(ledger: Ledger, identity: bytes) -> None:
        run_id = ids.new_id(ids.milliseconds(identity))
        where = {"run": run_id.hex(), "id": identity.hex(), "task": ledger.task.hex(), "tenant": ledger.tenant.hex()}
        for query in _AS_A_NODE:
            ledger.connection.execute(query, where)
        with ledger.connection.transaction():
            store_ = RunStore(ledger.connection, ids.day(identity))
            act(store_, run_id, Settled(identity, run_id, 0, None, 1, ledger.status(identity)))

    return run


_AS_A_NODE = (
    "UPDATE executions SET dag_run_id = %(run)s, dag_node = 0, dag_generation = 1, max_attempts = 4,"
    " version = version + 1 WHERE id = %(id)s",
    "INSERT INTO run_nodes (scheduled_at, run_id, task_id, execution_id, version_id, node, open, max_attempts, kind,"
    " rule, priority, state, node_id, parents)"
    " SELECT scheduled_at, %(run)s, %(task)s, id, 1, 0, 0, 4, 0, 0, 5, 1, 'n', '{}'"
    " FROM executions WHERE id = %(id)s",
    "INSERT INTO dag_runs (id, scheduled_at, run_at, tenant_id, dag_id, dag_version_id, nodes, open_nodes,"
    " failure_policy, origin, actor, idempotency_key, parameters) SELECT %(run)s, scheduled_at, run_at, %(tenant)s,"
    " %(run)s, 1, 1, 1, 0, 1, 'a', 'k', '{}' FROM executions WHERE id = %(id)s",
)


def _fence(found: RunStore, run: bytes, one: Settled) -> Any:
    return found.rows("fence_executions", {"run": run.hex(), "nodes": int8s([0]), "actor": "a", "reason": "r"})


def _hand_over(ledger: Ledger, identity: bytes) -> Any:
    """The worker that asks is believed, and the row as fresh as what a run has just released."""
    ledger.connection.execute(
        "UPDATE executions SET attempt = 0 WHERE id = encode(%s, 'hex')::uuid AND status = 0", (identity,)
    )
    run = ids.new_id(ids.milliseconds(identity))
    offer = Offer(ledger.register_worker(), [1, 1, 1], [], {run: Share(1, TOKEN)})
    return hand_over(ledger.connection, offer, [(run, identity)])


def _answer(*, approved: bool) -> Callable[[RunStore, bytes, Settled], Any]:
    def answer(found: RunStore, run: bytes, one: Settled) -> Any:
        said = {"result": "1", "error": None, "actor": "a", "reason": "r"}
        return found.rows("answer_approval", {"run": run.hex(), "node": 0, "approved": approved, **said})

    return answer


def _mark(found: RunStore, run: bytes, one: Settled) -> Any:
    return found.rows("mark_completed", {"run": run.hex(), "node": 0, "actor": "a", "reason": "r"})


def _release_again(found: RunStore, run: bytes, one: Settled) -> Any:
    [node] = found.nodes([(run, 0)])
    return found.write([], [], [node], {})


S = Status
WAYS = {
    "a fresh budget": Driven(
        "fresh_budget", _of_run(lambda s, _, one: s.give_fresh_budgets([one])), {S.DEAD_LETTER: S.SCHEDULED}
    ),
    "stop a run": Driven(
        "stop_executions",
        _of_run(lambda s, run, _: s.stop_executions([run], actor="a", reason="r")),
        dict.fromkeys((S.SCHEDULED, S.PRELOADED, S.WAITING, S.RETRYING), S.CANCELLED),
    ),
    "clear a node": Driven(
        "fence_executions",
        _of_run(_fence),
        dict.fromkeys(set(Status) - {S.COMPLETED, S.CANCELLED, S.SKIPPED}, S.CANCELLED),
    ),
    "mark a node": Driven(
        "mark_completed", _of_run(_mark), dict.fromkeys((S.CANCELLED, S.SKIPPED, S.DEAD_LETTER), S.COMPLETED)
    ),
    "approve": Driven("answer_approval", _of_run(_answer(approved=True)), {S.WAITING: S.COMPLETED}),
    "reject": Driven("answer_approval", _of_run(_answer(approved=False)), {S.WAITING: S.CANCELLED}),
    "hand over": Driven("hand_over", _hand_over, {S.SCHEDULED: S.RUNNING}),
    "release a node": Driven("write_runs", _of_run(_release_again), {}),
    "hydrate": Driven(
        "hydrate",
        lambda g, i: g.hydrate(ids.day(i)),
        {S.SCHEDULED: S.PRELOADED, S.RETRYING: S.PRELOADED},
        wake=True,
    ),
    "evict": Driven(
        "evict",
        lambda g, i: store.evict(g.connection, [i], role="preloader", epoch=EPOCH),
        {S.PRELOADED: S.SCHEDULED},
    ),
    "dispatch": Driven("dispatch", lambda g, i: g.dispatch([i]), {S.PRELOADED: S.DISPATCHED}),
    "dispatch what is paused": Driven("dispatch", _dispatch_held(Hold.PAUSED), {S.PRELOADED: S.SCHEDULED}),
    "dispatch what is frozen": Driven("dispatch", _dispatch_held(Hold.FROZEN), {S.PRELOADED: S.SCHEDULED}),
    "dispatch what has no quota": Driven("dispatch", _dispatch_held(Hold.QUOTA), {S.PRELOADED: S.SCHEDULED}),
    "dispatch what is deleted": Driven("dispatch", _dispatch_held(Hold.DELETED), {S.PRELOADED: S.CANCELLED}),
    "dispatch, the slot taken, skip": Driven(
        "dispatch", lambda g, i: g.dispatch([i]), {S.PRELOADED: S.SKIPPED}, rival=Overlap.SKIP
    ),
    "dispatch, the slot taken, buffer": Driven(
        "dispatch", lambda g, i: g.dispatch([i]), {S.PRELOADED: S.SCHEDULED}, rival=Overlap.BUFFER_ALL
    ),
    "dispatch into an open circuit": Driven("dispatch", _dispatch_into_open_circuit, {S.PRELOADED: S.SCHEDULED}),
    "dispatch a retry above the budget": Driven("dispatch", _dispatch_above_budget, {S.PRELOADED: S.SCHEDULED}),
    "circuit_wake": Driven("circuit_wake", _wake_from_circuit, {}),
    "put_aside": Driven(
        "put_aside", lambda g, i: store.put_aside(g.connection, [i], held=all_shards()), {S.PRELOADED: S.SCHEDULED}
    ),
    "wake_route_waiters": Driven("wake_route_waiters", _wake_route, {}),
    "request_cancel_of_slot_holders": Driven(
        "displace",
        lambda g, i: store.request_cancel_of_slot_holders(g.connection, [g.row(i)["slot_key"]]),
        {S.SCHEDULED: S.CANCELLED, S.PRELOADED: S.CANCELLED, S.RETRYING: S.CANCELLED},
        holds_slot=True,
    ),
    "claim": Driven("claim", _claim, {S.DISPATCHED: S.RUNNING}),
    "claim what is to be cancelled": Driven("claim", _claim, {}, cancel=True),
    "release": Driven("release", _release, {S.DISPATCHED: S.PRELOADED, S.RUNNING: S.PRELOADED}),
    "release what is to be cancelled": Driven(
        "release", _release, {S.DISPATCHED: S.CANCELLED, S.RUNNING: S.CANCELLED}, cancel=True
    ),
    "finish completed": Driven("finish", _finish(S.COMPLETED), {S.RUNNING: S.COMPLETED}),
    "finish retrying": Driven("finish", _finish(S.RETRYING), {S.RUNNING: S.RETRYING}),
    "finish retrying what is to be cancelled": Driven(
        "finish", _finish(S.RETRYING), {S.RUNNING: S.CANCELLED}, cancel=True
    ),
    "finish completed what is to be cancelled": Driven(
        "finish", _finish(S.COMPLETED), {S.RUNNING: S.COMPLETED}, cancel=True
    ),
    "finish dead letter": Driven("finish", _finish(S.DEAD_LETTER), {S.RUNNING: S.DEAD_LETTER}),
    "finish cancelled": Driven("finish", _finish(S.CANCELLED), {S.RUNNING: S.CANCELLED}),
    "note_started": Driven(
        "note_started", lambda g, i: store.note_started(g.connection, [(i, TOKEN, g.now_us())], worker_id=1), {}
    ),
    "note_progress": Driven(
        "note_progress",
        lambda g, i: store.note_progress(g.connection, [Note(i, TOKEN, 1.0, 2.0, b"{}")], worker_id=1),
        {},
    ),
    "dispatch what has waited too long": Driven("dispatch", _dispatch_late, {S.PRELOADED: S.DEAD_LETTER}),
    "wake_waiters": Driven(
        "wake_waiters", lambda g, i: store.wake_waiters(g.connection, [g.row(i)["slot_key"] or "none"]), {}
    ),
    "reclaim": Driven("reclaim", _reclaim(only_unclaimed=False), {S.DISPATCHED: S.PRELOADED, S.RUNNING: S.PRELOADED}),
    "reclaim what is unclaimed": Driven("reclaim", _reclaim(only_unclaimed=True), {S.DISPATCHED: S.PRELOADED}),
    "reclaim the last attempt": Driven(
        "reclaim", _reclaim(only_unclaimed=False), {S.DISPATCHED: S.PRELOADED, S.RUNNING: S.DEAD_LETTER}, attempt=4
    ),
    "reclaim what is to be cancelled": Driven(
        "reclaim",
        _reclaim(only_unclaimed=False),
        {S.DISPATCHED: S.CANCELLED, S.RUNNING: S.CANCELLED},
        cancel=True,
        attempt=4,
    ),
    "wake_preloaded": Driven("wake_preloaded", lambda g, i: store.wake_preloaded(g.connection, [i]), {}),
    "insert again": Driven("insert_executions", _insert_again, {}),
    "move to cancelled": Driven(
        "move_pending",
        _move(S.CANCELLED),
        {S.SCHEDULED: S.CANCELLED, S.PRELOADED: S.CANCELLED, S.RETRYING: S.CANCELLED},
    ),
    "move to scheduled": Driven("move_pending", _move(S.SCHEDULED), {S.PRELOADED: S.SCHEDULED}),
    "move to skipped": Driven("move_pending", _move(S.SKIPPED), {S.SCHEDULED: S.SKIPPED, S.PRELOADED: S.SKIPPED}),
    "rewrite": Driven("rewrite_pending", _rewrite, {S.PRELOADED: S.SCHEDULED, S.CANCELLED: S.SCHEDULED}),
    "replay": Driven(
        "replay",
        _act("replay", attempts=4, from_start=False, edited=False, payload=None, concurrency_key=None),
        {S.DEAD_LETTER: S.SCHEDULED},
    ),
    "replay of many": Driven("replay_many", _replay_many, {S.DEAD_LETTER: S.SCHEDULED}),
    "discard": Driven("discard", _act("discard"), {S.DEAD_LETTER: S.CANCELLED}),
    "request_cancel": Driven("request_cancel", _act("request_cancel"), {}),
    "request of many cancels": Driven("request_cancels", _request_cancels, {}),
}


@pytest.fixture(scope="module")
def driven(module_database: str) -> Iterator[Ledger]:
    with ledger_on(module_database) as made:
        made.lead()
        made.lead("preloader")
        yield made


@pytest.mark.parametrize("name", WAYS)
def test_a_statement_changes_what_the_table_allows_and_nothing_else(driven: Ledger, name: str) -> None:
    way = WAYS[name]
    came_to_be: dict[Status, Status] = {}
    for source in Status:
        identity = _prepared(driven, way, source)
        before = driven.row(identity)
        way.run(driven, identity)
        after = driven.row(identity)
        target = Status(after["status"])
        if target is not source:
            came_to_be[source] = target
            assert may(source, target), f"{name}: {source.word} became {target.word}"
        if after != before:
            assert after["version"] > before["version"], f"{name} wrote {source.word} without a new version"
        assert after["token"] >= before["token"]
    assert came_to_be == way.changes


def _prepared(ledger: Ledger, way: Driven, status: Status) -> bytes:
    """A row in `status`, its rival holding the slot where the way asks for one."""
    slot = f"slot:{status}:{ledger.now_us()}" if way.holds_slot else None
    overlap = Overlap.ALLOW_ALL
    if way.rival is not None:
        slot, overlap = f"slot:{status}:{ledger.now_us()}", way.rival
        ledger.add(status=Status.RUNNING, slot_key=slot, overlap=overlap)
        # A row that is active would hold the slot itself.
        if status in ACTIVE or status is Status.RETRYING:
            slot = None
    [identity] = ledger.add(
        status=status, slot_key=slot, overlap=overlap, attempt=way.attempt if status in ACTIVE else None
    )
    if way.holds_slot:
        ledger.connection.execute(
            "INSERT INTO slots (key, n, execution_id, scheduled_at)"
            " SELECT slot_key, 0, id, scheduled_at FROM executions"
            " WHERE id = encode(%s, 'hex')::uuid ON CONFLICT DO NOTHING",
            (identity,),
        )
    for column, wanted in (("cancel_requested_at", way.cancel), ("wake_at", way.wake)):
        if wanted:
            query = f"UPDATE executions SET {column} = clock_timestamp() WHERE id = encode(%s, 'hex')::uuid"
            ledger.connection.execute(query, (identity,))
    return identity


def test_every_statement_that_writes_executions_is_driven() -> None:
    writes = re.compile(r"(UPDATE|INSERT INTO|DELETE FROM) executions\b")
    # With no day named, the statements' tables are the parents.
    found = {name for name in store.named_sql._queries if writes.search(store.named_sql(name))}
    assert found == {way.query for way in WAYS.values()}


@pytest.mark.parametrize("target", [Status.DISPATCHED, Status.RUNNING, Status.COMPLETED])
def test_a_person_cannot_move_a_waiting_row_where_the_table_does_not_lead(driven: Ledger, target: Status) -> None:
    [identity] = driven.add(status=Status.SCHEDULED)
    with pytest.raises(AssertionError):
        person_store.move(driven.connection, [Move(_pending(driven, identity), target)], actor="a")
    assert driven.status(identity) is Status.SCHEDULED


def test_a_move_that_saw_another_state_writes_nothing(driven: Ledger) -> None:
    [identity] = driven.add(status=Status.DISPATCHED, origin=Origin.MANUAL)
    seen = _pending(driven, identity, status=Status.PRELOADED)
    assert person_store.move(driven.connection, [Move(seen, Status.CANCELLED)], actor="a") == 0
    assert driven.status(identity) is Status.DISPATCHED
