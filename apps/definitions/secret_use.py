"""Who refers to a secret or names a channel: what is in use is not deleted, so that nobody finds out in the night."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Model, QuerySet, TextField
from django.db.models.functions import Cast

from apps.definitions.models import Dag, DagNode, Task
from apps.executions.secret_references import references
from apps.tenants import channels, secret_store
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import Conflict

_SHOWN = 20
_MOST_READ = 5000
Users = dict[str, list[dict[str, str]]]
"""Name, or URI → who refers to it: type, id and name of each."""


@transaction.atomic
def delete_secret(*, principal: Principal, name: str) -> None:
    """Forget a secret that no live definition refers to. Raises NotFound, Conflict (extra: used_by)."""
    secret_store.locked(principal, name)
    _refuse_used(f"the secret {name}", _users_of_secret(principal.tenant_id, name))
    secret_store.delete(principal=principal, name=name)


@transaction.atomic
def delete_channel(*, principal: Principal, channel_id: UUID) -> None:
    """Forget a channel that no live definition names. Raises NotFound, Conflict (extra: used_by)."""
    channel = channels.locked(principal, channel_id)
    _refuse_used(f"the channel {channel.uri}", _users_of_channel(principal.tenant_id, channel.uri))
    channels.delete(principal=principal, channel_id=channel_id)


def users_of_secrets(tenant_id: UUID) -> Users:
    """Every secret that live definitions refer to; of each kind of definition the first 5,000 are read. Two queries."""
    found: Users = defaultdict(list)
    tasks = _mentioning(Task.objects.filter(tenant_id=tenant_id, deleted_at=None), "handler", "secret")
    for task in tasks.only("id", "name", "handler")[:_MOST_READ]:
        for name in dict.fromkeys(one.name for one in references(task.handler)):
            found[name].append(_named("task", task))
    nodes = DagNode.objects.filter(dag__tenant_id=tenant_id, dag__deleted_at=None).select_related("dag")
    seen = set()
    for node in _mentioning(nodes, "definition", "secret")[:_MOST_READ]:
        handler = node.definition.get("handler") if isinstance(node.definition, Mapping) else None
        for name in {one.name for one in references(handler)} if isinstance(handler, Mapping) else ():
            if (name, node.dag_id) not in seen:
                seen.add((name, node.dag_id))
                found[name].append(_named("dag", node.dag))
    return dict(found)


def users_of_channels(tenant_id: UUID) -> Users:
    """Every channel that live definitions name; of each kind of definition the first 5,000 are read. Two queries."""
    found: Users = defaultdict(list)
    for kind, row in _telling(tenant_id):
        for uri in dict.fromkeys(uri for named in row.notifications.values() for uri in named):
            found[uri].append(_named(kind, row))
    return dict(found)


def _telling(tenant_id: UUID) -> Iterator[tuple[str, Any]]:
    for kind, rows in (("task", Task.objects.all()), ("dag", Dag.objects.all())):
        live = rows.filter(tenant_id=tenant_id, deleted_at=None).exclude(notifications={})
        for row in live.only("id", "name", "notifications").order_by("id")[:_MOST_READ]:
            yield kind, row


def _users_of_secret(tenant_id: UUID, name: str) -> list[dict[str, str]]:
    def uses(definition: Any) -> bool:
        handler = definition.get("handler") if isinstance(definition, Mapping) else None
        return isinstance(handler, Mapping) and any(found.name == name for found in references(handler))

    tasks = _mentioning(Task.objects.filter(tenant_id=tenant_id, deleted_at=None), "handler", name)
    nodes = DagNode.objects.filter(dag__tenant_id=tenant_id, dag__deleted_at=None).select_related("dag")
    of_dags = {
        node.dag_id: _named("dag", node.dag) for node in _mentioning(nodes, "definition", name) if uses(node.definition)
    }
    return [_named("task", task) for task in tasks if uses({"handler": task.handler})] + list(of_dags.values())


def _users_of_channel(tenant_id: UUID, uri: str) -> list[dict[str, str]]:
    def uses(row: Task | Dag) -> bool:
        return any(uri in named for named in row.notifications.values())

    found = []
    for kind, rows in (("task", Task.objects.all()), ("dag", Dag.objects.all())):
        live = rows.filter(tenant_id=tenant_id, deleted_at=None)
        found += [_named(kind, row) for row in _mentioning(live, "notifications", uri) if uses(row)]
    return found


def _mentioning(rows: QuerySet[Any], column: str, text: str) -> QuerySet[Any]:
    """Those whose JSON has the text somewhere; the rest need not be read."""
    return rows.annotate(as_text=Cast(column, TextField())).filter(as_text__contains=text).order_by("id")


def _named(kind: str, row: Model) -> dict[str, str]:
    return {"type": kind, "id": str(row.pk), "name": str(row)}


def _refuse_used(what: str, users: list[dict[str, str]]) -> None:
    if not users:
        return
    names = ", ".join(f"{user['type']} {user['name']}" for user in users[:_SHOWN])
    more = f" and {len(users) - _SHOWN} more" if len(users) > _SHOWN else ""
    raise Conflict(f"{what} is in use by {names}{more}: change those first", used_by=users[:_SHOWN])
