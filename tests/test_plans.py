"""Each hot statement touches its day alone and is driven from the ids, however much or little PostgreSQL knows.

With a hundred day partitions; on a day of 5,000 rows that was never analysed (each midnight brings one), and on a full
one (200,000 rows in the suite, a million in the drill), never analysed and analysed. EXPLAIN is asked on a daemon's
connection, with the arrays that daemons send.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from apps.executions import ids, partitions, store
from apps.executions.rows import Finish, NewExecution, Note, Queue
from apps.executions.states import Origin, Outcome, Overlap, Status
from apps.executions.store.statements import bounds_of
from apps.quickstart.services import ServiceAddresses
from chronoweb.runtime import postgres
from chronoweb.runtime.sql import day_suffix
from tests.stack import EPOCH, Ledger, all_shards, cloned
from tests.waiting import eventually

PARTITIONS = 100
SMALL, LARGE, HUGE = 5_000, 200_000, 1_000_000
BATCH = 500
BIG = ("executions", "attempts", "execution_events")

_FILL = """
INSERT INTO {table} (id, scheduled_at, run_at, wake_at, tenant_id, task_id, task_version_id, max_attempts, status,
    class, priority, origin, overlap, idempotency_key)
SELECT encode(int8send((at * 65536)::bigint + 28672 + n %% 4096) || substr(decode(md5(n::text), 'hex'), 1, 8),
        'hex')::uuid,
    to_timestamp(at / 1000.0), to_timestamp(at / 1000.0), CASE WHEN n %% 10 = 0 THEN to_timestamp(at / 1000.0) END,
    md5((n %% 50)::text)::uuid, md5((n %% 500)::text)::uuid, 1, 4, n %% 10, n %% 3, 5, 0, 0, n::text
FROM (SELECT n, %(day)s::bigint * 86400000 + n::bigint * 86399999 / %(count)s AS at
      FROM generate_series(1, %(count)s) n) v
"""


_SENT = """
WITH v AS (SELECT e.id, e.scheduled_at, e.tenant_id, n FROM unnest(%(ids)s, %(scheduled)s) WITH ORDINALITY
           v(i, s, n) JOIN executions e ON e.scheduled_at = v.s AND e.id = v.i),
o AS (INSERT INTO outstanding (execution_id, scheduled_at, worker_id, class, tenant_id, token, dispatched_at)
      SELECT id, scheduled_at, (%(worker)s::int[])[1 + n %% 2], 1, tenant_id, 1, now() FROM v),
