"""An import in plain words, for the terminal and for whoever reads the API's answer."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from apps.definitions.crontab import importing
from apps.definitions.crontab.importing import Import, Imported
from apps.definitions.zones import zone

_SIGNS = {
    importing.CREATED: "+",
    importing.UPDATED: "~",
    importing.UNCHANGED: "=",
    importing.REFUSED: "!",
    importing.GONE: "?",
    importing.DELETED: "-",
}
_LONGEST_SHOWN = 160
GENERAL = (
    "Commands run within the limits of the workers, in an empty folder of their own, without their user's home; their",
    "output is the execution's log and is not mailed. As in cron: no retry, no catching up, the next run does not wait",
    "for the one before. Each may run for 24 hours at most.",
)


def report(done: Import) -> Iterator[str]:
    """Line by line, then the sum."""
    yield f"{done.source}: read as a {done.crontab.form} crontab, because {done.crontab.form_reason}"
    for note in done.crontab.notes:
        yield f"  note: {note}"
    told = {each.line.number: each for each in done.entries if each.line is not None}
    for line in done.crontab.lines:
        if (each := told.get(line.number)) is not None:
            yield f"line {line.number}: {_short(line.text.strip())}"
            yield from (f"  {text}" for text in _entry(each, dry_run=done.dry_run))
        elif line.variable is not None:
            yield f"line {line.number}: sets {line.variable[0]} for what follows"
        if line.entry is None or each is None or each.outcome == importing.REFUSED:
            yield from (f"  note: {note}" for note in line.notes)
    for each in done.gone:
        yield f"{_SIGNS[each.outcome]} {each.name!r}: {_gone(each, dry_run=done.dry_run)}"
    yield from summary(done)


def summary(done: Import) -> Iterator[str]:
    """Every line of the file is in one of these figures."""
    kinds = Counter(line.kind for line in done.crontab.lines)
    lines = done.crontab.lines
    read = sum(1 for line in lines if line.entry is not None or line.problem is not None)
    parts = [
        f"entries {read}",
        *(f"{word}s {kinds[word]}" for word in ("variable", "comment")),
        f"blank {kinds['blank']}",
    ]
    yield f"lines {len(lines)}: {', '.join(parts)}"
    verb = "would be " if done.dry_run else ""
    counts = [
        f"{'' if outcome in (importing.UNCHANGED, importing.REFUSED) else verb}{outcome} {done.count(outcome)}"
        for outcome in (importing.CREATED, importing.UPDATED, importing.UNCHANGED, importing.REFUSED)
    ]
    yield f"entries {read}: {', '.join(counts)}" + ("; nothing was written" if done.dry_run else "")


def moment(at: datetime, zone_name: str) -> str:
    """For example "Mon 2026-11-30 06:25:00 CET"."""
    local = at.astimezone(zone(zone_name))
    return local.strftime("%a %Y-%m-%d %H:%M") + (local.strftime(":%S") if local.second else "") + f" {local:%Z}"


def jitter_words(each: Imported) -> str:
    """How far off its times it may start, and why."""
    if not each.jitter:
        return "no jitter: it starts at these times"
    most = _seconds(each.jitter)
    if each.task is not None and each.outcome == importing.CREATED:
        shift = timedelta(milliseconds=each.task.jitter_ms)
        return f"jitter: it starts {_shift(shift)} these times, always the same, within ±{most}, to spread the load"
    return f"jitter: it starts within ±{most} of these times, always the same, to spread the load"


def _entry(each: Imported, *, dry_run: bool) -> Iterator[str]:
    sign = _SIGNS[each.outcome]
    if each.outcome == importing.REFUSED:
        yield f"{sign} refused: {each.problem}"
        return
    word = each.outcome if not dry_run or each.outcome == importing.UNCHANGED else f"would be {each.outcome}"
    yield f"{sign} {word}: task {each.name!r}"
    yield from (f"    {change.field}: {change.before!r} → {change.after!r}" for change in each.changes)
    yield f"runs {each.words}"
    times = ", ".join(moment(at, each.timezone) for at in each.next_times) or "never again"
    yield f"next: {times} ({each.timezone})"
    yield jitter_words(each)
    yield from each.clock_changes
    yield from (f"note: {note}" for note in each.notes)


def _gone(each: Imported, *, dry_run: bool) -> str:
    if each.outcome == importing.GONE:
        return "its line is no longer in the file; the task stays and runs (--prune deletes such tasks)"
    return "its line is no longer in the file; the task " + ("would be deleted" if dry_run else "was deleted")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _shift(shift: timedelta) -> str:
    return f"{_seconds(abs(shift))} {'before' if shift < timedelta(0) else 'behind'}"


def _seconds(amount: timedelta) -> str:
    return f"{amount.total_seconds():.3g} s"
