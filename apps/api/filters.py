"""Filters of lists: django-filter's sets, whose parameters are read strictly and say what is legal.

A parameter that is wrong or comes twice is a 400; what a list does not know is refused before (queries.refuse_unknown).
"""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum
from typing import Any
from uuid import UUID

import django_filters
from django.db.models import QuerySet
from rest_framework.request import Request

from apps.api import queries
from apps.api.openapi import shapes
from apps.api.openapi.shapes import Shape
from apps.api.problems import query_error
from chronoweb.runtime.errors import InvalidInput, InvalidInputs


class Parameter(django_filters.Filter):
    """One parameter. shape: as the description of the API has it."""

    shape: Shape = {}

    def __init__(self, field_name: str | None = None, lookup_expr: str = "exact", *, about: str = "") -> None:
        super().__init__(field_name=field_name, lookup_expr=lookup_expr, label="")
        if about:
            self.shape = {**self.shape, "description": about}

    def value(self, values: list[str]) -> Any:
        """What these values of the URL ask for. Raises InvalidInput."""
        if len(values) > 1:
            raise query_error("", values[1], "comes twice", "one value")
        return self.read(values[0])

    def read(self, text: str) -> Any:
        """The value. Raises InvalidInput."""
        raise NotImplementedError

    def filter(self, qs: Any, value: Any) -> Any:
        """Only what is not given asks for nothing; an empty text is a text."""
        return qs if value is None else qs.filter(**{f"{self.field_name}__{self.lookup_expr}": value})


class Text(Parameter):
    shape = shapes.text(queries.LONGEST_TEXT)

    def read(self, text: str) -> str:
        return queries.read_text("", text)


class Tag(Text):
    """In a list of texts."""

    def filter(self, qs: Any, value: Any) -> Any:
        return qs if value is None else qs.filter(**{f"{self.field_name}__contains": [value]})


class Flag(Parameter):
    """true or false; `inverted` for columns that say the opposite."""

    shape = shapes.BOOLEAN

    def __init__(self, *arguments: Any, inverted: bool = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._inverted = inverted

    def read(self, text: str) -> bool:
        return queries.read_boolean("", text)

    def filter(self, qs: Any, value: Any) -> Any:
        return super().filter(qs, None if value is None else value is not self._inverted)


class Identity(Parameter):
    shape = shapes.UUID

    def read(self, text: str) -> UUID:
        return queries.read_identity("", text)


class Moment(Parameter):
    shape = shapes.MOMENT

    def read(self, text: str) -> datetime:
        return queries.read_moment("", text)


class Whole(Parameter):
    def __init__(self, low: int, high: int, *arguments: Any, **options: Any) -> None:
        self.shape = shapes.whole(low, high)
        self._bounds = low, high
        super().__init__(*arguments, **options)

    def read(self, text: str) -> int:
        low, high = self._bounds
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and low <= int(text) <= high):
            raise query_error("", text, "is not a number in its range", f"{low} to {high}")
        return int(text)


class Words(Parameter):
    """One or several of these words: `?status=running,retrying`, or the parameter repeated."""

    def __init__(self, legal: Mapping[str, Any] | type[IntEnum], field_name: str, *, about: str = "") -> None:
        words = {each.name.lower(): each.value for each in legal} if isinstance(legal, type) else dict(legal)
        self.shape = shapes.many(shapes.one_of(words), least=1)
        self._values = words
        super().__init__(field_name, "in", about=about)

    def value(self, values: list[str]) -> list[Any]:
        words = [word for value in values for word in value.split(",")]
        for word in words:
            if word not in self._values:
                raise query_error("", word, "is not one of the choices", list(self._values))
        return [self._values[word] for word in dict.fromkeys(words)]


class Filters(django_filters.FilterSet):
    """The filters of one list; the base has none."""

    @classmethod
    def shapes(cls) -> dict[str, Shape]:
        """Schemas of the parameters, by name."""
        return {name: parameter.shape for name, parameter in cls.base_filters.items()}


def read(filters: type[Filters], given: Any) -> dict[str, Any]:
    """The values of a list's parameters, by name; None where nothing was given. Raises InvalidInputs (400)."""
    found: dict[str, Any] = {}
    errors = []
    for name, parameter in filters.base_filters.items():
        values = given.getlist(name)
        try:
            found[name] = parameter.value(values) if values else None
        except InvalidInput as wrong:
            errors.append(query_error(name, wrong.value, wrong.problem, wrong.legal))
    if errors:
        raise InvalidInputs(errors)
    return found


def filtered(filters: type[Filters], request: Request, rows: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
    """The rows that the request's parameters ask for. Raises InvalidInputs (400)."""
    return applied(filters, read(filters, request.query_params), rows)


def applied(filters: type[Filters], values: Mapping[str, Any], rows: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
    """As `filtered`, from values that were read before."""
    for name, parameter in filters.base_filters.items():
        if values.get(name) is not None:
            rows = parameter.filter(rows, values[name])
    return rows
