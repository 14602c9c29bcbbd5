"""The form of a handler as JSON Schema 2020-12: the tables of handler_spec.py for those who cannot read Python."""

from collections.abc import Mapping
from typing import Any

from apps.executions import container_spec, handler_spec, program_checks
from apps.executions.command_limits import LIMITS
from apps.executions.secret_references import PREFIX_CHARACTERS
from apps.tenants.secret_names import NAME as SECRET_NAME

Shape = dict[str, Any]
_TEXT: Shape = {"type": "string"}
_AMOUNT: Shape = {"type": ["number", "string"]}


def handler() -> Shape:
    """One of the kinds, told apart by `type`."""
    return {"oneOf": [_kind(name) for name in handler_spec.TYPES]}


def _kind(name: str) -> Shape:
    required, optional, _ = handler_spec.TYPES[name]
    known = _FIELDS[name]()
    assert set(known) == {*required, *optional}
    properties = {
        field: shape if field in required or optional[field] is not None else _or_null(shape)
        for field, shape in known.items()
    }
    defaults = {field: default for field, default in optional.items() if default is not None}
    return {
        "type": "object",
        "title": f"{name} handler",
        "required": ["type", *required],
        "properties": {
            "type": {"const": name},
            **{f: {**shape, "default": defaults[f]} if f in defaults else shape for f, shape in properties.items()},
        },
        "additionalProperties": False,
    }


def _python() -> Mapping[str, Shape]:
    return {"name": {**_TEXT, "pattern": f"^{handler_spec.HANDLER_NAME.pattern}$"}}


def _webhook() -> Mapping[str, Shape]:
    wait = {"type": "number", "minimum": 0.1, "maximum": handler_spec.LONGEST_WAIT_SECONDS}
    return {
        "url": {
            **_TEXT,
            "description": "http or https, of a public host unless the installation allows its network; "
            "{{secret:NAME}} may stand behind the host",
        },
        "method": {"enum": list(handler_spec.METHODS)},
        "headers": {
            "type": "object",
            "maxProperties": handler_spec.HEADERS_AT_MOST,
            "propertyNames": {"pattern": f"^{handler_spec.HEADER_NAME.pattern}$"},
            "additionalProperties": _text_or_secret({**_TEXT, "maxLength": handler_spec.VALUE_BYTES}),
        },
        "body": {"description": "any JSON value; text goes as it is; its texts may hold {{secret:NAME}}"},
        "connect_timeout_seconds": wait,
        "read_timeout_seconds": wait,
    }


def _command() -> Mapping[str, Shape]:
    most = program_checks.ARGUMENTS_AT_MOST
    limits = {
        name: {"type": ["string", "integer"]} if limit.in_bytes else {"type": "integer", "minimum": limit.low}
        for name, limit in LIMITS.items()
    }
    return {
        "argv": {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": most, "description": "no shell is used"},
        "environment": _environment(),
        "stdin": {
            **_TEXT,
            "maxLength": program_checks.TEXT_BYTES,
            "description": "what it may read; nothing if absent",
        },
        "limits": {"type": "object", "properties": limits, "additionalProperties": False},
    }


def _container() -> Mapping[str, Shape]:
    pairs = {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": container_spec.PAIRS_AT_MOST}
    allow = {"type": "object", "required": ["allow"], "properties": {"allow": pairs}, "additionalProperties": False}
    resources = {
        "cpu": {**_AMOUNT, "description": 'processors, such as 0.5 or "500m"'},
        "memory": {**_AMOUNT, "description": 'bytes, such as "512Mi"'},
        "timeout_seconds": {"type": "number", "minimum": 0.001, "maximum": container_spec.TIMEOUT_AT_MOST},
    }
    assert set(resources) == set(container_spec.RESOURCES)
    return {
        "image": {**_TEXT, "minLength": 1, "maxLength": container_spec.IMAGE_CHARACTERS},
        "command": {"type": "array", "items": _TEXT, "maxItems": program_checks.ARGUMENTS_AT_MOST},
        "environment": _environment(),
        "resource_requirements": {"type": "object", "properties": resources, "additionalProperties": False},
        "network": {"oneOf": [{"const": "none"}, allow]},
    }


def _environment() -> Shape:
    return {
        "type": "object",
        "propertyNames": {"pattern": f"^(?!CHRONOWEB_){program_checks.VARIABLE_NAME.pattern}$"},
        "additionalProperties": _text_or_secret({**_TEXT, "maxLength": program_checks.TEXT_BYTES}),
    }


def _text_or_secret(text: Shape) -> Shape:
    reference = {
        "type": "object",
        "title": "reference to a secret",
        "description": "shown as the text {{secret:NAME}}, which may be given as well",
        "required": ["secret"],
        "properties": {
            "secret": {**_TEXT, "pattern": f"^{SECRET_NAME.pattern}$"},
            "prefix": {**_TEXT, "maxLength": PREFIX_CHARACTERS, "description": "printable ASCII without {{"},
        },
        "additionalProperties": False,
    }
    return {"oneOf": [text, reference]}


def _or_null(shape: Shape) -> Shape:
    return {"anyOf": [shape, {"type": "null"}]}


_FIELDS = {"python": _python, "webhook": _webhook, "command": _command, "container": _container}
