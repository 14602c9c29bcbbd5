"""Many dead letters by filter: counted, sent round again at a pace, each once, with progress and a stop."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection

from apps.definitions import services as definitions
from apps.executions import dead_letters, services
from apps.executions.dead_letters import DeadLetterFilter
from apps.executions.models import DeadLetter, Lease, Replay, ReplayState
from apps.executions.states import Status
from apps.preloader.replays import Replays
from apps.tenants.models import AuditEntry
from chronoweb.runtime.errors import LeadershipLost
from tests.factories import execution, make_api, make_principal, make_task, now, pointers, problem, reasons, reread

pytestmark = pytest.mark.django_db(transaction=True)
EPOCH = 3


@pytest.fixture
def mover() -> Replays:
    moment = now()
    hour = moment + timedelta(hours=1)
    Lease.objects.create(role="preloader", holder=UUID(int=1), epoch=EPOCH, expires_at=hour, acquired_at=moment)
    return Replays("preloader")


def test_by_filter_at_a_pace_with_progress(mover: Replays) -> None:
    api = make_api()
    wanted, other = make_task(api.principal), make_task(api.principal)
    rows = [execution(wanted, Status.DEAD_LETTER) for _ in range(5)]
    left = execution(other, Status.DEAD_LETTER)
    asked = {"task_id": str(wanted.id), "per_second": 2}
    assert api.post("/admin/dlq/retry-all", {**asked, "dry_run": True}).json() == {"matching": 5}
    assert not Replay.objects.exists()
    answer = api.post("/admin/dlq/retry-all", asked)
    assert answer.status_code == 202
    made = answer.json()
    assert (made["state"], made["total"], made["replayed"]) == ("running", 5, 0)
    path = answer["Location"].removeprefix("/api/v1")
    assert mover.move_on(EPOCH) == 2
    assert api.get(path).json()["replayed"] == 2
    assert mover.move_on(EPOCH) == 2
    assert mover.move_on(EPOCH) == 1
    ended = api.get(path).json()
    assert (ended["state"], ended["replayed"], ended["left_out"]) == ("finished", 5, 0)
    assert api.get("/admin/dlq/replays").json()["items"] == [ended]
    for row in rows:
        again = reread(row)
        assert (again.state, again.max_attempts) == (
            Status.SCHEDULED,
            1 + again.task_version.definition["retry_policy"]["max_attempts"],
        )
        assert again.wake_at is not None
        assert reasons(row)[-1] == f"replayed from the dead letters by {made['id']}"
    assert reread(left).state is Status.DEAD_LETTER
    assert [item["id"] for item in api.get("/admin/dlq").json()["items"]] == [str(left.id)]
    assert list(AuditEntry.objects.filter(target_id=made["id"]).values_list("action", flat=True)) == ["replay.start"]


def test_a_second_call_does_nothing_more(mover: Replays) -> None:
    """Behaviour 5.6: the second click is a no-op, at once and afterwards."""
    principal = make_principal()
    task = make_task(principal)
    rows = [execution(task, Status.DEAD_LETTER) for _ in range(40)]
    start = threading.Barrier(2)

    def click(_: int) -> UUID:
        start.wait()
        try:
            return dead_letters.start_replay(
                principal=principal, wanted=DeadLetterFilter(task_id=task.id), per_second=25
            ).id
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(click, range(2)))) == 1
    assert mover.move_on(EPOCH) == 25
    assert mover.move_on(EPOCH) == 15
    assert {reread(row).version for row in rows} == {rows[0].version + 1}, "each once"
    again = dead_letters.start_replay(principal=principal, wanted=DeadLetterFilter(task_id=task.id))
    assert again.total == 0
    assert mover.move_on(EPOCH) == 0
    assert Replay.objects.get(id=again.id).state == ReplayState.FINISHED


def test_two_preloaders_at_once_replay_each_once(mover: Replays) -> None:
    principal = make_principal()
    rows = [execution(make_task(principal), Status.DEAD_LETTER) for _ in range(20)]
    dead_letters.start_replay(principal=principal, wanted=DeadLetterFilter(), per_second=20)

    def move(_: int) -> int:
        try:
            return mover.move_on(EPOCH)
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(move, range(3))) == 20
    assert {reread(row).version for row in rows} == {rows[0].version + 1}


def test_stopped_it_replays_nothing_more(mover: Replays) -> None:
    api = make_api()
    task = make_task(api.principal)
    rows = [execution(task, Status.DEAD_LETTER) for _ in range(4)]
    made = api.post("/admin/dlq/retry-all", {"per_second": 3}).json()
    mover.move_on(EPOCH)
    stopped = api.post(f"/admin/dlq/replays/{made['id']}/stop").json()
    assert (stopped["state"], stopped["replayed"]) == ("stopped", 3)
    assert api.post(f"/admin/dlq/replays/{made['id']}/stop").json() == stopped
    assert mover.move_on(EPOCH) == 0
    assert sum(reread(row).state is Status.DEAD_LETTER for row in rows) == 1


def test_what_dies_afterwards_and_what_others_saw_to_is_left_out(mover: Replays) -> None:
    principal = make_principal()
    task, deleted = make_task(principal), make_task(principal)
    kept, discarded = (execution(task, Status.DEAD_LETTER) for _ in range(2))
    of_deleted = execution(deleted, Status.DEAD_LETTER)
    made = dead_letters.start_replay(principal=principal, wanted=DeadLetterFilter())
    later = execution(task, Status.DEAD_LETTER)
    DeadLetter.objects.filter(execution_id=later.id).update(since=now() + timedelta(seconds=5))
    services.discard(principal=principal, execution_id=discarded.id, reason="known")
    definitions.delete_task(principal=principal, task_id=deleted.id)
    assert mover.move_on(EPOCH) == 1
    found = Replay.objects.get(id=made.id)
    assert (found.replayed, found.left_out, found.state) == (1, 1, ReplayState.FINISHED)
    assert reread(kept).state is Status.SCHEDULED
    assert {reread(row).state for row in (later, of_deleted)} == {Status.DEAD_LETTER}
    assert AuditEntry.objects.get(action="execution.discard").detail == {"reason": "known"}


def test_who_leads_no_more_replays_nothing(mover: Replays) -> None:
    principal = make_principal()
    row = execution(make_task(principal), Status.DEAD_LETTER)
    dead_letters.start_replay(principal=principal, wanted=DeadLetterFilter())
    with pytest.raises(LeadershipLost):
        mover.move_on(EPOCH - 1)
    assert reread(row).state is Status.DEAD_LETTER


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task_id", "nobody"),
        ("task_id", 7),
        ("fingerprint", 7),
        ("since", "yesterday"),
        ("per_second", 0),
        ("per_second", 1001),
        ("from_start", "yes"),
        ("dry_run", 1),
        ("current_version", "yes"),
        ("ids", []),
        ("ids", ["nobody"]),
        ("ids", str(UUID(int=0))),
        ("color", "red"),
    ],
)
def test_what_cannot_be_asked_is_refused(field: str, value: object) -> None:
    answer = make_api().post("/admin/dlq/retry-all", {field: value})
    assert pointers(problem(answer, 422)) == {f"/{field}"}


def test_dead_letters_are_listed_by_what_they_died_of_and_when() -> None:
    api = make_api()
    task = make_task(api.principal)
    old, new = (execution(task, Status.DEAD_LETTER) for _ in range(2))
    DeadLetter.objects.filter(execution_id=old.id).update(since=now() - timedelta(days=2), fingerprint="HTTP 503")
    edge = (now() - timedelta(days=1)).isoformat().replace("+00:00", "Z")

    def listed(query: str) -> list[str]:
        return [item["id"] for item in api.get(f"/admin/dlq?{query}").json()["items"]]

    assert listed("fingerprint=HTTP 503") == [str(old.id)]
    assert listed(f"since={edge}") == [str(new.id)]
    assert listed(f"until={edge}") == [str(old.id)]


def test_chosen_ones_alone_and_each_that_was_not_is_told(mover: Replays) -> None:
    """Another tenant's is as one that never was. What somebody else saw to, or died again, in between is told too."""
    api = make_api()
    task = make_task(api.principal)
    rows = [execution(task, Status.DEAD_LETTER) for _ in range(5)]
    foreign = execution(make_task(make_principal()), Status.DEAD_LETTER)
    meant = [str(row.id) for row in [*rows[:4], foreign]]
    assert api.post("/admin/dlq/retry-all", {"ids": meant, "dry_run": True}).json() == {"matching": 4}
    made = api.post("/admin/dlq/retry-all", {"ids": meant, "per_second": 2}).json()
    missing = {"id": str(foreign.id), "detail": dead_letters.MISSING}
    assert (made["total"], made["left_out"], made["refused"]) == (5, 1, [missing])
    assert api.post("/admin/dlq/retry-all", {"ids": meant[::-1], "per_second": 2}).json()["id"] == made["id"]
    services.discard(principal=api.principal, execution_id=rows[1].id, reason="known")
    DeadLetter.objects.filter(execution_id=rows[2].id).update(since=now() + timedelta(seconds=5))
    while Replay.objects.get(id=made["id"]).state == ReplayState.RUNNING:
        mover.move_on(EPOCH)
    ended = api.get(f"/admin/dlq/replays/{made['id']}").json()
    assert (ended["replayed"], ended["left_out"]) == (2, 3)
    assert {one["id"] for one in ended["refused"]} == {str(foreign.id), str(rows[1].id), str(rows[2].id)}
    wanted = [Status.SCHEDULED, Status.CANCELLED, Status.DEAD_LETTER, Status.SCHEDULED, Status.DEAD_LETTER]
    assert [reread(row).state for row in rows] == wanted
    assert reread(foreign).state is Status.DEAD_LETTER


