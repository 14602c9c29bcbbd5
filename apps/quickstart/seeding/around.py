"""What stands beside the ledger: tenants, a fleet that has come and gone, pauses, what people did."""

from collections.abc import Callable, Iterator
from random import Random

import psycopg

from apps.executions import ids
from apps.executions.models import WorkerState
from apps.executions.states import Hold
from apps.quickstart.seeding import lines
from apps.quickstart.seeding.definitions import Made
from apps.quickstart.seeding.lines import instant
from apps.tenants.models import UNLIMITED, Role, Tenant
from apps.tenants.principal import Principal

ACTOR = "seed"
_LIVE_WORKERS, _PAST_WORKERS = 12, 60
_ACTS = ("task.update", "task.pause", "task.resume", "task.trigger", "execution.cancel", "dead_letter.replay")
_PEOPLE = ("user:ada", "user:grace", "user:linus", "key:deploy")
AUDIT_SHARE = 20
"""Tasks and executions for each act that somebody did."""


def tenant_of(slug: str) -> Principal:
    """The tenant of this name, made where there is none; as its owner."""
    tenant, _ = Tenant.objects.get_or_create(slug=slug, defaults={"name": slug.capitalize(), **UNLIMITED})
    return Principal.in_tenant(tenant, role=Role.OWNER, actor=ACTOR)


def seed_workers(connection: psycopg.Connection, *, now_ms: int, random: Random) -> list[int]:
    """Live ones and some of the past; returns the live ones' ids. Their leases end within a minute."""
    rows = []
    for number in range(_PAST_WORKERS + _LIVE_WORKERS):
        alive = number >= _PAST_WORKERS
        began = now_ms - random.randrange(ids.MILLISECONDS_A_DAY) - (0 if alive else ids.MILLISECONDS_A_DAY)
        beat = now_ms if alive else began + 3_600_000
        rows.append(
            {
                "state": WorkerState.ACTIVE if alive else random.choice((WorkerState.STOPPED, WorkerState.LOST)),
                "host": f"worker-host-{number % 6}",
                "process_id": str(1000 + number),
                "slots": "64",
                "class_slots": "{38,16,10}",
                "class_used": f"{{{random.randrange(38)},{random.randrange(16)},{random.randrange(10)}}}",
                "labels": "{}",
                "started_at": instant(began),
                "heartbeat_at": instant(beat),
                "lease_expires_at": instant(beat + 60_000),
                "cpu_percent": str(random.randrange(100)),
                "memory_bytes": str(200_000_000),
                "active": str(random.randrange(60)),
                "completed_last_minute": str(random.randrange(900)),
                "errors_last_minute": str(random.randrange(9)),
            }
        )
    lines.write(connection, "workers", rows)
    found = connection.execute("SELECT id FROM workers ORDER BY id DESC LIMIT %s", (_LIVE_WORKERS,))
    return [row[0] for row in found]


def seed_pauses(connection: psycopg.Connection, tasks: list[Made], *, now_ms: int) -> None:
    """What pausing a task leaves for dispatchers to read."""
    columns = "target_id reason note actor since".split()
    paused = [task.id for task in tasks if task.paused]
    rest = (str(int(Hold.PAUSED)), "upstream moves to another region", "user:ada", instant(now_ms - 7_200_000))
    lines.write_lines(connection, "holds", columns, ("\t".join((task, *rest)) for task in paused))


def seed_audit(
    connection: psycopg.Connection,
    tenants: list[tuple[str, list[Made], int]],
    *,
    now_ms: int,
    days: int,
    random: Random,
    done: Callable[[int], None],
) -> None:
    """Acts of people: (tenant, its tasks, how many), oldest first."""

    def rows() -> Iterator[lines.Row]:
        for tenant_id, tasks, count in tenants:
            for number in range(count):
                at = now_ms - days * ids.MILLISECONDS_A_DAY * (count - number) // count
                yield {
                    "tenant_id": tenant_id,
                    "at": instant(at),
                    "actor": random.choice(_PEOPLE),
                    "action": random.choice(_ACTS),
                    "target_type": "task",
                    "target_id": random.choice(tasks).id,
                    "detail": "{}",
                }

    lines.write(connection, "audit_log", rows(), done=done)
