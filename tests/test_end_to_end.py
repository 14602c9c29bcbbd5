"""The real commands as processes: schedules run, edits count to the last second, kills neither lose nor double."""

import json
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.conf import settings
from django_tasks import TaskResultStatus
from pytest_django import DjangoDbBlocker

from apps.definitions import backfills
from apps.definitions import services as definitions
from apps.definitions.dags import files, making
from apps.definitions.dags.standing import delete_dag
from apps.definitions.dags.triggering import trigger_dag
from apps.definitions.models import Backfill, Task
from apps.executions.dags.models import DagRun, RunNode
from apps.executions.dags.states import NodeState, RunStatus
from apps.executions.models import Attempt, DeadLetter, Execution, Outstanding
from apps.executions.states import Origin, Outcome, Status
from apps.quickstart.bench import measure, scenarios
from apps.quickstart.bench.handlers import recorded
from apps.quickstart.data_directory import free_port
from apps.quickstart.services import ServiceAddresses
from apps.tenants.models import Tenant
from apps.tenants.principal import Principal
from tests.factories import make_api, make_principal
from tests.shop import settings as shop_settings
from tests.stack import Ledger, Processes, QuickDaemons, cloned, django_uses, processes
from tests.waiting import PATIENCE_SECONDS, eventually

"""For processes to come up beside whatever else the machine does."""
DAEMONS = ("preloader", "dispatcher", "worker", "watchdog")


