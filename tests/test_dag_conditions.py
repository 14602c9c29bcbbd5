"""Conditions of edges: what holds, what cannot be judged, and what is refused before it can cost a worker's time."""

from typing import Any

import pytest

from apps.executions.dags import conditions
from apps.executions.dags.conditions import ConditionError
from chronoweb.runtime.errors import InvalidInputs

INVOICE = {"type": "invoice", "total": 12.5, "paid": False, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 3}]}


def condition(path: str, op: str, value: Any) -> dict[str, Any]:
    return {"parent": "classify", "path": path, "op": op, "value": value}


@pytest.mark.parametrize(
    ("path", "op", "value", "result", "expected"),
    [
        ("$.type", "equals", "invoice", INVOICE, True),
        ("$.type", "equals", "receipt", INVOICE, False),
        ("$.type", "not_equals", "receipt", INVOICE, True),
        ("$.missing", "equals", None, INVOICE, False),
        ("$.missing", "not_equals", "x", INVOICE, True),
        ("$.type", "in", ["receipt", "invoice"], INVOICE, True),
        ("$.type", "in", [], INVOICE, False),
        ("$.total", "gt", 12, INVOICE, True),
        ("$.total", "lt", 12, INVOICE, False),
        ("$.type", "lt", "z", INVOICE, True),
        ("$.missing", "gt", 1, INVOICE, False),
        ("$.paid", "exists", True, INVOICE, True),
        ("$.missing", "exists", True, INVOICE, False),
        ("$.missing", "exists", False, INVOICE, True),
        ("$.missing", "exists", False, None, True),
        ("$", "exists", True, None, True),
        ("$", "equals", 5, 5, True),
        ("$", "equals", "text", "text", True),
        ("$.lines[*].sku", "equals", "b", INVOICE, True),
        ("$.lines[*].sku", "not_equals", "b", INVOICE, False),
        ("$.lines[?@.n > 2].sku", "equals", "b", INVOICE, True),
        ("$.lines[?@.n > 5]", "exists", True, INVOICE, False),
        ("$..n", "gt", 2, INVOICE, True),
        # JSON's equality, not Python's: true is not 1, 1 is 1.0.
        ("$.a", "equals", 1, {"a": True}, False),
        ("$.a", "equals", 0, {"a": False}, False),
        ("$.a", "equals", 1, {"a": 1.0}, True),
        ("$.a", "equals", [1, {"b": None}], {"a": [1.0, {"b": None}]}, True),
        ("$.a", "equals", [True], {"a": [1]}, False),
    ],
)
def test_what_holds(path: str, op: str, value: Any, result: Any, expected: bool) -> None:
    parsed = conditions.parse(condition(path, op, value))
    assert conditions.holds(parsed, result) is expected


@pytest.mark.parametrize(("value", "result"), [(3, "x"), ("x", 3), (3, True), (3, None), (3, [1])])
def test_what_has_no_order_cannot_be_judged(value: Any, result: Any) -> None:
    with pytest.raises(ConditionError) as caught:
        conditions.holds(condition("$.a", "gt", value), {"a": result})
    assert "$.a gt" in caught.value.expression
    assert caught.value.value == result


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("type", "does not parse"),
        ("$.", "does not parse"),
        ("$.a[", "does not parse"),
        ("$.a == 1", "does not parse"),
        ("$[1e999]", "does not parse"),
        ("", "is not a path"),
        (7, "is not a path"),
        ("$." + "a" * 600, "is not a path"),
        ("$..a..b", "more than one .."),
        ("$[?match(@.a, '(a+)+$')]", "does not parse"),  # patterns may take for ever
        ("$[?$.a == 1]", "looks from the root"),
        ("$[?@..a]", "more than one value"),
        ("$" + "[*,*]" * 7, "selects in more than"),
        ("$[?" + "(" * 200, "does not parse"),
    ],
)
def test_paths_that_are_refused(path: Any, problem: str) -> None:
    with pytest.raises(InvalidInputs) as caught:
        conditions.parse(condition(path, "equals", 1))
    (error,) = caught.value.errors
    assert error.pointer == "/path"
    assert problem in error.problem


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"op": "like"}, "/op"),
        ({"op": "exists", "value": "yes"}, "/value"),
        ({"op": "in", "value": "invoice"}, "/value"),
        ({"op": "gt", "value": None}, "/value"),
        ({"op": "lt", "value": True}, "/value"),
        ({"extra": 1}, "/extra"),
    ],
)
def test_what_does_not_parse_points_at_its_field(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInputs) as caught:
        conditions.parse({**condition("$.a", "equals", 1), **changes})
    assert [error.pointer for error in caught.value.errors] == [pointer]
    assert caught.value.errors[0].legal
