"""Filters of lists: django-filter's sets, whose parameters are read strictly and say what is legal.

A parameter that is wrong or comes twice is a 400; what a list does not know is refused before (queries.refuse_unknown).
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import IntEnum
from typing import Any
from uuid import UUID

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from rest_framework.request import Request

from apps.api import queries
from apps.api.openapi import shapes
from apps.api.openapi.shapes import Shape
from apps.api.problems import query_error
from chronoweb.runtime.errors import InvalidInput, InvalidInputs


class _Values(forms.Widget):
    """All values of a parameter, as they stand in the URL."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        return data.getlist(name)


class _Field(forms.Field):
    widget = _Values

    def __init__(self, *, read: Callable[[list[str]], Any], **options: Any) -> None:
        options.pop("label", None)
        super().__init__(**{**options, "required": False})
        self._read = read

    def clean(self, value: list[str]) -> Any:
        try:
            return self._read(value) if value else None
        except InvalidInput as wrong:
            raise ValidationError(wrong.problem, params={"legal": wrong.legal, "value": wrong.value}) from None


class Parameter(django_filters.Filter):
    """One parameter. shape: as the description of the API has it."""

    field_class = _Field
    shape: Shape = {}

    def __init__(self, field_name: str | None = None, lookup_expr: str = "exact", *, about: str = "") -> None:
        super().__init__(field_name=field_name, lookup_expr=lookup_expr, label="", read=self._one)
        if about:
            self.shape = {**self.shape, "description": about}

    def _one(self, values: list[str]) -> Any:
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

    def _one(self, values: list[str]) -> list[Any]:
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
    found = filters(data=given, queryset=QuerySet(model=None))
    if found.form.is_valid():
        return dict(found.form.cleaned_data)
    raise InvalidInputs(list(_errors(found.form.errors.as_data())))


def _errors(problems: Mapping[str, Iterable[ValidationError]]) -> Iterable[InvalidInput]:
    for name, errors in problems.items():
        for error in errors:
            told = error.params or {}
            yield query_error(name, told.get("value"), str(error.message), told.get("legal"))


def filtered(filters: type[Filters], request: Request, rows: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
    """The rows that the request's parameters ask for. Raises InvalidInputs (400)."""
    return applied(filters, read(filters, request.query_params), rows)


def applied(filters: type[Filters], values: Mapping[str, Any], rows: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
    """As `filtered`, from values that were read before."""
    for name, parameter in filters.base_filters.items():
        if values.get(name) is not None:
            rows = parameter.filter(rows, values[name])
    return rows
