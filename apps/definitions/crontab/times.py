"""The times of an entry → a schedule, as a task's document has it. Pure."""

import hashlib
import re
from typing import Any

from apps.definitions.cron_fields import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, Field
from chronoweb.runtime.errors import InvalidInput

_FIELDS = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
_RANDOM = re.compile(r"(?P<low>\w*)~(?P<high>\w*)(?:/(?P<step>\d{1,4}))?", re.ASCII)
_START_AND_STEP = re.compile(r"(?P<low>\w+)/(?P<step>\d+)", re.ASCII)
_DURATION = re.compile(r"(?:(?P<h>\d{1,6})h)?(?:(?P<m>\d{1,6})m)?(?:(?P<s>\d{1,8})s)?", re.ASCII)
_WORDS: dict[str, str | int] = {"@every_minute": "* * * * *", "@every_second": 1}
_REBOOT = "@reboot is not a time, and a fleet has no boot: make a task of type manual and trigger it at the boot"


def schedule_of(times: str, *, timezone: str, seed: str) -> tuple[dict[str, Any], list[str]]:
    """The schedule's document, and notes. seed: what the values of `~` are drawn from, always the same ones.

    Raises InvalidInput; whether the fields are right is for Schedule.parse to say.
    """
    word = times.split()[0].lower()
    if word == "@reboot":
        raise InvalidInput("/expression", times, _REBOOT, "@hourly, @daily, @weekly, @monthly, @yearly")
    if word == "@every":
        return {"type": "interval", "every_seconds": _seconds(times)}, []
    if word in _WORDS:
        meaning = _WORDS[word]
        if isinstance(meaning, int):
            return {"type": "interval", "every_seconds": meaning}, []
        times = meaning
    if word[1:].isdigit() and word.startswith("@"):
        problem = f"{word} counts from the end of the run before, which no schedule here does"
        raise InvalidInput("/expression", times, problem, "@every 10m counts from start to start")
    if word.startswith("@"):
        return {"type": "cron", "expression": times, "timezone": timezone}, []
    notes: list[str] = []
    fields = [
        ",".join(_item(part, field, f"{seed}/{position}/{index}", notes) for index, part in enumerate(text.split(",")))
        for position, (field, text) in enumerate(zip(_FIELDS, times.split(), strict=True))
    ]
    return {"type": "cron", "expression": " ".join(fields), "timezone": timezone}, notes


def _item(text: str, field: Field, seed: str, notes: list[str]) -> str:
    if match := _RANDOM.fullmatch(text):
        drawn = _drawn(match, field, seed)
        notes.append(f"{field.name} {text} is a value by chance; drawn for good: {drawn}")
        return drawn
    if match := _START_AND_STEP.fullmatch(text):
        notes.append(
            f"{field.name} {text} is read as {match['low']}-{field.high}/{match['step']}; some crons read "
            f"{match['low']} alone"
        )
    return text


def _drawn(match: re.Match[str], field: Field, seed: str) -> str:
    """Cronie draws anew at each of its starts; here the value stays, or each import would be a change."""
    low = _number(match["low"], field, field.low)
    high = _number(match["high"], field, field.high)
    if low > high:
        problem = f"{field.name} {match[0]!r}: ends before it begins"
        raise InvalidInput("/expression", match[0], problem, f"{field.name}: {field.low}~{field.high}")
    step = int(match["step"] or 0)
    chance = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8, person=b"crontab~").digest())
    if not step:
        return str(low + chance % (high - low + 1))
    first = low + chance % min(step, high - low + 1)
    return f"{first}-{high}/{step}"


def _number(text: str, field: Field, default: int) -> int:
    if not text:
        return default
    if text.lower() in field.names:
        return field.low + field.names.index(text.lower())
    if not text.isdigit() or not field.low <= int(text) <= field.high:
        raise InvalidInput("/expression", text, f"{field.name} {text!r} is not one of the values", field.legal)
    return int(text)


def _seconds(times: str) -> int:
    amount = times.split()[1:]
    match = _DURATION.fullmatch(amount[0]) if len(amount) == 1 else None
    if match is None or not any(match.groupdict().values()):
        raise InvalidInput(
            "/expression", times, "@every needs whole hours, minutes, seconds", "@every 1h30m, @every 45s"
        )
    hours, minutes, seconds = (int(match[unit] or 0) for unit in "hms")
    return hours * 3600 + minutes * 60 + seconds