@dataclass
class Installation:
    """All daemons as processes, on a database and a Redis prefix of their own."""

    url: str
    daemons: Processes
    ports: dict[str, int]
    connection: psycopg.Connection
    principal: Principal
    prefix: str
    shop: Path
    """Where receivers of the project's signals, on the worker, write what they hear."""

    def now(self) -> datetime:
        row = self.connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return row[0]

    def task(self, **document: Any) -> Task:
        number = Task.objects.count()
        base = {"name": f"task-{number}", "schedule": {"type": "manual"}, "overlap_policy": "allow_all"}
        handler = {"type": "python", "name": "demo.noop"}
        return definitions.create_task(principal=self.principal, data={**base, "handler": handler, **document})

    def trigger(self, task: Task, **item: Any) -> Execution:
        identity = definitions.trigger(principal=self.principal, task_id=task.id, **item)
        return Execution.objects.with_id(identity).get()

    def probe(self, daemon: str, path: str) -> tuple[int, str]:
        try:
            url = f"http://127.0.0.1:{self.ports[daemon]}{path}"
            with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="chronoweb-end-to-end-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def installation(
    services: ServiceAddresses, template_database: str, django_db_blocker: DjangoDbBlocker
) -> Iterator[Installation]:
    ports = {daemon: free_port(taken=set()) for daemon in DAEMONS}
    prefix = f"e2e-{time.monotonic_ns()}:"
    with (
        tempfile.TemporaryDirectory(prefix="chronoweb-end-to-end-") as folder,
        cloned(services, template_database) as url,
        django_uses(url, django_db_blocker),
        processes(
            url,
            services,
            prefix,
            Path(folder),
            DJANGO_SETTINGS_MODULE="tests.shop.settings",
            SHOP_TENANT=(principal := make_principal()).tenant_slug,
            SHOP_FOLDER=folder,
        ) as daemons,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        for daemon in DAEMONS:
            daemons.start(daemon, daemon, "--health-port", str(ports[daemon]))
        made = Installation(url, daemons, ports, connection, principal, prefix, Path(folder))
        first = made.trigger(made.task())
        eventually(lambda: status(first) is Status.COMPLETED)
        yield made


def status(row: Execution) -> Status:
    return Status(Execution.objects.with_id(row.id).values_list("status", flat=True).get())


def fresh(row: Execution) -> Execution:
    return Execution.objects.with_id(row.id).get()


def outcomes(row: Execution) -> list[Outcome]:
    rows = Attempt.objects.filter(scheduled_at=row.scheduled_at, execution_id=row.id)
    return [Outcome(attempt.outcome) for attempt in rows.order_by("token", "attempt")]


def of_task(task: Task, *statuses: Status) -> list[Execution]:
    return list(Execution.objects.filter(task_id=task.id, status__in=statuses or list(Status)))


# ---- schedules ----------------------------------------------------------------------------------------------------


def test_schedules_run_and_edits_count_to_the_last_second(installation: Installation) -> None:
    """Each thing takes its seconds, so they take them together."""
    invoice = {"type": "python", "name": "demo.invoice"}

    def one_shot(name: str, due: datetime) -> Task:
        schedule = {"type": "one_shot", "run_at": due.isoformat()}
        parameters = {"number": "old", "amount": "1.00"}
        return installation.task(name=name, schedule=schedule, handler=invoice, parameters=parameters)

    for seconds in (13, 45):  # the second where the machine is busy
        due = installation.now() + timedelta(seconds=seconds)
        names = [f"{name} in {seconds} s" for name in ("kept", "edited", "paused", "deleted")]
        kept, edited, paused, deleted = tasks = [one_shot(name, due) for name in names]
        eventually(lambda: all(of_task(task, Status.PRELOADED, Status.COMPLETED) for task in tasks))  # noqa: B023
        if due - installation.now() > timedelta(seconds=8.5):  # the rows stand in the hot tier
            break
    cron = installation.task(schedule={"type": "cron", "expression": "* * * * * *"}, strict_timing=True)
    interval = installation.task(schedule={"type": "interval", "every_seconds": 2})
    who = installation.principal
    new = {"parameters": {"number": "new", "amount": "2.00"}}
    definitions.update_task(principal=who, task_id=edited.id, data=new, partial=True)
    definitions.pause_task(principal=who, task_id=paused.id, note="until further notice")
    definitions.delete_task(principal=who, task_id=deleted.id)
    assert installation.now() < due, "all of it was in time"
    by_hand = installation.trigger(paused)

    eventually(lambda: of_task(kept, Status.COMPLETED) and of_task(edited, Status.COMPLETED))
    eventually(lambda: installation.now() > due + timedelta(seconds=2))
    [ran] = of_task(edited)
    assert ran.result == {"invoice": "new", "amount": 2.0}
    assert ran.task_version.number == 2
    assert outcomes(ran) == [Outcome.SUCCEEDED], "once"
    assert [row.result for row in of_task(kept)] == [{"invoice": "old", "amount": 1.0}]
    assert {Status(row.status) for row in of_task(paused) if row.id != by_hand.id} == {Status.SCHEDULED}
    assert {Status(row.status) for row in of_task(deleted)} == {Status.CANCELLED}
    eventually(lambda: status(by_hand) is Status.COMPLETED)  # a person may run a paused task
    eventually(lambda: min(len(of_task(task, Status.COMPLETED)) for task in (cron, interval)) >= 4)
    for task in (cron, interval):
        definitions.delete_task(principal=who, task_id=task.id)
    nominal = [row.nominal_at for row in of_task(cron, Status.COMPLETED)]
    assert len(set(nominal)) == len(nominal)


def test_nothing_ever_started_early(installation: Installation) -> None:
    """Over whatever ran in this module until now."""
    row = installation.connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE started_at < due_at) FROM attempts WHERE started_at IS NOT NULL"
    ).fetchone()
    assert row is not None
    assert row[0] > 0
    assert row[1] == 0


# ---- DAGs -----------------------------------------------------------------------------------------------------------


