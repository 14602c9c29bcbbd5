"""The scenario `consoles`: what pages that are open cost, while executions are dispatched at a constant rate.

The same pages of the same tenants are looked at by none, by a hundred and by a thousand sockets, each of some person's
session: several pages mixed, or one kind alone. The web process has a database role of its own, so its statements are
counted apart from those of the daemons.
"""

import json
import resource
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import psutil
import psycopg
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client
from psycopg import sql

from apps.definitions import services
from apps.definitions.dags.making import create_dag
from apps.definitions.dags.triggering import trigger_dag
from apps.definitions.models import Task
from apps.quickstart.bench import cpu, scenarios
from apps.quickstart.bench.api import start_web
from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.postgres_server import SUPERUSER
from apps.tenants.models import UNLIMITED, Membership, Role, Tenant, Tier
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import ServiceUnavailable

STEPS = (0, 100, 1000)
"""Sockets, one step after another."""
PAGES = {
    "overview": "",
    "executions": "executions/",
    "dead-letters": "dead-letters/",
    "dags": "dags/",
    "run": "runs/{run}/",
    "workers": "workers/",
    "scheduler": "scheduler/",
}
"""Addresses by the names of `--page`."""
MIX = ("overview", "executions", "dead-letters", "dags", "run")
BIG_RUN = "big-run"
"""One tenant's run of 500 nodes, of which ten run at any time, for 2 s each."""
TENANTS = 5
PEOPLE = 40
"""Of each tenant."""
_SETTLE_SECONDS = 5.0
_AHEAD_SECONDS = 12.0
_OPENING_SECONDS, _OPENING_SECONDS_EACH = 10.0, 0.1
"""For the sockets of a step on a machine that is busy with other things, too; the work goes on meanwhile."""
_ROLE = "bench_web"
POSTGRES_SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "top",
    "pg_stat_statements.max": "20000",
}


@dataclass(frozen=True)
class Step:
    """What was measured with so many sockets. Statements and frames a second; lateness in ms; CPU in % of one core,
    and the database's time for the web's statements likewise.

    What it took to open the sockets includes what is shown meanwhile.
    """

    sockets: int
    seconds: float
    statements: float
    statements_of_web: float
    database_percent_of_web: float
    frames: float
    kilobytes: float
    executions: float
    lateness_p50_ms: float
    lateness_p99_ms: float
    web_cpu_percent: float
    web_megabytes: int
    opening_seconds: float
    statements_to_open: float
    cpu_ms_to_open: float


@dataclass(frozen=True)
class Figures:
    page: str
    rate: int
    steps: list[Step]
    lost: list[str]

    def document(self) -> dict[str, object]:
        rounded = [{k: round(v, 1) if isinstance(v, float) else v for k, v in asdict(s).items()} for s in self.steps]
        told = {"scenario": "consoles", "page": self.page, "rate": self.rate}
        return told | {"steps": rounded, "sockets_lost": self.lost}


@dataclass
class Tenancy:
    """A tenant with work, and the pages that are looked at."""

    principal: Principal
    task: Task
    pages: list[str]
    cookies: list[str]


