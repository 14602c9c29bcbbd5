"""The form of a task ⇄ its JSON document. Pure.

The form holds what most tasks say; what it does not hold stays as the document has it. So both views edit one thing.
"""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from apps.console.detail import readable
from apps.console.tasks.fields import FIELDS, SCHEDULE_FIELDS, SECTIONS, Field, Section
from apps.executions.handler_spec import TYPES as HANDLERS
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

DOCUMENT = "document"
"""The name under which the JSON view, or in the form's view what it began with, is sent."""

MOST_CHARACTERS = 512 * 1024
_BARE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
"""What a shell would take as the one word that it is."""
_SHELL = ["/bin/sh", "-c"]
_UNTOUCHED_STAYS = ("lines", "command")
"""Kinds whose text means less than the value that it shows: a line break inside an argument, a program with a space."""


@dataclass(frozen=True)
class Filled:
    """A field as the page shows it."""

    field: Field
    value: str
    checked: bool = False
    shown: bool = True


def document_of(posted: Mapping[str, str]) -> Any:
    """The document that was sent: from the JSON view as it stands, from the form's with its fields put over it.

    Raises InvalidInputs where JSON is expected and is none.
    """
    text = posted.get(DOCUMENT, "")
    found = _json(text, "", []) if text else {}
    if posted.get("mode") == "json" or not isinstance(found, dict):
        return found
    return _over(found, posted)


def filled(document: Mapping[str, Any]) -> list[tuple[Section, list[Filled]]]:
    """The form's fields with this document's values."""
    return [(section, [_filled(one, document) for one in section.fields]) for section in SECTIONS]


def values_of(document: Any) -> dict[str, Any]:
    """Pointer → what the field holds (text, or whether it is checked), for a page whose JSON view was edited."""
    if not isinstance(document, Mapping):
        return {}
    found = [_filled(one, document) for one in FIELDS]
    return {one.field.pointer: one.checked if one.field.kind == "flag" else one.value for one in found}


def shown_for(document: Mapping[str, Any], one: Field) -> bool:
    """Whether the type that the document's schedule or handler has goes with the field."""
    owner = document.get(one.group)
    return not one.of or (isinstance(owner, Mapping) and owner.get("type") in one.of)


def _over(document: dict[str, Any], posted: Mapping[str, str]) -> dict[str, Any]:
    made = deepcopy(document)
    errors: list[InvalidInput] = []
    _take_type(made, "schedule", posted.get("/schedule/type"), _schedule_owns)
    _take_type(made, "handler", posted.get("/handler/type"), _handler_owns)
    for one in FIELDS:
        if one.pointer.endswith("/type") or not shown_for(made, one):
            continue
        text = posted.get(one.pointer)
        if one.kind == "flag":
            _put(made, one.steps, text is not None)
        elif one.kind in _UNTOUCHED_STAYS and text is not None and _lf(text) == _filled(one, made).value:
            continue
        elif text is not None:
            _put(made, one.steps, _value(one, text, errors))
    if errors:
        raise InvalidInputs(errors)
    return made


def _take_type(document: dict[str, Any], name: str, kind: str | None, owns: Any) -> None:
    """Another type brings its own fields; those of the one before would be refused."""
    before = document.get(name)
    if kind is None or not isinstance(before, dict):
        document[name] = before if kind is None else {"type": kind}
        return
    if before.get("type") != kind:
        document[name] = {"type": kind, **{key: value for key, value in before.items() if owns(kind, key)}}


def _schedule_owns(kind: str, key: str) -> bool:
    return key == "timezone" or kind in SCHEDULE_FIELDS.get(key, ())


def _handler_owns(kind: str, key: str) -> bool:
    required, defaults, _ = HANDLERS.get(kind, ((), {}, {}))
    return key in required or key in defaults


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _put(document: dict[str, Any], steps: list[str], value: Any) -> None:
    """None: the default, which is not written."""
    for step in steps[:-1]:
        below = document.get(step)
        if not isinstance(below, dict):
            if value is None:
                return
            below = document[step] = {}
        document = below
    if value is None:
        document.pop(steps[-1], None)
    else:
        document[steps[-1]] = value


def _value(one: Field, text: str, errors: list[InvalidInput]) -> Any:
    """What does not read as its kind stays text: the document's own rules say what is wrong with it."""
    text = _lf(text)
    if one.kind == "tags":
        return [tag.strip() for tag in text.split(",") if tag.strip()] or None
    if one.kind == "lines":
        return [line for line in text.split("\n") if line] or None
    if one.kind == "command":
        return _argv(text)
    stripped = text.strip()
    if stripped == "":
        return "" if one.pointer == "/name" else None
    if one.kind == "whole":
        return (
            int(stripped)
            if stripped.lstrip("-").isdecimal() and stripped.isascii() and len(stripped) < 16
            else stripped
        )
    if one.kind == "json":
        return _json(stripped, one.pointer, errors)
    return text if one.kind == "area" else stripped


def _argv(text: str) -> list[str] | None:
    """A line as it is typed at a prompt is the shell's; a bare program needs none."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) != 1:
        return lines or None
    line = lines[0].strip()
    return [line] if _BARE.fullmatch(line) else [*_SHELL, line]


def _json(text: str, pointer: str, errors: list[InvalidInput]) -> Any:
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"{len(text)} characters")
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg}, at line {error.lineno} column {error.colno}"
    except (ValueError, RecursionError) as error:
        problem = f"is not JSON: {error}"
    wrong = InvalidInput(pointer, None, problem, "JSON (RFC 8259)")
    if pointer == "":
        raise InvalidInputs([wrong])
    errors.append(wrong)
    return None


def _filled(one: Field, document: Mapping[str, Any]) -> Filled:
    value: Any = document
    for step in one.steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    shown = shown_for(document, one)
    if one.kind == "flag":
        return Filled(one, "", checked=value is True or (value is None and one.pointer == "/idempotent"), shown=shown)
    if one.kind == "tags":
        return Filled(one, ", ".join(map(str, value)) if isinstance(value, list) else "", shown=shown)
    if one.kind == "command" and isinstance(value, list) and value[:2] == _SHELL and len(value) == 3:
        value = value[2:]
    if one.kind in ("lines", "command"):
        return Filled(one, "\n".join(map(str, value)) if isinstance(value, list) else "", shown=shown)
    if one.kind == "json":
        return Filled(one, "" if value is None else readable(value), shown=shown)
    return Filled(one, "" if value is None else str(value), shown=shown)
