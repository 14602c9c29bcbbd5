"""The installation of test_end_to_end.py once more: how many run at once, how often, and what that costs PostgreSQL."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

import pytest

from apps.definitions import services as definitions
from apps.definitions.dags import making
from apps.definitions.dags.triggering import trigger_dag
from apps.definitions.models import Task
from apps.executions.dags import operations
from apps.executions.dags.models import RunNode
from apps.executions.models import Execution, StandingHold
from apps.executions.states import ACTIVE, Hold, Outcome, Status
from apps.explain import service
from apps.explain.words import Code
from tests.explain_removal import GENEROUS_SECONDS, QUICK, place, seconds_to_start  # noqa: F401 - fixture
from tests.factories import make_principal
from tests.test_end_to_end import Installation, fresh, installation, of_task, outcomes, status  # noqa: F401 - fixture
from tests.waiting import eventually

WAIT = {"type": "python", "name": "playground.wait"}
FLAKY = {"type": "python", "name": "demo.flaky"}
ENDED = (Status.COMPLETED, Status.CANCELLED, Status.SKIPPED, Status.DEAD_LETTER)


def limited(installation: Installation, limit: int, when_full: str, seconds: float) -> Task:  # noqa: F811
    # A key of its own: tasks of one tenant that come to the same key share its places.
    concurrency = {"key": when_full + "-{{ parameters.customer }}", "limit": limit, "when_full": when_full}
    parameters = {"customer": 42, "seconds": seconds}
    handler = {"type": "command", "argv": ["/bin/sh", "-c", f"sleep {seconds}"]}
    return installation.task(handler=handler, parameters=parameters, concurrency=concurrency)


def batch(installation: Installation, task: Task, items: Sequence[dict[str, object]]) -> list[Execution]:  # noqa: F811
    made = definitions.trigger_batch(principal=installation.principal, task_id=task.id, items=list(items))
    return [Execution.objects.with_id(identity).get() for identity in made]


def counted(rows: Sequence[Execution]) -> Counter[Status]:
    return Counter(status(row) for row in rows)


def spans_of(rows: Sequence[Execution]) -> list[tuple[datetime, datetime]]:
    """When each ran, the first first."""
    return sorted((row.started_at, row.finished_at) for row in rows if row.started_at and row.finished_at)


def active(task: Task) -> int:
    return Execution.objects.filter(task_id=task.id, status__in=ACTIVE).count()


def test_never_more_at_once_than_the_key_has_places(installation: Installation) -> None:  # noqa: F811
    task = limited(installation, 2, "queue", 0.3)
    rows = batch(installation, task, [{}] * 7)
    [other] = batch(installation, task, [{"parameters": {"customer": 7}}])
    eventually(lambda: status(other) is Status.COMPLETED)
    most = 0

    def all_done() -> bool:
        nonlocal most
        most = max(most, active(task))
        return counted(rows)[Status.COMPLETED] == 7

    eventually(all_done, every=0.01)
    assert most <= 2
    spans = spans_of([fresh(row) for row in rows])
    for begun, _ in spans:
        assert sum(1 for start, end in spans if start <= begun < end) <= 2


def test_when_full_the_newest_is_skipped_or_the_oldest_cancelled(installation: Installation) -> None:  # noqa: F811
    skips, cancels = (limited(installation, 1, when_full, 30) for when_full in ("skip_newest", "cancel_oldest"))
    first, oldest = installation.trigger(skips), installation.trigger(cancels)
    eventually(lambda: status(first) is status(oldest) is Status.RUNNING)
    newest = installation.trigger(skips)
    eventually(lambda: status(newest) is Status.SKIPPED)
    latest = installation.trigger(cancels)
    eventually(lambda: status(latest) is Status.RUNNING)
    assert status(oldest) is Status.CANCELLED
    assert outcomes(oldest) == [Outcome.CANCELLED]
    for row in (first, latest):
        Execution.objects.with_id(row.id).update(cancel_requested_at=installation.now())
    eventually(lambda: status(first) is status(latest) is Status.CANCELLED)


def test_never_two_at_once_through_pause_resume_and_run_now(installation: Installation) -> None:  # noqa: F811
    """Behaviour 2.7: overlap forbidden, runs of 0.7 s each 0.5 s, paused and resumed in the middle, plus run-now."""
    task = installation.task(
        handler=WAIT,
        parameters={"seconds": 0.7},
        overlap_policy="buffer_one",
        schedule={"type": "interval", "every_seconds": 1},
    )
    most = 0

    def done(count: int) -> bool:
        nonlocal most
        most = max(most, active(task))
        return len(of_task(task, Status.COMPLETED)) >= count

    eventually(lambda: done(1), every=0.01)
    for act in (definitions.pause_task, definitions.resume_task):
        act(principal=installation.principal, task_id=task.id)
        now = [installation.trigger(task) for _ in range(2)]
        eventually(lambda: done(1) and all(status(row) in ENDED for row in now), every=0.01)  # noqa: B023
    definitions.delete_task(principal=installation.principal, task_id=task.id)
    assert most == 1
    spans = spans_of(of_task(task, Status.COMPLETED))
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize(("retries", "executions"), [(0, 1), (1, 2), (3, 4)])
def test_retries_and_attempts(installation: Installation, retries: int, executions: int) -> None:  # noqa: F811
    """Behaviour 5.7: the first is an attempt, too. A program each: five failures of one would open its circuit."""
    handler = {"type": "command", "argv": ["/bin/sh", "-c", "exit 1"]} if retries == 3 else FLAKY
    policy = {"max_attempts": retries + 1, "backoff": "fixed", "base_delay_seconds": 0}
    row = installation.trigger(installation.task(handler=handler, retry_policy=policy, parameters={"failures": 99}))
    eventually(lambda: status(row) is Status.DEAD_LETTER)
    assert outcomes(row) == [Outcome.FAILED] * executions
    assert (fresh(row).attempt, fresh(row).max_attempts) == (executions, executions)


def test_sessions_are_few_and_one_of_them_listens(installation: Installation) -> None:  # noqa: F811
    """Behaviour 10.7: each process has a handful of sessions whatever it does, and only the preloader one to listen."""
    rows = batch(installation, installation.task(), [{}] * 300)
    eventually(lambda: counted(rows)[Status.COMPLETED] == 300)
    found = installation.connection.execute(
        "SELECT application_name, count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() GROUP BY 1"
    ).fetchall()
    sessions: dict[str, int] = dict(found)
    of = {name: sum(n for label, n in sessions.items() if label.startswith(name)) for name in ("worker", "preloader")}
    assert of["worker"] <= 5, sessions
    assert of["preloader"] <= 5, sessions
    assert sum(n for label, n in sessions.items() if label.startswith(("dispatcher", "watchdog"))) <= 8, sessions
    assert [label for label in sessions if "listen" in label] == ["preloader-listen"]


# ---- what keeps work waiting says so, and its removal starts it (test_explain_drill.py asserts the second) ---------


def test_each_cause_is_told_and_its_removal_starts_the_execution(place: Installation) -> None:  # noqa: F811
    took: dict[str, float] = {}
    for name, cause in QUICK.items():
        place.principal = make_principal()
        took[name] = seconds_to_start(place, cause)
    print("\n".join(f"{name}: started {seconds * 1000:.0f} ms after it was removed" for name, seconds in took.items()))
    assert all(seconds < GENEROUS_SECONDS for seconds in took.values()), took
    assert not StandingHold.objects.filter(reason__in=(Hold.FROZEN, Hold.QUOTA)).exists()


def test_an_answer_lets_the_next_node_begin(place: Installation) -> None:  # noqa: F811
    work = {"handler": {"type": "python", "name": "demo.noop"}}
    nodes = [{"id": "sign", "approval": {"message": "?"}}, {"id": "then", **work, "depends_on": ["sign"]}]
    dag = making.create_dag(principal=place.principal, data={"name": "signed", "nodes": nodes})
    run = trigger_dag(principal=place.principal, dag_id=dag.id)

    def waits() -> bool:
        found = service.explain_node(place.principal, run, "then")
        return [reason.code for reason in found.reasons] == [Code.OPEN_DEPENDENCIES]

    eventually(waits)
    operations.decide_approval(principal=place.principal, run_id=run, node_id="sign", approve=True)
    removed = place.now()

    def begun() -> datetime | None:
        node = RunNode.objects.get(run_id=run, node_id="then")
        return None if node.execution_id is None else Execution.objects.with_id(node.execution_id).get().started_at

    started = eventually(begun, every=0.01)
    assert started is not None
    print(f"then: {(started - removed).total_seconds() * 1000:.0f} ms")
    assert (started - removed).total_seconds() < GENEROUS_SECONDS
