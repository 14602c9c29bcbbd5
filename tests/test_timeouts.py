"""Time limits beside that of one attempt: waiting in the queue, all attempts together, silence."""

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from apps.definitions import advice
from apps.definitions import services as definitions
from apps.executions import services, store
from apps.executions.models import Execution
from apps.executions.retry import RetryPolicy
from apps.executions.rows import Claimed
from apps.executions.states import Hold, Outcome, Overlap, Status
from apps.worker.jobs import RunResult
from apps.worker.verdict import decide
from apps.worker.versions import Terms, Versions
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.database_clock import DatabaseClock
from tests import factories
from tests.factories import Api, document, make_api, pointers, problem
from tests.runner_tools import assignment
from tests.stack import EPOCH, Ledger

TOKEN = EPOCH << 32
SECOND = 1_000_000


# ---- the document -------------------------------------------------------------------------------------------------


@pytest.fixture
def api(db: None) -> Api:
    return make_api()


def test_limits_come_back_and_null_is_none(api: Api) -> None:
    given = {"queue_seconds": 60, "total_seconds": None, "heartbeat_seconds": 30}
    task = api.post("/tasks", document(timeouts=given)).json()
    assert task["timeouts"] == {"queue_seconds": 60, "heartbeat_seconds": 30}
    path = f"/tasks/{task['id']}"
    assert api.get(path).json()["timeouts"] == task["timeouts"]
    assert api.call("patch", path, {"timeouts": {}}).json()["timeouts"] == {}
    assert api.call("patch", path, {"timeouts": {}}).json()["version"] == 2, "nothing changed"


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ([], "/timeouts"),
        ({"queue": 1}, "/timeouts/queue"),
        ({"queue_seconds": 0}, "/timeouts/queue_seconds"),
        ({"total_seconds": 1.5}, "/timeouts/total_seconds"),
        ({"heartbeat_seconds": True}, "/timeouts/heartbeat_seconds"),
        ({"total_seconds": 604_801}, "/timeouts/total_seconds"),
    ],
)
def test_what_is_no_limit_is_refused(api: Api, given: Any, pointer: str) -> None:
    assert pointers(problem(api.post("/tasks", document(timeouts=given)), 422)) == {pointer}


def test_a_long_attempt_that_need_not_tell_it_lives_is_warned_of(api: Api) -> None:
    def warned(**changes: Any) -> list[str]:
        answer = api.post("/tasks", document(**changes))
        assert answer.status_code == 201, answer.content
        return [warning["pointer"] for warning in answer.json()["warnings"]]

    assert warned(timeout_seconds=900) == []
    assert warned(timeout_seconds=901) == ["/timeouts/heartbeat_seconds"]
    assert warned(timeout_seconds=901, timeouts={"heartbeat_seconds": 60}) == []
    assert advice.LONG_SECONDS == 900


def test_references_of_dags_in_a_plain_task_are_warned_of(api: Api) -> None:
    argv = ["echo", "{{ parameters.x }}", "{", "x-{{run.id}}"]
    command = {"type": "command", "argv": argv, "environment": {"A": "{{ parameters.x }}"}}
    concurrency = {"key": "customer-{{ parameters.x }}", "limit": 1}
    given = document(handler=command, parameters={"x": "{{ item }}"}, concurrency=concurrency)
    answer = api.post("/tasks", given)
    assert answer.status_code == 201, answer.content
    warnings = answer.json()["warnings"]
    assert [one["pointer"] for one in warnings] == [
        "/handler/argv/1",
        "/handler/argv/3",
        "/handler/environment/A",
        "/parameters/x",
    ]
    assert "nodes of DAGs only" in warnings[0]["detail"]
    assert "CHRONOWEB_PARAMETERS" in warnings[0]["detail"]


# ---- the queue ----------------------------------------------------------------------------------------------------


def test_the_limit_is_in_every_row_and_an_edit_changes_it(db: None) -> None:
    principal = factories.make_principal()
    task = factories.make_task(principal, schedule=factories.EACH_MINUTE, timeouts={"queue_seconds": 90})
    assert {row.queue_seconds for row in factories.materialise(task, ahead=timedelta(minutes=3))} == {90}
    definitions.update_task(principal=principal, task_id=task.id, data={"timeouts": {}}, partial=True)
    assert {row.queue_seconds for row in factories.rows_of(task)} == {None}


def late(ledger: Ledger, seconds: float, *, queue: int = 10, **more: Any) -> bytes:
    """A preloaded execution that has waited so long."""
    [identity] = ledger.add(status=Status.PRELOADED, **more)
    ledger.connection.execute(
        "UPDATE executions SET queue_seconds = %s, run_at = clock_timestamp() - %s * interval '1 second'"
        " WHERE id = encode(%s, 'hex')::uuid",
        (queue, seconds, identity),
    )
    return identity


def test_what_has_waited_too_long_is_a_dead_letter_and_says_why(ledger: Ledger) -> None:
    over, in_time = late(ledger, 10.5), late(ledger, 1)
    assert ledger.dispatch([over, in_time]) == {over: Status.DEAD_LETTER, in_time: Status.DISPATCHED}
    row = ledger.row(over)
    assert row["error"]["type"] == "QueueTimeout"
    assert "queue_seconds (10 s)" in row["error"]["message"]
    assert row["finished_at"] is not None
    assert row["attempt"] == 0
    assert [event["reason"] for event in ledger.events(over)] == ["queue timeout: it waited longer than queue_seconds"]
    assert ledger.select("SELECT fingerprint FROM dead_letters WHERE execution_id = %s", row["id"]) == [
        {"fingerprint": "QueueTimeout"}
    ]
    assert over not in ledger.outstanding()


