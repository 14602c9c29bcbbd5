"""Inputs that break schedulers, tried on the daemons.

Each docstring quotes the input and what is right; docs/behaviours.md tells which of them is held by which test.
"""

import signal
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from django.db.models import Count

from apps.definitions.models import Task
from apps.executions.models import Execution
from apps.executions.states import Outcome, Overlap, Status
from apps.worker import envelope
from apps.worker.envelope import WORKER_HEADER
from chronoweb.runtime.transport import Outgoing, make_publisher
from tests import factories
from tests.chaos.rig import START_SECONDS, Rig, died_of_kill, held, let_pass, sleeping
from tests.waiting import eventually

NOOP = {"type": "python", "name": "demo.noop"}
MINUTELY = {"type": "cron", "expression": "* * * * *"}


def was_off_for(task: Task, since: timedelta) -> None:
    """As if the scheduler had been off for that long: what was due since has no rows."""
    Execution.objects.filter(task_id=task.id).delete()
    Task.objects.filter(pk=task.pk).update(next_fire_at=factories.now() - since)


def past_and_ahead(task: Task) -> tuple[list[Execution], list[Execution]]:
    now = factories.now()
    rows = list(Execution.objects.filter(task_id=task.id).order_by("nominal_at"))
    return [row for row in rows if row.nominal_at and row.nominal_at < now], [
        row for row in rows if row.nominal_at and row.nominal_at >= now
    ]


@pytest.mark.parametrize(("catchup", "runs"), [(0, 0), (60, 1), (10_800, 180)], ids=["none", "latest", "all"])
def test_a_minutely_task_after_three_hours_of_silence(rig: Rig, catchup: int, runs: int) -> None:
    """minutely job, scheduler off 3 h, policies none/latest/all: 0 / 1 / 180 runs; the next slot fires regardless."""
    task = factories.make_task(
        factories.make_principal(),
        schedule=MINUTELY,
        strict_timing=True,
        overlap_policy="allow_all",
        catchup_seconds=catchup,
        handler=NOOP,
    )
    was_off_for(task, timedelta(hours=3))
    rig.stand_by("preloader")
    eventually(lambda: len(past_and_ahead(task)[1]) >= 60)
    past, ahead = past_and_ahead(task)
    run = [row for row in past if row.status != Status.SKIPPED]
    assert abs(len(run) - runs) <= 1  # a minute may end while this runs
    assert len(ahead) >= 59  # each coming minute has its row
    skipped = [row for row in past if row.status == Status.SKIPPED]
    if catchup < 10_800:
        assert len(skipped) == 100  # the newest as rows; the oldest of them tells how many have none
        reasons = [rig.ledger.events(row.id.bytes)[0]["reason"] for row in skipped]
        assert all(reason.startswith("misfire: later than") for reason in reasons)
        assert sum("earlier ones have no row" in reason for reason in reasons) == 1


def test_skipped_slots_do_not_come_as_a_bunch_and_a_little_late_still_fires(rig: Rig, settings: Any) -> None:
    """15 s cron, policy skip, 40 s stop; scheduler 2 s late: no bunch; 2 s late still fires; each skip recorded.

    Here a minute stands for a second: so late may the scheduler be that is to be 2 s late.
    """
    settings.CHRONOWEB = replace(settings.CHRONOWEB, misfire_grace_seconds=300)
    task = factories.make_task(
        factories.make_principal(),
        schedule={"type": "interval", "every_seconds": 900},
        overlap_policy="allow_all",
        catchup_seconds=0,
        handler=NOOP,
    )
    Execution.objects.filter(task_id=task.id).delete()
    started = factories.now() - timedelta(minutes=47)
    schedule = {**task.schedule, "start_at": started.isoformat()}
    Task.objects.filter(pk=task.pk).update(next_fire_at=started, schedule=schedule)
    rig.stand_by("preloader")
    eventually(lambda: Execution.objects.filter(task_id=task.id).count() > 4)
    past, _ = past_and_ahead(task)
    assert [row.status == Status.SKIPPED for row in past[:4]] == [True, True, True, False]
    for row in past[:3]:
        assert rig.ledger.events(row.id.bytes)[0]["reason"].startswith("misfire: later than 300 s")


