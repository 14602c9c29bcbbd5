"""/api/v1/tasks/bulk, /tasks/bulk-create and /executions/bulk: one act on all that a filter finds, counted first."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import problems
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.executions import ExecutionFilters, flag, wanted
from apps.api.filters import Filters, applied, read
from apps.api.idempotency import HEADER
from apps.api.openapi.declare import documented
from apps.api.tasks import TASKS, TaskFilters
from apps.definitions import services
from apps.definitions.bulk import ACTIONS as TASK_ACTIONS
from apps.definitions.bulk import act_on_tasks
from apps.definitions.models import Task
from apps.definitions.replaying import retry_renewed
from apps.definitions.standing import check_note
from apps.executions import bulk
from apps.executions import services as run_again
from chronoweb.runtime.errors import ChronowebError, Conflict, InvalidInput, InvalidInputs
from chronoweb.runtime.uuids import parse_uuid

FIELDS = ("action", "filter", "dry_run", "expected_count")
SHOWN = 100
"""Ids in an answer: what a dry run shows first, and what has failed."""
MOST_CREATED = 500


class _Texts:
    """A JSON object of filters as if it stood in a URL."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def getlist(self, name: str) -> list[str]:
        value = self._values.get(name)
        if value is None:
            return []
        if value == []:  # no word would find everything, which nobody means by an empty list
            raise InvalidInput(f"/filter/{name}", value, "is empty", "at least one word, or null for any")
        return [_text(name, each) for each in (value if isinstance(value, list) else [value])]


class _BulkView(ApiView):
    """Finds, counts, and acts. Without `expected_count`, or with that of a dry run, on what there is now."""

    filters: ClassVar[type[Filters]]
    actions: ClassVar[tuple[str, ...]]
    fields: ClassVar[tuple[str, ...]] = FIELDS

    def answer(self, request: Request) -> Response:
        body = body_object(request, fields=self.fields)
        action = body.get("action")
        if not isinstance(action, str) or action not in self.actions:
            raise InvalidInput("/action", action, "is not an act", self.actions)
        dry_run, expected = body.get("dry_run", False), body.get("expected_count")
        if not isinstance(dry_run, bool):
            raise InvalidInput("/dry_run", dry_run, "must be true or false", "true, false")
        if expected is not None and (type(expected) is not int or expected < 0):
            raise InvalidInput("/expected_count", expected, "must be a whole number", "the count of a dry run")
        self.check(body)
        found = self.find(request, action, read_filter(self.filters, body.get("filter")), body)
        counted = self.counted(found)
        matched = counted["matched"]
        if dry_run:
            return Response({"action": action, **counted, "first": [str(each) for each in found[:SHOWN]]})
        if expected is not None and expected != matched:
            raise Conflict(
                f"the filter finds {matched} now, not {expected}: look again, nothing was done", matched=matched
            )
        done = self.act(request, action, found[: bulk.MOST], body)
        failed = [{"id": str(identity), "detail": why} for identity, why in done.failed.items()]
        return Response(
            {
                "action": action,
                **counted,
                "done": done.done,
                "failed": len(failed),
                "failures": failed[:SHOWN],
                "remaining": matched - done.handled,
                **self.goes_on(found, done.handled),
            }
        )

    def check(self, body: Mapping[str, Any]) -> None:
        """Refuse what is wrong in the fields of this view, in a dry run too. Raises InvalidInputs."""

    def find(self, request: Request, action: str, values: Mapping[str, Any], body: Mapping[str, Any]) -> Sequence[UUID]:
        raise NotImplementedError

    def counted(self, found: Sequence[UUID]) -> dict[str, Any]:
        """What is said of how many were found."""
        return {"matched": len(found)}

    def goes_on(self, found: Sequence[UUID], handled: int) -> dict[str, Any]:
        """What the next request needs to go on."""
        return {}

    def act(self, request: Request, action: str, found: Sequence[UUID], body: Mapping[str, Any]) -> bulk.Done:
        raise NotImplementedError


class BulkTasks(_BulkView):
    filters = TaskFilters
    actions = TASK_ACTIONS
    fields = (*FIELDS, "note")

    @documented("Act on tasks by filter", takes="BulkTasks", gives="BulkAnswer", fails=(409,))
    def post(self, request: Request) -> Response:
        """Pause, resume, trigger or delete all tasks that the filter finds, at most 10,000 at a time, in batches.

        A dry run counts. With its count as `expected_count`, nothing is done when it is another one by then. What is
        refused is listed and hinders nothing else.
        """
        return self.answer(request)

    def check(self, body: Mapping[str, Any]) -> None:
        check_note(_note(body))

    def find(self, request: Request, action: str, values: Mapping[str, Any], body: Mapping[str, Any]) -> Sequence[UUID]:
        rows: QuerySet[Task] = applied(self.filters, values, TASKS.all(principal(request)))
        return list(rows.order_by("id").values_list("id", flat=True))

    def act(self, request: Request, action: str, found: Sequence[UUID], body: Mapping[str, Any]) -> bulk.Done:
        return act_on_tasks(principal=principal(request), action=action, identities=found, note=_note(body))


