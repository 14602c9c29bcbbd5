"""Leadership of a role, and the dispatchers' shares of the shards: one holder each, an epoch that grows, takeovers."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from apps.dispatcher.shards import SHARD_PREFIX, Shards, falling_to
from apps.executions import ids
from apps.executions.leases import Leadership
from chronoweb.runtime.config import Config
from tests.stack import Ledger, quick_config
from tests.waiting import PATIENCE_SECONDS, eventually

ROLE = "preloader"
ALL = set(range(ids.SHARDS))


@contextmanager
def candidates(url: str, config: Config, count: int = 2) -> Iterator[list[Leadership]]:
    made = [Leadership(ROLE, config, url=url) for _ in range(count)]
    try:
        for one in made:
            one.start()
        yield made
    finally:
        for one in made:
            one.close()


def leader(found: list[Leadership]) -> Leadership | None:
    leading = [one for one in found if one.epoch is not None]
    assert len(leading) <= 1, "two lead at once"
    return leading[0] if leading else None


def wait_for_leader(found: list[Leadership]) -> Leadership:
    return eventually(lambda: leader(found))  # type: ignore[return-value]


def kill_session(ledger: Ledger, application_name: str) -> None:
    """As a broken network, or the death of the process, ends it."""
    ledger.connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = %s",
        (application_name,),
    )


# ---- roles --------------------------------------------------------------------------------------------------------


def test_one_of_many_leads(own_ledger: Ledger) -> None:
    with candidates(own_ledger.url, quick_config("x:"), 4) as found:
        first = wait_for_leader(found)
        assert first.epoch == 1
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            assert leader(found) is first


def test_a_leader_that_steps_down_is_followed_at_once_under_a_higher_epoch(own_ledger: Ledger) -> None:
    with candidates(own_ledger.url, quick_config("x:")) as found:
        epochs = []
        while found:
            current = wait_for_leader(found)
            epochs.append(current.epoch)
            found.remove(current)
            current.close()
            assert current.epoch is None
    assert epochs == [1, 2]


def test_a_leader_whose_session_is_gone_is_replaced_long_before_its_lease_ends(own_ledger: Ledger) -> None:
    """Its lock is free at once; nobody waits for the lease, which stands for minutes more."""
    with candidates(own_ledger.url, quick_config("x:", lease_ttl_seconds=300, lease_renew_seconds=0.1)) as found:
        first = wait_for_leader(found)
        before = first.epoch
        kill_session(own_ledger, f"lease-{ROLE}")
        after = eventually(lambda: next((o.epoch for o in found if o.epoch not in (None, before)), None))
        assert after == 2


def test_a_silent_leader_is_replaced_when_its_lease_runs_out(own_ledger: Ledger) -> None:
    """It holds its lock, and does not renew: its process is stopped, or its host has lost the network."""
    config = quick_config("x:", lease_ttl_seconds=1, lease_renew_seconds=0.4)
    silent = Leadership(ROLE, config, url=own_ledger.url)
    assert silent._step() > 0  # one step and no further: a process that is stopped
    assert silent.epoch == 1
    with candidates(own_ledger.url, quick_config("x:"), 1) as found:
        assert wait_for_leader(found).epoch == 2
        silent._step()
        assert silent.epoch is None, "it finds out at its next renewal"
    silent.close()


def test_a_leader_that_was_refused_makes_way_and_stands_again(own_ledger: Ledger) -> None:
    """It must not sit on the lock until its next renewal: nobody could lead meanwhile."""
    # It sits four polls out: the other one, however late, has had its own by then.
    config = quick_config("x:", lease_ttl_seconds=300, lease_renew_seconds=100, takeover_poll_ms=500)
    with candidates(own_ledger.url, config) as found:
        first = wait_for_leader(found)
        first.lost()
        second = wait_for_leader(found)
        assert second is not first
        assert second.epoch == 2
    with candidates(own_ledger.url, config, 1) as found:
        alone = wait_for_leader(found)
        before = alone.epoch
        assert before is not None
        alone.lost()
        assert alone.wait_until_leader(PATIENCE_SECONDS)
        assert alone.epoch == before + 1


def test_epochs_never_repeat(own_ledger: Ledger) -> None:
    seen = []
    for _ in range(5):
        with candidates(own_ledger.url, quick_config("x:"), 1) as found:
            seen.append(wait_for_leader(found).epoch)
    assert seen == [1, 2, 3, 4, 5]


# ---- shards -------------------------------------------------------------------------------------------------------


@contextmanager
def members(url: str, config: Config, count: int) -> Iterator[list[Shards]]:
    made = [Shards(config, url=url) for _ in range(count)]
    try:
        for one in made:
            one.start()
        yield made
    finally:
        for one in made:
            one.close()


def settle(found: list[Shards]) -> None:
    """What a tick says when nothing is under way."""
    for one in found:
        one.settle(one.leaving())


def shared(found: list[Shards]) -> bool:
    """Whether every shard is held, and the shares differ by one at most; fails when a shard is held twice."""
    settle(found)
    held = [one.held() for one in found]
    shards = [shard for one in held for shard in one]
    assert len(shards) == len(set(shards)), f"held twice: {held}"
    sizes = [len(one) for one in held]
    return set(shards) == ALL and max(sizes) - min(sizes) <= 1


def epochs(ledger: Ledger) -> dict[int, int]:
    rows = ledger.select("SELECT role, epoch FROM leases WHERE role LIKE %s", f"{SHARD_PREFIX}%")
    return {int(row["role"].removeprefix(SHARD_PREFIX)): row["epoch"] for row in rows}


@pytest.mark.parametrize("count", [1, 2, 3, 16, 17])
def test_shares_differ_by_one_and_cover_everything(count: int) -> None:
    everybody = sorted(uuid.uuid4() for _ in range(count))
    shares = [falling_to(one, everybody) for one in everybody]
    assert set().union(*shares) == ALL
    assert sum(len(share) for share in shares) == ids.SHARDS
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert falling_to(uuid.uuid4(), everybody) == set()


def test_one_holds_all_and_shares_with_who_joins(own_ledger: Ledger) -> None:
    config = quick_config("x:")
    with members(own_ledger.url, config, 1) as first:
        eventually(lambda: set(first[0].held()) == ALL)
        before = epochs(own_ledger)
        with members(own_ledger.url, config, 2) as others:
            eventually(lambda: shared([*first, *others]))
            after = epochs(own_ledger)
            for shard in ALL:
                assert after[shard] == before[shard] + (shard not in first[0].held())
        eventually(lambda: set(first[0].held()) == ALL)


def test_a_shard_is_not_given_away_while_something_of_it_is_under_way(own_ledger: Ledger) -> None:
    config = quick_config("x:")
    with members(own_ledger.url, config, 1) as first:
        eventually(lambda: set(first[0].held()) == ALL)
        with members(own_ledger.url, config, 1) as second:
            leaving = eventually(lambda: first[0].leaving())
            assert not leaving & set(first[0].held()), "it pops nothing of them any more"
            assert second[0].held() == {}
            first[0].settle(leaving)
            eventually(lambda: set(second[0].held()) == leaving)


def test_a_member_whose_session_is_gone_is_replaced_within_seconds(own_ledger: Ledger) -> None:
    config = quick_config("x:", lease_ttl_seconds=300, lease_renew_seconds=0.1)
    with members(own_ledger.url, config, 2) as found:
        eventually(lambda: shared(found))
        before = epochs(own_ledger)
        kill_session(own_ledger, "shards")
        eventually(lambda: shared(found) and epochs(own_ledger) != before)
        after = epochs(own_ledger)
        assert all(after[shard] >= before[shard] for shard in ALL)


def test_who_was_refused_holds_nothing_until_it_has_asked_again(own_ledger: Ledger) -> None:
    with members(own_ledger.url, quick_config("x:"), 1) as [one]:
        eventually(lambda: set(one.held()) == ALL)
        before = epochs(own_ledger)
        one.lost()
        assert one.held() == {}
        eventually(lambda: set(one.held()) == ALL)
        assert all(epochs(own_ledger)[shard] > before[shard] for shard in ALL)


def test_epochs_of_a_shard_only_grow(own_ledger: Ledger) -> None:
    seen: list[dict[int, int]] = []
    for _ in range(3):
        with members(own_ledger.url, quick_config("x:"), 1) as [one]:
            eventually(lambda: shared([one]))
            seen.append(one.held())
    for earlier, later in pairwise(seen):
        assert all(later[shard] > earlier[shard] for shard in ALL)