def test_what_overlaps_is_skipped_with_a_reason_each_time(rig: Rig) -> None:
    """every 20 s, body 50 s, overlap=skip (here: every 0.5 s, until all came): count skipped slots with reason."""
    rig.ledger.define(handler=held(rig.folder))
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.wait_workers(1)
    key = f"task:{rig.prefix}"
    identities = [i for n in range(4) for i in rig.due(in_ms=300 + 500 * n, slot_key=key, overlap=Overlap.SKIP)]
    eventually(lambda: rig.counted(identities)[Status.SKIPPED] == 3)
    rig.let_end()
    eventually(lambda: rig.counted(identities) == {Status.COMPLETED: 1, Status.SKIPPED: 3})
    for identity in identities:
        if rig.ledger.status(identity) is Status.SKIPPED:
            assert "has not ended" in rig.ledger.events(identity)[-1]["reason"]


def test_never_two_at_once_through_pause_resume_and_run_now(rig: Rig) -> None:
    """overlap=forbid, 20 min run (here: 1 s), pause/resume, plus run-now: at most one active; run-now obeys."""
    rig.ledger.define(handler=sleeping(1, rig.record))
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.wait_workers(1)
    key = f"task:{rig.prefix}"
    identities = rig.due(2, slot_key=key, overlap=Overlap.BUFFER_ALL)
    identities += rig.due(2, in_ms=0, slot_key=key, overlap=Overlap.BUFFER_ALL)
    most = 0

    def all_done() -> bool:
        nonlocal most
        counted = rig.counted(identities)
        most = max(most, counted[Status.RUNNING] + counted[Status.DISPATCHED])
        return counted[Status.COMPLETED] == 4

    eventually(all_done)
    assert most == 1
    rig.assert_once(identities)


def test_a_one_off_that_is_over_stops_nobody(rig: Rig) -> None:
    """one-off plus two periodic tasks: the others keep running; a deleted one leaves the hot tier's way."""
    principal = factories.make_principal()
    soon = (factories.now() + timedelta(seconds=1)).isoformat()
    one_off = factories.make_task(principal, schedule={"type": "one_shot", "run_at": soon}, handler=NOOP)
    periodic = [
        factories.make_task(principal, schedule={"type": "interval", "every_seconds": 1}, handler=NOOP)
        for _ in range(2)
    ]
    rig.stand_by("preloader", "dispatcher", "worker")

    def completed(task: Task) -> int:
        return Execution.objects.filter(task_id=task.id, status=Status.COMPLETED).count()

    eventually(lambda: completed(one_off) == 1)
    before = [completed(task) for task in periodic]
    eventually(lambda: all(completed(task) > n + 1 for task, n in zip(periodic, before, strict=True)))
    assert completed(one_off) == 1


def test_work_of_the_far_future_has_no_lease(rig: Rig) -> None:
    """delay 6 h, lease 60 s, 3 workers (here: 1 s): one execution; unclaimed future work has no lease."""
    rig.environment |= {"CHRONOWEB_CLAIM_DEADLINE_SECONDS": "1", "CHRONOWEB_WORKER_LEASE_SECONDS": "2"}
    rig.environment["CHRONOWEB_HEARTBEAT_SECONDS"] = "0.5"
    rig.stand_by("preloader", "dispatcher", "worker", "watchdog")
    rig.warm_up()
    [far] = rig.due(in_ms=6 * 3_600_000)
    [near] = rig.due(in_ms=1_800_000)
    let_pass(3)  # longer than every lease and deadline
    assert rig.ledger.outstanding() == {}
    assert rig.counted([far, near]) == {Status.SCHEDULED: 1, Status.PRELOADED: 1}
    assert rig.ledger.events(far) == rig.ledger.events(near) == []


def test_the_reaper_needs_no_worker_row(rig: Rig) -> None:
    """kill -9; prune the worker row, then reap; restart with same hostname: taken back all the same, a new id."""
    rig.environment["CHRONOWEB_CLAIM_DEADLINE_SECONDS"] = "1"
    rig.stand_by("preloader", "dispatcher")
    first = rig.start("worker")
    rig.warm_up()
    rig.ledger.define(handler=held(rig.folder))
    identities = rig.due(2)  # as many as begin: what has no slot goes elsewhere
    eventually(lambda: rig.begun() == 2)
    first.kill()
    died_of_kill(first)
    rig.let_end()
    [gone] = [row["id"] for row in rig.ledger.select("DELETE FROM workers RETURNING id")]
    rig.stand_by("watchdog", "worker")
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert gone not in {row["id"] for row in rig.ledger.select("SELECT id FROM workers")}
    assert [rig.ledger.outcomes(i) for i in identities] == [[Outcome.CRASHED, Outcome.SUCCEEDED]] * 2


