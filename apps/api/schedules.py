"""/api/v1/schedules: what a schedule would do, before it is anybody's."""

from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import queries, representations
from apps.api.authentication import principal
from apps.api.base import ApiView, given
from apps.api.dags import DAGS
from apps.api.definitions import Kind
from apps.api.openapi.declare import Operation, declared, documented
from apps.api.openapi.shapes import whole
from apps.api.tasks import TASKS
from apps.definitions import json_values
from apps.definitions.occurrences import TZDATA_VERSION, Schedule, describe, occurrences
from apps.definitions.schedule_input import Reader
from apps.tenants.models import Role
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

DEFAULT_COUNT = 5
LARGEST_COUNT = 1000
FARTHEST = timedelta(days=36_525)
"""A preview looks a century ahead: a thousand 29 Februaries would keep the process busy for seconds."""

_OWN = ("after", "count")


class PreviewSchedule(ApiView):
    """The first `count` occurrences after `after` (exclusive; now if not given), within a century. Writes nothing."""

    def needed_role(self, request: Request) -> Role:
        return Role.VIEWER

    @documented("Preview a schedule", takes="SchedulePreviewInput", gives="SchedulePreview")
    def post(self, request: Request) -> Response:
        data = given(request)
        if not isinstance(data, dict):
            raise InvalidInput("", data, "must be a JSON object", "the fields of a schedule, after, count")
        errors = list(json_values.problems(data))
        own = Reader({name: data.get(name) for name in _OWN})
        count = own.whole("count", 1, LARGEST_COUNT) or DEFAULT_COUNT
        zone_name = data.get("timezone") if isinstance(data.get("timezone"), str) else "UTC"
        try:
            schedule = Schedule.parse({name: value for name, value in data.items() if name not in _OWN})
        except InvalidInputs as found:
            errors += found.errors
            zone_name = None
        after = own.moment("after", zone_name, last_pass=False) or SYSTEM_CLOCK.now()
        if errors + own.errors:
            raise InvalidInputs(errors + own.errors)
        return Response(preview(schedule, after=after, count=count))


def preview(schedule: Schedule, *, after: datetime, count: int) -> dict[str, Any]:
    """The first `count` occurrences after `after`, and the schedule in words."""
    ahead = occurrences(schedule, after=after, before=after + FARTHEST, limit=count)
    return {
        "fire_times": [representations.moment(at) for at in ahead],
        "description": describe(schedule),
        "timezone": schedule.timezone,
        "tzdata": TZDATA_VERSION,
    }


class NextOfDefinition(ApiView):
    """The next `count` occurrences of its schedule, within a century; paused_at says whether it is paused."""

    query_parameters = ("count",)
    kind: ClassVar[Kind]

    def get(self, request: Request, **which: UUID) -> Response:
        row = self.kind.find(principal(request), **which)
        count = queries.whole(request, "count", largest=LARGEST_COUNT, default=DEFAULT_COUNT)
        shown = preview(Schedule.parse(row.schedule), after=SYSTEM_CLOCK.now(), count=count)
        return Response({**shown, "paused_at": representations.moment(row.paused_at)})


def next_times(summary: str) -> dict[str, Operation]:
    """How it is described."""
    count = {**whole(1, LARGEST_COUNT), "default": DEFAULT_COUNT}
    return {"get": declared(summary, gives="NextTimes", parameters={"count": count})}


class NextOfTask(NextOfDefinition):
    kind = TASKS
    declares = next_times("See when a task runs next")


class NextOfDag(NextOfDefinition):
    kind = DAGS
    declares = next_times("See when a DAG runs next")
