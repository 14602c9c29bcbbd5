"""Reads an object's fields one by one, and collects what is wrong with each: pointer, value, problem, legal values."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from apps.definitions import json_values
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.spelling import meant

Parsed = TypeVar("Parsed", dict[str, Any], list[str])

NAME_CHARACTERS = 200
TAGS = 32
TAG_CHARACTERS = 63
FORMS = {
    "name": f"1 to {NAME_CHARACTERS} printable characters",
    "schedule": '{"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Paris"}, or {"type": "manual"}',
    "handler": '{"type": "command", "argv": ["backup", "--all"]}, or of type webhook, python, container',
    "nodes": '[{"id": "load", "handler": {"type": …}}, {"id": "report", "depends_on": ["load"], "handler": …}]',
}
"""What fields that must be there look like."""
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""In a name they only deceive: controls, ends of lines, and what turns the writing around."""


_NO_HINTS: Mapping[str, str] = {}
OWN = dict.fromkeys(
    ("id", "version", "created_at", "updated_at", "created_by", "paused_at", "paused_note", "next_fire_at", "warnings"),
    ": chronoweb sets it; leave it out",
)
"""Hints for who sends back what was answered."""


class DocumentReader:
    """One object's fields. A method returns None where the field is wrong; `errors` keeps what is wrong with each.

    Absent and null are the same, and take the default. what: the object in words, such as "a task". sound: the values
    have been through json_values already. hints: what to say of fields that are none, beyond similar names.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        what: str,
        fields: Sequence[str],
        required: Sequence[str] = (),
        defaults: Mapping[str, Any],
        sound: bool = False,
        hints: Mapping[str, str] = _NO_HINTS,
    ) -> None:
        self._data = {name: value for name, value in data.items() if value is not None}
        self._defaults = defaults
        self.errors = [] if sound else list(json_values.problems(data))
        self._unsound = {error.pointer.split("/")[1] for error in self.errors if error.pointer}
        for name in data:
            if name not in fields:
                problem = f"is not a field of {what}{hints.get(name) or meant(name, fields)}"
                at = f"/{json_values.escape(str(name))}"
                self.errors.append(InvalidInput(at, data[name], problem, ", ".join(fields)))
        for name in required:
            if name not in self._data:
                self.errors.append(InvalidInput(f"/{name}", None, "is required", FORMS.get(name, "a value")))

    def get(self, name: str) -> Any:
        """The value; None where it has been found wrong already."""
        if name in self._unsound:
            return None
        return self._data.get(name, self._defaults.get(name))

    def refuse(self, name: str, problem: str, legal: Any) -> None:
        self.errors.append(InvalidInput(f"/{name}", self._data.get(name), problem, legal))

    def kept(self, name: str, before: Mapping[str, Any] | None) -> Any:
        value = self.get(name)
        return before[name] if before is not None and value is not None and value == before[name] else None

    def name(self) -> str | None:
        value = self.get("name")
        legal = f"1 to {NAME_CHARACTERS} printable characters"
        if value is None:
            return None
        if not isinstance(value, str):
            self.refuse("name", "is not a string", legal)
            return None
        value = unicodedata.normalize("NFC", value)  # two spellings that look the same are one name
        if not value.strip() or len(value) > NAME_CHARACTERS:
            self.refuse("name", "is blank" if not value.strip() else f"is {len(value)} characters long", legal)
        elif _UNSEEN.search(value):
            self.refuse("name", "contains a control character, or one that changes the direction of writing", legal)
        else:
            return value.strip()
        return None

    def text(self, name: str, longest: int) -> str | None:
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            self.refuse(name, "is not a string", "text")
        elif value is not None and len(value) > longest:
            self.refuse(name, f"is {len(value)} characters long", f"at most {longest} characters")
        return value

    def tags(self) -> list[str] | None:
        value = self.get("tags")
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > TAGS:
            self.refuse("tags", "must be a list of texts", f"at most {TAGS} tags")
            return None
        legal = f"1 to {TAG_CHARACTERS} characters"
        for position, tag in enumerate(value):
            if not isinstance(tag, str) or not tag.strip() or len(tag) > TAG_CHARACTERS:
                self.errors.append(InvalidInput(f"/tags/{position}", tag, "is not a tag", legal))
                return None
        return list(dict.fromkeys(value))

    def whole(self, name: str, low: int, high: int) -> int | None:
        value = self.get(name)
        if value is not None and (type(value) is not int or not low <= value <= high):
            self.refuse(name, "must be a whole number in its range", f"{low} to {high}")
        return value

    def boolean(self, name: str) -> bool | None:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            self.refuse(name, "must be true or false", "true, false")
        return value

    def choice(self, name: str, legal: tuple[str, ...]) -> str | None:
        value = self.get(name)
        if value is not None and value not in legal:
            self.refuse(name, "is not one of the values", legal)
        return value

    def nested(self, name: str, parse: Callable[[Any], Parsed]) -> Parsed | None:
        """What `parse` makes of an inner object or list; its pointers are put below this field's."""
        value = self.get(name)
        if value is None:
            return None
        try:
            return parse(value)
        except InvalidInput as error:
            found = [error]
        except InvalidInputs as errors:
            found = errors.errors
        self.errors += [InvalidInput(f"/{name}{e.pointer}", e.value, e.problem, e.legal) for e in found]
        return None
