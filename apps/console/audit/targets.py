"""What entries of the audit log are about: its page, and its name where it has one."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.urls import reverse

from apps.definitions.models import Backfill, Dag, Task
from apps.tenants.models import AuditEntry
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.uuids import parse_uuid

_BY_ID = {
    "task": ("task", "task_id"),
    "dag": ("dag", "dag_id"),
    "dag_run": ("run", "run_id"),
    "execution": ("execution", "identity"),
}
_LISTS = {
    "replay": "letters",
    "secret": "settings_secrets",
    "channel": "settings_channels",
    "api_key": "settings_keys",
    "apikey": "settings_keys",
    "member": "settings_members",
    "membership": "settings_members",
    "tenant": "settings",
    "circuit": "settings",
}
"""Kinds that have no page of their own → the page that lists them."""


@dataclass(frozen=True)
class Target:
    """address: empty where there is no page. label: its name, or the id."""

    kind: str
    address: str
    label: str


class Targets:
    """Those of one page of entries; at most three queries."""

    def __init__(self, principal: Principal, entries: Iterable[AuditEntry]) -> None:
        self._slug = principal.tenant_slug
        self._names: dict[UUID, str] = {}
        wanted: dict[str, set[UUID]] = {"task": set(), "dag": set()}
        self._of_backfills: dict[UUID, tuple[str, dict[str, UUID]]] = {}
        wanted["backfill"] = set()
        for entry in entries:
            identity = parse_uuid(entry.target_id)
            if entry.target_type in wanted and identity:
                wanted[entry.target_type].add(identity)
        if wanted["backfill"]:
            backfills = scoped(Backfill.objects.all(), principal).filter(id__in=wanted["backfill"])
            for row in backfills.only("id", "task_id", "dag_id"):
                kind, of = ("dag", row.dag_id) if row.dag_id else ("task", row.task_id)
                if of:
                    self._of_backfills[row.id] = (f"{kind}_backfills", {f"{kind}_id": of})
        for kind, rows in (("task", Task.objects.all()), ("dag", Dag.objects.all())):
            if wanted[kind]:
                found = scoped(rows, principal).filter(id__in=wanted[kind])
                self._names |= dict(found.values_list("id", "name"))

    def of(self, entry: AuditEntry) -> Target:
        kind, text = entry.target_type, entry.target_id
        identity = parse_uuid(text)
        name = self._names.get(identity) if identity else None
        label = name or str(entry.detail.get("name") or entry.detail.get("uri") or text)
        address = ""
        if kind in _BY_ID and identity:
            route, argument = _BY_ID[kind]
            address = reverse(f"console:{route}", kwargs={"slug": self._slug, argument: identity})
        elif identity in self._of_backfills:
            route, given = self._of_backfills[identity]
            address = reverse(f"console:{route}", kwargs={"slug": self._slug, **given})
        elif kind in _LISTS:
            address = reverse(f"console:{_LISTS[kind]}", args=[self._slug])
        return Target(kind.replace("_", " "), address, self._slug if kind == "tenant" else label)
