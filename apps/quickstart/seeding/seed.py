"""Seeds a ledger: asks whether it may, and writes one thing after another."""

from dataclasses import dataclass
from random import Random

import psycopg

from apps.executions import ids, partitions
from apps.executions.models import WorkerState
from apps.quickstart.seeding import around, definitions, runs
from apps.quickstart.seeding.ledger import Crowd, Ledger, seed_executions
from apps.quickstart.seeding.progress import Bar
from apps.quickstart.seeding.sizes import MOST_DAYS, SHARES, Sizes
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.errors import Conflict, InvalidInput


@dataclass(frozen=True)
class Standing:
    """What is there already."""

    database: str
    has_tasks: bool
    has_executions: bool
    live_workers: int

    @property
    def objections(self) -> list[str]:
        """Why nothing should be seeded here, in words; empty: nothing speaks against it."""
        found = []
        if self.live_workers:
            found.append(f"{self.live_workers} workers are alive: they would run what is seeded")
        if self.has_executions or self.has_tasks:
            found.append("it holds tasks or executions already")
        return found


def check(sizes: Sizes) -> None:
    """Raises InvalidInput for what is out of bounds."""
    bounds = {"executions": (1, 50_000_000), "tasks": (1, 1_000_000), "dags": (0, 20_000), "days": (1, MOST_DAYS)}
    for name, (least, most) in bounds.items():
        value = getattr(sizes, name)
        if not least <= value <= most:
            raise InvalidInput(f"/{name}", value, "is out of bounds", f"{least:,} to {most:,}")
    if not 1 <= len(sizes.tenants) <= len(SHARES) or len(set(sizes.tenants)) != len(sizes.tenants):
        raise InvalidInput("/tenant", list(sizes.tenants), "must be different names", f"1 to {len(SHARES)} of them")


def standing() -> Standing:
    """Looks, and writes nothing."""
    with postgres.connect("seed", hot=False) as connection:
        row = connection.execute(
            "SELECT current_database(), EXISTS (SELECT FROM tasks), EXISTS (SELECT FROM executions),"
            " (SELECT count(*) FROM workers WHERE state = %s AND lease_expires_at > clock_timestamp())",
            (WorkerState.ACTIVE,),
        ).fetchone()
    assert row is not None
    return Standing(*row)


def seed(sizes: Sizes, *, bar: Bar, anyway: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
    """Write it all; takes about a minute for a million executions. Raises Conflict where something speaks against it,
    unless `anyway`.
    """
    check(sizes)
    objections = standing().objections
    if objections and not anyway:
        raise Conflict("; ".join(objections) + ". Nothing was written.")
    random = Random(sizes.seed)  # noqa: S311 - the same ledger each time
    now = clock.now()
    now_ms = ids.to_ms(now)
    today = ids.day_of(now)
    with postgres.connect("seed", hot=False) as connection:
        connection.execute("SET synchronous_commit = off")  # whoever seeds can seed again
        partitions.ensure(connection, range(today - sizes.days, today + 3))
        principals = [around.tenant_of(slug) for slug in sizes.tenants]
        tell = bar.begin("tasks", sum(sizes.tasks_of(number) for number in range(len(principals))))
        crowds = [
            Crowd(
                principal.tenant_id.hex,
                share,
                definitions.seed_tasks(
                    connection, principal, sizes.tasks_of(number), random=random, now=now, done=tell
                ),
            )
            for number, (principal, share) in enumerate(zip(principals, sizes.shares, strict=True))
        ]
        for crowd in crowds:
            around.seed_pauses(connection, crowd.tasks, now_ms=now_ms)
        workers = around.seed_workers(connection, now_ms=now_ms, random=random)
        begin_ms = now_ms - (sizes.days - 1) * ids.MILLISECONDS_A_DAY - now_ms % ids.MILLISECONDS_A_DAY
        ledger = Ledger(crowds, now_ms=now_ms, random=random, workers=workers)
        tell = bar.begin("executions", sizes.executions)
        seed_executions(connection, ledger, sizes.executions, begin_ms=begin_ms, done=tell)
        if sizes.dags:
            tell = bar.begin("DAGs", sizes.dags)
            runs.seed_dags(
                connection, principals[0], sizes.dags, random=random, now_ms=now_ms, days=sizes.days, done=tell
            )
        _acts(connection, crowds, sizes, now_ms, random, bar)
        _analyse(connection, bar)


def _acts(
    connection: psycopg.Connection, crowds: list[Crowd], sizes: Sizes, now_ms: int, random: Random, bar: Bar
) -> None:
    counts = [max(1, int(crowd.share * sizes.executions / around.AUDIT_SHARE)) for crowd in crowds]
    tell = bar.begin("audit", sum(counts))
    whose = [(crowd.tenant_id, crowd.tasks, count) for crowd, count in zip(crowds, counts, strict=True)]
    around.seed_audit(connection, whose, now_ms=now_ms, days=sizes.days, random=random, done=tell)


def _analyse(connection: psycopg.Connection, bar: Bar) -> None:
    """The planner knows of it, and index-only reads need no visit of the table: as autovacuum leaves a ledger."""
    tell = bar.begin("vacuum", 1)
    connection.execute("VACUUM (ANALYZE)")
    tell(1)
