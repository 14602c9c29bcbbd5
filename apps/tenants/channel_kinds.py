"""The kinds of channels, and what each needs to be told. Pure, but for the look-up of an address's host name."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from chronoweb.runtime.config import config
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import check_url

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
LEGAL_NAME = 'small letters and digits, then also "_", "-" and ".", at most 63 characters'
SEVERITIES = ("critical", "error", "warning", "info")
RECIPIENTS_AT_MOST = 50
_ROUTING_KEY = re.compile(r"[A-Za-z0-9]{16,64}", re.ASCII)

Check = Callable[[Any], tuple[str, str] | None]
"""What is wrong with a value, and what is right; None: nothing."""


class Field(NamedTuple):
    """is_secret: sealed, and never shown again."""

    check: Check
    is_secret: bool = False
    is_required: bool = True


def _address(value: Any) -> tuple[str, str] | None:
    try:
        check_url(value, config().outbound_allowed_networks)
    except InvalidInput as problem:
        return problem.problem, "an https URL of a public host"
    return None if value.startswith("https://") else ("is not https", "an https URL of a public host")


def _recipients(value: Any) -> tuple[str, str] | None:
    legal = f"a list of 1 to {RECIPIENTS_AT_MOST} addresses"
    if not isinstance(value, list) or not 1 <= len(value) <= RECIPIENTS_AT_MOST:
        return "is no list of addresses", legal
    for address in value:
        try:
            if not isinstance(address, str):
                raise ValidationError("no text")
            validate_email(address)
        except ValidationError:
            return "has an element that is no address", legal
    return None


def _routing_key(value: Any) -> tuple[str, str] | None:
    fits = isinstance(value, str) and _ROUTING_KEY.fullmatch(value)
    return None if fits else ("is no routing key", "16 to 64 letters and digits, as PagerDuty shows them")


def _severity(value: Any) -> tuple[str, str] | None:
    return None if value in SEVERITIES else ("is no severity", ", ".join(SEVERITIES))


KINDS: dict[str, dict[str, Field]] = {
    "slack": {"url": Field(_address, is_secret=True)},
    "email": {"to": Field(_recipients)},
    "pagerduty": {
        "routing_key": Field(_routing_key, is_secret=True),
        "severity": Field(_severity, is_required=False),
    },
    "webhook": {"url": Field(_address, is_secret=True)},
}
"""Kind → what its configuration holds."""


def secret_fields(kind: str) -> list[str]:
    return [name for name, field in KINDS[kind].items() if field.is_secret]


def read_config(kind: str, given: Any, *, before: Mapping[str, str] | None) -> tuple[dict[str, Any], dict[str, str]]:
    """(what may be shown, what is sealed). before: the sealed part in force, for what is not given anew.

    Raises InvalidInputs, pointers below /config; values are not repeated: they may be the secret.
    """
    fields = KINDS[kind]
    legal = ", ".join(fields)
    if not isinstance(given, Mapping):
        raise InvalidInputs([InvalidInput("/config", None, "must be an object", legal)])
    found = [
        InvalidInput(f"/config/{str(name)[:80]}", None, f"is not a field of a {kind} channel", legal)
        for name in given
        if name not in fields
    ]
    shown: dict[str, Any] = {}
    sealed: dict[str, str] = {}
    for name, field in fields.items():
        value = given.get(name)
        if value is None and field.is_secret and before and name in before:
            value = before[name]
        elif value is None and field.is_required:
            _, right = field.check(None) or ("", "a value")
            found.append(InvalidInput(f"/config/{name}", None, "is required", right))
        elif value is not None and (wrong := field.check(value)):
            found.append(InvalidInput(f"/config/{name}", None, *wrong))
        if value is not None:
            (sealed if field.is_secret else shown)[name] = value
    if found:
        raise InvalidInputs(found)
    return shown, sealed
