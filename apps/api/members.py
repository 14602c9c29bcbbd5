"""/api/v1/members: who belongs to the tenant. Everybody in it sees; owners change."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.openapi.declare import documented
from apps.api.pagination import page_request
from apps.api.representations import moment
from apps.tenants import members
from apps.tenants.models import Membership, Role
from apps.tenants.scope import scoped_get


class MembersView(ApiView):
    def needed_role(self, request: Request) -> Role:
        return Role.VIEWER if request.method in ("GET", "HEAD") else Role.OWNER


class Members(MembersView):
    query_parameters = ("limit", "cursor")

    @documented("List members", gives="MemberPage")
    def get(self, request: Request) -> Response:
        page = page_request(request, filters=())
        rows = members.members(principal(request)).order_by("-id")
        if page.below is not None:
            rows = rows.filter(id__lt=page.below.int)
        found = list(rows[: page.limit + 1])
        shown = found[: page.limit]
        last = UUID(int=shown[-1].pk) if shown else None
        return Response(page.answer(found, [_shown(row) for row in shown], last))

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
