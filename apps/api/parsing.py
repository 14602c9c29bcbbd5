"""The body of a request: JSON read strictly, and never more of it than is allowed."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from apps.api.problems import BodyTooLarge
from apps.definitions import json_values
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

_DIGITS = 20  # more than any 64-bit integer has


class _Repeated(ValueError):
    """A field comes twice in one object; parsers disagree about which one counts."""


class StrictJsonParser(BaseParser):
    """RFC 8259 in UTF-8, without what only some parsers can read: NaN, repeated fields, endless integers, depth.

    What cannot be read at all is a ParseError (400) with its place; what can, but must not be stored, InvalidInputs.
    """

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        request = (parser_context or {})["request"]
        return read_json(_read(stream, request.META.get("CONTENT_LENGTH")))


def _read(stream: BinaryIO, declared: str | None) -> bytes:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    too_large = BodyTooLarge(f"the body is larger than {limit} bytes")
    if declared and declared.isdigit() and int(declared) > limit:
        raise too_large
    body = stream.read(limit + 1)
    if len(body) > limit:
        raise too_large
    return body


def read_json(body: bytes) -> Any:
    """The value of a JSON text. Raises ParseError, InvalidInputs."""
    try:
        value = json.loads(body.decode("utf-8-sig"), object_pairs_hook=_unique, parse_int=_whole)
    except UnicodeDecodeError as error:
        raise ParseError(f"the body is not UTF-8: byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno} (character {error.pos})"
        raise ParseError(f"the body is not JSON: {error.msg}, at {where}") from None
    except _Repeated as error:
        raise ParseError(f"the body is ambiguous: {error}") from None
    except RecursionError:
        raise ParseError(f"the body is nested too deeply; at most {json_values.DEEPEST} levels") from None
    if errors := list(_limited(value)):
        raise InvalidInputs(errors)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise _Repeated(f"the field {twice[:80]!r} comes twice in one object")
    return found


def _whole(text: str) -> int:
    """An integer; one that is far too long becomes another that is refused with its pointer, and costs no time."""
    return int(text) if len(text) <= _DIGITS else 10**_DIGITS


def _limited(value: Any) -> list[InvalidInput]:
    found = []
    for error in json_values.problems(value):
        found.append(error)
        if len(found) >= 100:
            break
    return found
