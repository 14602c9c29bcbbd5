"""/api/v1/dags/{dag}/executions and /api/v1/dags/executions/{run}: runs, their nodes, and what persons do to them."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import dag_run_representations as shown_as
from apps.api import representations
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.filters import Filters, Moment, Words
from apps.api.lists import ListView
from apps.api.openapi.declare import Content, Operation, declared, documented
from apps.api.pagination import Ordering, PageRequest
from apps.definitions.dags import selectors as definitions
from apps.executions.dags import operations, selectors
from apps.executions.dags.models import RUN_WORDS
from apps.executions.states import Origin
from chronoweb.runtime.errors import InvalidInput

MOST_EXECUTIONS = 10_000
NOTE_CHARACTERS = 1000


class Standings(Words):
    """A run that waits for others of its DAG has a word of its own beside those of the ledger."""

    def __init__(self) -> None:
        super().__init__({word: word for word in RUN_WORDS}, "status")

    def filter(self, qs: Any, value: Any) -> Any:
        return qs if value is None else selectors.of_words(qs, value)


class DagRunFilters(Filters):
    status = Standings()
    origin = Words(Origin, "origin")
    since = Moment("scheduled_at", "gte", about="scheduled then or later")
    until = Moment("scheduled_at", "lt", about="scheduled before")


class DagRuns(ListView):
    """Runs of one DAG, latest first; a deleted DAG is known by its runs."""

    filters = DagRunFilters
    ordering = Ordering({"scheduled_at": "id"}, default="-scheduled_at")
    declares = {"get": declared("List runs of a DAG", gives="DagRunPage")}

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return selectors.runs(principal(request)).filter(dag_id=self.kwargs["dag_id"])

    def found(self, request: Request, page: PageRequest) -> Sequence[Any]:
        found = super().found(request, page)
        if not found and not self.rows(request).exists():
            definitions.dag(principal(request), self.kwargs["dag_id"])  # or there is no such DAG
        return found

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        return [shown_as.run(row) for row in rows]


class OneDagRun(ApiView):
    @documented("Read a run", gives="DagRunDetail")
    def get(self, request: Request, run_id: UUID) -> Response:
        return _detail(request, run_id)


class DagRunNode(ApiView):
    """One node, with the executions of all its generations."""

    @documented("Read a node of a run", gives="RunNodeDetail")
    def get(self, request: Request, run_id: UUID, node_id: str) -> Response:
        run = selectors.run(principal(request), run_id)
        node = selectors.node(run, node_id)
        rows = selectors.executions_of(run, node, limit=MOST_EXECUTIONS)
        shown = representations.executions(rows, principal(request))
        current = next((row for row in rows if row.id == node.execution_id), None)
        executions = [
            {
                **document,
                "generation": row.dag_generation,
                "item": row.dag_item,
                "counts": row.dag_generation == node.generation,
            }
            for row, document in zip(rows, shown, strict=True)
        ]
        return Response({**shown_as.one_node(node, current), "executions": executions})


def _act(summary: str, takes: Content = "Empty", *, body_optional: bool = True) -> dict[str, Operation]:
    """What the acts below have in common."""
    gives = {202: "DagRunDetail"}
    done = declared(summary, takes=takes, body_optional=body_optional, gives=gives, headers=("Location",), fails=(409,))
    return {"post": done}


class _RunAct(ApiView):
    fields: ClassVar[tuple[str, ...]] = ()
    declares: ClassVar[dict[str, Operation]]

    def post(self, request: Request, run_id: UUID, **where: str) -> Response:
        body = body_object(request, fields=self.fields)
        self.act(principal=principal(request), run_id=run_id, **where, **self.read(body))
        return _detail(request, run_id, status=202)

    act: Callable[..., None]

    def read(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body's fields as the operation takes them."""
        return {name: _READ[name](body[name]) for name in self.fields if name in body}


class CancelDagRun(_RunAct):
    declares = _act("Cancel a run", takes="CancelRun")
    fields = ("reason",)
    act = staticmethod(operations.cancel_run)


class PauseDagRun(_RunAct):
    declares = _act("Pause a run")
    act = staticmethod(operations.pause_run)


class ResumeDagRun(_RunAct):
    declares = _act("Resume a run")
    act = staticmethod(operations.resume_run)


class RerunDagRun(_RunAct):
    """What failed, and everything after it."""

    declares = _act("Run again what failed")
    act = staticmethod(operations.rerun_from_failed)


class ClearNode(_RunAct):
    declares = _act("Run a node again", takes="ClearNode")
    fields = ("downstream",)
    act = staticmethod(operations.clear_node)


class MarkNode(_RunAct):
    declares = _act("Mark a node", takes="MarkNode", body_optional=False)
    fields = ("state", "downstream")
    act = staticmethod(operations.mark_node)

    def read(self, body: dict[str, Any]) -> dict[str, Any]:
        if "state" not in body:
            raise InvalidInput("/state", None, "is required", sorted(operations.MARKS))
        return super().read(body)


class SkipNode(_RunAct):
    declares = _act("Skip a node", takes="ClearNode")
    fields = ("downstream",)
    act = staticmethod(operations.skip_node)


class ApproveNode(_RunAct):
    declares = _act("Approve", takes="AnswerApproval")
    fields = ("note",)
    act = staticmethod(operations.decide_approval)
    approve = True

    def read(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**super().read(body), "approve": self.approve}


class RejectNode(ApproveNode):
    declares = _act("Reject", takes="AnswerApproval")
    approve = False


def _detail(request: Request, run_id: UUID, *, status: int = 200) -> Response:
    row = selectors.run(principal(request), run_id)
    location = {"Location": f"/api/v1/dags/executions/{run_id}"} if status == 202 else None
    return Response(shown_as.run_detail(row, selectors.graph(row)), status=status, headers=location)


def _text(name: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > NOTE_CHARACTERS or "\0" in value:
            raise InvalidInput(f"/{name}", value, "is not a text", f"text of at most {NOTE_CHARACTERS} characters")
        return value

    return read


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput("/downstream", value, "must be true or false", "true, false")
    return value


def _state(value: Any) -> str:
    if not isinstance(value, str) or value not in operations.MARKS:
        raise InvalidInput("/state", value, "is not a state to mark a node with", sorted(operations.MARKS))
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    "reason": _text("reason"),
    "note": _text("note"),
    "downstream": _boolean,
    "state": _state,
}