def test_two_schedulers_of_one_host_and_a_cut_renewal(rig: Rig) -> None:
    """two schedulers, same hostname; drop DB connection during renewal: failure demotes; each slot has one row."""
    task = factories.make_task(
        factories.make_principal(),
        schedule={"type": "interval", "every_seconds": 1},
        overlap_policy="allow_all",
        handler=NOOP,
    )
    rig.stand_by("preloader")
    rig.another("preloader")
    leader = rig.wait_led("preloader")
    for _ in range(3):
        rig.ledger.select(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'lease-preloader'"
        )
        let_pass(0.5)
    eventually(lambda: rig.wait_led("preloader")[1] > leader[1])
    eventually(lambda: Execution.objects.filter(task_id=task.id).count() > 1000)
    doubled = Execution.objects.filter(task_id=task.id).values("nominal_at").annotate(n=Count("id")).filter(n__gt=1)
    assert not doubled.exists()


def test_redelivery_of_what_has_ended_is_ignored(rig: Rig) -> None:
    """restart consumer after DB commit, before offset commit: redelivery of a terminal run acked and ignored."""
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    [identity] = rig.due()
    rig.wait_completed([identity])
    row = rig.ledger.row(identity)
    body, headers = envelope.encode([(identity, row["token"], rig.ledger.now_us())], epoch=1)
    headers[WORKER_HEADER] = str(row["worker_id"])
    publisher = make_publisher(redis_url=rig.environment["REDIS_URL"], redis_prefix=rig.prefix)
    inbox = f"{rig.prefix}inbox:{{{row['worker_id']}}}:"
    confirmation = publisher.publish(Outgoing({"redis": inbox}, 1, body, headers))
    publisher.flush_soon()
    publisher.close()
    assert confirmation.state == "confirmed"
    eventually(lambda: rig.redis.xlen(f"{inbox}standard") == 0)
    more = rig.due(4)
    rig.wait_completed(more)
    assert rig.runs()[identity] == 1
    rig.assert_once([identity, *more])
    assert rig.ledger.row(identity)["version"] == row["version"]


def test_a_deaf_worker_gets_no_work_and_is_not_ready(rig: Rig) -> None:
    """close only the consume stream: heartbeats go on, readiness fails, nothing is assigned to it."""
    deaf = rig.start(
        "worker", "--health-port", "0", off=["chronoweb.runtime.transport.redis_streams.RedisReceiver.receive"]
    )
    port = rig.port(deaf)
    rig.stand_by("preloader", "dispatcher", "worker")
    eventually(lambda: not_ready(port))
    let_pass(4)  # deaf for longer than three seconds
    identities = rig.due(24)
    rig.wait_completed(identities)
    [quiet] = [line["worker"] for line in rig.log(deaf) if line.get("action") == "worker.registered"]
    [row] = rig.ledger.select(
        "SELECT state, heartbeat_at > clock_timestamp() - interval '15 s' AS heard FROM workers WHERE id = %s", quiet
    )
    assert row == {"state": "active", "heard": True}
    assert all(rig.ledger.row(i)["worker_id"] != quiet for i in identities)
    deaf.send_signal(signal.SIGTERM)


def not_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10):
            return False
    except HTTPError as error:
        return error.code == 503


def test_waiters_of_a_slot_start_one_after_another(rig: Rig) -> None:
    """Each end lets the next begin within moments, without the watchdog."""
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    key = f"task:{rig.prefix}"
    identities = rig.due(12, slot_key=key, overlap=Overlap.BUFFER_ALL)
    rig.wait_completed(identities)
    rig.assert_once(identities)


@pytest.mark.drill
def test_a_task_that_kills_its_worker_is_a_dead_letter_after_its_attempts(rig: Rig) -> None:
    """Behaviour 5.3: body that takes its worker along, max 3: counted at the claim; other work is not concerned."""
    victim = rig.folder / "victim"
    kill = {"type": "command", "argv": ["/bin/sh", "-c", f"kill -9 $(cat {victim})"]}
    rig.stand_by("preloader", "dispatcher", "watchdog")
    rig.ledger.define(handler=kill)
    [identity] = rig.due(max_attempts=3)
    for _ in range(3):
        worker = rig.start("worker")
        victim.write_text(str(worker.pid))
        worker.wait(START_SECONDS)
    eventually(lambda: rig.ledger.status(identity) is Status.DEAD_LETTER)
    assert rig.ledger.outcomes(identity) == [Outcome.CRASHED] * 3
    assert "worker lost" in rig.ledger.row(identity)["error"]["message"]
    rig.ledger.define(handler={"type": "python", "name": "demo.noop"})
    rig.start("worker")
    rig.wait_completed(rig.due(5))
