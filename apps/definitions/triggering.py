"""Manual triggers: executions that a person or a program asks for, one or ten thousand at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.models import Task
from apps.definitions.plans import plan_of
from apps.definitions.tasks import held_task
from apps.definitions.trigger_input import Item, past_problem, read_items
from apps.executions import feed, idempotency, ids, partitions, person_store, store
from apps.executions.models import Execution
from apps.executions.rows import NewExecution
from apps.executions.states import Origin
from apps.tenants import audit
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, trace, wakeup
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

MOST_DAYS_AHEAD = 31
"""Days of one request that may need partitions of their own: each costs three tables."""

MOST_ITEMS = 10_000


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


def trigger_all(principal: Principal, tasks: Sequence[Task], *, now: datetime) -> dict[UUID, InvalidInputs]:
    """Ask for one execution of each task, now, with its own parameters; overlap policies apply. The caller has locked
    them. Returns those whose parameters do not give what their concurrency key needs.
    """
    connection = postgres.raw(django_connection)
    rows, refused = [], {}
    for task in tasks:
        try:
            rows += _rows(task, read_items(task, [{}], [""], now=now), overlap=True)
        except InvalidInputs as errors:
            refused[task.id] = errors
    store.insert(connection, rows)
    audit.record_all(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action="task.trigger",
        target_type="task",
        target_ids=[task.id for task in tasks if task.id not in refused],
        detail={"executions": 1},
    )
    transaction.on_commit(wakeup.preloader.wake)
    transaction.on_commit(lambda: feed.changed(principal.tenant_id, [row.id for row in rows]))
    return refused


@transaction.atomic
def _trigger(
    principal: Principal, task_id: UUID, items: Sequence[Any], *, pointers: Sequence[str], overlap: bool
) -> list[UUID]:
    connection = postgres.raw(django_connection)
    task = held_task(principal, task_id)
    now = person_store.database_now(connection)
    read = read_items(task, items, pointers, now=now)
    rows = _rows(task, read, overlap=overlap)
    answers = _answers(connection, task, read, rows, pointers)
    late = [
        error
        for item, row, at in zip(read, rows, pointers, strict=True)
        if row.id in answers.new and (error := past_problem(item, at, now=now))
    ]
    if late:
        raise InvalidInputs(late)
    ensure_partitions([row.id for row in rows], now)
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


def _rows(task: Task, items: Sequence[Item], *, overlap: bool) -> list[NewExecution]:
    plan = plan_of(task)
    if not overlap:
        plan["slot_key"] = None
    identities = ids.new_ids((ids.to_ms(item.run_at) for item in items), of=plan["task_id"])
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
                traceparent=trace.current(),
                **{**plan, "concurrency_key": item.concurrency_key},
            )
        )
    return rows


@dataclass(slots=True)
class _Answers:
    """ids: one for each item. new: ids of the rows that are still to be inserted."""

    ids: list[UUID]
    new: set[bytes]


def _answers(
    connection: Any, task: Task, items: Sequence[Item], rows: Sequence[NewExecution], pointers: Sequence[str]
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


def ensure_partitions(identities: Sequence[bytes], now: datetime) -> None:
    """Make the days that the keeper has not made yet; see docs/decisions for why they are not put off."""
    beyond = ids.day_of(now) + 1
    days = {ids.day(identity) for identity in identities}
    ahead = [day for day in days if day > beyond]
    if len(ahead) > MOST_DAYS_AHEAD:
        problem = f"asks for work on {len(ahead)} different days ahead"
        raise InvalidInputs([InvalidInput("/items", None, problem, f"at most {MOST_DAYS_AHEAD} days in one request")])
    if ahead:
        with postgres.connect_like_django("partitions") as connection:
            partitions.ensure(connection, ahead)
