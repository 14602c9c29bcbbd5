"""What a gone worker held is taken back whoever began to give it up: marking it lost and emptying it are two steps."""

from collections.abc import Callable

import pytest

from apps.executions import store
from apps.executions.states import Outcome, Status
from apps.quickstart.services import ServiceAddresses
from apps.watchdog import daemon
from tests.stack import Ledger, addresses_of, quick_config, running
from tests.waiting import eventually


def _sign_off(ledger: Ledger, worker: int) -> None:
    store.stop_worker(ledger.connection, worker_id=worker)


def _mark_lost(ledger: Ledger, worker: int) -> None:
    """As a watchdog does that dies right after it."""
    [row] = ledger.select(
        "SELECT extract(epoch FROM heartbeat_at)::float8 AS heartbeat FROM workers WHERE id = %s", worker
    )
    assert store.mark_worker_lost(ledger.connection, worker_id=worker, heartbeat_seen=row["heartbeat"])


@pytest.mark.parametrize("ended", [_mark_lost, _sign_off])
def test_what_a_gone_worker_left_is_found_and_a_living_ones_is_not(
    ledger: Ledger, ended: Callable[[Ledger, int], None]
) -> None:
    gone, living = ledger.register_worker(), ledger.register_worker()
    [left] = ledger.add(status=Status.RUNNING, worker=gone)
    ledger.add(status=Status.RUNNING, worker=living)
    assert left not in _found(ledger)
    ended(ledger, gone)
    assert _found(ledger) & set(ledger.outstanding()) == {left}


def _found(ledger: Ledger) -> set[bytes]:
    return {identity for identity, _ in store.sent(ledger.connection, "outstanding_of_the_gone", limit=1000)}


def test_a_watchdog_finishes_what_another_began(
    own_ledger: Ledger, redis_prefix: str, services: ServiceAddresses
) -> None:
    worker = own_ledger.register_worker()
    [begun] = own_ledger.add(status=Status.RUNNING, worker=worker)
    [last_try] = own_ledger.add(status=Status.RUNNING, worker=worker, max_attempts=1)
    _mark_lost(own_ledger, worker)
    with running(daemon.build(quick_config(redis_prefix), addresses_of(own_ledger.url, services))):
        eventually(lambda: not own_ledger.outstanding())
    assert own_ledger.status(begun) is Status.PRELOADED
    assert own_ledger.status(last_try) is Status.DEAD_LETTER
    assert own_ledger.outcomes(begun) == [Outcome.CRASHED]
