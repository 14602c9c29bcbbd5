"""References to secrets in a handler: {"secret": "NAME"} where a header or a variable has its text. Pure.

With "prefix" a fixed text stands before the value: {"secret": "TOKEN", "prefix": "Bearer "}.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from apps.tenants.secret_names import LEGAL, NAME
from chronoweb.runtime.errors import InvalidInput

PARTS = ("headers", "environment")
"""The members of a handler whose values may be references."""

Found = list[InvalidInput]
_FIELDS = ("secret", "prefix")
PREFIX_CHARACTERS = 256


class Reference(NamedTuple):
    """part, key: where it stands, such as ("headers", "Authorization"). name: of the secret."""

    part: str
    key: str
    name: str
    prefix: str


def references(handler: Mapping[str, Any]) -> Iterator[Reference]:
    """Every reference of a handler that passed the checks."""
    for part in PARTS:
        values = handler.get(part)
        for key, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, Mapping):
                yield Reference(part, key, value["secret"], value.get("prefix", ""))


def check_reference(pointer: str, value: Mapping[str, Any], found: Found) -> None:
    """Add what is wrong with the form of a reference to `found`."""
    example = '{"secret": "NAME"}, or with a fixed text before it {"secret": "NAME", "prefix": "Bearer "}'
    for name in value:
        if name not in _FIELDS:
            at = f"{pointer}/{escape(str(name))}"
            found.append(InvalidInput(at, None, "is not a field of a reference to a secret", example))
    secret = value.get("secret")
    if "secret" not in value:
        found.append(InvalidInput(pointer, None, "must be text or a reference to a secret", example))
    elif not isinstance(secret, str) or not NAME.fullmatch(secret):
        found.append(InvalidInput(f"{pointer}/secret", secret, "is no name of a secret", LEGAL))
    if "prefix" in value:
        _check_prefix(f"{pointer}/prefix", value["prefix"], found)


def put_in(values: Mapping[str, Any] | None, secrets: Mapping[str, str]) -> dict[str, str]:
    """The texts of a part, references replaced. secrets: name → value, of every name that stands there."""
    return {
        str(key): value.get("prefix", "") + secrets[value["secret"]] if isinstance(value, Mapping) else str(value)
        for key, value in (values or {}).items()
    }


def _check_prefix(pointer: str, value: Any, found: Found) -> None:
    legal = f"printable ASCII text, at most {PREFIX_CHARACTERS} characters"
    if not isinstance(value, str) or len(value) > PREFIX_CHARACTERS or not value.isascii() or not value.isprintable():
        found.append(InvalidInput(pointer, value, "is no text before a secret", legal))


def escape(name: str) -> str:
    """A name as part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
