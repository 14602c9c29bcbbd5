"""What a handler object in a task definition may say. Pure, but for the look-up of a webhook's host name."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import Resolve, check_url, system_resolve

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
HANDLER_NAME = re.compile(r"[A-Za-z_][\w.-]{0,199}", re.ASCII)
RESERVED_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive"),
        *("accept-encoding", "expect", "proxy-authorization", "proxy-connection"),
        *("idempotency-key", "x-fencing-token", "x-chronoweb-execution-id"),
    }
)
HEADERS_AT_MOST = 50
ARGUMENTS_AT_MOST = 256
TEXT_BYTES = 64 * 1024
VALUE_BYTES = 8 * 1024

Found = list[InvalidInput]


def validate_handler(
    data: Any, *, allowed_networks: Sequence[str] = (), resolve: Resolve = system_resolve
) -> dict[str, Any]:
    """The handler as it is stored: known fields only, defaults filled in.

    allowed_networks: CIDRs that webhooks may reach although private. Raises InvalidInputs, pointers relative to
    the handler object ("/url").
    """
    if not isinstance(data, Mapping):
        raise InvalidInputs([InvalidInput("", data, "must be an object with a type", tuple(_TYPES))])
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        problem = "is missing" if "type" not in data else "unknown handler type"
        raise InvalidInputs([InvalidInput("/type", kind, problem, tuple(_TYPES))])
    required, defaults, checks = _TYPES[kind]
    legal = ("type", *required, *defaults)
    found = [
        InvalidInput(f"/{_escape(str(name))}", value, f"unknown field of a {kind} handler", ", ".join(legal))
        for name, value in data.items()
        if name not in legal
    ]
    found += [InvalidInput(f"/{name}", None, "is missing") for name in required if name not in data]
    given = {**defaults, **{name: data[name] for name in legal if name in data}}
    for name, check in checks.items():
        if name in given:
            check(f"/{name}", given[name], found)
    if kind == "webhook" and "url" in data:
        _check_url(data["url"], allowed_networks, resolve, found)
    if found:
        raise InvalidInputs(found)
    return {"type": kind, **{name: value for name, value in given.items() if name != "type" and value is not None}}


def _check_name(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, str) or not HANDLER_NAME.fullmatch(value):
        legal = 'a name such as "demo.noop": letters, digits, "_", "-" and ".", at most 200'
        found.append(InvalidInput(pointer, value, "is no handler name", legal))


def _check_url(value: Any, allowed_networks: Sequence[str], resolve: Resolve, found: Found) -> None:
    try:
        check_url(value, allowed_networks, resolve=resolve)
    except InvalidInput as problem:
        found.append(InvalidInput("/url", value, problem.problem, problem.legal))


def _check_method(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, str) or value not in METHODS:
        found.append(InvalidInput(pointer, value, "unknown method", METHODS))


def _check_headers(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, Mapping) or len(value) > HEADERS_AT_MOST:
        legal = f"an object of at most {HEADERS_AT_MOST} texts"
        found.append(InvalidInput(pointer, value, "must be an object of header names and texts", legal))
        return
    for name, text in value.items():
        at = f"{pointer}/{_escape(str(name))}"
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            found.append(InvalidInput(at, name, "is no header name"))
        elif name.lower() in RESERVED_HEADERS:
            found.append(InvalidInput(at, text, f"the header {name} is set by chronoweb or by HTTP itself"))
        elif not isinstance(text, str) or len(text) > VALUE_BYTES or not text.isascii() or not _printable(text):
            legal = f"printable ASCII text, at most {VALUE_BYTES} characters"
            found.append(InvalidInput(at, text, "is no header value", legal))


def _check_body(pointer: str, value: Any, found: Found) -> None:
    if value is None:
        return
    try:
        text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):
        found.append(InvalidInput(pointer, None, "is not JSON"))
        return
    if "\0" in text or "\\u0000" in text:
        found.append(InvalidInput(pointer, None, "contains a NUL character"))
    if size > TEXT_BYTES:
        found.append(InvalidInput(pointer, None, f"has {size} bytes", f"at most {TEXT_BYTES} bytes"))


def _check_argv(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        legal = '["program", "argument", …]; a shell is never used'
        found.append(InvalidInput(pointer, value, "must be a list of texts, not a command line", legal))
        return
    if not 1 <= len(value) <= ARGUMENTS_AT_MOST:
        problem = f"has {len(value)} elements"
        found.append(InvalidInput(pointer, list(value), problem, f"1 to {ARGUMENTS_AT_MOST} elements"))
    for index, argument in enumerate(value):
        _check_text(f"{pointer}/{index}", argument, found)
    if value and value[0] == "":
        found.append(InvalidInput(f"{pointer}/0", "", "is no program"))


def _check_environment(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, Mapping):
        found.append(InvalidInput(pointer, value, "must be an object of variable names and texts"))
        return
    for name, text in value.items():
        at = f"{pointer}/{_escape(str(name))}"
        if not isinstance(name, str) or not VARIABLE_NAME.fullmatch(name):
            found.append(InvalidInput(at, name, "is no variable name", 'letters, digits and "_"'))
        elif name.startswith("CHRONOWEB_"):
            found.append(InvalidInput(at, text, "names that begin with CHRONOWEB_ are set by chronoweb"))
        else:
            _check_text(at, text, found)


def _check_text(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, str):
        found.append(InvalidInput(pointer, value, "must be text"))
    elif "\0" in value:
        found.append(InvalidInput(pointer, None, "contains a NUL character"))
    elif not value.isascii() and value != value.encode("utf-8", "replace").decode():
        found.append(InvalidInput(pointer, None, "contains a lone surrogate"))
    elif len(value.encode()) > TEXT_BYTES:
        found.append(InvalidInput(pointer, None, "is too long", f"at most {TEXT_BYTES} bytes"))


def _printable(text: str) -> bool:
    return all(character.isprintable() or character == "\t" for character in text)


def _escape(name: str) -> str:
    """A name as part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


_Check = Callable[[str, Any, Found], None]
_TYPES: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, _Check]]] = {
    "python": (("name",), {}, {"name": _check_name}),
    "webhook": (
        ("url",),
        {"method": "POST", "headers": {}, "body": None},
        {"method": _check_method, "headers": _check_headers, "body": _check_body},
    ),
    "command": (("argv",), {"environment": {}}, {"argv": _check_argv, "environment": _check_environment}),
}
"""Type → required fields, optional fields with their defaults, checks."""
