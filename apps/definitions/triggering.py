"""Manual triggers: executions that a person or a program asks for, one or ten thousand at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions import json_values
from apps.definitions.models import Task
from apps.definitions.plans import ONE_SHOT_GRACE, plan_of
from apps.definitions.schedule_input import Reader
from apps.definitions.tasks import live_tasks
from apps.definitions.validation import check_parameters
from apps.executions import feed, idempotency, ids, partitions, person_store, store
from apps.executions.models import Execution
from apps.executions.rows import NewExecution
from apps.executions.states import Origin
from apps.tenants import audit
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped_get
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

MOST_ITEMS = 10_000
FARTHEST = timedelta(days=400)
ITEM_FIELDS = ("run_at", "parameters", "idempotency_key")


@dataclass(slots=True)
class _Item:
    """One trigger, read. question: what an idempotency key stands for."""

    run_at: datetime
    payload: bytes | None
    key: str | None
    question: str = field(default="", compare=False)


def trigger(
    *,
    principal: Principal,
    task_id: UUID,
    run_at: Any = None,
    parameters: Any = None,
    idempotency_key: Any = None,
) -> UUID:
    """Ask for one execution, now or at `run_at`; the task's overlap policy applies. Returns the execution's id.

    run_at: as in JSON (ISO 8601; without offset in the schedule's zone) or an aware datetime; up to 60 s ago, at most
    400 days ahead. parameters: instead of the task's own. idempotency_key: the same key with the same item is the same
    execution. A paused task runs all the same. Raises InvalidInputs, NotFound.
    """
    item = {"run_at": run_at, "parameters": parameters, "idempotency_key": idempotency_key}
    return _trigger(principal, task_id, [item], pointers=[""], overlap=True)[0]


def trigger_batch(*, principal: Principal, task_id: UUID, items: Any) -> list[UUID]:
    """Ask for up to 10,000 executions at once: all of them or, with InvalidInputs ("/items/3/run_at"), none.

    The task's overlap policy does not apply. Returns ids in the items' order.
    """
    if not isinstance(items, list) or not 1 <= len(items) <= MOST_ITEMS:
        problem = f"has {len(items)} items" if isinstance(items, list) else "must be a list"
        raise InvalidInputs([InvalidInput("/items", None, problem, f"a list of 1 to {MOST_ITEMS} items")])
    pointers = [f"/items/{position}" for position in range(len(items))]
    return _trigger(principal, task_id, items, pointers=pointers, overlap=False)


@transaction.atomic
def _trigger(
    principal: Principal, task_id: UUID, items: Sequence[Any], *, pointers: Sequence[str], overlap: bool
) -> list[UUID]:
    connection = postgres.raw(django_connection)
    task = _held_task(principal, task_id)
    now = person_store.database_now(connection)
    read = _read_items(task, items, pointers, now=now)
    rows = _rows(task, read, overlap=overlap)
    answers = _answers(connection, task, read, rows, pointers)
    _ensure_partitions(rows, now)
    wanted = {row.id: row for row in rows if row.id in answers.new}
    if refused := set(wanted) - store.insert(connection, list(wanted.values())):
        _point_to_existing(answers, [wanted[identity] for identity in refused])
    if answers.new:
        audit.record(
            tenant_id=principal.tenant_id,
            actor=principal.actor,
            action="task.trigger",
            target_type="task",
            target_id=task.id,
            detail={"executions": len(answers.new), "first": str(UUID(bytes=rows[0].id))},
        )
        transaction.on_commit(wakeup.preloader.wake)
        transaction.on_commit(lambda: feed.changed(principal.tenant_id, answers.new))
    return answers.ids


def _held_task(principal: Principal, task_id: UUID) -> Task:
    """The task, kept from being edited or deleted until the transaction ends; triggers do not hinder each other, nor
    the preloader.
    """
    with django_connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM tasks WHERE id = %s FOR KEY SHARE", [task_id])
    return scoped_get(live_tasks(), principal, what="task", id=task_id)


# ---- reading ------------------------------------------------------------------------------------------------------


def _read_items(task: Task, items: Sequence[Any], pointers: Sequence[str], *, now: datetime) -> list[_Item]:
    errors: list[InvalidInput] = []
    read = [_read_item(task, item, at, now, errors) for item, at in zip(items, pointers, strict=True)]
    if errors:
        raise InvalidInputs(errors)
    return [item for item in read if item is not None]


def _read_item(task: Task, item: Any, at: str, now: datetime, errors: list[InvalidInput]) -> _Item | None:
    if not isinstance(item, Mapping):
        errors.append(InvalidInput(at, item, "must be an object", ", ".join(ITEM_FIELDS)))
        return None
    found: list[InvalidInput] = []
    for name in item:
        if name not in ITEM_FIELDS:
            legal = ", ".join(ITEM_FIELDS)
            found.append(InvalidInput(f"/{json_values.escape(str(name))}", None, "is not a field of a trigger", legal))
    parameters, key = item.get("parameters"), item.get("idempotency_key")
    unsound = list(json_values.problems({name: item.get(name) for name in ("parameters", "idempotency_key")}))
    found += unsound
    if not unsound and parameters is not None and (error := check_parameters(parameters, "/parameters")):
        found.append(error)
    if not unsound and key is not None and (not isinstance(key, str) or not 1 <= len(key) <= idempotency.LONGEST_KEY):
        legal = f"1 to {idempotency.LONGEST_KEY} characters"
        found.append(InvalidInput("/idempotency_key", key, "must be a text", legal))
    run_at = _run_at(task, item, now, found)
    errors += [InvalidInput(at + e.pointer, e.value, e.problem, e.legal) for e in found]
    if found:
        return None
    payload = None if parameters is None else json_values.compact(parameters)
    question = ""
    if key is not None:
        moment = item["run_at"].isoformat() if isinstance(item.get("run_at"), datetime) else item.get("run_at")
        question = idempotency.digest(task.id.bytes, json_values.canonical([moment, parameters]))
    return _Item(run_at, payload, key, question)


def _run_at(task: Task, item: Mapping[str, Any], now: datetime, found: list[InvalidInput]) -> datetime:
    if item.get("run_at") is None:
        return ids.from_ms(ids.to_ms(now))
    reader = Reader(item)
    moment = reader.moment("run_at", task.schedule.get("timezone") or "UTC", last_pass=False)
    found += reader.errors
    if moment is None:
        return now
    legal = f"from {ONE_SHOT_GRACE.total_seconds():g} s ago to {FARTHEST.days} days ahead"
    if moment < now - ONE_SHOT_GRACE:
        found.append(InvalidInput("/run_at", item["run_at"], "is in the past", legal))
    elif moment > now + FARTHEST:
        found.append(InvalidInput("/run_at", item["run_at"], "is too far ahead", legal))
    return moment


# ---- writing ------------------------------------------------------------------------------------------------------


def _rows(task: Task, items: Sequence[_Item], *, overlap: bool) -> list[NewExecution]:
    plan = plan_of(task)
    if not overlap:
        plan["slot_key"] = None
    identities = ids.new_ids(ids.to_ms(item.run_at) for item in items)
    rows = []
    for identity, item in zip(identities, items, strict=True):
        moment = ids.to_us(item.run_at)
        rows.append(
            NewExecution(
                id=identity,
                scheduled_us=moment,
                run_us=moment,
                nominal_us=moment,
                origin=Origin.MANUAL,
                # "#" keeps callers' keys apart from those of occurrences, which have "@".
                idempotency_key=str(UUID(bytes=identity)) if item.key is None else f"{task.id}#{item.key}",
                payload=item.payload,
                **plan,
            )
        )
    return rows


@dataclass(slots=True)
class _Answers:
    """ids: one for each item. new: ids of the rows that are still to be inserted."""

    ids: list[UUID]
    new: set[bytes]


def _answers(
    connection: Any, task: Task, items: Sequence[_Item], rows: Sequence[NewExecution], pointers: Sequence[str]
) -> _Answers:
    """Which items are new, and which ask again for an execution that is there."""
    firsts: dict[str, int] = {}
    errors = []
    for position, item in enumerate(items):
        if item.key is not None and items[firsts.setdefault(item.key, position)].question != item.question:
            errors.append(_key_error(item.key, pointers[position]))
    if errors:
        raise InvalidInputs(errors)
    used = idempotency.take(
        connection,
        tenant_id=task.tenant_id,
        keys={f"trigger:{task.id}:{key}": items[position].question for key, position in firsts.items()},
        answers=[(202, {"id": str(UUID(bytes=rows[position].id))}) for position in firsts.values()],
        days=config().idempotency_days,
    )
    answers = _Answers([], set())
    for position, (item, row) in enumerate(zip(items, rows, strict=True)):
        earlier = None if item.key is None else used.get(f"trigger:{task.id}:{item.key}")
        if earlier is not None and earlier.body_hash != item.question:
            errors.append(_key_error(item.key, pointers[position]))
        elif earlier is not None:
            answers.ids.append(UUID(earlier.body["id"]))
        else:
            first = rows[firsts[item.key]] if item.key is not None else row
            answers.ids.append(UUID(bytes=first.id))
            answers.new.add(first.id)
    if errors:
        raise InvalidInputs(errors)
    return answers


def _point_to_existing(answers: _Answers, rows: Sequence[NewExecution]) -> None:
    """Keys whose term is over, although what they asked for still stands in the ledger at that very time."""
    for row in rows:
        existing = Execution.objects.get(
            tenant_id=UUID(bytes=row.tenant_id),
            idempotency_key=row.idempotency_key,
            scheduled_at=ids.from_us(row.scheduled_us),
        )
        answers.new.discard(row.id)
        answers.ids = [existing.id if found.bytes == row.id else found for found in answers.ids]


def _key_error(key: str | None, pointer: str) -> InvalidInput:
    return InvalidInput(
        f"{pointer}/idempotency_key", key, "was used for another run_at or other parameters", "a key of its own"
    )


def _ensure_partitions(rows: Sequence[NewExecution], now: datetime) -> None:
    """Make the days that the keeper has not made yet; see docs/decisions for why they are not put off."""
    beyond = ids.day_of(now) + 1
    days = {ids.day(row.id) for row in rows}
    if max(days) > beyond:
        with postgres.connect_like_django("partitions") as connection:
            partitions.ensure(connection, [day for day in days if day > beyond])
