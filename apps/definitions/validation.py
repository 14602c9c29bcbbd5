"""A task's JSON document: read as a whole, every error told at once, defaults filled in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apps.definitions import json_values
from apps.definitions.contradictions import contradictions
from apps.definitions.models import OVERLAP_POLICIES
from apps.definitions.notifications import read_notifications
from apps.definitions.occurrences import Schedule
from apps.definitions.plans import ONE_SHOT_GRACE
from apps.definitions.reading import OWN, DocumentReader
from apps.definitions.timeouts import read_timeouts
from apps.executions import handler_signatures
from apps.executions.command_limits import caps
from apps.executions.concurrency import key_of, read_concurrency
from apps.executions.handler_spec import validate_handler
from apps.executions.labels import read_requires
from apps.executions.retry import RetryPolicy
from apps.executions.secret_references import PLACES, mentioned, written
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import Contradiction, InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import Resolve, system_resolve

DEFAULTS: dict[str, Any] = {
    "description": "",
    "tags": [],
    "priority": 5,
    "strict_timing": False,
    "overlap_policy": "skip",
    "catchup_seconds": 3600,
    "concurrency": None,
    "parameters": {},
    "timeout_seconds": 300,
    "timeouts": {},
    "retry_policy": {},
    "idempotent": True,
    "requires": [],
    "notifications": {},
}
REQUIRED = ("name", "schedule", "handler")
FIELDS = (
    *("name", "description", "tags", "priority", "schedule", "strict_timing", "overlap_policy", "catchup_seconds"),
    *("concurrency", "handler", "parameters", "timeout_seconds", "timeouts", "retry_policy", "idempotent", "requires"),
    "notifications",
)
"""In the order in which the API shows them."""

DESCRIPTION_CHARACTERS = 10_000
MAX_CATCHUP_SECONDS = 604_800  # the days for which partitions are kept behind
MAX_TIMEOUT_SECONDS = 86_400


def read_document(
    data: Any,
    *,
    now: datetime,
    before: Mapping[str, Any] | None = None,
    resolve: Resolve = system_resolve,
    sound: bool = False,
) -> dict[str, Any]:
    """The canonical document: every field of FIELDS, in that order.

    A field that is absent or null takes its default. now: the database's, aware. before: the document in force, when
    it is an edit: a schedule or handler that stays as it was is not judged anew, so that a one-shot that has fired,
    or a webhook whose host has moved, can still be renamed; nor are parameters that were accepted with that handler.
    resolve: how a webhook's host is looked up. sound: the values have been through json_values already.
    Raises InvalidInputs with JSON pointers.
    """
    if not isinstance(data, Mapping):
        raise InvalidInputs([InvalidInput("", data, "a task is a JSON object", ", ".join(FIELDS))])
    reader = _Reader(data, what="a task", fields=FIELDS, required=REQUIRED, defaults=DEFAULTS, sound=sound, hints=OWN)
    values = {
        "name": reader.name(),
        "description": reader.text("description", DESCRIPTION_CHARACTERS),
        "tags": reader.tags(),
        "priority": reader.whole("priority", 1, 10),
        "schedule": reader.kept("schedule", before) or reader.schedule(now),
        "strict_timing": reader.boolean("strict_timing"),
        "overlap_policy": reader.choice("overlap_policy", OVERLAP_POLICIES),
        "catchup_seconds": reader.whole("catchup_seconds", 0, MAX_CATCHUP_SECONDS),
        "concurrency": reader.nested("concurrency", read_concurrency),
        "handler": reader.kept("handler", before) or reader.handler(resolve),
        "parameters": reader.parameters(),
        "timeout_seconds": reader.whole("timeout_seconds", 1, MAX_TIMEOUT_SECONDS),
        "timeouts": reader.nested("timeouts", read_timeouts),
        "retry_policy": reader.nested("retry_policy", lambda given: RetryPolicy.parse(given).to_json()),
        "idempotent": reader.boolean("idempotent"),
        "requires": reader.nested("requires", read_requires),
        "notifications": reader.nested("notifications", read_notifications),
    }
    if before is None or any(values[name] != before[name] for name in ("handler", "parameters")):
        reader.errors += _misfits(values["handler"], values["parameters"])
    reader.errors += _keyless(values["concurrency"], values["parameters"])
    if before is None or values["parameters"] != before["parameters"]:
        reader.errors += _secrets_in(values["parameters"])
    if reader.errors:
        raise InvalidInputs(reader.errors)
    if problem := _contradiction(values, data, before):
        raise problem
    return values


def _secrets_in(parameters: Any) -> list[InvalidInput]:
    """Parameters are stored and shown as they are, so a reference there would promise what it does not keep."""
    legal = f"a reference in the handler's {', '.join(PLACES)}"
    return [
        InvalidInput(f"/parameters{at}", written(name), "refers to a secret, which parameters cannot", legal)
        for at, name in mentioned(parameters)
    ]


def _contradiction(
    values: Mapping[str, Any], data: Mapping[str, Any], before: Mapping[str, Any] | None
) -> Contradiction | None:
    """Of what this document says; what was accepted before stays so while none of it changes."""
    limits = ("timeout_seconds", "timeouts", "handler")
    if before is not None and all(values[name] == before.get(name) for name in limits):
        return None
    stated = {name for name in limits if data.get(name) is not None}
    if before is not None and values["timeout_seconds"] == before.get("timeout_seconds") == DEFAULTS["timeout_seconds"]:
        stated.discard("timeout_seconds")  # a partial edit brings it along
    return contradictions(values, stated=stated)


def _misfits(handler: Any, parameters: Any) -> list[InvalidInput]:
    """Where the parameters do not fit the handler's function, if that is known here."""
    if handler is None or handler["type"] != "python" or not isinstance(parameters, Mapping):
        return []
    signature = handler_signatures.signature_of(handler["name"])
    found = [] if signature is None else handler_signatures.misfits(signature, parameters)
    return [InvalidInput(f"/parameters{e.pointer}", e.value, e.problem, e.legal) for e in found]