def test_under_the_versions_in_force_and_what_does_not_fit_is_told(mover: Replays) -> None:
    """Each with the terms of its own task, parameters of its own kept; in one pass, with an event of each."""
    api = make_api()
    task, other = make_task(api.principal, parameters={"n": 1}), make_task(api.principal)
    rows = [execution(task, Status.DEAD_LETTER, attempt=attempt) for attempt in (3, 4)]
    own = execution(task, Status.DEAD_LETTER, attempt=3, payload={"customer": 7})
    same = execution(other, Status.DEAD_LETTER, attempt=3)
    misfit = execution(task, Status.DEAD_LETTER, attempt=3, payload={"nobody": 1})
    key = {"key": "c-{{ parameters.customer }}", "limit": 1}
    mended = {"retry_policy": {"max_attempts": 2}, "priority": 1, "parameters": {"customer": 5}, "concurrency": key}
    definitions.update_task(principal=api.principal, task_id=task.id, data=mended, partial=True)
    before = same.version
    made = api.post("/admin/dlq/retry-all", {"current_version": True}).json()
    assert made["current_version"] is True
    other_terms = problem(api.post("/admin/dlq/retry-all", {}), 409)
    assert "differs in the version" in other_terms["detail"]
    mover.move_on(EPOCH)
    found = [reread(row) for row in [*rows, own, same]]
    assert [one.state for one in found] == [Status.SCHEDULED] * 4
    terms = [(one.task_version.number, one.max_attempts, one.priority) for one in found[:3]]
    assert terms == [(2, 5, 1), (2, 6, 1), (2, 5, 1)]
    assert [one.parameters for one in found[:3]] == [{"customer": 5}, {"customer": 5}, {"customer": 7}]
    assert [str(one.concurrency_key).rpartition("c-")[2] for one in found[:3]] == ["5", "5", "7"]
    assert (found[3].task_version.number, found[3].version) == (1, before + 1)
    assert reasons(own) == [f"replayed from the dead letters by {made['id']}", "goes on under version 2 of its task"]
    [refused] = api.get(f"/admin/dlq/replays/{made['id']}").json()["refused"]
    assert refused["id"] == str(misfit.id)
    assert "do not fit version 2" in refused["detail"]
    assert reread(misfit).state is Status.DEAD_LETTER


