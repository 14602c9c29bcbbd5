"""What a task's document would mean before it is saved: every error at its field, the difference, the next times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.console.tasks import changes, form, preview
from apps.console.tasks.preview import Preview
from apps.definitions import advice
from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule
from apps.definitions.told import meant
from apps.definitions.validation import read_document
from apps.definitions.versions import document_of
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import literal_resolve


@dataclass(frozen=True)
class Checked:
    """document: as it was sent. lines: how it differs from what is in force; None while it has errors."""

    document: Any
    errors: list[dict[str, str]] = field(default_factory=list)
    warnings: list[dict[str, str]] = field(default_factory=list)
    lines: list[tuple[str, str]] | None = None
    preview: Preview | None = None

    @property
    def fields(self) -> dict[str, Any]:
        return form.values_of(self.document)


def check(principal: Principal, posted: Mapping[str, str], task: Task | None) -> Checked:
    """Writes nothing and asks nobody outside: a webhook's host is looked up when it is saved. At most one query."""
    try:
        document = form.document_of(posted)
    except InvalidInputs as wrong:
        return Checked(None, told(wrong))
    now = SYSTEM_CLOCK.now()
    before = None if task is None else document_of(task)
    shown = _preview(principal, document, task)
    try:
        read = read_document(document, now=now, before=before, resolve=literal_resolve)
    except InvalidInputs as wrong:
        return Checked(document, told(wrong), preview=shown)
    return Checked(
        document,
        warnings=advice.warnings_of(read),
        lines=changes.lines(before, read),
        preview=shown,
    )


def told(error: InvalidInput | InvalidInputs) -> list[dict[str, str]]:
    """Errors as the page places them."""
    found = error.errors if isinstance(error, InvalidInputs) else [error]
    return [{"pointer": one.pointer, "problem": _words(one)} for one in found]


def _words(error: InvalidInput) -> str:
    if error.legal is None:
        return error.problem
    return f"{error.problem}; {meant(error.legal)}"


def _preview(principal: Principal, document: Any, task: Task | None) -> Preview | None:
    """None where the schedule cannot be read: the errors say why."""
    given = document.get("schedule") if isinstance(document, Mapping) else None
    try:
        schedule = Schedule.parse(given) if isinstance(given, Mapping) else None
    except InvalidInputs:
        return None
    if schedule is None:
        return None
    is_strict = document.get("strict_timing") is True
    return preview.of(principal, schedule, now=SYSTEM_CLOCK.now(), own=task, is_strict=is_strict)
