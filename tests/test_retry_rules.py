"""Rules of a retry policy: what is accepted, and where a refusal points."""

from typing import Any

import pytest

from apps.executions.retry import RetryPolicy
from chronoweb.runtime.errors import InvalidInputs


@pytest.mark.parametrize(
    "error",
    ["ValueError", "http:4xx", "http:5xx", "http:429", "exit:1", "exit:255", "class:timeout", "class:rate_limited"],
)
def test_kinds_of_errors(error: str) -> None:
    rule = {"error": error, "action": "dead_letter"}
    assert RetryPolicy.parse({"rules": [rule]}).to_json()["rules"] == [rule]


@pytest.mark.parametrize(
    ("rules", "pointers"),
    [
        ({}, {"/rules"}),
        ("ValueError", {"/rules"}),
        ([{"error": "E", "action": "retry"}] * 51, {"/rules"}),
        (["ValueError"], {"/rules/0"}),
        ([{}], {"/rules/0/error", "/rules/0/action"}),
        ([{"error": "E", "action": "retry"}, {"error": "E", "action": "drop"}], {"/rules/1/action"}),
        ([{"error": "http:2xx", "action": "retry"}], {"/rules/0/error"}),
        ([{"error": "http:44", "action": "retry"}], {"/rules/0/error"}),
        ([{"error": "exit:0", "action": "retry"}], {"/rules/0/error"}),
        ([{"error": "exit:256", "action": "retry"}], {"/rules/0/error"}),
        ([{"error": "class:cancelled", "action": "retry"}], {"/rules/0/error"}),
        ([{"error": "class:sad", "action": "retry"}], {"/rules/0/error"}),
        ([{"error": "a b", "action": "retry"}], {"/rules/0/error"}),
        ([{"error": 5, "action": ["retry"]}], {"/rules/0/error", "/rules/0/action"}),
        ([{"error": "E", "action": "retry", "delay": 1}], {"/rules/0/delay"}),
        ([{"error": "E", "action": "retry", "base_delay_seconds": -1}], {"/rules/0/base_delay_seconds"}),
        ([{"error": "E", "action": "retry", "base_delay_seconds": True}], {"/rules/0/base_delay_seconds"}),
        ([{"error": "E", "action": "retry", "base_delay_seconds": float("nan")}], {"/rules/0/base_delay_seconds"}),
        ([{"error": "E", "action": "dead_letter", "base_delay_seconds": 1}], {"/rules/0/base_delay_seconds"}),
    ],
)
def test_a_refusal_points_at_what_is_wrong(rules: Any, pointers: set[str]) -> None:
    with pytest.raises(InvalidInputs) as refused:
        RetryPolicy.parse({"rules": rules})
    assert {error.pointer for error in refused.value.errors} == pointers
