"""An index of a partitioned table, made while everybody writes: of each partition by itself, then of the whole.

Partitions that are made later have it from their table. Where it was broken off, it goes on.
"""

from typing import Any

from django.db import migrations


def build(table: str, name: str, columns: str, where: str) -> migrations.RunPython:
    """The operation; its migration is not atomic."""

    def make(apps: Any, editor: Any) -> None:
        with editor.connection.cursor() as cursor:
            cursor.execute(f"CREATE INDEX IF NOT EXISTS {name} ON ONLY {table} ({columns}) WHERE {where}")
            cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [table])
            for (partition,) in cursor.fetchall():
                _make_one(cursor, name, partition, columns, where)

    def drop(apps: Any, editor: Any) -> None:
        with editor.connection.cursor() as cursor:
            cursor.execute(f"DROP INDEX IF EXISTS {name}")

    return migrations.RunPython(make, drop)


def _make_one(cursor: Any, name: str, partition: str, columns: str, where: str) -> None:
    own = f"{partition}_{name.partition('_')[2]}"
    cursor.execute(
        "SELECT 1 FROM pg_inherits WHERE inhparent = %s::regclass"
        " AND inhrelid IN (SELECT indexrelid FROM pg_index WHERE indrelid = %s::regclass)",
        [name, partition],
    )
    if cursor.fetchone():
        return  # its partition was made in between
    cursor.execute("SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid", [own])
    if cursor.fetchone():
        cursor.execute(f"DROP INDEX CONCURRENTLY {own}")  # it was broken off here
    cursor.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {own} ON {partition} ({columns}) WHERE {where}")
    cursor.execute(f"ALTER INDEX {name} ATTACH PARTITION {own}")