s AS (INSERT INTO slots (key, n, execution_id, scheduled_at) SELECT n::text, n %% 2, id, scheduled_at FROM v)
INSERT INTO progress (execution_id, scheduled_at, tenant_id, token) SELECT id, scheduled_at, tenant_id, 1 FROM v
"""


@dataclass
class Day:
    """One partition, and ids of rows in it."""

    number: int
    ids: list[bytes]

    @property
    def tables(self) -> set[str]:
        return {f"{name}_{day_suffix(self.number)}" for name in BIG}


class Explained:
    """In place of a connection: answers nothing, keeps the plan of what it is asked."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self.plan: dict[str, Any] = {}
        self.text = ""

    def cursor(self, *, binary: bool = False) -> "Explained":
        return self

    def execute(self, query: str, parameters: Any = None) -> Any:
        [[document]] = self._connection.execute(f"EXPLAIN (FORMAT JSON)\n{query}", parameters).fetchall()
        self.plan = document[0]["Plan"]
        self.text = "\n".join(row[0] for row in self._connection.execute(f"EXPLAIN\n{query}", parameters))
        return self._connection.cursor().execute("SELECT NULL WHERE false")

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Every node of the plan."""
        waiting = [self.plan]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])


# ---- the statements -----------------------------------------------------------------------------------------------


def _new(identity: bytes) -> NewExecution:
    at = ids.milliseconds(identity) * 1000
    return NewExecution(
        id=identity,
        scheduled_us=at,
        run_us=at,
        nominal_us=at,
        tenant_id=os.urandom(16),
        task_id=os.urandom(16),
        version_id=1,
        max_attempts=4,
        class_index=1,
        priority=5,
        origin=Origin.SCHEDULE,
        overlap=Overlap.ALLOW_ALL,
        slot_key=None,
        idempotency_key=identity.hex(),
    )


def _end(identity: bytes, position: int) -> Finish:
    target = (Status.COMPLETED, Status.RETRYING, Status.DEAD_LETTER)[position % 3]
    return Finish(
        id=identity,
        token=1 << 32,
        attempt=1,
        target=target,
        outcome=Outcome.SUCCEEDED,
        due_us=1_790_000_000_000_000,
        started_us=1_790_000_000_000_000,
        finished_us=1_790_000_000_000_000,
        delay_us=1_000_000 if target is Status.RETRYING else None,
        result=b'{"a": 1}',
        fingerprint=b"x",
    )


def _tokens(day: Day) -> list[int]:
    return [1 << 32] * len(day.ids)


Ask = Callable[[Any, Day], Any]
FROM_IDS: dict[str, Ask] = {
    "dispatch": lambda c, d: store.dispatch(c, d.ids, [1] * len(d.ids), window_ms=250, held=all_shards()),
    "still_preloaded": lambda c, d: store.still_preloaded(c, d.ids),
    "states_of": lambda c, d: store.states_of(c, d.ids),
    "put_aside": lambda c, d: store.put_aside(c, d.ids, held=all_shards()),
    "claim": lambda c, d: store.claim(c, d.ids, _tokens(d), worker_id=1),
    "release": lambda c, d: store.release(c, d.ids, _tokens(d), worker_id=1),
    "finish": lambda c, d: store.finish(c, [_end(i, n) for n, i in enumerate(d.ids)], worker_id=1),
    "note_started": lambda c, d: store.note_started(
        c, [(i, 1 << 32, 1_790_000_000_000_000) for i in d.ids], worker_id=1
    ),
    "note_progress": lambda c, d: store.note_progress(
        c, [Note(i, 1 << 32, 1.0, 2.0, b"{}") for i in d.ids], worker_id=1
    ),
    "forget_progress": lambda c, d: store.forget_progress(c, d.ids),
    "reclaim": lambda c, d: store.reclaim(c, [(i, 1 << 32) for i in d.ids], reason="r", actor="a"),
    "wake_preloaded": lambda c, d: store.wake_preloaded(c, d.ids),
    "wake_waiters": lambda c, d: c.execute(
        store.named_sql("wake_waiters", d.number),
        {
            "ids": postgres.uuids(d.ids),
            "scheduled": postgres.instants([ids.milliseconds(i) * 1000 for i in d.ids]),
            "keys": postgres.texts([b"k"] * len(d.ids)),
        },
    ),
    "displace": lambda c, d: c.execute(
        store.named_sql("displace", d.number),
        {
            "ids": postgres.uuids(d.ids),
            "scheduled": postgres.instants([ids.milliseconds(i) * 1000 for i in d.ids]),
            "reason": "r",
        },
    ),
    "evict": lambda c, d: store.evict(c, d.ids, role="preloader", epoch=1),
}


def hydrate(connection: Any, day: Day) -> None:
    rooms = {Queue(n % 3, os.urandom(16), n % 2): 2000 for n in range(50)}
    store.hydrate(connection, rooms, day=day.number, lookahead_seconds=3600, role="preloader", epoch=1)


# ---- what is right ------------------------------------------------------------------------------------------------


def assert_day_alone(plan: Explained, day: Day) -> list[dict[str, Any]]:
    """Only this day's partitions appear, by index; returns the scans of its executions."""
    scans = []
    for node in plan.nodes():
        relation = node.get("Relation Name", "")
        if not relation.startswith(BIG):
            continue
        assert relation in day.tables, f"touches {relation}:\n{plan.text}"
        if node["Node Type"] == "ModifyTable":
            continue
        assert node["Node Type"] in ("Index Scan", "Index Only Scan"), (
            f"{node['Node Type']} on {relation}:\n{plan.text}"
        )
        if relation.startswith("executions"):
            scans.append(node)
    assert scans, f"no scan of executions:\n{plan.text}"
    return scans


