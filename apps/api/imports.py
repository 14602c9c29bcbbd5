"""/api/v1/import: what other schedulers have, made into tasks."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import representations
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.openapi.declare import documented
from apps.definitions.crontab import importing, reading, wording
from apps.definitions.crontab.importing import Import, Imported
from apps.definitions.crontab.lines import SYSTEM, USER, Line
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

FORMS = ("auto", USER, SYSTEM)
_FLAGS = ("dry_run", "strict_timing", "prune")
_UNLESS_FALSE = ("strict_timing",)
_FIELDS = ("text", "timezone", "source", "form", *_FLAGS)
_TEXTS = {"timezone": "UTC", "source": "crontab", "form": "auto"}


class ImportCrontab(ApiView):
    """The lines of a crontab become command tasks; the answer accounts for each line.

    Sent again, it changes the tasks whose lines have changed and adds none twice: a task is known by what is run.
    """

    @documented("Import a crontab", takes="CrontabInput", gives="ImportedCrontab")
    def post(self, request: Request) -> Response:
        wanted = _wanted(body_object(request, fields=_FIELDS))
        form = None if wanted["form"] == "auto" else wanted["form"]
        done = importing.import_crontab(
            principal=principal(request),
            crontab=reading.read_crontab(wanted["text"], form=form),
            source=wanted["source"],
            timezone=wanted["timezone"],
            strict_timing=wanted["strict_timing"],
            prune=wanted["prune"],
            dry_run=wanted["dry_run"],
        )
        return Response(_shown(done))


def _wanted(body: dict[str, Any]) -> dict[str, Any]:
    errors = []
    text = body.get("text")
    if not isinstance(text, str):
        problem = "is required" if text is None else "is not a string"
        errors.append(InvalidInput("/text", text, problem, "the text of a crontab"))
    elif len(text.encode("utf-8", "replace")) > reading.MOST_BYTES:
        errors.append(InvalidInput("/text", None, "is too long", f"at most {reading.MOST_BYTES} bytes"))
    wanted: dict[str, Any] = {"text": text}
    for name, default in _TEXTS.items():
        wanted[name] = default if body.get(name) is None else body[name]
        if not isinstance(wanted[name], str):
            errors.append(InvalidInput(f"/{name}", wanted[name], "is not a string", "text"))
    for name in _FLAGS:
        wanted[name] = name in _UNLESS_FALSE if body.get(name) is None else body[name]
        if not isinstance(wanted[name], bool):
            errors.append(InvalidInput(f"/{name}", wanted[name], "must be true or false", "true, false"))
    if isinstance(wanted["form"], str) and wanted["form"] not in FORMS:
        errors.append(InvalidInput("/form", wanted["form"], "is no form of a crontab", FORMS))
    if errors:
        raise InvalidInputs(errors)
    return wanted


def _shown(done: Import) -> dict[str, Any]:
    entries = {each.line.number: each for each in done.entries if each.line is not None}
    outcomes = (importing.CREATED, importing.UPDATED, importing.UNCHANGED, importing.REFUSED)
    return {
        "source": done.source,
        "form": done.crontab.form,
        "form_reason": done.crontab.form_reason,
        "dry_run": done.dry_run,
        "lines": [_line(line, entries.get(line.number)) for line in done.crontab.lines],
        "gone": [_gone(each) for each in done.gone],
        "counts": {"lines": len(done.crontab.lines), **{outcome: done.count(outcome) for outcome in outcomes}},
        "notes": [*done.crontab.notes, *wording.summary(done)],
    }


def _gone(each: Imported) -> dict[str, Any]:
    assert each.task is not None
    return {"name": each.name, "task_id": str(each.task.id), "deleted": each.outcome == importing.DELETED}


def _line(line: Line, entry: Imported | None) -> dict[str, Any]:
    return {
        "number": line.number,
        "text": line.text,
        "kind": line.kind,
        "notes": [*line.notes, *(entry.notes if entry else [])],
        "entry": None if entry is None else _entry(entry),
    }


def _entry(entry: Imported) -> dict[str, Any]:
    """What became of it; one that is refused has a problem and nothing else."""
    schedule = entry.schedule
    return {
        "outcome": entry.outcome,
        "problem": entry.problem,
        "name": entry.name,
        "task_id": None if entry.task is None else str(entry.task.id),
        "schedule": None if schedule is None else schedule.to_json(),
        "description": entry.words,
        "next_fire_times": [representations.moment(at) for at in entry.next_times],
        "clock_changes": entry.clock_changes,
        "jitter": None if schedule is None else wording.jitter_words(entry),
        "changes": [{"field": c.field, "before": c.before, "after": c.after} for c in entry.changes],
    }