def test_what_is_held_is_not_judged_before_it_may_run(ledger: Ledger) -> None:
    over = late(ledger, 60)
    ledger.hold(ledger.task, Hold.PAUSED)
    assert ledger.dispatch([over]) == {over: Status.SCHEDULED}
    ledger.release_hold(ledger.task, Hold.PAUSED)


def test_its_slot_goes_to_the_next(ledger: Ledger) -> None:
    """A retry that holds the slot has waited too long."""
    key = f"slot:{ledger.slug}"
    over = late(ledger, 60, slot_key=key, overlap=Overlap.BUFFER_ALL)
    ledger.connection.execute(
        "INSERT INTO slots (key, n, execution_id, scheduled_at) SELECT slot_key, 0, id, scheduled_at FROM executions"
        " WHERE id = encode(%s, 'hex')::uuid",
        (over,),
    )
    ledger.dispatch([over])
    assert ledger.slot_holder(key) is None


def test_a_replay_waits_anew(db: None) -> None:
    principal = factories.make_principal()
    task = factories.make_task(principal, timeouts={"queue_seconds": 5})
    row = factories.execution(task, Status.DEAD_LETTER, queue_seconds=5)
    services.replay(principal=principal, execution_id=row.id)
    fresh = Execution.objects.with_id(row.id).get()
    assert fresh.run_at > row.run_at
    assert fresh.queue_seconds == 5


# ---- all attempts together ----------------------------------------------------------------------------------------


def version(ledger: Ledger, **timeouts: int) -> Versions:
    number = ledger.define()
    ledger.connection.execute(
        "UPDATE task_versions SET definition = jsonb_set(definition, '{timeouts}', %s) WHERE id = %s",
        (Jsonb(timeouts), number),
    )
    known = Versions()
    known.load(ledger.connection, [number])
    return known


def claimed(ledger: Ledger, *, attempt: int = 1, max_attempts: int = 4) -> Claimed:
    now = ledger.now_us()
    return Claimed(bytes(16), TOKEN, attempt, max_attempts, ledger.version, ledger.tenant, None, now, None, None, "k")


def test_an_attempt_gets_what_is_left(ledger: Ledger) -> None:
    known = version(ledger, total_seconds=40, heartbeat_seconds=7)
    one = claimed(ledger)
    first = known.assignment(one)
    assert (first.timeout_seconds, first.total_is_nearer, first.heartbeat_seconds) == (30, False, 7)
    began = one.run_at_us - 25 * SECOND
    later = known.assignment(one, first_start_us=began, now_us=one.run_at_us)
    assert (later.timeout_seconds, later.total_is_nearer) == (15, True)
    over = known.assignment(one, first_start_us=began - 20 * SECOND, now_us=one.run_at_us)
    assert over.timeout_seconds <= 0


def test_the_first_start_is_read_from_the_attempts_that_count(ledger: Ledger) -> None:
    tried, given_back, fresh = ledger.add(3, status=Status.DISPATCHED)
    for identity in (tried, given_back):
        store.claim(ledger.connection, [identity], [TOKEN], worker_id=1)
    began = ledger.now_us()
    store.note_started(ledger.connection, [(tried, TOKEN, began)], worker_id=1)
    store.release(ledger.connection, [tried, given_back], [TOKEN] * 2, worker_id=1)
    everything = [(tried, 0), (given_back, 0), (fresh, 0)]
    assert store.first_starts(ledger.connection, everything) == {tried: began}, "the other was given back unbegun"
    assert store.first_starts(ledger.connection, [(tried, 1)]) == {}, "a replay starts afresh"


def test_a_replay_has_the_whole_time_again(ledger: Ledger) -> None:
    known = version(ledger, total_seconds=40)
    assert known.counts_after(claimed(ledger, max_attempts=4)) == 0
    assert known.counts_after(claimed(ledger, attempt=5, max_attempts=8)) == 4
    assert version(ledger).counts_after(claimed(ledger)) is None


@pytest.mark.parametrize(("delay", "target"), [(5, Status.RETRYING), (20, Status.DEAD_LETTER)])
def test_no_attempt_is_waited_for_that_would_have_no_time(delay: int, target: Status) -> None:
    clock = DatabaseClock()
    clock.observe(int(SYSTEM_CLOCK.time() * 1e6))
    given = assignment("x")
    now = int(SYSTEM_CLOCK.time() * 1e6)
    given.total_seconds, given.first_start_us = 40.0, now - 25 * SECOND
    one = Claimed(bytes(16), TOKEN, 1, 4, 1, bytes(16), None, now, None, None, "key")
    result = RunResult(given, Outcome.FAILED, now, now, None, {"type": "E", "message": "m"})
    finish = decide(one, result, Terms(RetryPolicy(backoff="fixed", base_delay_seconds=delay)), clock)
    assert finish.target is target
    assert (finish.fingerprint is not None) == (target is Status.DEAD_LETTER)
