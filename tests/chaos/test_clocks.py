"""Hosts whose clocks are wrong: PostgreSQL's clock decides what is due and who still holds a lease."""

from pathlib import Path

import pytest

from tests.chaos.rig import START_SECONDS, Rig, let_pass


def host_off_by(seconds: int) -> dict[str, str]:
    """The environment of processes on a host whose clock is wrong."""
    return {"PYTHONPATH": str(Path(__file__).parent / "wrong_clock"), "CHAOS_CLOCK_OFFSET": str(seconds)}


@pytest.mark.parametrize(
    "offset", [120, pytest.param(-120, marks=pytest.mark.drill)], ids=["two minutes fast", "two minutes slow"]
)
def test_nothing_is_early_and_nothing_lost(rig: Rig, offset: int) -> None:
    """Every daemon believes another time than the database does; started_at stands in the database's."""
    for name in ("watchdog", "preloader", "dispatcher", "worker"):
        rig.start(name, **host_off_by(offset))
    rig.warm_up()
    identities = [i for n in range(20) for i in rig.due(5, in_ms=1500 + 100 * n)]
    rig.wait_completed(identities)
    rig.assert_once(identities)
    lateness = [
        row["seconds"]
        for row in rig.ledger.select(
            "SELECT extract(epoch FROM started_at - run_at)::float8 AS seconds FROM executions"
            " WHERE tenant_id = encode(%s, 'hex')::uuid AND scheduled_at > clock_timestamp() - interval '1 minute'",
            rig.ledger.tenant,
        )
    ]
    assert len(lateness) > len(identities)
    assert min(lateness) >= 0
    assert max(lateness) < START_SECONDS
    let_pass(1)  # the watchdog has looked: nobody is lost for it
    assert rig.ledger.select("SELECT * FROM workers WHERE state = 'lost'") == []
    assert rig.ledger.select("SELECT * FROM execution_events WHERE actor = 'watchdog'") == []


def test_one_host_is_wrong_and_the_others_are_right(rig: Rig) -> None:
    """The preloader that leads is two minutes fast, its dispatcher slow: nothing starts before its time."""
    rig.start("preloader", **host_off_by(120))
    rig.start("dispatcher", **host_off_by(-120))
    rig.stand_by("worker", "watchdog")
    rig.warm_up()
    identities = rig.due(50, in_ms=2000)
    rig.wait_completed(identities)
    rig.assert_once(identities)
    early = rig.ledger.select("SELECT 1 FROM executions WHERE started_at < run_at")
    assert early == []
