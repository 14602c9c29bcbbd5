"""How a view's method says what it takes and gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Shape = dict[str, Any]
Content = str | Shape | None
"""The name of a schema of schemas/, or a JSON Schema of its own; None: no body."""

Method = TypeVar("Method", bound=Callable[..., Any])
_ATTRIBUTE = "openapi_operation"


@dataclass(frozen=True)
class Answer:
    """One success. media: content by media type. headers: names of headers.py that it carries."""

    media: Mapping[str, Content]
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """takes: the body, required unless `body_optional`. fails: statuses that are not every operation's (refusals.py).

    parameters: schemas of query parameters that mean something of their own here; the others are in parameters.py.
    """

    summary: str
    takes: Content
    body_optional: bool
    answers: Mapping[int, Answer]
    fails: tuple[int, ...]
    parameters: Mapping[str, Shape] = field(default_factory=dict)
    request_headers: tuple[str, ...] = ()

    def heeds_query(self, method: str) -> bool:
        """Whether the view's query parameters mean anything to this method: they are those of what is read."""
        return method == "GET" or bool(self.parameters)


def declared(
    summary: str,
    *,
    takes: Content = None,
    body_optional: bool = False,
    gives: Content | Mapping[int, Content | Answer] = None,
    headers: tuple[str, ...] = (),
    fails: tuple[int, ...] = (),
    parameters: Mapping[str, Shape] | None = None,
    request_headers: tuple[str, ...] = (),
) -> Operation:
    """An operation; its description is the docstring of the method, else of the view.

    gives: one content for 200, or content by status ({201: "Task"}); a status alone with None has no body.
    headers: what every success of it carries ("ETag", "Location"). request_headers: what it heeds ("If-Match").
    """
    is_by_status = isinstance(gives, Mapping) and all(isinstance(key, int) for key in gives)
    by_status: Any = gives if is_by_status else {200: gives}
    answers = {int(status): _answer(content, headers) for status, content in by_status.items()}
    return Operation(summary, takes, body_optional, answers, fails, parameters or {}, request_headers)


def documented(*args: Any, **options: Any) -> Callable[[Method], Method]:
    """Declare the operation of the method below; takes what `declared` takes."""
    operation = declared(*args, **options)

    def declare(method: Method) -> Method:
        setattr(method, _ATTRIBUTE, operation)
        return method

    return declare


def operation_of(view: Any, method: str) -> Operation | None:
    """What a view declares for a method ("get"): on the method, or in `declares` where views share it."""
    own: Operation | None = getattr(view, "declares", {}).get(method)
    found: Operation | None = getattr(getattr(view, method), _ATTRIBUTE, None)
    return own or found


def _answer(content: Content | Answer, headers: tuple[str, ...]) -> Answer:
    if isinstance(content, Answer):
        return content
    return Answer({} if content is None else {"application/json": content}, headers)
