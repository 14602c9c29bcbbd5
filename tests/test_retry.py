"""Retry policies: defaults, refusals, and delays that neither overflow nor fall."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.executions.retry import BACKOFFS, RetryPolicy, delay_seconds
from chronoweb.runtime.errors import InvalidInputs


def test_defaults() -> None:
    assert RetryPolicy.parse(None) == RetryPolicy.parse({}) == RetryPolicy(4, "exponential_jitter", 60.0, 3600.0)


def test_json_and_back() -> None:
    policy = RetryPolicy(7, "linear", 2.5, 100)
    assert RetryPolicy.parse(policy.to_json()) == policy


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [("fixed", [10, 10, 10, 10]), ("linear", [10, 20, 30, 40]), ("exponential", [10, 20, 40, 80])],
)
def test_delays(backoff: str, delays: list[float]) -> None:
    policy = RetryPolicy(5, backoff, 10, 3600)
    assert [delay_seconds(policy, n, unit_random=0.9) for n in (1, 2, 3, 4)] == delays


@pytest.mark.parametrize(("unit", "factor"), [(0.0, 0.5), (0.5, 1.0), (0.75, 1.25)])
def test_jitter_spreads_around_the_exponential_delay(unit: float, factor: float) -> None:
    policy = RetryPolicy(5, "exponential_jitter", 10, 3600)
    assert delay_seconds(policy, 3, unit_random=unit) == 40 * factor


@given(
    backoff=st.sampled_from(BACKOFFS),
    base=st.floats(0, 3600),
    cap=st.floats(0, 3600),
    unit=st.floats(0, 1, exclude_max=True),
)
def test_5000_attempts_are_monotone_to_the_cap(backoff: str, base: float, cap: float, unit: float) -> None:
    policy = RetryPolicy(1000, backoff, base, max(base, cap))
    delays = [delay_seconds(policy, n, unit_random=unit) for n in range(1, 5001)]
    assert all(math.isfinite(delay) and 0 <= delay <= policy.max_delay_seconds for delay in delays)
    assert delays == sorted(delays)  # with one and the same random number this holds for jitter, too
    if backoff.startswith("exponential") and base >= 1e-9:
        assert delays[-1] == policy.max_delay_seconds


@pytest.mark.parametrize(
    ("data", "pointers"),
    [
        ([], [""]),
        ({"max_attempts": 0}, ["/max_attempts"]),
        ({"max_attempts": 1001}, ["/max_attempts"]),
        ({"max_attempts": True}, ["/max_attempts"]),
        ({"max_attempts": 2.0}, ["/max_attempts"]),
        ({"max_attempts": "3"}, ["/max_attempts"]),
        ({"backoff": "random"}, ["/backoff"]),
        ({"backoff": ["fixed"]}, ["/backoff"]),
        ({"base_delay_seconds": float("nan")}, ["/base_delay_seconds"]),
        ({"base_delay_seconds": float("inf")}, ["/base_delay_seconds"]),
        ({"base_delay_seconds": -1}, ["/base_delay_seconds"]),
        ({"max_delay_seconds": 3601}, ["/max_delay_seconds"]),
        ({"max_delay_seconds": False}, ["/max_delay_seconds"]),
        ({"max_delay_seconds": 10**400}, ["/max_delay_seconds"]),
        ({"base_delay_seconds": 60, "max_delay_seconds": 30}, ["/max_delay_seconds"]),
        ({"attempts": 3, "backoff": "x"}, ["/attempts", "/backoff"]),
    ],
)
def test_refusals_point_at_the_field(data: Any, pointers: list[str]) -> None:
    with pytest.raises(InvalidInputs) as caught:
        RetryPolicy.parse(data)
    assert [error.pointer for error in caught.value.errors] == pointers
    assert all(error.legal for error in caught.value.errors)
