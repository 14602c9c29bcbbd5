"""Named SQL: `*.sql` files of queries headed by `-- name: NAME`, loaded once, completed by constants and a day.

A file reads

    -- name: claim
    -- Take what was sent to this worker, under the token that it was sent with.
    UPDATE {executions} e SET status = {RUNNING} …

`{executions}` and the like become the day's partition (or the parent table), `{RUNNING}` and the like the numbers
that the transition table gives. Values always travel as parameters.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_BRACE = re.compile(r"\{(\w+)\}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def day_suffix(day: int) -> str:
    """`20261129` for a day counted from the epoch (UTC)."""
    return (_EPOCH + timedelta(days=day)).strftime("%Y%m%d")


class NamedSql:
    """The queries of one folder, with their constants filled in.

    constants: what a name in braces stands for. partitioned: names of tables that have a partition a day.
    """

    def __init__(self, folder: Path, *, constants: Mapping[str, str], partitioned: tuple[str, ...]) -> None:
        self._partitioned = partitioned
        self._constants = dict(constants)
        self._queries: dict[str, str] = {}
        for file in sorted(folder.glob("*.sql")):
            self._read(file)
        self._for_day = cache(self._complete)

    def _read(self, file: Path) -> None:
        parts = _NAME.split(file.read_text())
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in self._queries:
                raise ValueError(f"{file.name}: the query {name} is defined twice")
            self._queries[name] = body.strip()

    def __call__(self, name: str, day: int | None = None) -> str:
        """The text of query `name`; its partitioned tables are those of `day` (None: the parents)."""
        return self._for_day(name, day)

    def _complete(self, name: str, day: int | None) -> str:
        tables = {t: t if day is None else f"{t}_{day_suffix(day)}" for t in self._partitioned}

        def value(match: re.Match[str]) -> str:
            word = match.group(1)
            return tables.get(word) or self._constants[word]

        return _BRACE.sub(value, self._queries[name])
