"""Circuits in the ledger: what workers report, what dispatch and claim hold back, who goes first, who resets."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from apps.executions import circuit_store, ids, store
from apps.executions.circuit_store import News
from apps.executions.circuits import LOTS, SAMPLE, CircuitTerms
from apps.executions.models import CircuitBreaker
from apps.executions.states import Hold, Overlap, Status
from apps.tenants.models import AuditEntry
from apps.worker.circuit_reporter import CircuitReporter
from chronoweb.runtime import postgres
from tests.factories import execution, make_api, make_task, now, problem
from tests.stack import EPOCH, Ledger
from tests.waiting import PATIENCE_SECONDS

KEY = "python:demo.noop"
TOKEN = EPOCH << 32
TERMS = CircuitTerms(
    failures=5, sample_seconds=60, base_seconds=30, spread_seconds=0, slow_start_seconds=120, slow_start_percent=5
)


def report(ledger: Ledger, outcomes: str, *, error: str = "HTTP 503") -> list[circuit_store.Key]:
    return circuit_store.report(ledger.connection, {(ledger.tenant, KEY): News(outcomes, error)}, terms=TERMS)


def circuit(ledger: Ledger) -> dict[str, Any]:
    [row] = ledger.select("SELECT * FROM circuit_breakers WHERE tenant_id = encode(%s, 'hex')::uuid", ledger.tenant)
    return row


def waiting(ledger: Ledger) -> set[bytes]:
    rows = ledger.select("SELECT execution_id FROM circuit_waiters WHERE circuit_id = %s", circuit(ledger)["id"])
    return {row["execution_id"].bytes for row in rows}


def pass_time(ledger: Ledger, seconds: float) -> None:
    """As if the circuit had opened so much earlier."""
    ledger.connection.execute(
        "UPDATE circuit_breakers SET quarantine_until = quarantine_until - %(s)s * interval '1 second',"
        " slow_start_until = slow_start_until - %(s)s * interval '1 second' WHERE id = %(id)s",
        {"s": seconds, "id": circuit(ledger)["id"]},
    )


def wake(ledger: Ledger, *, every_seconds: float = 1000) -> set[bytes]:
    woken = circuit_store.wake(ledger.connection, percent=5, every_seconds=every_seconds)
    return {identity for tenant, identity in woken if tenant == ledger.tenant}


@pytest.fixture
def other(ledger: Ledger) -> Iterator[psycopg.Connection]:
    with postgres.connect("other", url=ledger.url) as connection:
        yield connection


# ---- what is held back --------------------------------------------------------------------------------------------


def test_an_open_circuit_holds_back_at_dispatch_and_costs_no_attempt(ledger: Ledger) -> None:
    assert report(ledger, "FFFFF") == [(ledger.tenant, KEY)]
    [identity] = ledger.add(slot_key=ledger.slug, overlap=Overlap.CANCEL_OTHER)
    assert ledger.dispatch([identity]) == {identity: Status.SCHEDULED}
    row = ledger.row(identity)
    assert (row["hold"], row["attempt"], row["token"], row["wake_at"]) == (Hold.CIRCUIT, 0, 0, None)
    assert waiting(ledger) == {identity}
    assert ledger.slot_holder(ledger.slug) is None
    assert ledger.outstanding() == {}
    assert circuit(ledger)["last_error"] == "HTTP 503"


def test_only_its_tenant_and_only_what_shares_the_key_is_held(ledger: Ledger, own_ledger: Ledger) -> None:
    report(ledger, "FFFFF")
    ledger.define(handler={"type": "python", "name": "demo.other"})
    [other_key] = ledger.add()
    own_ledger.lead()
    [other_tenant] = own_ledger.add()
    assert ledger.dispatch([other_key]) == {other_key: Status.DISPATCHED}
    assert own_ledger.dispatch([other_tenant]) == {other_tenant: Status.DISPATCHED}


def test_what_was_sent_before_it_opened_is_not_claimed(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED)
    report(ledger, "FFFFF")
    assert store.claim(ledger.connection, [identity], [TOKEN], worker_id=1) == []
    store.release(ledger.connection, [identity], [TOKEN], worker_id=1)
    assert ledger.row(identity)["attempt"] == 0


def test_the_slow_start_lets_a_share_go_by_the_lot_in_the_id(ledger: Ledger) -> None:
    report(ledger, "FFFFF")
    pass_time(ledger, 31)
    identities = ledger.add(1000)
    answered = ledger.dispatch(identities)
    sent = {i for i, status in answered.items() if status is Status.DISPATCHED}
    assert sent == {i for i in identities if int.from_bytes(i[13:15], "big") < LOTS * 5 // 100}
    assert waiting(ledger) == set(identities) - sent
    assert ledger.dispatch(sorted(sent)) == {}, "they are gone"


def test_those_that_wait_go_by_lot_at_most_the_share_and_then_all(ledger: Ledger) -> None:
    report(ledger, "FFFFF")
    identities = ledger.add(200)
    ledger.dispatch(identities)
    assert wake(ledger) == set(), "the quarantine is not over"
    pass_time(ledger, 31)
    first = wake(ledger)
    by_lot = sorted(identities, key=lambda i: i[13:15])
    assert first == set(by_lot[:10])
    assert wake(ledger) == set()
    row = ledger.row(by_lot[0])
    assert (row["hold"], row["status"]) == (Hold.NONE, Status.SCHEDULED)
    assert row["wake_at"] == row["run_at"] > row["scheduled_at"], "the wait is not lateness of ours"
    pass_time(ledger, 120)
    assert wake(ledger) == set(by_lot[10:])
    assert waiting(ledger) == set()


def test_the_share_is_spread_over_the_slow_start(ledger: Ledger) -> None:
    report(ledger, "FFFFF")
    ledger.dispatch(ledger.add(400))
    pass_time(ledger, 31)
    assert len(wake(ledger, every_seconds=12)) == 3  # a tenth of the time (119 s are left), a tenth of 20, and a bit
    assert len(wake(ledger, every_seconds=1000)) == 17


def test_a_lonely_execution_is_the_probe(ledger: Ledger) -> None:
    report(ledger, "FFFFF")
    [identity] = ledger.add()
    ledger.dispatch([identity])
    pass_time(ledger, 31)
    assert wake(ledger) == {identity}


def test_what_was_cancelled_while_it_waited_stays_so(ledger: Ledger) -> None:
    report(ledger, "FFFFF")
    [identity] = ledger.add()
    ledger.dispatch([identity])
    query = "UPDATE executions SET status = 7, hold = 0 WHERE id = encode(%s, 'hex')::uuid"
    ledger.connection.execute(query, (identity,))
    pass_time(ledger, 200)
    assert wake(ledger) == set()
    assert waiting(ledger) == set()
    assert ledger.status(identity) is Status.CANCELLED


# ---- what workers report ------------------------------------------------------------------------------------------


class Writes:
    """Counts what a reporter asks of PostgreSQL."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection, self.count = connection, 0

    def __getattr__(self, name: str) -> Any:
        self.count += name == "transaction"
        return getattr(self.connection, name)


