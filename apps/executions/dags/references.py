"""References: `{{ classify.result.type }}` in a node's configuration or parameters, put in as VALUES. Pure.

A text that is one reference becomes the value itself, a list or number too. Inside a longer text the value is written
into that text: texts as they are, all else as JSON. Nothing is ever parsed again, neither as a reference nor by a
shell: an element of argv stays one element, whatever the value holds. Names of fields are never references.

    {{ classify.result.items[0].sku }}      a node's result; {{ classify.status }} its status
    {{ run.parameters.customer }}           also run.id, run.nominal_at
    {{ item }} {{ item.sku }} {{ index }}   what a mapped node is given
    {{ invoice.result.total | default(0) }} a JSON value instead of what is not there
    {{ "{{" }}                              a JSON text as it stands: how to write two braces

`{{secret:NAME}}` is none of these: secrets are put in last, by handlers (executions/secret_references.py).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronoweb.runtime.errors import ChronowebError

NODE_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
RESERVED = ("run", "item", "index")
"""First words that are no node's id."""

_REFERENCE = re.compile(r"\{\{(?!\s*secret:)(.*?)\}\}", re.DOTALL)
_LITERAL = re.compile(r"\{\{\s*(\"(?:[^\"\\]|\\.)*\")\s*\}\}")
_EITHER = re.compile(f"{_LITERAL.pattern}|{_REFERENCE.pattern}", re.DOTALL)
_EXPRESSION = re.compile(r"((?:[^|\s\"]|\"(?:[^\"\\]|\\.)*\")+)\s*(?:\|\s*default\((.*)\)\s*)?", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[(0|[1-9][0-9]{0,8})\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_NOTHING = object()

LEGAL = "node.result.path, run.parameters.name, item, index, each perhaps with | default(JSON value)"


class ReferenceProblem(ChronowebError):
    """A reference that cannot be read or has no value: its expression and what is wrong."""

    def __init__(self, expression: str, problem: str) -> None:
        self.expression = expression
        self.problem = problem
        super().__init__(f"{{{{ {expression} }}}} {problem}")


@dataclass(frozen=True)
class Reference:
    """steps: names and list positions, the first a node's id or a reserved word. default: for what is not there."""

    expression: str
    steps: tuple[str | int, ...]
    default: Any = _NOTHING

    @property
    def node(self) -> str | None:
        """The node that it reads; None for run, item and index."""
        return None if self.steps[0] in RESERVED else str(self.steps[0])

    def value(self, scope: Mapping[str, Any]) -> Any:
        """What it stands for. Raises ReferenceProblem where there is nothing and no default."""
        found: Any = scope
        for position, step in enumerate(self.steps):
            found = _below(found, step)
            if found is _NOTHING and self.default is not _NOTHING:
                return self.default
            if found is _NOTHING:
                written = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in self.steps[: position + 1])
                raise ReferenceProblem(self.expression, f"has no value: there is no {written[1:]}")
        return found


def parse(expression: str) -> Reference:
    """One reference, without its braces. Raises ReferenceProblem."""
    text = expression.strip()
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise ReferenceProblem(text[:200], "is no reference")
    return Reference(text, _steps(match[1], text), _default(match[2], text))


def resolve(document: Any, scope: Mapping[str, Any]) -> Any:
    """The JSON value `document` with its references put in; the given one stays as it is.

    scope: node ids → {"result": …, "status": …}; "run" → {"parameters": …, …}; "item" and "index" of a mapped node.
    Raises ReferenceProblem.
    """
    if isinstance(document, str):
        return _resolved_text(document, scope)
    if isinstance(document, Mapping):
        return {name: resolve(value, scope) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [resolve(value, scope) for value in document]
    return document


def resolve_text(text: str, scope: Mapping[str, Any], *, quote: Callable[[str], str] = str) -> str:
    """The text with its references written into it, each passed through `quote`. Raises ReferenceProblem."""
    return _EITHER.sub(lambda match: quote(_written(_value(match, scope))), text) if "{{" in text else text


def find(document: Any) -> Iterator[tuple[str, str]]:
    """Each reference in a JSON value: the pointer to the text that has it, and the expression."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        pointer, value = waiting.pop()
        if isinstance(value, str):
            yield from ((pointer, match[2].strip()) for match in _EITHER.finditer(value) if match[2] is not None)
        elif isinstance(value, Mapping):
            waiting += [(f"{pointer}/{_escaped(name)}", inner) for name, inner in value.items()]
        elif isinstance(value, Sequence):
            waiting += [(f"{pointer}/{position}", inner) for position, inner in enumerate(value)]


def nodes_in(document: Any) -> set[str]:
    """Which nodes' results a JSON value asks for. Raises ReferenceProblem."""
    return {node for _, expression in find(document) if (node := parse(expression).node) is not None}


def _resolved_text(text: str, scope: Mapping[str, Any]) -> Any:
    if "{{" not in text:
        return text
    alone = text.strip()
    first = _EITHER.match(alone)
    if first is not None and first.end() == len(alone):
        return _value(first, scope)
    return resolve_text(text, scope)


def _value(match: re.Match[str], scope: Mapping[str, Any]) -> Any:
    if match[1] is not None:
        return _json(match[1], match[1])
    return parse(match[2]).value(scope)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _steps(path: str, expression: str) -> tuple[str | int, ...]:
    first = NODE_ID.match(path)
    if first is None:
        raise ReferenceProblem(expression, "is no reference: it begins with no node's id")
    steps: list[str | int] = [first[0]]
    position = first.end()
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ReferenceProblem(expression, f"is no reference: {path[position:][:40]!r} is no step of a path")
        steps.append(step[1] or (int(step[2]) if step[2] is not None else _json(step[3], expression)))
        position = step.end()
    if steps[0] == "run" and (len(steps) < 2 or steps[1] not in ("parameters", "id", "nominal_at")):
        raise ReferenceProblem(expression, "is no reference: of a run there are parameters, id and nominal_at")
    if steps[0] not in RESERVED and (len(steps) < 2 or steps[1] not in ("result", "status")):
        raise ReferenceProblem(expression, f"is no reference: of a node there are {steps[0]}.result and .status")
    return tuple(steps)


def _default(text: str | None, expression: str) -> Any:
    return _NOTHING if text is None else _json(text, expression)


def _json(text: str, expression: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ReferenceProblem(expression, f"is no reference: {text[:40]!r} is not JSON") from None


def _below(value: Any, step: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(str(step), _NOTHING)
    if isinstance(value, list | tuple) and isinstance(step, int) and step < len(value):
        return value[step]
    return _NOTHING


def _escaped(name: str) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
