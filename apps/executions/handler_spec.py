"""What a handler object in a task definition may say. Pure, but for the look-up of a webhook's host name."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apps.executions.command_limits import caps, check_limits
from apps.executions.container_spec import (
    DEFAULT_RESOURCES,
    check_command,
    check_container_environment,
    check_image,
    check_network,
    check_registry,
    check_resources,
)
from apps.executions.program_checks import TEXT_BYTES, Found, check_argv, check_environment, check_text, escape
from apps.executions.secret_references import check_places, check_reference, normal, tidy_url
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import Resolve, check_url, system_resolve
from chronoweb.runtime.spelling import meant

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
HANDLER_NAME = re.compile(r"[A-Za-z_][\w.-]{0,199}", re.ASCII)
RESERVED_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive"),
        *("accept-encoding", "expect", "proxy-authorization", "proxy-connection"),
        *("idempotency-key", "x-fencing-token", "x-chronoweb-execution-id"),
        *("webhook-id", "webhook-timestamp", "webhook-signature"),
    }
)
HEADERS_AT_MOST = 50
VALUE_BYTES = 8 * 1024
_FORMS = {
    "name": 'the name of a registered handler, such as "demo.noop"',
    "url": "an http or https URL of a public host",
    "argv": '["program", "argument", …]; a shell is never used',
    "image": "an image reference such as registry.example.com/team/tool:1.2",
}
"""What fields that must be there look like."""
LONGEST_WAIT_SECONDS = 86_400


def validate_handler(
    data: Any,
    *,
    allowed_networks: Sequence[str] = (),
    command_caps: Mapping[str, int] | None = None,
    resolve: Resolve = system_resolve,
) -> dict[str, Any]:
    """The handler as it is stored: known fields only, defaults filled in.

    allowed_networks: CIDRs that webhooks and containers may reach although private. command_caps: the largest
    limits of a command (command_limits.caps); None: the defaults. Raises InvalidInputs, pointers relative to the
    handler object ("/url").
    """
    if not isinstance(data, Mapping):
        raise InvalidInputs([InvalidInput("", data, "must be an object with a type", tuple(TYPES))])
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        problem = "is missing" if "type" not in data else f"unknown handler type{meant(kind, TYPES)}"
        raise InvalidInputs([InvalidInput("/type", kind, problem, tuple(TYPES))])
    required, defaults, checks = TYPES[kind]
    legal = ("type", *required, *defaults)
    found = [
        InvalidInput(
            f"/{escape(str(name))}", value, f"unknown field of a {kind} handler{meant(name, legal)}", ", ".join(legal)
        )
        for name, value in data.items()
        if name not in legal
    ]
    found += [InvalidInput(f"/{name}", None, "is missing", _FORMS[name]) for name in required if name not in data]
    given = {**defaults, **{name: data[name] for name in legal if name in data}}
    if kind == "webhook" and "url" in data:
        given["url"] = tidy_url(data["url"])
    for name, check in checks.items():
        if name in given:
            check(f"/{name}", given[name], found)
    if kind == "webhook" and "url" in data:
        _check_url(given["url"], allowed_networks, resolve, found)
    elif kind == "command" and given["limits"] is not None:
        check_limits("/limits", given["limits"], found, command_caps or caps(Config()))
    elif kind == "container":
        check_network("/network", given["network"], found, allowed_networks=allowed_networks, resolve=resolve)
        check_registry("/image", given.get("image"), found, networks=allowed_networks, resolve=resolve)
    check_places(given, found)
    if found:
        raise InvalidInputs(found)
    stored = {name: value for name, value in given.items() if name != "type" and value is not None}
    return {"type": kind, **normal(stored)}


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
        at = f"{pointer}/{escape(str(name))}"
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            found.append(InvalidInput(at, name, "is no header name", "letters, digits and the signs of RFC 9110"))
        elif name.lower() in RESERVED_HEADERS:
            problem = f"the header {name} is set by chronoweb or by HTTP itself"
            found.append(InvalidInput(at, text, problem, "another header"))
        elif isinstance(text, Mapping):
            check_reference(at, text, found)
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
        found.append(InvalidInput(pointer, None, "is not JSON", "a JSON value"))
        return
    if "\0" in text or "\\u0000" in text:
        found.append(InvalidInput(pointer, None, "contains a NUL character", "text without NUL characters"))
    if size > TEXT_BYTES:
        found.append(InvalidInput(pointer, None, f"has {size} bytes", f"at most {TEXT_BYTES} bytes"))


def _check_wait(pointer: str, value: Any, found: Found) -> None:
    """None: the connection has ten seconds, the answer as long as the task's timeout_seconds allows."""
    if value is not None and (type(value) not in (int, float) or not 0.1 <= value <= LONGEST_WAIT_SECONDS):
        found.append(InvalidInput(pointer, value, "must be a number of seconds", f"0.1 to {LONGEST_WAIT_SECONDS}"))


def _check_stdin(pointer: str, value: Any, found: Found) -> None:
    if value is not None:
        check_text(pointer, value, found)


def _printable(text: str) -> bool:
    return all(character.isprintable() or character == "\t" for character in text)


_Check = Callable[[str, Any, Found], None]
TYPES: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, _Check]]] = {
    "python": (("name",), {}, {"name": _check_name}),
    "webhook": (
        ("url",),
        {"method": "POST", "headers": {}, "body": None, "connect_timeout_seconds": None, "read_timeout_seconds": None},
        {
            "method": _check_method,
            "headers": _check_headers,
            "body": _check_body,
            "connect_timeout_seconds": _check_wait,
            "read_timeout_seconds": _check_wait,
        },
    ),
    "command": (
        ("argv",),
        {"environment": {}, "stdin": None, "limits": None},
        {"argv": check_argv, "environment": check_environment, "stdin": _check_stdin},
    ),
    "container": (
        ("image",),
        {"command": [], "environment": {}, "resource_requirements": DEFAULT_RESOURCES, "network": "none"},
        {
            "image": check_image,
            "command": check_command,
            "environment": check_container_environment,
            "resource_requirements": check_resources,
        },
    ),
}
"""Type → required fields, optional fields with their defaults, checks."""
