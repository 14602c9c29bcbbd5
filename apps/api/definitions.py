"""What the routes of tasks and of DAGs have in common: lists, edits under If-Match, pause and resume."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.etags import expected_version
from apps.api.filters import Filters, Flag, Tag, Text, Words
from apps.api.lists import ListView
from apps.api.openapi.declare import Operation, declared
from apps.api.pagination import Ordering
from apps.definitions.models import SCHEDULE_TYPES

EDITED: dict[str, Any] = {"headers": ("ETag",), "fails": (409,), "request_headers": ("If-Match",)}
"""What edits of a definition have in common."""


class DefinitionFilters(Filters):
    search = Text("name", "icontains", about="in any part of the name, capitals or not")
    name = Text("name", about="exactly this name")
    tag = Tag("tags", about="carries this tag")
    paused = Flag("paused_at", "isnull", inverted=True)
    schedule_type = Words({name: name for name in SCHEDULE_TYPES}, "schedule__type")


@dataclass(frozen=True)
class Kind:
    """Tasks, or DAGs: where they are, how they are shown, found, and changed. The functions are the services."""

    path: str
    show: Callable[..., dict[str, Any]]
    show_line: Callable[..., dict[str, Any]]
    all: Callable[..., QuerySet[Any, Any]]
    find: Callable[..., Any]
    create: Callable[..., Any]
    update: Callable[..., Any]
    delete: Callable[..., None]
    pause: Callable[..., Any]
    resume: Callable[..., Any]
    warnings: Callable[[Mapping[str, Any]], list[dict[str, str]]] | None = None
    """What is worth saying about a definition; None: such answers have no warnings."""

    def answer(self, request: Request, row: Any, *, status: int = 200, defined: bool = False) -> Response:
        shown = self.show(row, role=principal(request).role)
        if defined and self.warnings is not None:
            shown |= {"warnings": self.warnings(shown)}
        # The version grows with edits of the document alone: what the scheduler writes makes nobody's edit stale.
        headers = {"ETag": f'"{row.version}"'}
        if status == 201:
            headers["Location"] = f"/api/v1/{self.path}/{row.id}"
        return Response(shown, status=status, headers=headers)


class DefinitionList(ListView):
    kind: ClassVar[Kind]
    filters = DefinitionFilters
    ordering = Ordering(
        {"name": "name", "created_at": "id", "updated_at": "updated_at"},
        default="-created_at",
    )

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return self.kind.all(principal(request))

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        role = principal(request).role
        return [self.kind.show_line(row, role=role) for row in rows]

    def post(self, request: Request) -> Response:
        made = self.kind.create(principal=principal(request), data=request.data)
        return self.kind.answer(request, made, status=201, defined=True)


class OneDefinition(ApiView):
    kind: ClassVar[Kind]

    def get(self, request: Request, **which: UUID) -> Response:
        return self.kind.answer(request, self.kind.find(principal(request), **which))

    def put(self, request: Request, **which: UUID) -> Response:
        return self._update(request, which, partial=False)

    def patch(self, request: Request, **which: UUID) -> Response:
        return self._update(request, which, partial=True)

    def delete(self, request: Request, **which: UUID) -> Response:
        self.kind.delete(principal=principal(request), expected_version=expected_version(request), **which)
        return Response(status=204)

    def _update(self, request: Request, which: Mapping[str, UUID], *, partial: bool) -> Response:
        row = self.kind.update(
            principal=principal(request),
            data=request.data,
            partial=partial,
            expected_version=expected_version(request),
            **which,
        )
        return self.kind.answer(request, row, defined=True)


class PauseDefinition(ApiView):
    kind: ClassVar[Kind]

    def post(self, request: Request, **which: UUID) -> Response:
        note = body_object(request, fields=("note",)).get("note")
        note = "" if note is None else note
        return self.kind.answer(request, self.kind.pause(principal=principal(request), note=note, **which))


class ResumeDefinition(ApiView):
    kind: ClassVar[Kind]

    def post(self, request: Request, **which: UUID) -> Response:
        body_object(request, fields=())
        return self.kind.answer(request, self.kind.resume(principal=principal(request), **which))


def standing_act(summary: str, *, takes: str, gives: str) -> dict[str, Operation]:
    """How a pause or a resume is described."""
    return {"post": declared(summary, takes=takes, body_optional=True, gives=gives, headers=("ETag",))}
