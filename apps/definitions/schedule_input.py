"""Reads the fields of a schedule's JSON object one by one, and collects what is wrong with each."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.definitions.cron_syntax import FIELDS, parse_cron
from apps.definitions.zones import instant_of, zone
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.spelling import meant

# Instants that a schedule may name. Execution ids carry milliseconds since 1970, and arithmetic needs some air above.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)

_ISO = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
_MOMENT = "a date-time such as 2026-03-01T09:00:00Z or 2026-03-01T09:00:00+01:00, from 1970 to 8999"
_FORMS = {
    "expression": f'"0 2 * * *": {FIELDS}',
    "every_seconds": "a whole number of seconds, such as 300",
    "run_at": _MOMENT,
}
"""What the field that a type needs looks like."""
_MILLISECOND = timedelta(milliseconds=1)


class Reader:
    """One object's fields. A method returns None where the field is absent, null or wrong; errors keeps what is wrong.

    Pointers are relative to the object.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self.errors: list[InvalidInput] = []

    def refuse(self, name: str, problem: str, legal: Sequence[Any] | str) -> None:
        escaped = name.replace("~", "~0").replace("/", "~1")
        self.errors.append(InvalidInput(f"/{escaped}", self._data.get(name), problem, legal))

    def refuse_unknown(self, known: set[str]) -> None:
        for name in self._data:
            if name not in known:
                self.refuse(str(name)[:80], f"is not a field of a schedule{meant(name, known)}", sorted(known))

    def refuse_foreign(self, kind: str, owners: Mapping[str, Sequence[str]]) -> None:
        """A value that another type would use is a misunderstanding; it is not dropped in silence."""
        for name, kinds in owners.items():
            if self._data.get(name) is not None and kind not in kinds:
                self.refuse(name, f"means nothing for type {kind}", f"null, or type {' or '.join(kinds)}")

    def require(self, name: str | None, kind: str) -> None:
        if name and self._data.get(name) is None:
            self.refuse(name, f"is required for type {kind}", _FORMS[name])

    def choice(
        self,
        name: str,
        legal: Sequence[str],
        *,
        default: str | None = None,
        spellings: Mapping[str, str] | None = None,
    ) -> str | None:
        value = self._data.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            value = (spellings or {}).get(value, value)
            if value in legal:
                return value
        self.refuse(
            name, "is required" if value is None else f"is not one of {', '.join(legal)}{meant(value, legal)}", legal
        )
        return None

    def zone_name(self) -> str | None:
        name = self._data.get("timezone")
        if name is None:
            return "UTC"
        try:
            return zone(name).key
        except InvalidInput as error:
            self.errors.append(error)
        except TypeError:  # an unhashable value, such as a list
            self.refuse("timezone", "is not a string", "a name such as Europe/Paris")
        return None

    def expression(self) -> str | None:
        value = self._data.get("expression")
        if value is None:
            return None
        if not isinstance(value, str):
            self.refuse("expression", "is not a string", FIELDS)
            return None
        try:
            return parse_cron(value).text
        except InvalidInputs as error:
            self.errors.extend(error.errors)
            return None

    def whole(self, name: str, low: int, high: int) -> int | None:
        value = self._data.get(name)
        if value is None:
            return None
        # bool is an int to Python, and 60.0 or "60" may be a slip: only a JSON integer is taken.
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, "is not a whole number", f"{low} to {high}")
            return None
        if not low <= value <= high:
            self.refuse(name, f"is outside {low} to {high}", f"{low} to {high}")
            return None
        return value

    def moment(self, name: str, zone_name: str | None, *, last_pass: bool) -> datetime | None:
        """Aware UTC, whole milliseconds. zone_name: for a string without offset; None = unknown, no second error."""
        value = self._data.get(name)
        if value is None:
            return None
        try:
            moment = _instant(value, zone_name, last_pass=last_pass)
        except (ValueError, OverflowError) as error:
            self.refuse(name, f"is not a date-time: {error}", _MOMENT)
            return None
        if moment is not None and not EARLIEST <= moment < LATEST:
            self.refuse(name, "is outside the years 1970 to 8999", _MOMENT)
            return None
        return moment


def _instant(value: Any, zone_name: str | None, *, last_pass: bool) -> datetime | None:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError("a datetime object needs its offset")
        return _ceil(value.astimezone(UTC))
    if not isinstance(value, str):
        raise ValueError("it is not a string")
    if not _ISO.fullmatch(value):
        raise ValueError("it is not written as YYYY-MM-DDThh:mm:ss with an offset")
    read = datetime.fromisoformat(value.upper())
    if read.utcoffset() is not None:
        return _ceil(read.astimezone(UTC))
    return _ceil(instant_of(zone(zone_name), read, last_pass=last_pass)) if zone_name else None


def _ceil(moment: datetime) -> datetime:
    """Up to the next whole millisecond, the resolution of the ledger."""
    rest = timedelta(microseconds=moment.microsecond) % _MILLISECOND
    return moment + (_MILLISECOND - rest) if rest else moment