def consoles(
    bench: scenarios.Bench,
    *,
    rate: int,
    seconds: int,
    sockets: Sequence[int],
    page: str,
    nice: int,
    say: Callable[[str], None],
) -> Figures:
    """`rate` executions a second of TENANTS tenants together; each step, of so many `sockets`, is measured for
    `seconds`. page: `mix`, BIG_RUN, or one of PAGES. nice: how much the web process gives way to the daemons.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    tenancies = [_tenancy(number, page) for number in range(TENANTS)]
    with scenarios.running(bench, preloader=True):
        url = start_web(bench, nice=nice, DATABASE_URL=_role(bench), DATABASE_DIRECT_URL="")
        total = len(sockets) * (seconds + _SETTLE_SECONDS + _OPENING_SECONDS) + _OPENING_SECONDS_EACH * max(sockets)
        _enqueue(bench, tenancies, rate=rate, seconds=total)
        crowd = _Crowd(url)
        try:
            steps = [_step(bench, crowd, tenancies, count, seconds, say) for count in sorted(sockets)]
        finally:
            crowd.close()
    return Figures(page, rate, steps, crowd.lost)


class _Crowd:
    """The process that holds the sockets."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        command = [sys.executable, "-m", "apps.quickstart.bench.console_load", str(place.hostname), str(place.port)]
        self._process = subprocess.Popen(
            command, cwd=settings.BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.sockets = 0
        self.lost: list[str] = []

    def order(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ServiceUnavailable("the process that holds the sockets has ended; its errors stand above")
        found: dict[str, Any] = json.loads(line)
        self.lost = found["refused"] or self.lost
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def _step(
    bench: scenarios.Bench,
    crowd: _Crowd,
    tenancies: list[Tenancy],
    sockets: int,
    seconds: int,
    say: Callable[[str], None],
) -> Step:
    wanted = _places(tenancies, sockets)[crowd.sockets :]
    before, began, spent = _statements(bench), SYSTEM_CLOCK.monotonic(), _cpu(bench)
    if wanted:
        crowd.order(open=wanted)
        crowd.sockets = sockets
    opening = SYSTEM_CLOCK.monotonic() - began
    to_open = (_statements(bench)[1] - before[1]) / max(1, len(wanted))
    cpu_to_open = (_cpu(bench) - spent) / max(1, len(wanted))
    SYSTEM_CLOCK.sleep(_SETTLE_SECONDS)
    web = psutil.Process(bench.daemons.running["web"].pid)
    crowd.order(count=True)
    before, began, since, spent = _statements(bench), SYSTEM_CLOCK.monotonic(), bench.now(), _cpu(bench)
    SYSTEM_CLOCK.sleep(seconds)
    after, took, spent = _statements(bench), SYSTEM_CLOCK.monotonic() - began, _cpu(bench) - spent
    heard = crowd.order(count=True)
    row = bench.connection.execute(_LATE, (since, since + timedelta(seconds=took))).fetchone()
    assert row is not None
    step = Step(
        sockets=heard["open"],
        seconds=took,
        statements=(after[0] - before[0]) / took,
        statements_of_web=(after[1] - before[1]) / took,
        database_percent_of_web=100 * (after[2] - before[2]) / took,
        frames=heard["frames"] / took,
        kilobytes=heard["octets"] / took / 1024,
        executions=row[0] / took,
        lateness_p50_ms=row[1],
        lateness_p99_ms=row[2],
        web_cpu_percent=100 * spent / took,
        web_megabytes=web.memory_info().rss >> 20,
        opening_seconds=opening,
        statements_to_open=to_open if wanted else 0.0,
        cpu_ms_to_open=1000 * cpu_to_open if wanted else 0.0,
    )
    say(_line(step))
    return step


_LATE = """
SELECT count(*), coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY late), 0),
    coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY late), 0)
FROM (SELECT (extract(epoch FROM started_at - due_at) * 1000)::float8 AS late FROM attempts
      WHERE started_at >= %s AND started_at < %s) a
"""


def _statements(bench: scenarios.Bench) -> tuple[int, int, float]:
    """Ever run: all, those of the web process, and the seconds that the latter took."""
    row = bench.connection.execute(
        "SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(calls) FILTER (WHERE of_web), 0)::bigint,"
        " coalesce(sum(total_exec_time) FILTER (WHERE of_web), 0) / 1000"
        " FROM (SELECT *, userid = (SELECT oid FROM pg_roles WHERE rolname = %s) AS of_web FROM pg_stat_statements) s",
        (_ROLE,),
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def _cpu(bench: scenarios.Bench) -> float:
    return cpu.of_family(psutil.Process(bench.daemons.running["web"].pid))


def _role(bench: scenarios.Bench) -> str:
    """Make the web process's role, as the embedded server's superuser; returns its address of the database."""
    place, password = urlsplit(bench.addresses.database_url), secrets.token_hex(12)
    data = DataDirectory(bench.folder / "services")

    def address(user: str, word: str) -> str:
        return urlunsplit(place._replace(netloc=f"{user}:{word}@{place.netloc.rpartition('@')[2]}"))

    with psycopg.connect(address(SUPERUSER, data.secret(SUPERUSER)), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(_ROLE)))
        made = sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}")
        connection.execute(made.format(sql.Identifier(_ROLE), sql.Literal(password)))
    return address(_ROLE, password)


def _tenancy(number: int, page: str) -> Tenancy:
    name = f"looked-at-{number}-{secrets.token_hex(3)}"
    tenant = Tenant.objects.create(slug=name, name=name, tier=Tier.ENTERPRISE, **UNLIMITED)
    principal = Principal.in_tenant(tenant, role=Role.OWNER, actor="bench")
    task = services.create_task(principal=principal, data=scenarios.task_document(name="work", priority=5))
    big = page == BIG_RUN and number == 0
    run = _run(principal, _chains(lanes=10, length=50, milliseconds=2000) if big else _asking())
    shown = ["runs/{run}/"] if big else [PAGES[one] for one in (MIX if page == "mix" else (page,)) if one in PAGES]
    pages = [f"/ws/t/{name}/{address.format(run=run)}" for address in shown]
    return Tenancy(principal, task, pages, [_session(tenant) for _ in range(PEOPLE)])


def _run(principal: Principal, nodes: list[dict[str, Any]]) -> UUID:
    dag = create_dag(principal=principal, data={"name": "looked-at", "nodes": nodes})
    run: UUID = trigger_dag(principal=principal, dag_id=dag.id, parameters={})
    return run


def _asking() -> list[dict[str, Any]]:
    """Nodes of which none begins."""
    after = [{"id": f"n{n}", "handler": "bench.record", "depends_on": ["ask"]} for n in range(8)]
    return [{"id": "ask", "approval": {"message": "Go on?"}}, *after]


def _chains(*, lanes: int, length: int, milliseconds: int) -> list[dict[str, Any]]:
    """Nodes of which `lanes` run at any time."""
    made = []
    for lane in range(lanes):
        for at in range(length):
            node = {"id": f"n{lane}x{at}", "handler": "bench.pause", "parameters": {"milliseconds": milliseconds}}
            made.append(node | ({"depends_on": [f"n{lane}x{at - 1}"]} if at else {}))
    return made


def _session(tenant: Tenant) -> str:
    person = get_user_model().objects.create(username=f"looks-{secrets.token_hex(6)}")
    Membership.objects.create(tenant=tenant, user=person, role=Role.OPERATOR)
    client = Client()
    client.force_login(person)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def _places(tenancies: list[Tenancy], sockets: int) -> list[tuple[str, str]]:
    """(path, cookie) of each socket: every page of every tenant first, then more people."""
    found = []
    tenancies = [tenancy for tenancy in tenancies if tenancy.pages]
    for number in range(sockets):
        tenancy = tenancies[number % len(tenancies)]
        turn = number // len(tenancies)
        page, person = turn % len(tenancy.pages), turn // len(tenancy.pages)
        found.append((tenancy.pages[page], tenancy.cookies[person % len(tenancy.cookies)]))
    return found


def _enqueue(bench: scenarios.Bench, tenancies: list[Tenancy], *, rate: int, seconds: float) -> None:
    """Everything beforehand, so that nothing but dispatching goes on while it is measured."""
    base = bench.now() + timedelta(seconds=_AHEAD_SECONDS)
    for number, tenancy in enumerate(tenancies):
        share = [
            {"run_at": (base + timedelta(seconds=at / rate)).isoformat()}
            for at in range(number, int(rate * seconds), len(tenancies))
        ]
        for start in range(0, len(share), scenarios.BATCH):
            services.trigger_batch(
                principal=tenancy.principal, task_id=tenancy.task.id, items=share[start : start + scenarios.BATCH]
            )
    SYSTEM_CLOCK.sleep(max(0.0, (base - bench.now()).total_seconds() + 2.0))


def _line(step: Step) -> str:
    return (
        f"{step.sockets:>5} sockets  {step.statements:>7.1f} statements/s, of the web {step.statements_of_web:>6.1f}"
        f" ({step.database_percent_of_web:.0f} %)"
        f"  {step.executions:>5.0f} executions/s p50 {step.lateness_p50_ms:>5.1f} p99 {step.lateness_p99_ms:>6.1f} ms"
        f"  web {step.web_cpu_percent:>4.0f} % {step.web_megabytes:>4} MB"
        f"  {step.frames:>6.0f} frames/s {step.kilobytes:>7,.0f} kB/s"
        f"  opened in {step.opening_seconds:.1f} s, {step.statements_to_open:.1f} statements"
        f" and {step.cpu_ms_to_open:.1f} ms of the web's CPU each"
    )
