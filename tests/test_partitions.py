"""Day partitions: made ahead for every table, never in the way of who writes, made later when somebody is in theirs."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from apps.executions import partitions, store
from apps.executions.migrations import _partition_index
from apps.quickstart.services import ServiceAddresses
from apps.watchdog import daemon as watchdog_daemon
from chronoweb.runtime import postgres
from chronoweb.runtime.config import Config
from chronoweb.runtime.sql import day_suffix
from tests.stack import Ledger, addresses_of, quick_config
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def keeper(own_database: str) -> Iterator[psycopg.Connection]:
    with postgres.connect("keeper", url=own_database, hot=False) as connection:
        yield connection


def today(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT floor(extract(epoch FROM now()) / 86400)::int").fetchone()
    assert row is not None
    return row[0]


def test_a_migrated_database_has_its_days(keeper: psycopg.Connection) -> None:
    now = today(keeper)
    # It may have been migrated a moment before midnight.
    assert set(range(now - 7, now + 14)) <= partitions.existing_days(keeper)


def test_keeping_makes_what_is_missing_and_nothing_twice(keeper: psycopg.Connection) -> None:
    config = Config(partition_days_ahead=17, partition_days_back=9)
    now = today(keeper)
    made = partitions.keep(keeper, config)
    assert set(made) >= {now - 9, now + 16, now + 17}
    assert partitions.keep(keeper, config) == []
    assert set(range(now - 9, now + 18)) <= partitions.existing_days(keeper)


def test_a_day_counts_only_when_every_table_has_it(keeper: psycopg.Connection) -> None:
    day = today(keeper) + 3
    keeper.execute(f"ALTER TABLE attempts DETACH PARTITION attempts_{day_suffix(day)}")
    assert day not in partitions.existing_days(keeper)
    assert partitions.ensure(keeper, [day]) == [day]
    assert day in partitions.existing_days(keeper)


def test_a_day_has_the_indexes_and_room_for_updates_in_place(keeper: psycopg.Connection) -> None:
    day = today(keeper) + 40
    partitions.ensure(keeper, [day])
    name = f"executions_{day_suffix(day)}"
    row = keeper.execute("SELECT reloptions FROM pg_class WHERE relname = %s", (name,)).fetchone()
    assert row == (["fillfactor=70"],)
    [indexes] = keeper.execute("SELECT array_agg(indexdef) FROM pg_indexes WHERE tablename = %s", (name,)).fetchall()
    rare = ("dag_run_id IS NOT NULL", "error IS NOT NULL", "hold <> 0")
    for_all = [definition for definition in indexes[0] if not any(words in definition for words in rare)]
    assert len(for_all) <= 5
    # Two of what has failed: one by the kind of its error, one of what waits to be tried again.
    assert len(indexes[0]) - len(for_all) == len(rare) + 1
    assert not any("status" in definition or "worker_id" in definition for definition in indexes[0])


def test_an_index_is_made_of_days_that_are_there_and_goes_on_where_it_was_broken_off(
    keeper: psycopg.Connection,
) -> None:
    made = """SELECT indisvalid, (SELECT count(*) FROM pg_inherits WHERE inhparent = indexrelid)
        FROM pg_index WHERE indexrelid = 'executions_held'::regclass"""
    whole = keeper.execute(made).fetchone()
    assert whole is not None
    assert whole[0]
    keeper.execute("DROP INDEX executions_held")
    keeper.execute("CREATE INDEX executions_held ON ONLY executions (tenant_id, hold, id DESC) WHERE hold <> 0")
    name = f"executions_{day_suffix(today(keeper))}"
    keeper.execute(f"CREATE INDEX {name}_held ON {name} (tenant_id, hold, id DESC) WHERE hold <> 0")
    make: Any = _partition_index.build("executions", "executions_held", "tenant_id, hold, id DESC", "hold <> 0").code
    for _ in range(2):
        make(None, SimpleNamespace(connection=keeper))
        assert keeper.execute(made).fetchone() == whole


def test_no_partition_takes_what_has_none(own_ledger: Ledger) -> None:
    """A DEFAULT partition would block its day's making later."""
    with pytest.raises(psycopg.errors.CheckViolation):
        own_ledger.add(due_in_ms=100 * 86_400_000)


def test_no_foreign_key_goes_in_or_out(keeper: psycopg.Connection) -> None:
    rows = keeper.execute(
        "SELECT conname FROM pg_constraint WHERE contype = 'f'"
        " AND (conrelid::regclass::text = ANY(%(t)s) OR confrelid::regclass::text = ANY(%(t)s))",
        {"t": list(partitions.TABLES)},
    ).fetchall()
    assert rows == []


def test_a_long_reader_hinders_nobody(own_ledger: Ledger, keeper: psycopg.Connection) -> None:
    with postgres.connect("reader", url=own_ledger.url, hot=False) as reader, reader.transaction():
        reader.execute("SELECT count(*) FROM executions")
        day = today(keeper) + 30
        assert partitions.ensure(keeper, [day]) == [day]
        own_ledger.add()


def test_who_locks_the_table_delays_the_day_and_nobody_else(
    own_ledger: Ledger, services: ServiceAddresses, redis_prefix: str
) -> None:
    """A VACUUM or ANALYZE of the parent holds this lock for as long as it takes."""
    config = quick_config(redis_prefix, partition_days_ahead=20)
    watchdog = watchdog_daemon.build(config, addresses_of(own_ledger.url, services))
    try:
        assert watchdog.leadership.wait_until_leader(PATIENCE_SECONDS)
        with postgres.connect("long", url=own_ledger.url, hot=False) as long:
            with long.transaction():
                long.execute("LOCK TABLE executions IN SHARE UPDATE EXCLUSIVE MODE")
                watchdog.run_once()  # this very thread has the lock: waiting for it would never end
                missing = today(own_ledger.connection) + 20
                assert missing not in partitions.existing_days(own_ledger.connection)
                own_ledger.add()
            watchdog.run_once()
            assert missing in partitions.existing_days(own_ledger.connection)
    finally:
        watchdog.close()


def test_rows_of_two_days_are_found_together(own_ledger: Ledger) -> None:
    """Ids lead every statement to its partition, also when a batch crosses midnight."""
    both = sorted(own_ledger.add(2, due_in_ms=-86_400_000) + own_ledger.add(2))
    assert store.still_preloaded(own_ledger.connection, both) == set(both)
    assert {where.id for where in store.states_of(own_ledger.connection, both)} == set(both)
