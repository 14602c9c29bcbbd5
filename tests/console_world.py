"""A tenant as it looks on a working day, for pictures of pages: schedules, runs, failures, workers, letters."""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from apps.definitions import backfills, services
from apps.definitions.models import BackfillState, Dag, Task
from apps.executions.models import Execution, Worker
from apps.executions.states import Hold, Status
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from tests.console_dags import SALES, Dags, layered
from tests.console_ledger import HOSTILE, Ledger, now
from tests.console_letters import letters

NOOP = {"type": "python", "name": "demo.noop"}
CRON = [
    ("cache-warm", "*/5 * * * *", "UTC", ["web"], "Fill the caches of the shop's first pages."),
    ("mail-digest", "0 8 * * *", "Asia/Seoul", ["mail", "daily"], "One mail a customer with what is new."),
    ("ledger-close", "0 2 1 * *", "Europe/Paris", ["finance"], "Close the month's books."),
    ("thumbnail-batch", "15 * * * *", "UTC", ["media"], "Thumbnails of what was uploaded in the hour."),
    ("fx-rates", "*/10 6-18 * * MON-FRI", "America/New_York", ["finance", "rates"], "Rates of the day."),
    ("backup-verify", "30 3 * * SUN", "Europe/Berlin", ["ops"], "Restore the last backup and compare."),
]
RESULTS: dict[str, Any] = {"shops": ["berlin", "lyon", "porto", "turin"], "type": "invoice"}


@dataclass
class World:
    """Ids that stand in addresses, by the names of the routes' parameters."""

    tenant: Tenant
    ledger: Ledger
    dags: Dags
    task: Task
    dag: Dag
    run: UUID
    running: Execution
    done: Execution
    dead: Execution
    node: str = "score"

    @property
    def values(self) -> dict[str, Any]:
        """A parameter of a route → what the tenant has. A new parameter of a page needs its value here."""
        return {
            "slug": self.tenant.slug,
            "task_id": self.task.id,
            "identity": self.done.id,
            "dag_id": self.dag.id,
            "run_id": self.run,
            "node_id": self.node,
            "act": "cancel",
        }


def make_world(slug: str = "acme") -> World:
    tenant = Tenant.objects.create(slug=slug, name=slug)
    ledger, dags = Ledger(tenant), Dags(tenant)
    tasks = _tasks(ledger)
    made = ledger.one_of_each()
    _last_hour(ledger)
    letters(ledger, 3)
    letters(ledger, 2, task="charge-retry", kind="HTTPError: 401")
    ledger.add(Status.SCHEDULED, task="month-close", hold=Hold.PAUSED, due=timedelta(seconds=20))
    ledger.pause("month-close", "auditors are in until Friday")
    _workers()
    dag, run = _dags(dags)
    _fill(ledger, "cache-warm")
    return World(
        tenant=tenant,
        ledger=ledger,
        dags=dags,
        task=tasks["cache-warm"],
        dag=dag,
        run=run,
        running=made[Status.RUNNING],
        done=made[Status.COMPLETED],
        dead=made[Status.DEAD_LETTER],
    )


def _tasks(ledger: Ledger) -> dict[str, Task]:
    who = Principal.in_tenant(ledger.tenant, role=Role.OPERATOR, actor="user:ada")
    made = {}
    for name, expression, zone, tags, words in CRON:
        schedule = {"type": "cron", "expression": expression, "timezone": zone}
        data = {"name": name, "schedule": schedule, "handler": NOOP, "tags": tags, "description": words}
        made[name] = services.create_task(principal=who, data=data)
        ledger.adopt(made[name])
    return made


def _fill(ledger: Ledger, task: str) -> None:
    """Five hours of one task: mostly well, twice not, growing slower."""
    dice = random.Random(7)  # noqa: S311  the same picture each time
    for n in range(60):
        due = timedelta(minutes=-5 * (n + 1))
        state = Status.DEAD_LETTER if n in (11, 30) else Status.SKIPPED if n in (20, 21) else Status.COMPLETED
        row = ledger.add(state, task=task, due=due, error=_fault(state))
        if row.started_at:
            took = timedelta(milliseconds=dice.gauss(900 + 9 * (60 - n), 120))
            Execution.objects.with_id(row.id).update(
                started_at=row.run_at + timedelta(milliseconds=abs(dice.gauss(6, 5))), finished_at=row.started_at + took
            )


def _fault(state: Status) -> dict[str, Any] | None:
    if state is not Status.DEAD_LETTER:
        return None
    return {"type": "ConnectionError", "message": "cache-2 refused the connection", "traceback": "…"}


def _last_hour(ledger: Ledger) -> None:
    dice = random.Random(3)  # noqa: S311  the same picture each time
    names = ["sales-merge", "thumbnail-batch", "mail-digest", "fx-rates", "index-shops", "cache-warm-eu"]
    for n in range(70):
        due = timedelta(seconds=-50 * n - 400)
        row = ledger.add(Status.COMPLETED, task=dice.choice(names), due=due)
        late = timedelta(milliseconds=abs(dice.gauss(4, 9)))
        Execution.objects.with_id(row.id).update(
            started_at=row.run_at + late,
            finished_at=row.run_at + late + timedelta(milliseconds=dice.lognormvariate(6.5, 1)),
        )
    for n in range(40):
        due = timedelta(seconds=80 * n + 90) if n < 30 else timedelta(minutes=23, seconds=n % 3)
        ledger.add(Status.SCHEDULED, task=dice.choice(names), due=due)


