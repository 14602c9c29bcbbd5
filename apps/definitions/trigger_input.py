"""One trigger's JSON object, read: when, with what, under which key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.definitions import json_values
from apps.definitions.models import Dag, Task
from apps.definitions.plans import ONE_SHOT_GRACE
from apps.definitions.schedule_input import Reader
from apps.definitions.validation import check_parameters
from apps.executions import concurrency, idempotency, ids
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

FARTHEST = timedelta(days=400)
FIELDS = ("run_at", "parameters", "idempotency_key")


@dataclass(slots=True)
class Item:
    """One trigger, read. concurrency_key: what its parameters come to. question: what an idempotency key stands for."""

    run_at: datetime
    payload: bytes | None
    key: str | None
    concurrency_key: str | None
    question: str = field(default="", compare=False)


def read_items(task: Task | Dag, items: Sequence[Any], pointers: Sequence[str], *, now: datetime) -> list[Item]:
    errors: list[InvalidInput] = []
    read = [_read_item(task, item, at, now, errors) for item, at in zip(items, pointers, strict=True)]
    if errors:
        raise InvalidInputs(errors)
    return [item for item in read if item is not None]


def _read_item(task: Task | Dag, item: Any, at: str, now: datetime, errors: list[InvalidInput]) -> Item | None:
    if not isinstance(item, Mapping):
        errors.append(InvalidInput(at, item, "must be an object", ", ".join(FIELDS)))
        return None
    found: list[InvalidInput] = []
    for name in item:
        if name not in FIELDS:
            legal = ", ".join(FIELDS)
            found.append(InvalidInput(f"/{json_values.escape(str(name))}", None, "is not a field of a trigger", legal))
    parameters, key = item.get("parameters"), item.get("idempotency_key")
    unsound = list(json_values.problems({name: item.get(name) for name in ("parameters", "idempotency_key")}))
    found += unsound
    if not unsound and parameters is not None and (error := check_parameters(parameters, "/parameters")):
        found.append(error)
    if not unsound and key is not None and (not isinstance(key, str) or not 1 <= len(key) <= idempotency.LONGEST_KEY):
        legal = f"1 to {idempotency.LONGEST_KEY} characters"
        found.append(InvalidInput("/idempotency_key", key, "must be a text", legal))
    concurrency_key = None
    if not found:
        concurrency_key = _concurrency_key(task, parameters, found)
    run_at = _run_at(task, item, now, found)
    errors += [InvalidInput(at + e.pointer, e.value, e.problem, e.legal) for e in found]
    if found:
        return None
    payload = None if parameters is None else json_values.compact(parameters)
    question = ""
    if key is not None:
        moment = item["run_at"].isoformat() if isinstance(item.get("run_at"), datetime) else item.get("run_at")
        question = idempotency.digest(task.id.bytes, json_values.canonical([moment, parameters]))
    return Item(run_at, payload, key, concurrency_key, question)


def _concurrency_key(task: Task | Dag, parameters: Any, found: list[InvalidInput]) -> str | None:
    if isinstance(task, Dag):
        return None  # its nodes have keys of their own
    given = task.parameters if parameters is None else parameters
    try:
        return concurrency.key_of(task.concurrency, given, tenant_id=task.tenant_id.bytes)
    except InvalidInputs as errors:
        found += [InvalidInput(f"/parameters{e.pointer}", e.value, e.problem, e.legal) for e in errors.errors]
        return None


def past_problem(item: Item, at: str, *, now: datetime) -> InvalidInput | None:
    """What is wrong with an item that turned out to be new, although it has a key."""
    if item.key is None or item.run_at >= now - ONE_SHOT_GRACE:
        return None
    legal = f"from {ONE_SHOT_GRACE.total_seconds():g} s ago to {FARTHEST.days} days ahead"
    return InvalidInput(f"{at}/run_at", item.run_at.isoformat(), "is in the past", legal)


def _run_at(task: Task | Dag, item: Mapping[str, Any], now: datetime, found: list[InvalidInput]) -> datetime:
    if item.get("run_at") is None:
        return ids.from_ms(ids.to_ms(now))
    reader = Reader(item)
    moment = reader.moment("run_at", task.schedule.get("timezone") or "UTC", last_pass=False)
    found += reader.errors
    if moment is None:
        return now
    legal = f"from {ONE_SHOT_GRACE.total_seconds():g} s ago to {FARTHEST.days} days ahead"
    # With a key this may be an old question asked again: whether it is new is known only later.
    if moment < now - ONE_SHOT_GRACE and item.get("idempotency_key") is None:
        found.append(InvalidInput("/run_at", item["run_at"], "is in the past", legal))
    elif moment > now + FARTHEST:
        found.append(InvalidInput("/run_at", item["run_at"], "is too far ahead", legal))
    return moment
