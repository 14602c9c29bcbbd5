"""Objects of a model from a statement of one's own, for what is read at every turn: building a statement through the
ORM takes several times as long as asking it.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import Model

from chronoweb.runtime import postgres

M = TypeVar("M", bound=Model)


class Rows(Generic[M]):
    """The columns that a statement selects, and the objects that its rows make.

    without: fields that are left out; who asks an object for one of them all the same has it fetched, as after
    `defer`.
    """

    def __init__(self, model: type[M], *, without: Collection[str] = ()) -> None:
        fields = [field for field in model._meta.concrete_fields if field.attname not in without]
        self._model = model
        self._names = [field.attname for field in fields]
        self._columns = [field.column for field in fields]

    def columns(self, table: str) -> str:
        """What stands behind SELECT, of the table that the statement calls so."""
        return ", ".join(f"{table}.{column}" for column in self._columns)

    def read(self, query: str, parameters: Any = None) -> list[M]:
        """What the statement finds; it selects `columns` and nothing else."""
        return list(self.made(postgres.reads(connection).read(query, parameters)))

    def made(self, rows: Iterable[Sequence[Any]]) -> Iterable[M]:
        """The objects of rows that were read."""
        for row in rows:
            yield self._model.from_db("default", self._names, row)
