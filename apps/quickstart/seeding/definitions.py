"""Tasks and their versions: a few that the service makes, and a hundred thousand like them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import cycle, islice, product
from random import Random
from secrets import token_hex
from typing import Any

import psycopg

from apps.definitions import services
from apps.definitions.occurrences import Schedule, next_occurrence
from apps.executions import ids
from apps.executions.states import ExecutionClass
from apps.quickstart.seeding import lines
from apps.tenants.principal import Principal
from chronoweb.runtime.config import config

AREAS = ("billing", "crm", "fraud", "inventory", "mail", "pricing", "reports", "search", "shipping", "warehouse")
ACTS = ("archive", "clean", "export", "import", "merge", "notify", "reconcile", "refresh", "score", "sync")
THINGS = ("accounts", "carts", "events", "invoices", "ledgers", "orders", "parcels", "quotes", "stock", "users")
_WORDS = tuple(product(AREAS, ACTS, THINGS))
_ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Tokyo")
_PAUSED_SHARE = 0.04
_VERSIONED_SHARE = 0.1
_ANCHOR = "7 5 * * *"


@dataclass(frozen=True, slots=True)
class Made:
    """What executions need to know of a task. mark: three hexadecimal digits that its executions' ids carry."""

    id: str
    mark: str
    version: str
    class_index: int
    priority: int
    paused: bool


def templates() -> list[dict[str, Any]]:
    """Documents as the API takes them; the first is the pattern of all with a cron expression."""
    noop = {"type": "python", "name": "demo.noop"}
    hook = {"type": "webhook", "url": "https://hooks.example.com/run", "method": "POST"}
    cron = {"type": "cron", "expression": _ANCHOR, "timezone": "UTC"}
    common: dict[str, Any] = {"tags": ["nightly"], "description": "Seeded."}
    return [
        {**common, "name": "seed-cron", "schedule": cron, "handler": noop, "priority": 5},
        {**common, "name": "seed-cron-urgent", "schedule": cron, "handler": hook, "priority": 2},
        {**common, "name": "seed-cron-bulk", "schedule": cron, "handler": noop, "priority": 9},
        {**common, "name": "seed-manual", "schedule": {"type": "manual"}, "handler": noop, "priority": 5},
    ]


def expressions(random: Random, count: int = 480) -> list[tuple[str, str]]:
    """(cron expression, zone): a nightly and an hourly crowd, and some that fire often."""

    def number(below: int) -> int:
        return random.randrange(below)

    found = [(f"{number(60)} {number(24)} * * *", random.choice(_ZONES)) for _ in range(count // 2)]
    found += [(f"{number(60)} * * * *", "UTC") for _ in range(count // 4)]
    found += [(f"{number(60)} {number(24)} * * {number(7)}", "UTC") for _ in range(count // 8)]
    return found + [(f"*/{every} * * * *", "UTC") for every in (5, 10, 15, 20, 30)]


def seed_tasks(
    connection: psycopg.Connection,
    principal: Principal,
    count: int,
    *,
    random: Random,
    now: datetime,
    done: Callable[[int], None],
) -> list[Made]:
    """`count` tasks of the tenant; by template, with versions of their own."""
    patterns = [_pattern(connection, principal, document) for document in templates()]
    first = _reserve(connection, "task_versions", count)
    pairs = list(islice(_pairs(patterns, first, count, random, now), count))
    lines.write(connection, "task_versions", (version for _, version, _ in pairs))
    lines.write(connection, "tasks", (task for task, _, _ in pairs), done=done)
    return [made for _, _, made in pairs]


def _pattern(
    connection: psycopg.Connection, principal: Principal, document: dict[str, Any]
) -> tuple[lines.Row, lines.Row]:
    """A task that the service makes, as a line, and its version."""
    named = {**document, "name": f"{document['name']}-{token_hex(4)}"}
    task = services.create_task(principal=principal, data=named)
    [row] = lines.read(connection, "SELECT * FROM tasks WHERE id = %(id)s", {"id": task.id})
    [version] = lines.read(connection, "SELECT * FROM task_versions WHERE id = %(id)s", {"id": task.version_id})
    return row, version


def _pairs(
    patterns: list[tuple[lines.Row, lines.Row]], first: int, count: int, random: Random, now: datetime
) -> Iterator[tuple[lines.Row, lines.Row, Made]]:
    now_ms, pool = ids.to_ms(now), expressions(random)
    planned = now + timedelta(minutes=config().lookahead_minutes - 5)
    run = f"{random.getrandbits(20):05x}"
    for number, (area, act, thing) in zip(range(count), cycle(_WORDS), strict=False):
        task, version = patterns[random.choices((0, 1, 2, 3), (70, 8, 12, 10))[0]]
        expression, zone = random.choice(pool)
        changed = now_ms - random.randrange(30 * ids.MILLISECONDS_A_DAY)
        identity = ids.new_id(changed)
        paused = random.random() < _PAUSED_SHARE
        name = f"{area}-{act}-{thing}-{run}-{number:06d}"
        changes = {
            "name": name,
            "tags": lines.array([area, act] if number % 3 else [area]),
            "description": f"{act.capitalize()}s {thing} of {area}.",
        }
        fires = task["next_fire_at"] != lines.NULL
        row = task | changes | {"id": identity.hex(), "version_id": str(first + number)}
        row |= {"created_at": lines.instant(changed), "updated_at": lines.instant(changed)}
        row["schedule"] = _timed(task["schedule"], expression, zone)
        row["next_fire_at"] = lines.instant(_next(expression, zone, planned)) if fires else lines.NULL
        row["paused_at"] = lines.instant(changed) if paused else lines.NULL
        row["paused_note"] = "upstream moves to another region" if paused else ""
        definition = json.loads(version["definition"].replace("\\\\", "\\"))
        definition |= {"name": name, "schedule": json.loads(row["schedule"].replace("\\\\", "\\"))}
        kept = version | {"id": str(first + number), "task_id": identity.hex(), "name": name}
        kept |= {"definition": lines.document(definition), "created_at": lines.instant(changed)}
        yield row, kept, _made(identity, first + number, int(task["priority"]), paused)


def _made(identity: bytes, version: int, priority: int, paused: bool) -> Made:
    mark = (identity[14] & 15) << 8 | identity[15]
    return Made(
        id=identity.hex(),
        mark=f"{mark:03x}",
        version=str(version),
        class_index=int(ExecutionClass.of_priority(priority)),
        priority=priority,
        paused=paused,
    )


def _timed(schedule: str, expression: str, zone: str) -> str:
    return schedule.replace(f'"{_ANCHOR}"', f'"{expression}"').replace('"UTC"', f'"{zone}"')


@cache
def _next(expression: str, zone: str, after: datetime) -> int:
    schedule = Schedule.parse({"type": "cron", "expression": expression, "timezone": zone})
    found = next_occurrence(schedule, after=after.astimezone(UTC))
    assert found is not None
    return ids.to_ms(found)


def _reserve(connection: psycopg.Connection, table: str, count: int) -> int:
    """The first of `count` numbers that nobody else gets."""
    sequence = "pg_get_serial_sequence(%(table)s, 'id')"
    row = connection.execute(
        f"SELECT setval({sequence}, nextval({sequence}) + %(count)s)", {"table": table, "count": count}
    ).fetchone()
    assert row is not None
    last: int = row[0]
    return last - count
