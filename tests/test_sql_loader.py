"""Named SQL: files of queries, completed by constants and a day."""

from pathlib import Path

import pytest

from apps.executions.store import named_sql
from chronoweb.runtime.sql import NamedSql, day_suffix

CONSTANTS = {"RUNNING": "3", "IN_ACTIVE": "(2, 3)"}


def loaded(folder: Path, text: str, name: str = "a.sql") -> NamedSql:
    (folder / name).write_text(text)
    return NamedSql(folder, constants=CONSTANTS, partitioned=("executions",))


def test_a_day_names_its_partition_and_constants_their_numbers(tmp_path: Path) -> None:
    sql = loaded(tmp_path, "-- name: find\n-- Why.\nSELECT 1 FROM {executions} WHERE status = {RUNNING}\n")
    assert sql("find", 20_786) == "-- Why.\nSELECT 1 FROM executions_20261129 WHERE status = 3"
    assert sql("find") == "-- Why.\nSELECT 1 FROM executions WHERE status = 3"


def test_parameters_and_likes_are_left_alone(tmp_path: Path) -> None:
    sql = loaded(tmp_path, "-- name: find\nSELECT %(id)s LIKE 'a%%' WHERE x IN {IN_ACTIVE}")
    assert sql("find") == "SELECT %(id)s LIKE 'a%%' WHERE x IN (2, 3)"


def test_queries_of_several_files_are_found(tmp_path: Path) -> None:
    loaded(tmp_path, "-- name: one\nSELECT 1")
    sql = loaded(tmp_path, "-- name: two\nSELECT 2\n\n-- name: three\nSELECT 3", "b.sql")
    assert [sql(name) for name in ("one", "two", "three")] == ["SELECT 1", "SELECT 2", "SELECT 3"]


def test_a_name_that_is_used_twice_is_refused(tmp_path: Path) -> None:
    loaded(tmp_path, "-- name: one\nSELECT 1")
    with pytest.raises(ValueError, match="one is defined twice"):
        loaded(tmp_path, "-- name: one\nSELECT 2", "b.sql")


@pytest.mark.parametrize("text", ["SELECT {UNKNOWN}", "SELECT 1 FROM {attempts}"])
def test_an_unknown_word_in_braces_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(KeyError):
        loaded(tmp_path, f"-- name: one\n{text}")("one")


def test_days_are_counted_from_the_epoch() -> None:
    assert day_suffix(0) == "19700101"
    assert day_suffix(20_786) == "20261129"


def test_every_query_of_the_ledger_can_be_completed() -> None:
    names = list(named_sql._queries)
    assert len(names) > 40
    for name in names:
        for text in (named_sql(name), named_sql(name, 20_786)):
            assert "{" not in text