def _note(body: Mapping[str, Any]) -> Any:
    return "" if body.get("note") is None else body["note"]


class BulkExecutions(_BulkView):
    filters = ExecutionFilters
    actions = bulk.ACTIONS
    fields = (*FIELDS, "behind", "current_version")

    @documented("Act on executions by filter", takes="BulkExecutions", gives="BulkExecutionsAnswer", fails=(409,))
    def post(self, request: Request) -> Response:
        """Cancel, or run again, all executions that the filter finds, the latest scheduled first, in batches.

        Without `status`, a cancel means what has not ended and a retry what has; without `since`, of the last 35 days
        and all that is ahead. Count first, as with tasks; counting ends at 10,000, and `more` says so. A request acts
        for a few seconds, and one with an Idempotency-Key, which is one transaction, on 500 executions: where
        `behind` is no null, the same request with this `behind` goes on there. What runs again does so under the
        version that it had, or, with `current_version`, the one that its task has now.
        """
        return self.answer(request)

    def check(self, body: Mapping[str, Any]) -> None:
        _behind(body)
        flag(body, "current_version")

    def find(self, request: Request, action: str, values: Mapping[str, Any], body: Mapping[str, Any]) -> Sequence[UUID]:
        asked: dict[str, Any] = {"action": action, "wanted": wanted(values), "behind": _behind(body)}
        return bulk.find(principal=principal(request), **asked, limit=bulk.MOST + 1)

    def counted(self, found: Sequence[UUID]) -> dict[str, Any]:
        return {"matched": min(len(found), bulk.MOST), "more": len(found) > bulk.MOST}

    def act(self, request: Request, action: str, found: Sequence[UUID], body: Mapping[str, Any]) -> bulk.Done:
        retry = retry_renewed if flag(body, "current_version") else run_again.retry
        in_one = HEADER in request.headers
        return bulk.act(
            principal=principal(request),
            action=action,
            identities=found[: bulk.BATCH] if in_one else found,
            seconds=None if in_one else bulk.ACT_SECONDS,
            retry=retry,
        )

    def goes_on(self, found: Sequence[UUID], handled: int) -> dict[str, Any]:
        return {"behind": str(found[handled - 1]) if 0 < handled < len(found) else None}


def _behind(body: Mapping[str, Any]) -> UUID | None:
    given = body.get("behind")
    found = parse_uuid(given) if isinstance(given, str) else None
    if given is not None and found is None:
        raise InvalidInput("/behind", given, "is not an id", "what the answer before said, or null")
    return found


class CreateTasks(ApiView):
    @documented("Define many tasks", takes="TaskBatch", gives="CreatedTasks")
    def post(self, request: Request) -> Response:
        """Each item stands for itself: the answer has its status, its id or its errors, in the items' order."""
        items = body_object(request, fields=("items",)).get("items")
        if not isinstance(items, list) or not 1 <= len(items) <= MOST_CREATED:
            raise InvalidInput("/items", None, "must be a list of tasks", f"1 to {MOST_CREATED} tasks")
        return Response({"items": [self._create(request, item) for item in items]})

    def _create(self, request: Request, item: Any) -> dict[str, Any]:
        try:
            with transaction.atomic():
                made = services.create_task(principal=principal(request), data=item)
        except ChronowebError as refused:
            answer = problems.handle(refused, {})
            return {"status": answer.status_code, "problem": answer.data}
        return {"status": 201, "id": str(made.id), "name": made.name}


def read_filter(filters: type[Filters], given: Any) -> dict[str, Any]:
    """The values of a filter in a body. It must be there: everything is {}. Raises InvalidInputs ("/filter/paused")."""
    legal = sorted(filters.base_filters)
    if not isinstance(given, Mapping):
        raise InvalidInput("/filter", given, "must be an object of filters; {} finds everything", legal)
    if unknown := [name for name in given if name not in legal]:
        raise InvalidInputs([InvalidInput(f"/filter/{n[:80]}", given[n], "is not a filter", legal) for n in unknown])
    try:
        return read(filters, _Texts(given))
    except InvalidInputs as wrong:
        raise InvalidInputs(
            [
                InvalidInput(f"/filter/{problems.parameter_of(e)}", given[problems.parameter_of(e)], e.problem, e.legal)
                for e in wrong.errors
            ]
        ) from None


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise InvalidInput(f"/filter/{name}", value, "must be text, true, false, or a list of texts", "as in a URL")
    return value
