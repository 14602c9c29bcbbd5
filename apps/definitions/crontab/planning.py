"""Entries of a crontab → documents of tasks. Pure.

A line of a crontab is text for a shell, so a shell is what runs: `argv` is [SHELL, "-c", LINE], whole and unchanged.
Nothing is ever put into that text. What cron does holds: no retry, no catching up, runs beside each other.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.definitions.crontab.forms import ACCOUNTS_ONLY
from apps.definitions.crontab.lines import Crontab, Entry, Line
from apps.definitions.crontab.times import schedule_of
from apps.definitions.validation import MAX_TIMEOUT_SECONDS
from apps.definitions.zones import zone
from apps.executions.secret_references import written
from chronoweb.runtime.errors import InvalidInput

TAG = "crontab"
KEY_TAG = "crontab-key:"
SOURCE_TAG = "crontab-file:"
USER_TAG = "crontab-user:"
OWNED_TAGS = (KEY_TAG, SOURCE_TAG, USER_TAG)
SHELL = "/bin/sh"
LONGEST_SOURCE = 50

_CONFIDENTIAL = re.compile(r"PASS|SECRET|TOKEN|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE", re.IGNORECASE)


@dataclass(frozen=True)
class Planned:
    """An entry as a task. key: what it is known by when the file is imported again. document: without a name."""

    line: Line
    entry: Entry
    key: str
    timezone: str
    document: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True)
class Unplanned:
    """An entry that cannot become a task, and why."""

    line: Line
    problem: str


def source_tag(source: str) -> str:
    return f"{SOURCE_TAG}{source}"


def plan(crontab: Crontab, *, source: str, timezone: str, strict_timing: bool = True) -> Iterator[Planned | Unplanned]:
    """Each entry, in order. timezone: where no CRON_TZ above it names another."""
    seen: Counter[tuple[str | None, str, str | None]] = Counter()
    for line in crontab.lines:
        if line.entry is None:
            continue
        same = (line.entry.user, line.entry.command, line.entry.stdin)
        seen[same] += 1
        key = _key(source, line.entry, seen[same])
        try:
            yield _planned(line, line.entry, key, source=source, timezone=timezone, strict_timing=strict_timing)
        except InvalidInput as error:
            yield Unplanned(line, told(error))


def told(error: InvalidInput) -> str:
    """The problem and what would be right, in one line."""
    legal = error.legal if isinstance(error.legal, str | None) else ", ".join(map(str, error.legal))
    return f"{error.problem}{f' (right: {legal})' if legal else ''}"


def _key(source: str, entry: Entry, nth: int) -> str:
    """Of what is run, not when: an edited time is a change of the same task."""
    content = "\0".join([source, entry.user or "", entry.command, entry.stdin or "", str(nth)])
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def _planned(line: Line, entry: Entry, key: str, *, source: str, timezone: str, strict_timing: bool) -> Planned:
    zone_name = zone(entry.environment.get("CRON_TZ", timezone)).key
    schedule, notes = schedule_of(entry.times, timezone=zone_name, seed=key)
    handler: dict[str, Any] = {
        "type": "command",
        "argv": [entry.environment.get("SHELL") or SHELL, "-c", entry.command],
        "environment": entry.environment,
    }
    if entry.stdin is not None:
        handler["stdin"] = entry.stdin
    ran_as = f", where it ran as {entry.user}" if entry.user else ""
    document = {
        "description": f"From the crontab {source}{ran_as}.",
        "tags": [TAG, f"{KEY_TAG}{key}", source_tag(source), *([f"{USER_TAG}{entry.user}"[:63]] if entry.user else [])],
        "schedule": schedule,
        "strict_timing": strict_timing,
        "overlap_policy": "skip" if entry.single else "allow_all",
        "catchup_seconds": 0,
        "handler": handler,
        "timeout_seconds": MAX_TIMEOUT_SECONDS,
        "retry_policy": {"max_attempts": 1},
        "idempotent": False,
    }
    notes = [*entry.notes, *notes, *_user_notes(entry), *_environment_notes(entry.environment)]
    return Planned(line, entry, key, zone_name, document, notes)


def _user_notes(entry: Entry) -> Iterator[str]:
    if entry.stdin is not None:
        yield "what stands behind its first % is not run: it is what the command reads from its input"
    first, _, more = entry.command.partition(" ")
    if entry.user is None and more and first in ACCOUNTS_ONLY:
        yield (
            f"its command begins with {first}, which a user's crontab takes for a program: lines of the system's "
            "crontab name an account there, and are read so when all do, or when that form is chosen"
        )
    if entry.user is not None:
        yield (
            f"ran as {entry.user}; here commands run as a user of the tenant's own (see CHRONOWEB_COMMAND_UIDS), "
            f"and the tag {USER_TAG}{entry.user} keeps who it was"
        )


def _environment_notes(environment: Mapping[str, str]) -> Iterator[str]:
    if environment.get("MAILTO"):
        yield f"its output is kept as the execution's log; nothing is mailed to {environment['MAILTO']}"
    if "TZ" in environment:
        yield "TZ is what the command sees; as in cron it does not move the schedule, which CRON_TZ would"
    for name in environment:
        if _CONFIDENTIAL.search(name):
            yield f"{name} would be stored as it is; make it a secret and put {written(name)} in its place"
