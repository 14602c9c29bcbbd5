"""What an act changed: from the entry where it says so, and else from the versions that the ledger keeps."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from apps.console.tasks import changes
from apps.definitions.dags.differences import differences, values_between
from apps.executions.models import DagVersion, TaskVersion
from apps.tenants.models import AuditEntry
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.uuids import parse_uuid

Line = tuple[str, str]
"""Sign (+, -, ~) and words."""
_VALUE_CHARACTERS = 200
_VERSIONED = {"task.update": "task", "dag.update": "dag"}


class Differences:
    """Those of one page of entries; at most two queries."""

    def __init__(self, principal: Principal, entries: Sequence[AuditEntry]) -> None:
        edits = {entry.pk: edit for entry in entries if (edit := _edit_of(entry))}
        self._edits = edits
        self._versions = {
            "task": _read(scoped(TaskVersion.objects.all(), principal), "task_id", _of(edits, "task")),
            "dag": _read(scoped(DagVersion.objects.all(), principal), "dag_id", _of(edits, "dag")),
        }

    def of(self, entry: AuditEntry) -> list[Line]:
        """Empty where nothing is known of before and after."""
        before, after = entry.detail.get("before"), entry.detail.get("after")
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            return [_line(one.line()) for one in values_between(before, after)]
        if isinstance(before, str) and isinstance(entry.detail.get("role"), str):
            return [("~", f"role: {before} → {entry.detail['role']}")]
        edit = self._edits.get(entry.pk)
        return self._between(*edit) if edit else []

    def _between(self, kind: str, identity: UUID, number: int) -> list[Line]:
        versions = self._versions[kind]
        before, after = versions.get((identity, number - 1)), versions.get((identity, number))
        if before is None or after is None:
            return []
        if kind == "task":
            return changes.lines(before, after)
        return [_line(one.line()) for one in differences(before, after)]


def told(entry: AuditEntry, lines: Sequence[Line], label: str) -> list[tuple[str, str]]:
    """What else the entry says, name by name; what the lines or the object's label say already is left out."""
    said = {"before", "after", "fields", "changed", "role"} if lines else set()
    return [
        (str(name).replace("_", " "), _short(value))
        for name, value in entry.detail.items()
        if name not in said and value not in (None, "", [], {}, label)
    ]


def _edit_of(entry: AuditEntry) -> tuple[str, UUID, int] | None:
    kind, identity = _VERSIONED.get(entry.action), parse_uuid(entry.target_id)
    number = entry.detail.get("version")
    return (kind, identity, number) if kind and identity and type(number) is int else None


def _of(edits: Mapping[int, tuple[str, UUID, int]], kind: str) -> set[tuple[UUID, int]]:
    return {(identity, number) for found, identity, number in edits.values() if found == kind}


def _read(rows: QuerySet[Any], key: str, wanted: Iterable[tuple[UUID, int]]) -> dict[tuple[UUID, int], Any]:
    """Both versions of each edit, in one query; none for no edit."""
    meant = Q()
    for identity, number in wanted:
        meant |= Q(**{key: identity}, number__in=(number - 1, number))
    if not meant:
        return {}
    found: QuerySet[Model, Any] = rows.filter(meant).values_list(key, "number", "definition")
    return {(identity, number): definition for identity, number, definition in found}


def _line(text: str) -> Line:
    return text[0], text[2:]


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}…"
