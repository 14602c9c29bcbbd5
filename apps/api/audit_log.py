"""/api/v1/audit-log: who did what to which object, the latest first."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import queries
from apps.api.authentication import principal
from apps.api.base import ApiView
from apps.api.openapi.declare import documented
from apps.api.pagination import page_request
from apps.api.representations import moment
from apps.tenants.models import AuditEntry, Role
from apps.tenants.scope import scoped

_WORDS = ("actor", "action", "target_type", "target_id")
FILTERS = (*_WORDS, "since", "until")


class AuditLog(ApiView):
    query_parameters = (*FILTERS, "limit", "cursor")

    def needed_role(self, request: Request) -> Role:
        return Role.OPERATOR

    @documented("Read the audit log", gives="AuditPage")
    def get(self, request: Request) -> Response:
        """`actor`, `action`, `target_type`, `target_id` as a whole; `since` is inclusive, `until` is not."""
        page = page_request(request, filters=FILTERS)
        wanted: dict[str, Any] = {word: queries.text(request, word) for word in _WORDS}
        wanted |= {"at__gte": queries.moment(request, "since"), "at__lt": queries.moment(request, "until")}
        if page.below is not None:
            wanted["id__lt"] = page.below.int
        given = {name: value for name, value in wanted.items() if value is not None}
        found = list(scoped(AuditEntry.objects.filter(**given), principal(request)).order_by("-id")[: page.limit + 1])
        shown = found[: page.limit]
        last = UUID(int=shown[-1].pk) if shown else None
        return Response(page.answer(found, [_shown(row) for row in shown], last))


def _shown(row: AuditEntry) -> dict[str, Any]:
    return {
        "id": row.pk,
        "at": moment(row.at),
        "actor": row.actor,
        "action": row.action,
        "target_type": row.target_type,
        "target_id": row.target_id,
        "detail": row.detail,
    }