def test_successes_alone_are_never_written_and_count_once_something_fails(ledger: Ledger) -> None:
    reporter, key = CircuitReporter(TERMS), (ledger.tenant, KEY)
    writes: Any = Writes(ledger.connection)
    for _ in range(50):
        reporter.note(key, "S", None)
        reporter.flush(writes)
    assert writes.count == 0
    reporter.note(key, "F", "no")
    reporter.flush(writes)
    assert len(circuit(ledger)["recent"]) == SAMPLE
    reporter.note(key, "S", None)
    reporter.flush(writes)
    assert writes.count == 2, "the first success after a failure is news"
    assert circuit(ledger)["settled"]
    reporter.note(key, "S", None)
    reporter.flush(writes)
    assert writes.count == 2, "the next is none"


def test_failures_of_several_workers_add_up(ledger: Ledger, other: psycopg.Connection) -> None:
    key = (ledger.tenant, KEY)
    one, two = CircuitReporter(TERMS), CircuitReporter(TERMS)
    for reporter, connection in ((one, ledger.connection), (two, other), (one, ledger.connection), (two, other)):
        reporter.note(key, "F", "no")
        reporter.flush(connection)
    assert circuit(ledger)["opened_at"] is None
    one.note(key, "F", "no")
    one.flush(ledger.connection)
    assert circuit(ledger)["opened_at"] is not None


