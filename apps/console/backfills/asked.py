"""What the form of a backfill asks for: times in the zone that it names, read as the API reads them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.definitions import backfills
from apps.definitions.backfills import Request
from apps.definitions.models import Dag, Task
from apps.definitions.schedule_input import Reader
from apps.definitions.zones import zone
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

FIELDS = frozenset({"start", "end", "zone", "at_once", "order", "parameters", "expected"})
_MOST_CHARACTERS = 256 * 1024


@dataclass(frozen=True)
class Asked:
    """request: what it comes to. zone: the name of the zone that its times are in."""

    request: Request
    zone: str

    def local(self, at: datetime) -> str:
        """`Sun 1 Mar 2026 00:00`, in the zone of the form; with seconds where there are any."""
        there = at.astimezone(zone(self.zone))
        seconds = there.strftime(":%S") if there.second else ""
        return f"{there:%a} {there.day} {there:%b %Y %H:%M}{seconds}"


def read(of: Task | Dag, given: Mapping[str, str]) -> Asked:
    """Raises InvalidInputs; each names its field."""
    errors: list[InvalidInput] = []
    name = given.get("zone", "").strip() or str(of.schedule.get("timezone") or "UTC")
    try:
        zone(name)
    except InvalidInput as error:
        raise InvalidInputs([InvalidInput("/zone", name, error.problem, error.legal)]) from error
    data: dict[str, Any] = {"order": given.get("order", "").strip() or None}
    times = {field: given.get(field, "").strip() or None for field in ("start", "end")}
    reader = Reader(times)
    for field in times:
        moment = reader.moment(field, name, last_pass=False)
        data[field] = moment.isoformat() if moment else None
    errors += reader.errors
    for field, read_one in (("at_once", _whole), ("parameters", _json)):
        if text := given.get(field, "").strip():
            try:
                data[field] = read_one(text)
            except InvalidInput as error:
                errors.append(error)
    wrong = {error.pointer for error in errors}
    try:
        request = backfills.read_request(of, data)
    except InvalidInputs as several:
        errors += [_as_typed(error, given) for error in several.errors if error.pointer not in wrong]
        raise InvalidInputs(errors) from several
    if errors:
        raise InvalidInputs(errors)
    return Asked(request, name)


def _as_typed(error: InvalidInput, given: Mapping[str, str]) -> InvalidInput:
    """With the text of the form, which has another zone than what was read of it."""
    typed = given.get(error.pointer[1:]) if error.pointer in ("/start", "/end") else None
    return InvalidInput(error.pointer, typed, error.problem, error.legal) if typed else error


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput("/at_once", text[:50], "is not a whole number", f"1 to {backfills.MOST_AT_ONCE}")
    return int(text)


def _json(text: str) -> Any:
    try:
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"{len(text):,} characters are too many")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        legal = 'a JSON object such as {"day": 1}'
        raise InvalidInput("/parameters", None, f"is not JSON: {error}", legal) from None