def _keyless(concurrency: Any, parameters: Any) -> list[InvalidInput]:
    """What the parameters lack for the concurrency key: what no trigger gives must be there."""
    if not isinstance(parameters, Mapping):
        return []
    try:
        key_of(concurrency, parameters, tenant_id=b"")
    except InvalidInputs as errors:
        return [InvalidInput(f"/parameters{e.pointer}", e.value, e.problem, e.legal) for e in errors.errors]
    return []


def check_parameters(value: Any, pointer: str) -> InvalidInput | None:
    """What is wrong with parameters of a task or of one trigger; their inner values are json_values' business."""
    if not isinstance(value, Mapping):
        return InvalidInput(pointer, value, "must be a JSON object", "an object such as {}")
    size = len(json_values.compact(value))
    if size > config().payload_bytes:
        legal = f"at most {config().payload_bytes} bytes"
        return InvalidInput(pointer, None, f"is {size} bytes of JSON", legal)
    return None


class ScheduleReader(DocumentReader):
    """Reads a schedule too."""

    def schedule(self, now: datetime) -> dict[str, Any] | None:
        def parse(given: Any) -> dict[str, Any]:
            schedule = Schedule.parse(given)
            if schedule.run_at is not None and schedule.run_at < now - ONE_SHOT_GRACE:
                grace = f"at the earliest {ONE_SHOT_GRACE.total_seconds():g} s ago"
                raise InvalidInput("/run_at", given["run_at"], "is in the past, so it would never fire", grace)
            return schedule.to_json()

        return self.nested("schedule", parse)


class _Reader(ScheduleReader):
    """A task's own fields."""

    def handler(self, resolve: Resolve) -> dict[str, Any] | None:
        settings = config()
        networks, largest = settings.outbound_allowed_networks, caps(settings)
        return self.nested(
            "handler",
            lambda given: validate_handler(given, allowed_networks=networks, command_caps=largest, resolve=resolve),
        )

    def parameters(self) -> Any:
        value = self.get("parameters")
        if value is not None and (error := check_parameters(value, "/parameters")):
            self.errors.append(error)
        return value
