"""What persons and time limits do to runs: stop, pause, clear, mark, skip, approve; and what is never overtaken."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pytest_django import DjangoDbBlocker

from apps.executions import dead_letters, services, store
from apps.executions.dags import operations
from apps.executions.dags.plan import FailurePolicy
from apps.executions.dags.states import RunStatus
from apps.executions.dags.stopping import stop_run
from apps.executions.dead_letters import DeadLetterFilter
from apps.executions.models import DeadLetter, Lease, Replay, ReplayState
from apps.executions.states import Status
from apps.preloader.replays import Replays
from apps.tenants.models import AuditEntry, Role
from apps.tenants.principal import Principal
from apps.watchdog import dag_runs
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SystemClock
from chronoweb.runtime.errors import Conflict, NotFound
from tests.dag_tools import Runs, node, plan, when
from tests.factories import now
from tests.stack import Ledger, django_uses

DIAMOND = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
CHAIN = [("a", "b"), ("b", "c")]


@pytest.fixture
def runs(ledger: Ledger, django_db_blocker: DjangoDbBlocker) -> Iterator[Runs]:
    with django_uses(ledger.url, django_db_blocker):
        yield Runs(ledger)


@pytest.fixture
def person(ledger: Ledger) -> Principal:
    return Principal(UUID(bytes=ledger.tenant), ledger.slug, Role.OPERATOR, "user:ada")


def where(person: Principal, run: bytes, name: str | None = None) -> dict[str, Any]:
    at: dict[str, Any] = {"principal": person, "run_id": UUID(bytes=run)}
    return at if name is None else {**at, "node_id": name}


def running(runs: Runs, run: bytes, name: str) -> bytes:
    """Begin what waits of a node; its id."""
    [row] = [row for row in runs.executions(run, name, waiting=True)]
    runs.begin([row["id"].bytes])
    return row["id"].bytes


# ---- stopping -----------------------------------------------------------------------------------------------------


def test_a_cancelled_run_ends_once_what_runs_has_stopped(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abcd", [("a", "c"), ("b", "d")]))
    busy = running(runs, run, "a")
    operations.cancel_run(**where(person, run), reason="not needed")
    assert runs.states(run) == {"a": "active", "b": "cancelled", "c": "cancelled", "d": "cancelled"}
    assert runs.status(run) == "running"
    assert runs.ledger.row(busy)["cancel_requested_at"] is not None
    operations.cancel_run(**where(person, run))
    runs.finish({busy: Status.CANCELLED})
    assert runs.status(run) == "cancelled"
    assert AuditEntry.objects.filter(target_id=UUID(bytes=run), action="dag_run.cancel").count() == 1
    with pytest.raises(Conflict):
        operations.pause_run(**where(person, run))


def test_another_tenant_sees_no_run(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "a"))
    stranger = Principal(UUID(int=7), "other", Role.OWNER, "user:eve")
    with pytest.raises(NotFound):
        operations.cancel_run(**where(stranger, run))
    with pytest.raises(NotFound):
        operations.clear_node(**where(person, run, "nobody"))


def test_a_paused_run_releases_nothing_until_it_is_resumed(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abcd", DIAMOND))
    operations.pause_run(**where(person, run))
    runs.end(run, a=1)
    assert runs.waiting(run) == []
    assert runs.states(run)["b"] == "pending"
    operations.resume_run(**where(person, run))
    assert runs.waiting(run) == ["b", "c"]
    operations.resume_run(**where(person, run))
    runs.end(run, b=1, c=1)
    runs.end(run, d=1)
    assert runs.status(run) == "succeeded"


def test_a_run_over_its_time_has_timed_out_and_nothing_of_it_looks_fine(runs: Runs) -> None:
    made = plan(runs.ledger, ["a", node("m", map_over="a.result"), "z"], [("a", "m"), ("m", "z")], timeout=3600)
    run = runs.start(made)
    runs.end(run, a=[1, 2, 3])
    busy = running_item(runs, run)
    runs.ledger.connection.execute(
        "UPDATE dag_runs SET deadline_at = clock_timestamp() - interval '1 s' WHERE id = encode(%s, 'hex')::uuid",
        (run,),
    )
    dag_runs.keep_time(runs.ledger.connection)
    assert runs.status(run) == "running"
    runs.finish({busy: Status.CANCELLED})
    assert runs.states(run) == {"a": "succeeded", "m": "failed", "z": "failed"}
    assert runs.nodes(run)["z"]["error"]["type"] == "RunTimeout"
    assert runs.status(run) == "timed_out"


def running_item(runs: Runs, run: bytes) -> bytes:
    [first, *_] = runs.executions(run, "m", waiting=True)
    runs.begin([first["id"].bytes])
    return first["id"].bytes


def test_what_was_written_while_the_run_was_stopped_is_asked_again(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, [node("a", max_attempts=3), "b"]))
    busy = running(runs, run, "a")
    with postgres.connect("other", url=runs.ledger.url) as other, other.transaction():
        other.execute("SELECT 1 FROM executions WHERE id = encode(%s, 'hex')::uuid FOR UPDATE", (busy,))
        with runs.ledger.connection.transaction():
            stop_run(runs.ledger.connection, run, ending=RunStatus.CANCELLED, actor="test", reason="test")
    assert runs.ledger.row(busy)["cancel_requested_at"] is None
    dag_runs.stop_what_runs(runs.ledger.connection)
    assert runs.ledger.row(busy)["cancel_requested_at"] is not None
    runs.finish({busy: Status.RETRYING})
    assert runs.status(run) == "cancelled"


# ---- approvals ----------------------------------------------------------------------------------------------------

APPROVAL = ["a", node("ask", approval={"timeout_seconds": 60, "default": None, "message": "sure?"}), "b"]
ASKED = [("a", "ask"), ("ask", "b")]


def test_an_approval_waits_for_a_person(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, APPROVAL, ASKED))
    with pytest.raises(Conflict):
        operations.decide_approval(**where(person, run, "ask"), approve=True)
    runs.end(run, a=1)
    [asked] = runs.executions(run, "ask")
    assert asked["status"] == Status.WAITING
    operations.decide_approval(**where(person, run, "ask"), approve=True, note="fine")
    [asked] = runs.executions(run, "ask")
    assert asked["result"] == {"approved": True, "by": "user:ada", "note": "fine"}
    assert runs.nodes(run)["ask"]["deadline_at"] is None
    assert runs.waiting(run) == ["b"]


def test_a_rejected_approval_has_failed(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, APPROVAL, ASKED))
    runs.end(run, a=1)
    operations.decide_approval(**where(person, run, "ask"), approve=False)
    assert runs.states(run) == {"a": "succeeded", "ask": "failed", "b": "upstream_failed"}
    assert runs.status(run) == "partially_completed"


@pytest.mark.parametrize(("default", "state"), [("approve", "succeeded"), ("reject", "failed"), (None, "failed")])
def test_nobody_answers_in_time(runs: Runs, default: str | None, state: str) -> None:
    asked = node("ask", approval={"timeout_seconds": 0, "default": default, "message": "sure?"})
    run = runs.start(plan(runs.ledger, [asked]))
    dag_runs.keep_time(runs.ledger.connection)
    assert runs.states(run) == {"ask": state}


# ---- again --------------------------------------------------------------------------------------------------------


def test_clearing_a_node_reopens_what_is_below_and_keeps_history(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abcd", DIAMOND))
    for names in ("a", "bc", "d"):
        runs.end(run, **dict.fromkeys(names, 1))
    assert runs.status(run) == "succeeded"
    operations.clear_node(**where(person, run, "b"))
    assert runs.status(run) == "running"
    assert runs.waiting(run) == ["b"]
    assert runs.states(run) == {"a": "succeeded", "b": "active", "c": "succeeded", "d": "pending"}
    runs.end(run, b=2)
    runs.end(run, d=2)
    assert runs.status(run) == "succeeded"
    assert [row["dag_generation"] for row in runs.executions(run, "d")] == [1, 2]
    assert [row["result"] for row in runs.executions(run, "b")] == [1, 2]


def test_a_clear_while_a_descendant_runs_refuses_the_old_commit(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abc", CHAIN))
    runs.end(run, a=1)
    old = running(runs, run, "b")
    [end] = runs.ends({old: "old"})
    operations.clear_node(**where(person, run, "a"))
    assert store.to_cancel(runs.ledger.connection, worker_id=1) == [old]
    assert store.finish(runs.ledger.connection, [end], worker_id=1) == set()
    assert runs.ledger.status(old) is Status.CANCELLED
    runs.end(run, a=2)
    runs.end(run, b="new")
    assert store.finish(runs.ledger.connection, [end], worker_id=1) == set()
    runs.end(run, c=3)
    assert [(row["dag_generation"], row["status"], row["result"]) for row in runs.executions(run, "b")] == [
        (1, Status.CANCELLED, None),
        (2, Status.COMPLETED, "new"),
    ]
    assert len(runs.executions(run, "c")) == 1
    assert runs.status(run) == "succeeded"


def test_a_rerun_from_what_failed(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abcd", DIAMOND))
    runs.end(run, a=1)
    runs.end(run, b=Status.DEAD_LETTER, c=1)
    assert runs.status(run) == "partially_completed"
    operations.rerun_from_failed(**where(person, run))
    assert runs.waiting(run) == ["b"]
    runs.end(run, b=1)
    runs.end(run, d=1)
    assert runs.status(run) == "succeeded"
    assert not DeadLetter.objects.filter(tenant_id=person.tenant_id).exists()
    with pytest.raises(Conflict):
        operations.rerun_from_failed(**where(person, run))


@pytest.mark.parametrize("ending", [RunStatus.CANCELLED, RunStatus.TIMED_OUT])
def test_nothing_of_a_run_is_reopened_while_it_is_being_stopped(
    runs: Runs, person: Principal, ending: RunStatus
) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    busy = running(runs, run, "a")
    with runs.ledger.connection.transaction():
        stop_run(runs.ledger.connection, run, ending=ending, actor="test", reason="test")
    for act in (
        lambda: operations.rerun_from_failed(**where(person, run)),
        lambda: operations.clear_node(**where(person, run, "b")),
        lambda: operations.mark_node(**where(person, run, "a"), state="success"),
        lambda: operations.skip_node(**where(person, run, "a")),
    ):
        with pytest.raises(Conflict, match="try again when it has ended"):
            act()
    runs.finish({busy: Status.CANCELLED})
    assert runs.status(run) == ending.word
    operations.rerun_from_failed(**where(person, run))
    assert runs.waiting(run) == ["a"]
    runs.end(run, a=1)
    runs.end(run, b=1)
    assert runs.status(run) == "succeeded"


def test_a_rerun_of_a_cancelled_run(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abcd", DIAMOND))
    runs.end(run, a=1)
    runs.end(run, b=1)
    operations.cancel_run(**where(person, run))
    assert runs.status(run) == "cancelled"
    operations.clear_node(**where(person, run, "d"))
    assert runs.states(run)["d"] == "upstream_failed"
    operations.rerun_from_failed(**where(person, run))
    runs.end(run, c=1)
    runs.end(run, d=1)
    assert runs.status(run) == "succeeded"


def test_the_replay_of_a_dead_letter_reopens_its_run(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abc", CHAIN))
    runs.end(run, a=Status.DEAD_LETTER)
    assert runs.status(run) == "failed"
    [dead] = runs.executions(run, "a")
    again = services.replay(principal=person, execution_id=dead["id"])
    assert again != dead["id"]
    assert runs.states(run) == {"a": "active", "b": "pending", "c": "pending"}
    with pytest.raises(Conflict):
        services.retry(principal=person, execution_id=dead["id"])
    runs.end(run, a=1)
    runs.end(run, b=1)
    runs.end(run, c=1)
    assert runs.status(run) == "succeeded"


def test_marking_a_failed_node_as_a_success_decides_what_is_below_anew(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abc", CHAIN))
    runs.end(run, a=Status.DEAD_LETTER)
    operations.mark_node(**where(person, run, "a"), state="success")
    assert runs.states(run) == {"a": "succeeded", "b": "active", "c": "pending"}
    operations.mark_node(**where(person, run, "b"), state="failed")
    assert runs.states(run) == {"a": "succeeded", "b": "failed", "c": "upstream_failed"}
    assert runs.status(run) == "partially_completed"


def test_without_downstream_what_was_decided_stays(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abc", CHAIN))
    runs.end(run, a=Status.DEAD_LETTER)
    operations.clear_node(**where(person, run, "a"), downstream=False)
    runs.end(run, a=1)
    assert runs.states(run) == {"a": "succeeded", "b": "upstream_failed", "c": "upstream_failed"}
    assert runs.status(run) == "partially_completed"


def test_a_rerun_asks_what_was_mended_above(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abc", CHAIN))
    runs.end(run, a=Status.DEAD_LETTER)
    operations.clear_node(**where(person, run, "a"), downstream=False)
    runs.end(run, a=1)
    operations.rerun_from_failed(**where(person, run))
    assert runs.waiting(run) == ["b"]
    runs.end(run, b=1)
    runs.end(run, c=1)
    assert runs.status(run) == "succeeded"


@pytest.mark.parametrize("downstream", [True, False])
def test_a_clear_asks_what_was_marked_above(runs: Runs, person: Principal, downstream: bool) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    runs.end(run, a=Status.DEAD_LETTER)
    operations.mark_node(**where(person, run, "a"), state="success", downstream=False)
    operations.clear_node(**where(person, run, "b"), downstream=downstream)
    assert runs.waiting(run) == ["b"]
    row = runs.nodes(run)["b"]
    assert (row["generation"], row["open"], row["succeeded"], row["failed"]) == (2, 0, 1, 0)


def test_a_rerun_asks_both_parents_of_a_join(runs: Runs, person: Principal) -> None:
    nodes = ["a", "b", node("j", rule="none_failed")]
    run = runs.start(plan(runs.ledger, nodes, [("a", "j"), ("b", "j")]))
    runs.end(run, a=Status.DEAD_LETTER, b=1)
    operations.skip_node(**where(person, run, "a"), downstream=False)
    operations.rerun_from_failed(**where(person, run))
    assert runs.waiting(run) == ["j"]
    row = runs.nodes(run)["j"]
    assert [row[name] for name in ("open", "succeeded", "skipped", "failed", "errors")] == [0, 1, 1, 0, 0]


def test_a_cleared_node_does_not_run_behind_a_parent_that_was_marked_failed(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    runs.end(run, a=1)
    runs.end(run, b=1)
    operations.mark_node(**where(person, run, "a"), state="failed", downstream=False)
    assert runs.states(run) == {"a": "failed", "b": "succeeded"}
    operations.clear_node(**where(person, run, "b"))
    assert runs.states(run) == {"a": "failed", "b": "upstream_failed"}
    assert runs.status(run) == "failed"


def test_a_cleared_node_waits_for_a_parent_that_was_cleared_before(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    runs.end(run, a=1)
    runs.end(run, b=1)
    operations.clear_node(**where(person, run, "a"), downstream=False)
    operations.clear_node(**where(person, run, "b"))
    assert runs.states(run) == {"a": "active", "b": "pending"}
    runs.end(run, a=2)
    assert runs.waiting(run) == ["b"]
    runs.end(run, b=2)
    assert runs.status(run) == "succeeded"
    assert [row["dag_generation"] for row in runs.executions(run, "b")] == [1, 2]


def test_conditions_of_parents_that_are_not_cleared_are_judged_anew(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b", when("a", "equals", 1))]))
    runs.end(run, a=2)
    assert runs.states(run)["b"] == "skipped"
    operations.clear_node(**where(person, run, "a"), downstream=False)
    runs.end(run, a=1)
    operations.clear_node(**where(person, run, "b"))
    assert runs.waiting(run) == ["b"]


def test_a_mapped_node_waits_for_the_list_of_a_cleared_parent_and_is_waited_for(runs: Runs, person: Principal) -> None:
    nodes = ["a", node("m", map_over="a.result"), "z"]
    run = runs.start(plan(runs.ledger, nodes, [("a", "m"), ("m", "z")]))
    runs.end(run, a=[1, 2, 3])
    runs.end(run, m=1)
    runs.end(run, z=1)
    operations.clear_node(**where(person, run, "a"), downstream=False)
    operations.clear_node(**where(person, run, "m"), downstream=False)
    assert runs.states(run) == {"a": "active", "m": "pending", "z": "succeeded"}
    runs.end(run, a=[1])
    assert runs.waiting(run) == ["m[0]"]
    operations.clear_node(**where(person, run, "z"))
    assert runs.states(run)["z"] == "pending"
    runs.end(run, m=Status.DEAD_LETTER)
    assert runs.states(run) == {"a": "succeeded", "m": "failed", "z": "upstream_failed"}
    operations.mark_node(**where(person, run, "m"), state="success", downstream=False)
    operations.rerun_from_failed(**where(person, run))
    assert runs.waiting(run) == ["z"]


def test_a_skipped_node_counts_as_skipped(runs: Runs, person: Principal) -> None:
    nodes = ["a", "b", node("c", rule="none_failed")]
    run = runs.start(plan(runs.ledger, nodes, CHAIN))
    operations.skip_node(**where(person, run, "a"))
    assert runs.states(run) == {"a": "skipped", "b": "skipped", "c": "active"}


def test_the_policy_retry_gives_one_fresh_budget(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, ["a", "b"], [("a", "b")], policy=FailurePolicy.RETRY))
    runs.end(run, a=Status.DEAD_LETTER)
    assert runs.states(run) == {"a": "active", "b": "pending"}
    assert runs.waiting(run) == ["a"]
    runs.end(run, a=Status.DEAD_LETTER)
    assert runs.states(run) == {"a": "failed", "b": "upstream_failed"}


# ---- unheard ------------------------------------------------------------------------------------------------------


def test_an_end_of_which_the_run_never_heard_is_told_by_the_watchdog(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.start(plan(runs.ledger, ["a", node("m", map_over="a.result"), "b"], [("a", "m"), ("m", "b")]))
    monkeypatch.setattr(dag_runs, "_MISSED_SECONDS", -1.0)
    for outcome in ([1, 2], 5):
        rows = runs.executions(run, waiting=True)
        runs.begin([row["id"].bytes for row in rows])
        store.finish(runs.ledger.connection, runs.ends({row["id"].bytes: outcome for row in rows}), worker_id=1)
        assert runs.waiting(run) == []
        assert dag_runs.hear_missed_ends(runs.ledger.connection) == len(rows)
        assert dag_runs.hear_missed_ends(runs.ledger.connection) == 0
    assert runs.waiting(run) == ["b"]


def test_a_cancelled_execution_of_a_run_is_heard_of(runs: Runs, person: Principal) -> None:
    run = runs.start(plan(runs.ledger, "abc", CHAIN))
    [first] = runs.executions(run, "a")
    services.cancel(principal=person, execution_id=first["id"])
    assert runs.states(run) == {"a": "cancelled", "b": "upstream_failed", "c": "upstream_failed"}
    assert runs.status(run) == "failed"


class _Slow(SystemClock):
    """Each look at it takes a tenth of a second."""

    moment = 0.0

    def monotonic(self) -> float:
        self.moment += 0.1
        return self.moment


def test_a_replay_of_many_nodes_gives_way_after_a_moment_and_goes_on(runs: Runs, person: Principal) -> None:
    """A clear costs some 20 ms: with a thousand in one pass nobody's triggers would enter the hot tier meanwhile."""
    made = plan(runs.ledger, "abc", CHAIN)
    begun = [runs.start(made) for _ in range(8)]
    for run in begun:
        runs.end(run, a=Status.DEAD_LETTER)
    moment = now()
    Lease.objects.create(
        role="preloader", holder=UUID(int=1), epoch=1, expires_at=moment + timedelta(hours=1), acquired_at=moment
    )
    asked = dead_letters.start_replay(principal=person, wanted=DeadLetterFilter(), per_second=1000)
    moved = []
    mover = Replays("preloader", _Slow())
    while Replay.objects.get(id=asked.id).state == ReplayState.RUNNING:
        moved.append(mover.move_on(1))
    assert max(moved) < 8
    assert sum(moved) == Replay.objects.get(id=asked.id).replayed == 8
    assert Replay.objects.get(id=asked.id).left_out == 0
    assert [runs.states(run)["a"] for run in begun] == ["active"] * 8
    assert [len(runs.executions(run, "a")) for run in begun] == [2] * 8
