"""Parameters in the URL's query: known names, known values, 400 otherwise."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from rest_framework.request import Request

from apps.api.problems import query_error
from apps.definitions.schedule_input import Reader
from apps.executions.states import Status
from chronoweb.runtime.errors import InvalidInputs


def refuse_unknown(request: Request, known: Iterable[str]) -> None:
    """A misspelt filter must not return everything."""
    legal = sorted(known)
    errors = [query_error(n, None, "is not a parameter here", legal) for n in request.query_params if n not in legal]
    if errors:
        raise InvalidInputs(errors)


def text(request: Request, name: str) -> str | None:
    """The parameter's text. Raises InvalidInput for characters that no stored text has."""
    value = request.query_params.get(name)
    if value is not None and ("\0" in value or len(value) > 200):
        raise query_error(name, None, "is too long or contains a NUL character", "up to 200 characters")
    return value


def boolean(request: Request, name: str) -> bool | None:
    value = request.query_params.get(name)
    if value is None:
        return None
    if value not in ("true", "false"):
        raise query_error(name, value, "must be true or false", ("true", "false"))
    return value == "true"


def identity(request: Request, name: str) -> UUID | None:
    value = request.query_params.get(name)
    if value is None:
        return None
    try:
        return UUID(value)
    except ValueError:
        raise query_error(name, value, "is not an id", "a UUID") from None


def moment(request: Request, name: str) -> datetime | None:
    value = request.query_params.get(name)
    if value is None:
        return None
    reader = Reader({name: value.replace(" ", "+")})  # "+01:00" unescaped in a URL reads as a space
    found = reader.moment(name, "UTC", last_pass=False)
    if reader.errors:
        raise query_error(name, value, reader.errors[0].problem, reader.errors[0].legal)
    return found


def statuses(request: Request, name: str) -> frozenset[Status]:
    """`?status=running,retrying` or the parameter repeated."""
    words = [word for value in request.query_params.getlist(name) for word in value.split(",")]
    legal = [status.word for status in Status]
    for word in words:
        if word not in legal:
            raise query_error(name, word, "is not a status", legal)
    return frozenset(Status.from_word(word) for word in words)