def test_both_ways_of_the_document_examples_and_a_backfill_of_a_dag(installation: Installation) -> None:
    """The files of examples/ as people apply them."""
    who = installation.principal
    folder = settings.BASE_DIR / "examples"
    dags = {}
    for file in ("document-processing.yaml", "document-processing.short.json"):
        applied = making.apply(principal=who, data=files.read((folder / file).read_text()))
        assert applied.dag is not None
        dags[file] = applied.dag

    def run(file: str, text: str) -> UUID:
        return trigger_dag(principal=who, dag_id=dags[file].id, parameters={"document": text})

    documents = {"invoice": "Invoice no. 2041, total: 99.50", "receipt": "Receipt, total: 3.20"}
    runs = {(file, kind): run(file, text) for file in dags for kind, text in documents.items()}
    ticking = {"name": "ticking", "schedule": {"type": "interval", "every_seconds": 2}, "overlap_policy": "allow_all"}
    ticking_dag = making.create_dag(principal=who, data={**ticking, "nodes": [{"id": "a", "handler": "demo.noop"}]})
    wanted = {"start": "2025-01-01T00:00:00Z", "end": "2025-01-01T00:00:10Z", "at_once": 3}
    request = backfills.read_request(ticking_dag, wanted)
    backfill = backfills.start_backfill(principal=who, of=ticking_dag, request=request)

    def ended(identity: UUID) -> bool:
        return DagRun.objects.get(id=identity).status != RunStatus.RUNNING

    eventually(lambda: all(map(ended, runs.values())))
    for (file, kind), identity in runs.items():
        rows = RunNode.objects.filter(run_id=identity)
        states = {row.node_id: NodeState(row.state).word for row in rows}
        other = "receipt" if kind == "invoice" else "invoice"
        expected = {"classify": "succeeded", kind: "succeeded", other: "skipped"}
        if file.endswith(".yaml"):
            expected["archive"] = "succeeded"
            archive = rows.get(node_id="archive").execution_id
            assert archive is not None
            assert list((Execution.objects.get(id=archive).result or {})["archived"]) == [kind]
        assert states == expected

    scheduled = DagRun.objects.filter(dag_id=ticking_dag.id, origin=Origin.SCHEDULE, status=RunStatus.SUCCEEDED)
    eventually(lambda: scheduled.count() >= 3)
    eventually(lambda: Backfill.objects.get(id=backfill.id).state == "finished")
    delete_dag(principal=who, dag_id=ticking_dag.id)
    filled = DagRun.objects.filter(dag_id=ticking_dag.id, origin=Origin.BACKFILL)
    assert sorted(run.nominal_at.second for run in filled if run.nominal_at) == [0, 2, 4, 6, 8]
    nominal = list(scheduled.values_list("nominal_at", flat=True))
    assert len(set(nominal)) == len(nominal)


def test_the_trace_of_a_request_reaches_what_it_started(installation: Installation) -> None:
    """Over REST, by way of a dispatch, of a hand-over in a run, and of a retry by a person."""
    api = make_api(Tenant.objects.get(id=installation.principal.tenant_id))
    show = {"type": "command", "argv": ["printenv", "TRACEPARENT"]}
    task = installation.task(handler=show)
    nodes = [{"id": "first", "handler": show}, {"id": "second", "handler": show, "depends_on": ["first"]}]
    dag = making.create_dag(principal=installation.principal, data={"name": "traced", "nodes": nodes})
    traced = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}

    def begin(path: str, **headers: str) -> UUID:
        response = api.post(path, headers=headers)
        assert response.status_code == 202
        return UUID(response.json()["id"])

    one, run = begin(f"/tasks/{task.id}/trigger", **traced), begin(f"/dags/{dag.id}/trigger", **traced)
    for malformed in ("no trace", f"00-{'0' * 32}-00f067aa0ba902b7-01"):
        other = begin(f"/tasks/{task.id}/trigger", traceparent=malformed)
        assert api.get(f"/executions/{other}").json()["traceparent"] is None
    eventually(lambda: DagRun.objects.get(id=run).status == RunStatus.SUCCEEDED)
    eventually(lambda: Execution.objects.with_id(one).get().status == Status.COMPLETED)
    again = begin(f"/executions/{one}/retry")
    eventually(lambda: Execution.objects.with_id(again).get().status == Status.COMPLETED)
    ran = [Execution.objects.with_id(identity).get() for identity in (one, again)]
    ran += Execution.objects.filter(dag_run_id=run)
    assert [(row.result or {})["stdout"].strip() for row in ran] == [traced["traceparent"]] * 4
    assert [row.traceparent for row in ran] == [traced["traceparent"]] * 4


# ---- Django's Tasks framework -------------------------------------------------------------------------------------