def test_many_are_discarded_over_the_api_as_they_were_counted() -> None:
    api = make_api()
    rows = [execution(make_task(api.principal), Status.DEAD_LETTER) for _ in range(3)]
    foreign = execution(make_task(make_principal()), Status.DEAD_LETTER)
    lost = api.post("/admin/dlq/discard-all")
    assert lost.status_code == 422
    assert "a body is needed" in lost.json()["errors"][0]["detail"]
    no_reasons: tuple[object, ...] = ("x" * 1001, 0, [])
    for reason in no_reasons:
        wrong = api.post("/admin/dlq/discard-all", {"ids": [str(foreign.id)], "reason": reason})
        assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/reason")
    counted = api.post("/admin/dlq/discard-all", {"dry_run": True}).json()
    assert counted["matching"] == 3
    DeadLetter.objects.filter(execution_id=rows[2].id).update(since=now() + timedelta(seconds=5))
    chosen = {"ids": [str(rows[0].id), str(foreign.id)], "reason": "known"}
    told = api.post("/admin/dlq/discard-all", chosen).json()
    assert told == {"done": 1, "refused": [{"id": str(foreign.id), "detail": dead_letters.MISSING}], "remaining": 0}
    rest = api.post("/admin/dlq/discard-all", {"until": counted["counted_at"]}).json()
    assert rest == {"done": 1, "refused": [], "remaining": 0}
    wanted = [Status.CANCELLED, Status.CANCELLED, Status.DEAD_LETTER, Status.DEAD_LETTER]
    assert [reread(row).state for row in [*rows, foreign]] == wanted
    assert AuditEntry.objects.filter(action="execution.discard").count() == 2
