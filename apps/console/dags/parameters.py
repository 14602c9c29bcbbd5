"""A form for the parameters of a run, from the DAG's JSON Schema and its own values; and back, as JSON values. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.console.detail import readable
from apps.definitions.models import Dag
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

PREFIX = "p."
WHOLE = "parameters"
"""The one field of a DAG without a schema: all parameters, as JSON."""
_MOST_CHARACTERS = 256 * 1024


@dataclass(frozen=True)
class Field:
    """kind: text, integer, number, boolean, choice or json. choices: (what is sent, what is shown, chosen)."""

    name: str
    key: str
    title: str
    kind: str
    value: str
    required: bool
    help: str
    checked: bool = False
    choices: list[tuple[str, str, bool]] = field(default_factory=list)


def form_of(dag: Dag) -> list[Field]:
    """The fields, required ones first: jsonb has not kept the schema's order."""
    properties = _properties(dag)
    if not properties:
        text = readable(dag.parameters)
        return [Field(WHOLE, WHOLE, "Parameters", "json", text, False, "A JSON object; put over the DAG's own.")]
    required = set((dag.parameters_schema or {}).get("required") or ())
    ordered = sorted(properties.items(), key=lambda pair: (pair[0] not in required, pair[0]))
    return [_field(name, schema, dag.parameters, name in required) for name, schema in ordered]


def fields_of(dag: Dag) -> set[str]:
    """What the form may hold."""
    return {PREFIX + name for name in _properties(dag)} or {WHOLE}


def values_of(dag: Dag, posted: Mapping[str, str]) -> dict[str, Any]:
    """What was filled in, as parameters; what was left empty is the DAG's own. Raises InvalidInputs."""
    errors: list[InvalidInput] = []
    values: dict[str, Any] = {}
    properties = _properties(dag)
    if not properties:
        values = _json(posted.get(WHOLE, "") or "{}", "", errors)
        if not errors and not isinstance(values, dict):
            errors.append(InvalidInput("/parameters", None, "is no JSON object", '{"name": "value"}'))
    for name, schema in properties.items():
        text = posted.get(PREFIX + name)
        if _kind(schema) == "boolean":
            values[name] = text is not None
        elif text is not None and (text != "" or _keeps_empty(dag, name)):
            values[name] = _value(schema, text, f"/{_escaped(name)}", errors)
    if errors:
        raise InvalidInputs(errors)
    return values


def _properties(dag: Dag) -> dict[str, Mapping[str, Any]]:
    found = (dag.parameters_schema or {}).get("properties")
    if not isinstance(found, Mapping):
        return {}
    return {str(name): schema if isinstance(schema, Mapping) else {} for name, schema in found.items()}


def _kind(schema: Mapping[str, Any]) -> str:
    if isinstance(schema.get("enum"), list):
        return "choice"
    types = schema.get("type")
    names = [one for one in (types if isinstance(types, list) else [types]) if one != "null"]
    known = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    return known.get(names[0], "json") if len(names) == 1 and isinstance(names[0], str) else "json"


def _field(name: str, schema: Mapping[str, Any], own: Mapping[str, Any], required: bool) -> Field:
    kind = _kind(schema)
    value = own.get(name, schema.get("default"))
    about = str(schema.get("description") or "")
    common: dict[str, Any] = {
        "name": name,
        "key": PREFIX + name,
        "title": str(schema.get("title") or name),
        "help": about,
    }
    if kind == "choice":
        shown = [(str(at), _shown(one), one == value) for at, one in enumerate(schema["enum"])]
        choices = shown if any(chosen for *_, chosen in shown) else [("", "–", True), *shown]
        return Field(**common, kind=kind, value="", required=required, choices=choices)
    if kind == "boolean":
        return Field(**common, kind=kind, value="", required=False, checked=value is True)
    if kind == "json":
        text = "" if value is None else readable(value)
    else:
        text = "" if value is None else _shown(value)
    return Field(**common, kind=kind, value=text, required=required and name not in own)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(schema: Mapping[str, Any], text: str, at: str, errors: list[InvalidInput]) -> Any:
    """The schema says what is wrong with a number that is none, so it stays text here."""
    kind = _kind(schema)
    if kind == "choice":
        options = schema["enum"]
        return options[int(text)] if text.isascii() and text.isdigit() and int(text) < len(options) else text
    if kind in ("integer", "number"):
        try:
            number = json.loads(text)
        except ValueError:
            return text
        return number if isinstance(number, int | float) else text
    return _json(text, at, errors) if kind == "json" else text


def _json(text: str, at: str, errors: list[InvalidInput]) -> Any:
    try:
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"{len(text)} characters")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        errors.append(InvalidInput(f"/parameters{at}", None, f"is not JSON: {error}", "JSON (RFC 8259)"))
        return None


def _keeps_empty(dag: Dag, name: str) -> bool:
    """An empty text is a value where the DAG's own text is not empty: somebody has cleared the field."""
    return isinstance(dag.parameters.get(name), str) and dag.parameters[name] != ""


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
