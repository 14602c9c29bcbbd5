"""/api/v1/audit-log: who did what to which object, the latest first."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request

from apps.api.authentication import principal
from apps.api.filters import Filters, Moment, Text
from apps.api.lists import ListView
from apps.api.openapi.declare import declared
from apps.api.pagination import Ordering
from apps.api.representations import moment
from apps.tenants.models import AuditEntry, Role
from apps.tenants.scope import scoped


class AuditFilters(Filters):
    """Words are taken as a whole; `since` is inclusive, `until` is not."""

    actor = Text("actor", about="exactly this actor, such as key:deploy")
    action = Text("action", about="exactly this act, such as task.update")
    target_type = Text("target_type")
    target_id = Text("target_id")
    since = Moment("at", "gte")
    until = Moment("at", "lt")


class AuditLog(ListView):
    filters = AuditFilters
    ordering = Ordering({"at": "id"}, default="-at")
    declares = {"get": declared("Read the audit log", gives="AuditPage")}

    def needed_role(self, request: Request) -> Role:
        return Role.OPERATOR

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return scoped(AuditEntry.objects.all(), principal(request))

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        return [_shown(row) for row in rows]


def _shown(row: AuditEntry) -> dict[str, Any]:
    return {
        "id": row.pk,
        "at": moment(row.at),
        "actor": row.actor,
        "action": row.action,
        "target_type": row.target_type,
        "target_id": row.target_id,
        "detail": row.detail,
        "via": row.via,
        "address": row.address,
    }
