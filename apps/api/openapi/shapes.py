"""Words for JSON Schemas: what the tables in schemas/ are written with."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

Shape = dict[str, Any]

TEXT: Shape = {"type": "string"}
BOOLEAN: Shape = {"type": "boolean"}
NUMBER: Shape = {"type": "number"}
COUNT: Shape = {"type": "integer", "minimum": 0}
POSITIVE: Shape = {"type": "integer", "minimum": 1}
OBJECT: Shape = {"type": "object"}
ANYTHING: Shape = {"description": "any JSON value"}
UUID: Shape = {"type": "string", "format": "uuid"}
MOMENT: Shape = {"type": "string", "format": "date-time"}
"""In answers: ISO 8601 in UTC."""
CURSOR: Shape = {"type": ["string", "null"], "description": "what `cursor` takes for the next page; null at the end"}


def text(most: int, least: int = 0) -> Shape:
    return {"type": "string", "maxLength": most, **({"minLength": least} if least else {})}


def whole(low: int, high: int) -> Shape:
    return {"type": "integer", "minimum": low, "maximum": high}


def one_of(values: Iterable[str]) -> Shape:
    return {"type": "string", "enum": list(values)}


def words(states: type[IntEnum], *, without: Iterable[IntEnum] = ()) -> Shape:
    """The lower-case names of an enumeration's members."""
    return one_of(state.name.lower() for state in states if state not in set(without))


def ref(name: str) -> Shape:
    """A schema of the table, by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def many(of: Shape | str, *, most: int | None = None, least: int = 0) -> Shape:
    items = ref(of) if isinstance(of, str) else of
    bounds = {"minItems": least} if least else {}
    return {"type": "array", "items": items, **bounds, **({} if most is None else {"maxItems": most})}


def or_null(shape: Shape | str) -> Shape:
    """The shape, or null."""
    if isinstance(shape, str):
        return {"anyOf": [ref(shape), {"type": "null"}]}
    if isinstance(shape.get("type"), str):
        values = {"enum": [*shape["enum"], None]} if "enum" in shape else {}
        return {**shape, "type": [shape["type"], "null"], **values}
    return {"anyOf": [shape, {"type": "null"}]}


def record(fields: Mapping[str, Shape | str], *, optional: Iterable[str] = (), about: str = "") -> Shape:
    """An object of exactly these fields; a text stands for the schema of that name."""
    free = set(optional)
    return {
        "type": "object",
        **({"description": about} if about else {}),
        "properties": {name: ref(shape) if isinstance(shape, str) else shape for name, shape in fields.items()},
        "required": [name for name in fields if name not in free],
        "additionalProperties": False,
    }


def given(fields: Mapping[str, Shape | str], *, required: Iterable[str] = (), about: str = "") -> Shape:
    """A body: an object of these fields, of which only `required` must be there."""
    needed = set(required)
    shape = record(fields, optional=[name for name in fields if name not in needed], about=about)
    return shape if shape["required"] else {name: part for name, part in shape.items() if name != "required"}


def page(of: Shape | str) -> Shape:
    """A page of a list."""
    return record({"items": many(of), "next_cursor": CURSOR})


def extended(base: Shape, fields: Mapping[str, Shape | str], *, about: str = "") -> Shape:
    """A record with more fields than another."""
    return record(
        {**base["properties"], **fields},
        optional=[name for name in base["properties"] if name not in base["required"]],
        about=about,
    )
