"""When circuits open, for how long, and how they close: the rules, without a database."""

import pytest

from apps.executions.circuits import SAMPLE, Circuit, CircuitTerms, after, key_of, name_of

SECOND = 1_000_000
TERMS = CircuitTerms(
    failures=5, sample_seconds=60, base_seconds=30, spread_seconds=30, slow_start_seconds=120, slow_start_percent=5
)


def told(circuit: Circuit, outcomes: str, at: float, unit_random: float = 0.0) -> Circuit:
    return after(circuit, outcomes, now_us=int(at * SECOND), terms=TERMS, unit_random=unit_random)


def test_five_failures_in_a_row_open_it_and_four_do_not() -> None:
    four = told(Circuit(), "SSSFFFF", 10)
    assert four.phase(10 * SECOND) == "closed"
    assert told(four, "F", 11).phase(11 * SECOND) == "open"
    assert told(told(four, "S", 11), "FFFF", 12).phase(12 * SECOND) == "closed", "a success ends the row"


def test_half_of_the_last_fifty_open_it() -> None:
    assert told(Circuit(), "FS" * 24 + "SF", 10).phase(10 * SECOND) == "open"
    assert told(Circuit(), "FSS" * 17, 10).phase(10 * SECOND) == "closed"
    assert told(Circuit(), "SF" * 24, 10).phase(10 * SECOND) == "closed", "fewer than fifty are no sample"


def test_where_much_succeeds_a_few_failures_in_a_row_are_chance() -> None:
    busy = told(Circuit(), "S" * SAMPLE, 10)
    assert told(busy, "F" * 11, 10).phase(10 * SECOND) == "closed"
    assert told(busy, "F" * 12, 10).phase(10 * SECOND) == "open"
    assert told(busy, "F" * 5, 200).phase(200 * SECOND) == "open", "what was long ago is no sample"


def test_failures_far_apart_do_not_open_it() -> None:
    circuit = Circuit()
    for n in range(40):
        circuit = told(circuit, "F", n * 30)
    assert circuit.phase(1200 * SECOND) == "closed"
    assert len(circuit.recent) <= SAMPLE


@pytest.mark.parametrize(("trips", "unit", "seconds"), [(0, 0.0, 30), (0, 1.0, 60), (1, 0.0, 60), (3, 0.5, 255)])
def test_the_quarantine_doubles_at_each_relapse(trips: int, unit: float, seconds: float) -> None:
    assert TERMS.quarantine_seconds(trips, unit) == seconds


def test_the_quarantine_never_exceeds_an_hour_nor_overflows() -> None:
    delays = [TERMS.quarantine_seconds(n, 0.3) for n in (5, 7, 100, 100_000)]
    assert delays == sorted(delays)
    assert delays[-1] == 3600


def test_what_had_begun_before_it_opened_changes_nothing() -> None:
    opened = told(Circuit(), "FFFFF", 10)
    assert told(opened, "FFFSSS", 11) == opened


def test_a_failure_in_the_slow_start_opens_it_for_longer() -> None:
    opened = told(Circuit(), "FFFFF", 0)
    assert [opened.phase(s * SECOND) for s in (29, 30, 149, 150)] == ["open", "slow_start", "slow_start", "closed"]
    again = told(opened, "F", 40)
    assert again.trips == 1
    assert [again.phase(s * SECOND) for s in (99, 100)] == ["open", "slow_start"]


def test_a_flaky_upstream_that_answers_mostly_does_not_relapse() -> None:
    opened = told(Circuit(), "FFFFF", 0)
    flaky = told(opened, "SF" + "SSSF" * 30, 40)
    assert (flaky.phase(40 * SECOND), flaky.trips, flaky.proven) == ("slow_start", 0, True)
    assert told(opened, "SFF", 40).trips == 1, "most have failed"


def test_a_slow_start_with_successes_alone_closes_it_and_forgets_the_relapses() -> None:
    opened = told(told(Circuit(), "FFFFF", 0), "F", 31)
    healed = told(opened, "SS", 100)
    assert healed.proven
    assert healed.trips == 1
    later = told(healed, "FFFF", 300)
    assert (later.phase(300 * SECOND), later.trips) == ("closed", 0)
    assert told(later, "F", 300).quarantine_until_us == 330 * SECOND, "the first quarantine again"


def test_a_slow_start_in_which_nothing_ran_proves_nothing() -> None:
    opened = told(Circuit(), "FFFFF", 0)
    again = told(opened, "F", 1000)
    assert (again.phase(1000 * SECOND), again.trips) == ("open", 1)


def test_when_the_next_success_is_news() -> None:
    assert Circuit().settled
    failing = told(Circuit(), "SSF", 1)
    assert not failing.settled
    assert told(failing, "S", 2).settled
    opened = told(Circuit(), "FFFFF", 1)
    assert not opened.settled
    assert told(opened, "S", 40).settled


@pytest.mark.parametrize(
    ("handler", "key", "name"),
    [
        ({"type": "webhook", "url": "https://Hook.Example.com/a?b"}, "webhook:hook.example.com", "hook.example.com"),
        ({"type": "webhook", "url": "http://u:p@127.0.0.1:80/"}, "webhook:127.0.0.1:80", "127.0.0.1:80"),
        ({"type": "webhook", "url": "http://[::1]:8000/x"}, "webhook:[::1]:8000", "[::1]:8000"),
        ({"type": "python", "name": "demo.noop"}, "python:demo.noop", "demo.noop"),
        ({"type": "command", "argv": ["/bin/true", "x"]}, "command:/bin/true", "/bin/true"),
        (
            {"type": "command", "argv": ["/bin/sh", "-c", "backup  --all"]},
            "command:/bin/sh -c backup --all #a3ca4ecf",
            "/bin/sh -c backup --all #a3ca4ecf",
        ),
        ({"type": "other"}, None, ""),
    ],
)
def test_what_executions_share(handler: dict[str, object], key: str | None, name: str) -> None:
    assert key_of(handler) == key
    assert name_of(key) == name
