"""An import as the page shows it: each line in words, its next times and who else is there, or why it is refused."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.console.tasks.preview import CROWDED, Time
from apps.definitions.collisions import Crowd, crowds
from apps.definitions.crontab import importing, wording
from apps.definitions.crontab.importing import Change, Import, Imported
from apps.definitions.crontab.lines import Line
from apps.definitions.occurrences import Schedule
from apps.definitions.zones import zone
from apps.tenants.principal import Principal

MOST_COMPARED = 100
"""Entries for whose times others are counted: a file of a thousand lines is not compared with itself at each key."""

_PLANNED = {
    importing.CREATED: "new",
    importing.UPDATED: "changes",
    importing.UNCHANGED: "already there",
    importing.REFUSED: "refused",
    importing.GONE: "no longer in the file",
}
_DONE = _PLANNED | {importing.CREATED: "created", importing.UPDATED: "changed", importing.UNCHANGED: "unchanged"}


@dataclass(frozen=True)
class Shown:
    """A line, with what it became or would become. word: of its outcome; empty: it runs nothing, as variables do.

    crowded: the fullest of its next minutes, where that is worth a sentence.
    """

    line: Line
    outcome: str = ""
    word: str = ""
    entry: Imported | None = None
    times: list[Time] = field(default_factory=list)
    crowded: Time | None = None
    jitter: str = ""
    notes: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)


def shown(principal: Principal, done: Import) -> dict[str, Any]:
    """For the template. At most one query."""
    entries = {each.line.number: each for each in done.entries if each.line is not None}
    planned = Counter(each.schedule for each in done.entries if each.schedule and _is_to_come(each, done))
    lines: list[Shown] = []
    for line in done.crontab.lines:
        entry = entries.get(line.number)
        if entry is not None:
            counted = planned if len(entries) <= MOST_COMPARED else {}
            lines.append(_entry(principal, line, entry, done, counted, compared=len(lines) < MOST_COMPARED))
        elif line.variable is not None:
            lines.append(Shown(line, notes=list(line.notes)))
    *_, counts = wording.summary(done)
    return {
        "done": done,
        "lines": lines,
        "counts": counts,
        "gone": done.gone,
        "general": " ".join(wording.GENERAL),
        "writes": done.count(importing.CREATED) + done.count(importing.UPDATED),
    }


def _is_to_come(each: Imported, done: Import) -> bool:
    """Not among the tenant's tasks yet, where everybody else is counted."""
    return each.outcome == importing.CREATED and done.dry_run


def _entry(
    principal: Principal, line: Line, each: Imported, done: Import, planned: Mapping[Schedule, int], *, compared: bool
) -> Shown:
    words = _PLANNED if done.dry_run else _DONE
    if each.outcome == importing.REFUSED:
        return Shown(line, each.outcome, words[each.outcome], each, notes=list(line.notes))
    tz = zone(each.timezone)
    others = {**planned}
    if each.schedule in others and _is_to_come(each, done):
        others[each.schedule] -= 1
    found = crowds(principal, each.next_times, own=each.task, planned=others) if compared else []
    times = [Time.of(at, tz, found[n] if found else Crowd(0, False)) for n, at in enumerate(each.next_times)]
    fullest = max(times, key=lambda time: time.crowd.count, default=None)
    return Shown(
        line,
        each.outcome,
        words[each.outcome],
        each,
        times,
        fullest if fullest is not None and fullest.crowd.count >= CROWDED else None,
        wording.jitter_words(each),
        [*line.notes, *each.notes],
        [_change(change) for change in each.changes],
    )


def _change(change: Change) -> str:
    if change.field != "schedule":
        return change.field.replace("_", " ")
    before, after = (
        one.get("expression") or f"every {one.get('every_seconds')} s" for one in (change.before, change.after)
    )
    return f"schedule: {before} → {after}" if before != after else "schedule: its time zone"