def test_tasks_of_a_django_project_run_on_the_workers(installation: Installation, settings: Any) -> None:
    chosen = shop_settings.TASKS["default"]
    tenant = {"tenant": installation.principal.tenant_slug}
    settings.TASKS = {"default": {**chosen, "OPTIONS": {**chosen["OPTIONS"], **tenant}}}
    from tests.shop import tasks

    enqueued: list[Any] = [
        tasks.add.enqueue(20, b=22),
        tasks.add_async.enqueue(20, b=22),
        tasks.whoami.using(priority=81).enqueue("ada"),
        tasks.buy.enqueue("tea"),
        tasks.buy_patiently.enqueue("tea"),
        tasks.give_up.enqueue("tea"),
        tasks.not_json.enqueue(),
    ]

    def finished() -> bool:
        for result in enqueued:
            result.refresh()
        return all(result.is_finished for result in enqueued)

    eventually(finished)
    added, added_async, who, bought, patient, gave_up, no_json = enqueued
    assert (added.status, added.return_value, added.attempts) == (TaskResultStatus.SUCCESSFUL, 42, 1)
    assert added_async.return_value == 42
    assert who.return_value == {"name": "ada", "id": who.id, "attempt": 1, "priority": 81}
    assert bought.enqueued_at <= bought.started_at <= bought.finished_at
    assert bought.errors[0].exception_class is tasks.OutOfStock
    assert "there is no tea" in bought.errors[0].traceback
    assert (len(bought.errors), bought.attempts) == (1, 1)
    assert (len(patient.errors), patient.attempts) == (2, 2)
    assert (len(gave_up.errors), gave_up.attempts) == (1, 1)
    assert no_json.errors[0].exception_class is TypeError

    def heard(result: Any) -> list[str]:
        return (installation.shop / result.id).read_text().split("\n")[:-1]

    assert heard(added) == ["started RUNNING", "finished SUCCESSFUL"]
    assert heard(patient) == ["started RUNNING", "started RUNNING", "finished FAILED"]
    assert heard(gave_up) == ["started RUNNING", "finished FAILED"]


# ---- attempts -----------------------------------------------------------------------------------------------------


def policy(attempts: int, delay: float = 0.0) -> dict[str, Any]:
    return {
        "max_attempts": attempts,
        "backoff": "fixed",
        "base_delay_seconds": delay,
        "max_delay_seconds": max(delay, 1.0),
    }


def test_a_failure_is_tried_again_until_it_succeeds_or_its_attempts_are_spent(installation: Installation) -> None:
    flaky = {"type": "python", "name": "demo.flaky"}
    mends = installation.trigger(installation.task(handler=flaky, retry_policy=policy(4), parameters={"failures": 2}))
    fails = installation.trigger(installation.task(handler=flaky, retry_policy=policy(3), parameters={"failures": 99}))
    # A definition would be refused; a trigger brings its own parameters.
    unfit = installation.trigger(installation.task(handler=flaky, retry_policy=policy(3)), parameters={"no": "such"})
    eventually(lambda: status(mends) is Status.COMPLETED and status(fails) is Status.DEAD_LETTER)
    eventually(lambda: status(unfit) is Status.DEAD_LETTER)
    assert outcomes(mends) == [Outcome.FAILED, Outcome.FAILED, Outcome.SUCCEEDED]
    assert fresh(mends).result == {"succeeded_on_attempt": 3}
    assert outcomes(fails) == [Outcome.FAILED] * 3
    assert outcomes(unfit) == [Outcome.FAILED], "parameters that do not fit will not fit later either"
    letter = DeadLetter.objects.get(execution_id=fails.id)
    assert letter.fingerprint == "ConnectionError: attempt #: the pretended upstream is away"
    assert fresh(fails).attempt == 3


def test_what_ran_over_its_time_is_stopped_and_told(installation: Installation) -> None:
    command = {"type": "command", "argv": ["sleep", "60"], "environment": {}}
    row = installation.trigger(installation.task(handler=command, timeout_seconds=1, retry_policy=policy(1)))
    eventually(lambda: status(row) is Status.DEAD_LETTER)
    assert outcomes(row) == [Outcome.TIMED_OUT]


