"""Parameters in the URL's query: known names, known values, 400 otherwise."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from rest_framework.request import Request

from apps.api.problems import query_error
from apps.definitions.schedule_input import Reader
from chronoweb.runtime.errors import InvalidInputs

LONGEST_TEXT = 200


def refuse_unknown(request: Request, known: Iterable[str]) -> None:
    """A misspelt filter must not return everything."""
    legal = sorted(known)
    errors = [query_error(n, None, "is not a parameter here", legal) for n in request.query_params if n not in legal]
    if errors:
        raise InvalidInputs(errors)


def text(request: Request, name: str) -> str | None:
    """The parameter's text. Raises InvalidInput for characters that no stored text has."""
    value = request.query_params.get(name)
    return None if value is None else read_text(name, value)


def moment(request: Request, name: str) -> datetime | None:
    value = request.query_params.get(name)
    return None if value is None else read_moment(name, value)


def optional_whole(request: Request, name: str, *, largest: int = 2**31 - 1) -> int | None:
    """A number from 1."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= largest):
        raise query_error(name, text, "is not a number here", f"1 to {largest}")
    return int(text)


def whole(request: Request, name: str, *, default: int, largest: int) -> int:
    """The same, where a default is meant when it is absent."""
    found = optional_whole(request, name, largest=largest)
    return default if found is None else found


def read_text(name: str, value: str) -> str:
    # A lone surrogate cannot come out of a URL: Django reads its bytes as UTF-8.
    if "\0" in value or len(value) > LONGEST_TEXT:
        raise query_error(name, None, "is too long or contains a NUL character", f"up to {LONGEST_TEXT} characters")
    return value


def read_boolean(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise query_error(name, value, "must be true or false", ("true", "false"))
    return value == "true"


def read_identity(name: str, value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError:
        raise query_error(name, value, "is not an id", "a UUID") from None


def read_moment(name: str, value: str) -> datetime:
    reader = Reader({name: value.replace(" ", "+")})  # "+01:00" unescaped in a URL reads as a space
    found = reader.moment(name, "UTC", last_pass=False)
    if found is None:
        raise query_error(name, value, reader.errors[0].problem, reader.errors[0].legal)
    return found