def test_a_worker_that_saw_no_failure_reports_the_success_that_proves(ledger: Ledger) -> None:
    report(ledger, "FFFFF")
    pass_time(ledger, 31)
    stranger = CircuitReporter(TERMS)
    stranger.refresh(ledger.connection)
    stranger.note((ledger.tenant, KEY), "S", None)
    stranger.flush(ledger.connection)
    assert circuit(ledger)["proven"]


def test_reports_at_once_lose_nothing(ledger: Ledger, other: psycopg.Connection) -> None:
    barrier = threading.Barrier(2)

    def tell(connection: psycopg.Connection) -> None:
        barrier.wait(PATIENCE_SECONDS)
        for _ in range(5):
            circuit_store.report(connection, {(ledger.tenant, KEY): News("SFSFF", None)}, terms=TERMS)

    threads = [threading.Thread(target=tell, args=(c,)) for c in (ledger.connection, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert circuit(ledger)["opened_at"] is not None, "thirty of fifty"


def test_a_report_that_failed_on_the_way_is_told_with_the_next(ledger: Ledger) -> None:
    reporter = CircuitReporter(TERMS)
    closed = postgres.connect("closed", url=ledger.url)
    closed.close()
    reporter.note((ledger.tenant, KEY), "F", "no")
    with pytest.raises(psycopg.OperationalError):
        reporter.flush(closed)
    reporter.flush(ledger.connection)
    assert [failed for _, failed in circuit(ledger)["recent"]] == [True]


def test_circuits_of_which_nothing_is_heard_are_forgotten_unless_somebody_waits(ledger: Ledger) -> None:
    report(ledger, "FFFFF")
    [identity] = ledger.add()
    ledger.dispatch([identity])
    pass_time(ledger, 1000)
    circuit_store.forget(ledger.connection, seconds=0)
    assert circuit(ledger)
    assert wake(ledger) == {identity}
    circuit_store.forget(ledger.connection, seconds=0)
    rows = ledger.select("SELECT 1 FROM circuit_breakers WHERE tenant_id = encode(%s, 'hex')::uuid", ledger.tenant)
    assert rows == []


# ---- what people see ----------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_people_see_a_circuit_and_reset_it() -> None:
    api, stranger = make_api(), make_api()
    task = make_task(api.principal, handler={"type": "command", "argv": ["/bin/false"]})
    CircuitBreaker.objects.create(
        tenant_id=task.tenant_id,
        key="command:/bin/false",
        recent=[[1, True]],
        last_error="exit code 1",
        opened_at=now(),
        quarantine_until=now() + timedelta(minutes=1),
        slow_start_until=now() + timedelta(minutes=3),
        changed_at=now(),
    )
    row = execution(task, Status.SCHEDULED, hold=Hold.CIRCUIT)
    [shown] = api.get("/circuits").json()["items"]
    assert (shown["name"], shown["state"], shown["trips"]) == ("/bin/false", "open", 0)
    assert shown["last_error"] == "exit code 1"
    assert stranger.get("/circuits").json()["items"] == []
    assert api.get("/circuits?state=closed").json()["items"] == []
    problem(api.get("/circuits?state=ajar"), 400)
    seen = api.get(f"/executions/{row.id}").json()
    assert (seen["hold"], seen["reason"]) == ("circuit", "circuit open: /bin/false")
    for wrong in (shown["id"] + 1, 10**30):
        problem(api.post(f"/circuits/{wrong}/reset"), 404)
    problem(stranger.post(f"/circuits/{shown['id']}/reset"), 404)
    answer = api.post(f"/circuits/{shown['id']}/reset")
    assert (answer.status_code, answer.json()["state"]) == (200, "closed")
    assert CircuitBreaker.objects.get(id=shown["id"]).recent == []
    entry = AuditEntry.objects.get(tenant_id=task.tenant_id, action="circuit.reset")
    assert entry.detail == {"key": "command:/bin/false"}


def test_ids_carry_their_lot() -> None:
    """The lot is beside the shard, so that every shard has its share."""
    made = ids.new_ids([1_790_000_000_000] * 20_000)
    lucky = [i for i in made if int.from_bytes(i[13:15], "big") < LOTS // 20]
    assert 800 < len(lucky) < 1200
    assert {ids.shard(i) for i in lucky} == set(range(ids.SHARDS))