def test_cancel_other_stops_the_old_and_runs_the_new(installation: Installation) -> None:
    sleeper = {"type": "python", "name": "playground.wait"}
    task = installation.task(handler=sleeper, overlap_policy="cancel_other", parameters={"seconds": 60})
    old = installation.trigger(task)
    eventually(lambda: status(old) is Status.RUNNING)
    new = installation.trigger(task, parameters={"seconds": 0})
    eventually(lambda: status(new) is Status.COMPLETED)
    assert status(old) is Status.CANCELLED
    assert outcomes(old) == [Outcome.CANCELLED]


def test_skip_and_buffer_one_while_the_first_still_runs(installation: Installation) -> None:
    sleeper = {"type": "python", "name": "playground.wait"}
    skips = installation.task(handler=sleeper, overlap_policy="skip", parameters={"seconds": 600})
    buffers = installation.task(handler=sleeper, overlap_policy="buffer_one", parameters={"seconds": 600})
    first = [installation.trigger(task) for task in (skips, buffers)]
    eventually(lambda: {status(row) for row in first} == {Status.RUNNING})
    skipped, waiting = (installation.trigger(task, parameters={"seconds": 0}) for task in (skips, buffers))
    eventually(lambda: status(skipped) is Status.SKIPPED)
    surplus = installation.trigger(buffers, parameters={"seconds": 0})
    eventually(lambda: status(surplus) is Status.SKIPPED)
    assert status(waiting) in (Status.SCHEDULED, Status.PRELOADED)
    for row in first:
        Execution.objects.with_id(row.id).update(cancel_requested_at=installation.now())
    eventually(lambda: {status(row) for row in first} == {Status.CANCELLED})
    eventually(lambda: status(waiting) is Status.COMPLETED)
    assert fresh(waiting).started_at >= fresh(first[1]).finished_at  # type: ignore[operator]


# ---- processes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_answers_probes(installation: Installation, daemon: str) -> None:
    assert installation.probe(daemon, "/livez") == (200, '{"alive": true}')
    code, body = installation.probe(daemon, "/readyz")
    assert code == 200, body
    assert json.loads(body)["daemon"] == daemon
    code, body = installation.probe(daemon, "/metrics")
    assert code == 200
    assert "chronoweb_last_success_age_seconds" in body
    assert installation.probe(daemon, "/nowhere")[0] == 404


def test_one_pass_and_out(own_database: str, services: ServiceAddresses, redis_prefix: str, folder: Path) -> None:
    with processes(own_database, services, redis_prefix, folder) as started:
        for daemon in DAEMONS:
            started.start(daemon, daemon, "--once")
        for daemon in DAEMONS:
            assert started.wait_for_exit(daemon) == 0, started.log(daemon)
            assert f'"action": "{daemon}.once"' in started.log(daemon)


def test_a_worker_that_was_given_up_ends_by_itself(
    own_ledger: Ledger, services: ServiceAddresses, redis_prefix: str, folder: Path
) -> None:
    """A supervisor starts it anew, under a new id; whatever it ran is somebody else's."""
    with processes(own_ledger.url, services, redis_prefix, folder) as started:
        started.start("worker", "worker")
        eventually(lambda: own_ledger.select("SELECT id FROM workers WHERE state = 'active'"))
        own_ledger.connection.execute("UPDATE workers SET state = 'lost'")
        assert started.wait_for_exit("worker") == 0
        assert '"action": "worker.zombie"' in started.log("worker")
    assert own_ledger.select("SELECT state FROM workers") == [{"state": "lost"}]