def _workers() -> None:
    at = now()
    for n in range(4):
        Worker.objects.create(
            state="draining" if n == 3 else "active",
            host=f"node-{n + 1}",
            process_id=4000 + n,
            slots=20,
            class_slots=[12, 5, 3],
            class_used=[9 - 2 * n, 3, n % 3],
            labels=["eu", "gpu"] if n == 1 else ["eu"],
            started_at=at - timedelta(hours=5 * n + 1),
            heartbeat_at=at - timedelta(seconds=n),
            lease_expires_at=at + timedelta(hours=1),
            cpu_percent=38.5,
            memory_bytes=210 << 20,
            active=12 - 2 * n,
            completed_last_minute=140,
            errors_last_minute=n % 2,
        )


def _dags(dags: Dags) -> tuple[Dag, UUID]:
    """nightly-sales: three runs that ended, one that goes on; two more DAGs, of which one is paused."""
    daily = {"type": "cron", "expression": "0 8 * * *", "timezone": "Asia/Seoul"}
    words = "Sales of every shop, scored, signed off and published."
    dag = dags.make("nightly-sales", SALES, schedule=daily, description=words, tags=["finance", "nightly"])
    for n in range(4):
        run = dags.start(dag)
        dags.end(run, extract=Status.DEAD_LETTER if n == 1 else RESULTS)
        if n == 0:
            dags.end(run, clean=1, score=1)
            dags.end(run, merge=1)
    dags.end(run, clean=1)
    items = dags.waiting(run, "score")
    dags.begin(items[:3])
    dags.finish({items[0]: 1, items[1]: 1})
    _backfills(dags, dag, run)
    dags.make("warehouse-load", layered(4, 3), tags=["warehouse"])
    dags.make("shop-index", layered(2, 2), schedule={"type": "interval", "every_seconds": 3600})
    return dag, run


def _backfills(dags: Dags, dag: Dag, run: UUID) -> None:
    """One that has finished, one that was stopped, one that goes on."""
    year = {"start": "2025-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}
    for state, made in ((BackfillState.FINISHED, 365), (BackfillState.STOPPED, 40), (BackfillState.RUNNING, 91)):
        request = backfills.read_request(dag, year)
        row = backfills.start_backfill(principal=dags.who, of=dag, request=request)
        row.state, row.made, row.cursor = state, made, row.start_at + timedelta(days=made - 1)
        row.ended_at = None if state == BackfillState.RUNNING else row.created_at + timedelta(minutes=14)
        row.under_way = [run] if state == BackfillState.RUNNING else []
        row.save()


def make_lone(tenant: Tenant) -> None:
    """One of each: a task that ran once and failed, a DAG that never ran."""
    ledger = Ledger(tenant)
    ledger.add(Status.DEAD_LETTER, task="first-try", error=_fault(Status.DEAD_LETTER), attempt=4)
    Dags(tenant).make("first-dag", layered(1, 2))


def make_hostile(slug: str = "hostile") -> World:
    """Names that would be script, that run backwards, that are very long, in every place."""
    tenant = Tenant.objects.create(slug=slug, name=HOSTILE)
    ledger, dags = Ledger(tenant), Dags(tenant)
    who = Principal.in_tenant(tenant, role=Role.OPERATOR, actor="user:ada")
    long = "a-long-name-" * 12
    task = services.create_task(
        principal=who,
        data={
            "name": long,
            "schedule": {"type": "manual"},
            "handler": NOOP,
            "description": HOSTILE,
            "tags": [long[:60]],
        },
    )
    ledger.adopt(task)
    error = {"type": HOSTILE, "message": HOSTILE * 3, "traceback": HOSTILE}
    dead = ledger.add(Status.DEAD_LETTER, task=HOSTILE, error=error, attempt=4)
    done = ledger.add(Status.COMPLETED, task=long, result={HOSTILE: HOSTILE})
    running = ledger.add(Status.RUNNING, task=HOSTILE)
    letters(ledger, 2, task=HOSTILE, kind=f"{HOSTILE}: {long}", error=error)
    dag = dags.make(long[:100], [{"id": "n" * 60}, {"id": "last", "depends_on": ["n" * 60]}], description=HOSTILE)
    return World(tenant, ledger, dags, task, dag, dags.start(dag), running, done, dead, node="last")


def make_large(world: World) -> UUID:
    """A run of 500 nodes, some of which have ended."""
    run = world.dags.start(world.dags.make("five-hundred", layered(25, 20, before=3)))
    first = world.dags.waiting(run)
    world.dags.begin(first)
    world.dags.finish({row: 1 for row in first[:18]} | {first[20]: Status.DEAD_LETTER})
    more = world.dags.waiting(run)
    world.dags.begin(more[:6])
    return run
