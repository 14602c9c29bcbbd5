"""/api/v1/members: who belongs to the tenant. Everybody in it sees; owners change."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.lists import ListView
from apps.api.openapi.declare import declared, documented
from apps.api.pagination import Ordering
from apps.api.representations import moment
from apps.tenants import members
from apps.tenants.models import Membership, Role
from apps.tenants.scope import scoped_get


class MembersView(ApiView):
    def needed_role(self, request: Request) -> Role:
        return Role.VIEWER if request.method in ("GET", "HEAD") else Role.OWNER


class Members(MembersView, ListView):
    ordering = Ordering({"created_at": "id", "username": "user__username"}, default="-created_at")
    declares = {"get": declared("List members", gives="MemberPage")}

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return members.members(principal(request))

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        return [_shown(row) for row in rows]

    @documented("Add a member", takes="MemberInput", gives={201: "Member"}, fails=(409,))
    def post(self, request: Request) -> Response:
        body = body_object(request, fields=("username", "role"))
        row = members.add(
            principal=principal(request),
            username=body.get("username"),
            role=members.read_role(body.get("role", Role.VIEWER.value)),
        )
        return Response(_shown(row), status=201)


class OneMember(MembersView):
    @documented("Read a member", gives="Member")
    def get(self, request: Request, username: str) -> Response:
        who = principal(request)
        return Response(_shown(scoped_get(members.members(who), who, what="member", user__username=username)))

    @documented("Change a member's role", takes="MemberPatch", gives="Member", fails=(409,))
    def patch(self, request: Request, username: str) -> Response:
        role = members.read_role(body_object(request, fields=("role",)).get("role"))
        return Response(_shown(members.change(principal=principal(request), username=username, role=role)))

    @documented("Remove a member", gives={204: None}, fails=(409,))
    def delete(self, request: Request, username: str) -> Response:
        members.remove(principal=principal(request), username=username)
        return Response(status=204)


def _shown(row: Membership) -> dict[str, Any]:
    return {"username": row.user.get_username(), "role": row.role, "created_at": moment(row.created_at)}