def test_daemons_end_in_order_on_sigterm(installation: Installation) -> None:
    """The last test on this installation: nothing of it runs afterwards."""
    row = installation.trigger(
        installation.task(handler={"type": "python", "name": "playground.wait"}, parameters={"seconds": 1.5})
    )
    eventually(lambda: status(row) is Status.RUNNING)
    for daemon in ("worker", "dispatcher", "preloader", "watchdog"):
        assert installation.daemons.terminate(daemon) == 0, installation.daemons.log(daemon)
        assert f'"action": "{daemon}.stopped"' in installation.daemons.log(daemon)
    assert status(row) is Status.COMPLETED, "what fits in the grace is finished"
    assert outcomes(row) == [Outcome.SUCCEEDED]
    assert not Outstanding.objects.exists()
    states = installation.connection.execute("SELECT state FROM workers").fetchall()
    assert states == [("stopped",)]
    left = installation.connection.execute(
        "SELECT count(*) FROM leases WHERE expires_at > clock_timestamp()"
    ).fetchone()
    assert left == (0,), "a standby need not wait for a lease to run out"


# ---- drains -------------------------------------------------------------------------------------------------------


@pytest.fixture
def bench(
    own_database: str,
    services: ServiceAddresses,
    redis_prefix: str,
    django_db_blocker: DjangoDbBlocker,
    folder: Path,
) -> Iterator[scenarios.Bench]:
    addresses = ServiceAddresses(own_database, services.redis_url)
    settings = {"CHRONOWEB_REDIS_PREFIX": redis_prefix, "KAFKA_BOOTSTRAP_SERVERS": ""}
    with django_uses(own_database, django_db_blocker):
        made = scenarios.Bench(addresses, folder, "redis", 2, settings, print)
        made.daemons = QuickDaemons(made.daemons.environment, folder)
        yield made


def assert_each_completed_once(bench: scenarios.Bench, count: int) -> None:
    """On a connection of its own: the bench has closed its own by now."""
    rows = Execution.objects.filter(task_id=bench.task.id)
    assert rows.count() == count
    assert set(rows.values_list("status", flat=True)) == {Status.COMPLETED}
    succeeded = Attempt.objects.filter(tenant_id=bench.task.tenant_id, outcome=Outcome.SUCCEEDED)
    assert succeeded.count() == count
    assert succeeded.values("execution_id").distinct().count() == count
    assert {row.bytes for row in rows.values_list("id", flat=True)} == set(recorded(bench.record))


def dispatchers(bench: scenarios.Bench) -> int:
    """How many hold shards."""
    row = bench.connection.execute(
        "SELECT count(DISTINCT holder) FROM leases WHERE role LIKE 'dispatcher/%' AND expires_at > clock_timestamp()"
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.timeout(300)
def test_a_killed_dispatcher_and_a_killed_worker_lose_nothing_and_double_nothing(bench: scenarios.Bench) -> None:
    count = 3000
    figures = scenarios.drain(bench, count=count, kill=("dispatcher", "worker-1"))
    assert figures.lost == 0
    assert figures.ledger_duplicates == 0
    assert figures.early == 0
    assert_each_completed_once(bench, count)


@pytest.mark.timeout(300)
def test_a_worker_that_is_asked_to_end_under_load_burns_no_attempt(bench: scenarios.Bench) -> None:
    """Beside it, two of everything else share the work or stand by: that doubles nothing either."""
    count = 3000
    with scenarios.running(bench, preloader=True):
        bench.daemons.start("dispatcher-2", "dispatcher")
        bench.daemons.start("preloader-2", "preloader")
        bench.daemons.start("watchdog-2", "watchdog")
        eventually(lambda: dispatchers(bench) == 2)
        bench.enqueue([None] * count)
        eventually(lambda: measure.completed(bench.connection, bench.task.id) > count // 10, every=0.005)
        process = bench.daemons.running.pop("worker-1")
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
        bench.wait(count, seconds=90)
    assert_each_completed_once(bench, count)
    others = Attempt.objects.filter(tenant_id=bench.task.tenant_id).exclude(outcome=Outcome.SUCCEEDED)
    assert set(others.values_list("outcome", flat=True)) <= {Outcome.RELEASED}
    assert set(Execution.objects.filter(task_id=bench.task.id).values_list("attempt", flat=True)) == {1}
    runs = recorded(bench.record)
    assert len(runs) == len(set(runs)), "what was given back had not run"
