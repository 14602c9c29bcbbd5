"""Conditions of edges: a JSONPath (RFC 9535) over the parent's result, and what must hold of what it finds. Pure.

The canonical form is an object of `parent` (the node whose result is read), `path`, `op` and `value`:
`{"parent": "classify", "path": "$.type", "op": "equals", "value": "invoice"}`. Of several values that a path finds one
must satisfy the operator; not_equals holds where none equals. A path that finds nothing satisfies not_equals and
`exists: false` alone.

Conditions come from tenants and are judged inside the transaction that ends a parent, so a path may only ask what takes
time in proportion to the result: one `..`, filters that look at single values below the element, no patterns.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jsonpath import JSONPath, JSONPathEnvironment
from jsonpath.exceptions import JSONPathError
from jsonpath.filter import BaseExpression, FilterQuery, RelativeFilterQuery
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import Filter

from chronoweb.runtime.errors import ChronowebError, InvalidInput, InvalidInputs

OPERATORS = ("equals", "not_equals", "in", "exists", "gt", "lt")
FIELDS = ("parent", "path", "op", "value")
PATH_CHARACTERS = 500
MOST_SELECTORS = 64
"""Of a whole path, multiplied: each may walk the result once more."""

_ENVIRONMENT = JSONPathEnvironment(strict=True)
for _name in set(_ENVIRONMENT.function_extensions) - {"length"}:
    del _ENVIRONMENT.function_extensions[_name]
_UNREADABLE = (JSONPathError, RecursionError, ValueError, TypeError, ArithmeticError)
"""What the library raises for texts and values that it cannot take: not only errors of its own, for [1e999]."""
_EXAMPLE = 'a JSONPath (RFC 9535) such as "$.type"'


class ConditionError(ChronowebError):
    """A condition cannot be judged: its expression, and the value at which it failed."""

    def __init__(self, expression: str, value: Any, problem: str) -> None:
        self.expression = expression
        self.value = value
        self.problem = problem
        super().__init__(f"the condition {expression} cannot be judged: {problem}; the value is {value!r:.200}")


def holds(condition: Mapping[str, Any], result: Any) -> bool:
    """Whether the condition is true of its parent's result (a JSON value; None where there is none).

    Raises ConditionError: gt and lt need numbers, or texts, on both sides.
    """
    operator, wanted = condition["op"], condition["value"]
    try:
        found = _compiled(condition["path"]).finditer(result) if isinstance(result, dict | list) else ()
        values = [match.value for match in found]
        if condition["path"].strip() == "$":
            values = [result]
    except _UNREADABLE as error:
        raise ConditionError(expression(condition), result, str(error)) from error
    if operator == "exists":
        return bool(values) is wanted
    if operator == "not_equals":
        return not any(same(value, wanted) for value in values)
    if operator == "in":
        return any(same(value, one) for value in values for one in wanted)
    if operator == "equals":
        return any(same(value, wanted) for value in values)
    return any(_compare(condition, value, wanted) for value in values)


def expression(condition: Mapping[str, Any]) -> str:
    """The condition in one line, for people: `classify: $.type equals "invoice"`."""
    return f"{condition['parent']}: {condition['path']} {condition['op']} {condition['value']!r}"


def parse(data: Any) -> dict[str, Any]:
    """A condition in its canonical form, checked. Raises InvalidInputs, pointers relative to the object ("/path").

    Whether its parent is a parent is for the caller to know.
    """
    if not isinstance(data, Mapping):
        raise InvalidInputs([InvalidInput("", data, "must be an object", ", ".join(FIELDS))])
    errors = [
        InvalidInput(f"/{name}", value, "is not a field of a condition", ", ".join(FIELDS))
        for name, value in data.items()
        if name not in FIELDS
    ]
    errors += [InvalidInput(f"/{name}", None, "is required", "a value") for name in FIELDS if name not in data]
    if "path" in data and (wrong := path_problem(data["path"])):
        errors.append(InvalidInput("/path", data["path"], *wrong))
    if "op" in data and "value" in data and (found := operand_problem(data["op"], data["value"])):
        errors.append(found)
    if errors:
        raise InvalidInputs(errors)
    return {name: data[name] for name in FIELDS}


def path_problem(path: Any) -> tuple[str, str] | None:
    """What is wrong with a path, and what is right; None if nothing."""
    if not isinstance(path, str) or not path or len(path) > PATH_CHARACTERS:
        return "is not a path", f"{_EXAMPLE}, at most {PATH_CHARACTERS} characters"
    try:
        compiled = _compiled(path)
    except _UNREADABLE as error:
        return f"does not parse: {str(error).splitlines()[0]}", _EXAMPLE
    problem = next(_costs(compiled), None)
    return (problem, "one .., filters over single values below @, and length()") if problem else None


def operand_problem(operator: Any, value: Any) -> InvalidInput | None:
    """What is wrong with an operator, or with the value beside it."""
    if operator not in OPERATORS:
        return InvalidInput("/op", operator, "is not an operator", OPERATORS)
    if operator == "exists" and not isinstance(value, bool):
        return InvalidInput("/value", value, "must say whether there is something", "true, false")
    if operator == "in" and not isinstance(value, list):
        return InvalidInput("/value", value, "must be a list of values", 'a list such as ["invoice", "receipt"]')
    if operator in ("gt", "lt") and not isinstance(value, str) and not _is_number(value):
        return InvalidInput("/value", value, "cannot be compared", "a number or a text")
    return None


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values: 1 is 1.0, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return type(one) is type(other) and one == other if not _is_number(one) else _is_number(other) and one == other


def _compare(condition: Mapping[str, Any], value: Any, wanted: Any) -> bool:
    comparable = (_is_number(value) and _is_number(wanted)) or (isinstance(value, str) and isinstance(wanted, str))
    if not comparable:
        problem = f"{type(value).__name__} and {type(wanted).__name__} have no order"
        raise ConditionError(expression(condition), value, problem)
    return value > wanted if condition["op"] == "gt" else value < wanted


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@lru_cache(maxsize=4096)
def _compiled(path: str) -> JSONPath:
    compiled = _ENVIRONMENT.compile(path)
    assert isinstance(compiled, JSONPath)  # compound paths are an extension, off in strict mode
    return compiled


def _costs(path: JSONPath) -> Iterator[str]:
    """What makes a path take more than a few walks over the result."""
    descents, selectors = 0, 1
    for segment in path.segments:
        descents += isinstance(segment, JSONPathRecursiveDescentSegment)
        selectors *= max(1, len(segment.selectors))
        for selector in segment.selectors:
            if isinstance(selector, Filter):
                yield from _filter_costs(selector.expression)
    if descents > 1:
        yield "has more than one .."
    if selectors > MOST_SELECTORS:
        yield f"selects in more than {MOST_SELECTORS} ways"


def _filter_costs(expression: BaseExpression) -> Iterator[str]:
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, FilterQuery):
            waiting += one.children()
        elif not isinstance(one, RelativeFilterQuery):
            yield "has a filter that looks from the root ($) instead of from the element (@)"
        elif not one.path.singular_query():
            yield "has a filter that looks at more than one value"