def assert_no_other_joins(plan: Explained) -> None:
    """Nested loops whose condition is the index's; a join filter would compare every id with every row."""
    for node in plan.nodes():
        assert node["Node Type"] not in ("Hash Join", "Merge Join"), plan.text
        filtered = node.get("Join Filter", "")
        big = any(n.get("Relation Name", "").startswith(BIG) for n in node.get("Plans", []))
        assert not (filtered and big), f"join filter {filtered}:\n{plan.text}"


def assert_driven_from_ids(plan: Explained, day: Day) -> None:
    for scan in assert_day_alone(plan, day):
        condition = scan.get("Index Cond", "")
        assert "scheduled_at = " in condition, f"{scan['Alias']}: {condition}\n{plan.text}"
        assert "id = " in condition.replace("_id = ", ""), f"{scan['Alias']}: {condition}\n{plan.text}"
    assert_no_other_joins(plan)


# ---- the days -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection(services: ServiceAddresses, template_database: str) -> Iterator[psycopg.Connection]:
    """A daemon's connection to a database with a hundred days."""
    with cloned(services, template_database) as url, postgres.connect("plans", url=url) as made:
        today = Ledger(url, made).now_us() // 86_400_000_000
        partitions.ensure(made, range(today - PARTITIONS // 2, today + PARTITIONS // 2))
        assert len(partitions.existing_days(made)) >= PARTITIONS
        yield made


def _filled(connection: psycopg.Connection, days_ahead: int, count: int) -> Day:
    today = connection.execute("SELECT floor(extract(epoch FROM now()) / 86400)::int").fetchone()
    assert today is not None
    day = today[0] + days_ahead
    table = f"executions_{day_suffix(day)}"
    # What is to be never analysed must not be found by autovacuum on the way.
    connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    connection.execute(_FILL.replace("{table}", table), {"day": day, "count": count})
    rows = connection.cursor(binary=True).execute(f"SELECT id FROM {table} TABLESAMPLE SYSTEM (20) LIMIT {BATCH}")
    found = sorted(row[0] for row in rows)
    assert all(ids.day(i) == day for i in found)
    assert len(found) == BATCH
    return Day(day, found)


@pytest.fixture(scope="module")
def small(connection: psycopg.Connection) -> Day:
    return _filled(connection, 20, SMALL)


@pytest.fixture(scope="module")
def large(connection: psycopg.Connection) -> Day:
    return _filled(connection, 21, LARGE)


@pytest.fixture(scope="module")
def huge(connection: psycopg.Connection) -> Day:
    return _filled(connection, 22, HUGE)


def reltuples(connection: psycopg.Connection, day: Day) -> float:
    row = connection.execute(
        "SELECT reltuples FROM pg_class WHERE relname = %s", (f"executions_{day_suffix(day.number)}",)
    ).fetchone()
    assert row is not None
    return row[0]


def forget_all_of(connection: psycopg.Connection, table: str) -> None:
    """As if nobody had ever analysed it."""
    connection.execute("SELECT pg_clear_relation_stats('public', %s)", (table,))
    connection.execute(
        "SELECT pg_clear_attribute_stats('public', %s, attname, false) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        (table, table),
    )


@pytest.fixture(params=["small", "large", pytest.param("huge", marks=pytest.mark.drill)])
def day(request: pytest.FixtureRequest, connection: psycopg.Connection) -> Day:
    found: Day = request.getfixturevalue(request.param)
    assert reltuples(connection, found) == -1, "PostgreSQL has analysed the day"
    return found


# ---- the tests ----------------------------------------------------------------------------------------------------


def assert_hydrate(connection: psycopg.Connection, day: Day) -> None:
    """It reads what wakes by that index and writes by key."""
    plan = Explained(connection)
    hydrate(plan, day)
    scans = assert_day_alone(plan, day)
    [by_wake] = [scan for scan in scans if "wake_at" in scan["Index Cond"]]
    [by_key] = [scan for scan in scans if "wake_at" not in scan["Index Cond"]]
    assert "tenant_id = w.tenant_id" in by_wake["Index Cond"], plan.text
    assert "scheduled_at = c.scheduled_at" in by_key["Index Cond"], plan.text
    assert "id = c.id" in by_key["Index Cond"], plan.text
    assert_no_other_joins(plan)


@pytest.mark.parametrize("name", FROM_IDS)
def test_driven_from_the_ids_on_its_day_alone(connection: psycopg.Connection, day: Day, name: str) -> None:
    plan = Explained(connection)
    FROM_IDS[name](plan, day)
    assert_driven_from_ids(plan, day)


def test_hydrate_reads_what_wakes_and_writes_by_key(connection: psycopg.Connection, day: Day) -> None:
    assert_hydrate(connection, day)


def test_who_waits_is_found_by_probing_the_index(connection: psycopg.Connection, day: Day) -> None:
    plan = Explained(connection)
    store.waiting_queues(plan, day=day.number, limit=1000)  # type: ignore[arg-type]
    for scan in assert_day_alone(plan, day):
        assert "_class_tenant_id_route_id_wake_at" in scan["Index Name"], plan.text


def test_insert_reads_no_partition(connection: psycopg.Connection, day: Day) -> None:
    plan = Explained(connection)
    store.insert(plan, [_new(i) for i in day.ids])  # type: ignore[arg-type]
    assert {n.get("Relation Name") for n in plan.nodes()} <= {"executions", None}, plan.text
    assert not any("Scan" in n["Node Type"] and n.get("Relation Name") for n in plan.nodes()), plan.text


def test_a_freed_slot_that_nobody_waits_for_asks_no_day(connection: psycopg.Connection) -> None:
    """Planning an update of a hundred days takes longer than a whole batch of ends."""
    plan = Explained(connection)
    assert store.wake_waiters(plan, ["nobody-waits"]) == []  # type: ignore[arg-type]
    assert {n["Relation Name"] for n in plan.nodes() if "Relation Name" in n} <= {"slot_waiters", "slots"}, plan.text


# What a worker asks each second, and the watchdog: one day at a time, driven from the small table beside it.
BESIDE: dict[str, tuple[str, dict[str, Any]]] = {
    "to_cancel": ("outstanding", {"worker": 1}),
    "outstanding_unread": ("outstanding", {"worker": 1, "limit": 200}),
    "outstanding_unclaimed": ("outstanding", {"seconds": 30, "limit": 1000}),
    "cancel_overdue": ("outstanding", {"seconds": 30, "limit": 1000}),
    "outstanding_orphans": ("outstanding", {"seconds": 5}),
    "remove_leaked_slots": ("slots", {}),
    "forget_leaked_progress": ("progress", {}),
}


@pytest.mark.parametrize("name", BESIDE)
def test_driven_from_the_table_beside_it_on_one_day_alone(connection: psycopg.Connection, day: Day, name: str) -> None:
    table, parameters = BESIDE[name]
    scheduled = postgres.instants([ids.milliseconds(i) * 1000 for i in day.ids])
    connection.execute(_SENT, {"ids": postgres.uuids(day.ids), "scheduled": scheduled, "worker": [1, 2]})
    try:
        bounds = bounds_of(day.number)
        plan = Explained(connection)
        plan.execute(store.named_sql(name, day.number), {**parameters, **bounds})
        for scan in assert_day_alone(plan, day):
            condition = scan["Index Cond"]
            assert "scheduled_at = " in condition, plan.text
            assert "id = " in condition, plan.text
        assert table in {node.get("Relation Name") for node in plan.nodes()}
        assert_no_other_joins(plan)
    finally:
        connection.execute("TRUNCATE outstanding, slots, progress")


@pytest.mark.parametrize("query", ["outstanding_days", "slot_days", "progress_days"])
def test_their_days_are_found_without_asking_any(connection: psycopg.Connection, query: str) -> None:
    plan = Explained(connection)
    plan.execute(store.named_sql(query), {"worker": None})
    assert not [n for n in plan.nodes() if n.get("Relation Name", "").startswith(BIG)], plan.text


@pytest.mark.parametrize(("which", "count"), [("large", LARGE), pytest.param("huge", HUGE, marks=pytest.mark.drill)])
def test_the_same_on_a_day_that_was_analysed(
    connection: psycopg.Connection, request: pytest.FixtureRequest, which: str, count: int
) -> None:
    """Afterwards the day is as before: another test of days that are not may come later, in whatever order."""
    found: Day = request.getfixturevalue(which)
    table = f"executions_{day_suffix(found.number)}"
    connection.execute(f"ANALYZE {table}")
    try:
        assert reltuples(connection, found) > count * 0.9
        for ask in FROM_IDS.values():
            plan = Explained(connection)
            ask(plan, found)
            assert_driven_from_ids(plan, found)
        assert_hydrate(connection, found)
    finally:
        forget_all_of(connection, table)
        assert reltuples(connection, found) == -1


def test_a_plan_that_is_turned_round_would_be_seen(connection: psycopg.Connection, small: Day) -> None:
    """The same statement with the planner left alone, which on such a day joins the wrong way: the check refuses it."""
    plan = Explained(connection)
    with connection.transaction():
        connection.execute("SET LOCAL enable_hashjoin = on")
        connection.execute("SET LOCAL enable_seqscan = on")
        connection.execute("SET LOCAL enable_indexscan = off")
        store.states_of(plan, small.ids)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        assert_driven_from_ids(plan, small)


def test_the_parent_table_would_be_seen(connection: psycopg.Connection, small: Day) -> None:
    plan = Explained(connection)
    query = store.named_sql("states_of")
    scheduled = postgres.instants([ids.milliseconds(i) * 1000 for i in small.ids])
    plan.execute(query, {"ids": postgres.uuids(small.ids), "scheduled": scheduled})
    with pytest.raises(AssertionError):
        assert_driven_from_ids(plan, small)


def updates(connection: psycopg.Connection, identity: bytes) -> tuple[int, int]:
    """(all, HOT) of the partition of `identity` so far."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    table = f"executions_{day_suffix(ids.day(identity))}"
    query = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s"
    row = connection.execute(query, (table,)).fetchone()
    assert row is not None
    return row[0], row[1]


def outlast_others(connection: psycopg.Connection) -> None:
    """Wait until no transaction of the server is left that is older than what was committed last."""
    (last,) = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or (0,)
    query = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint > %s"
    eventually(lambda: connection.execute(query, [last]).fetchone() == (True,))


def test_most_updates_stay_on_their_page(own_ledger: Ledger) -> None:
    """Dispatch, claim and finish change no indexed column, and the fillfactor leaves them room.

    Alone in its database: a snapshot of another session in it, such as an ANALYZE's, keeps old rows on their pages. So
    does a transaction that writes anywhere on the server and is older.
    """
    made, connection = own_ledger, own_ledger.connection
    made.lead()
    identities = made.add(2000)
    table = f"executions_{day_suffix(ids.day(identities[0]))}"
    connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    before = updates(connection, identities[0])
    assert len(made.dispatch(identities)) == len(identities)
    tokens = [EPOCH << 32] * len(identities)
    outlast_others(connection)
    assert len(store.claim(connection, identities, tokens, worker_id=1)) == len(identities)
    ends = [
        Finish(i, EPOCH << 32, 1, Status.COMPLETED, Outcome.SUCCEEDED, made.now_us(), made.now_us(), made.now_us())
        for i in identities
    ]
    outlast_others(connection)
    assert len(store.finish(connection, ends, worker_id=1)) == len(identities)
    updated, hot = (now - then for now, then in zip(updates(connection, identities[0]), before, strict=True))
    assert updated == 3 * len(identities)
    assert hot / updated > 0.5, f"{hot} of {updated} updates were HOT"
