"""References to secrets in a handler: `{{secret:NAME}}` inside a text that a worker makes use of late. Pure.

They stand in headers, environments and bodies, and in a URL behind its host, where the value is percent-encoded. This
form alone is stored. {"secret": "NAME", "prefix": "Bearer "}, the prefix only if need be, means the same where a header
or a variable has its text, and is turned into it; versions from before that keep it, and are read.

Only what stood in the definition is a reference. In a node of a DAG the results of others are put in first: `marked`
gives the definition's own references a mark that no result can know, and `put_in` looks for those alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from apps.tenants.secret_names import LEGAL, NAME
from chronoweb.runtime.errors import InvalidInput

PARTS = ("headers", "environment")
"""The members of a handler whose values are texts by name."""
PLACES = ("url", "body", *PARTS)
"""The members that may hold references."""

Found = list[InvalidInput]
EXAMPLE = 'text such as "Bearer {{secret:NAME}}", or {"secret": "NAME", "prefix": "Bearer "}'
PREFIX_CHARACTERS = 256
_FIELDS = ("secret", "prefix")
_REFERENCE = re.compile(r"\{\{\s*secret:([^{}]*)\}\}")
_NEARLY = re.compile(r"\{\{\s*(?!(?-i:secret:))secrets?\b(?!\s*\.\s*result\b)[^{}]*\}\}", re.IGNORECASE)
"""How other programs write it; what a node of that name gave is none."""


class Reference(NamedTuple):
    """pointer: of the text in the handler, such as "/headers/Authorization". name: of the secret."""

    pointer: str
    name: str

    @property
    def part(self) -> str:
        """The member of the handler."""
        return self.pointer.split("/")[1]


def written(name: str, mark: str = "") -> str:
    """The reference to a secret as it is stored."""
    return f"{{{{secret:{name}{mark}}}}}"


def references(handler: Mapping[str, Any]) -> Iterator[Reference]:
    """Every reference of a handler, in order; its names are those of secrets if the handler passed the checks."""
    for place in PLACES:
        for pointer, text in _texts(handler.get(place), f"/{place}", is_part=place in PARTS):
            yield from (Reference(pointer, found[1].strip()) for found in _REFERENCE.finditer(text))


def mentioned(value: Any) -> Iterator[tuple[str, str]]:
    """Pointer and name of whatever looks like a reference in any JSON value."""
    for pointer, text in _texts(value, "", is_part=False):
        yield from ((pointer, found[1].strip()) for found in _REFERENCE.finditer(text))


def normal(handler: Mapping[str, Any]) -> dict[str, Any]:
    """The handler with every reference in the form that is stored. It has passed the checks."""
    stored = dict(handler)
    for part in PARTS:
        if isinstance(stored.get(part), Mapping):
            stored[part] = {name: _tidy(_text(value)) for name, value in stored[part].items()}
    for place in ("url", "body"):
        if stored.get(place) is not None:
            stored[place] = _replaced(stored[place], _tidy)
    return stored


def marked(handler: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """The handler with `mark` in each of its references, for `put_in` with the same mark."""

    def with_mark(text: str) -> str:
        return _REFERENCE.sub(lambda found: written(found[1].strip(), mark), text)

    return {name: _replaced(value, with_mark) if name in PLACES else value for name, value in normal(handler).items()}


def put_in(values: Mapping[str, Any] | None, secrets: Mapping[str, str], mark: str = "") -> dict[str, str]:
    """The texts of a part, references replaced. secrets: name → value, of every name that stands there."""
    return {str(key): put_in_text(_text(value), secrets, mark) for key, value in (values or {}).items()}


def put_in_text(text: str, secrets: Mapping[str, str], mark: str = "", *, encode: Callable[[str], str] = str) -> str:
    """The text with its references replaced by their values, each through `encode`. Values are not looked at again."""

    def value(found: re.Match[str]) -> str:
        name = found[1].strip()
        if not name.endswith(mark):
            return found[0]
        name = name.removesuffix(mark)
        return encode(secrets[name]) if name in secrets else found[0]

    return _REFERENCE.sub(value, text) if "{{" in text else text


def put_in_url(url: str, secrets: Mapping[str, str], mark: str = "") -> str:
    """The URL with values percent-encoded: none of them becomes a host, a path or another field of the query."""
    return put_in_text(url, secrets, mark, encode=lambda value: quote(value, safe=""))


def put_in_value(value: Any, secrets: Mapping[str, str], mark: str = "") -> Any:
    """A JSON value with the references in its texts replaced; names of fields hold none."""
    return _replaced(value, lambda text: put_in_text(text, secrets, mark))


def check_reference(pointer: str, value: Mapping[str, Any], found: Found) -> None:
    """Add what is wrong with the form {"secret": …} to `found`."""
    for name in value:
        if name not in _FIELDS:
            at = f"{pointer}/{escape(str(name))}"
            found.append(InvalidInput(at, None, "is not a field of a reference to a secret", EXAMPLE))
    secret = value.get("secret")
    if "secret" not in value:
        found.append(InvalidInput(pointer, None, "must be text or a reference to a secret", EXAMPLE))
    elif not isinstance(secret, str) or not NAME.fullmatch(secret):
        found.append(InvalidInput(f"{pointer}/secret", secret, "is no name of a secret", LEGAL))
    if "prefix" in value:
        _check_prefix(f"{pointer}/prefix", value["prefix"], found)


def check_places(handler: Mapping[str, Any], found: Found) -> None:
    """Add references that name no secret, or stand where none may, to `found`."""
    for name, value in handler.items():
        for below, text in _texts(value, "", is_part=False):
            if near := _NEARLY.search(text):
                problem = "is no reference to a secret, and would go out as it is"
                found.append(InvalidInput(f"/{name}{below}", near[0], problem, "{{secret:NAME}}"))
        for below, secret in mentioned(value):
            pointer = f"/{name}{below}"
            if name in ("argv", "command"):
                problem = "would be seen by everybody who lists processes; give it in the environment"
                found.append(InvalidInput(pointer, written(secret), problem, "a variable in environment"))
            elif name not in PLACES:
                legal = f"references to secrets stand in {', '.join(PLACES)}"
                found.append(InvalidInput(pointer, written(secret), "may not refer to a secret", legal))
            elif not NAME.fullmatch(secret):
                found.append(InvalidInput(pointer, written(secret), "names a secret that nothing can be called", LEGAL))
            elif name == "url" and isinstance(value, str) and not _is_behind_host(value):
                problem = "refers to a secret in front of its path: which host is asked is no secret"
                found.append(InvalidInput(pointer, written(secret), problem, "https://host/{{secret:NAME}}?…"))


def escape(name: str) -> str:
    """A name as part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _texts(value: Any, pointer: str, *, is_part: bool) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, Mapping):
        if is_part and isinstance(value.get("secret"), str) and pointer.count("/") == 2:
            yield pointer, _text(value)
            return
        for name, inner in value.items():
            yield from _texts(inner, f"{pointer}/{escape(str(name))}", is_part=is_part)
    elif isinstance(value, list | tuple):
        for position, inner in enumerate(value):
            yield from _texts(inner, f"{pointer}/{position}", is_part=is_part)


def _replaced(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _replaced(inner, change) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(inner, change) for inner in value]
    return value


def _tidy(text: str) -> str:
    return _REFERENCE.sub(lambda found: written(found[1].strip()), text) if "{{" in text else text


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("prefix", "")) + written(str(value["secret"]))
    return str(value)


def tidy_url(url: Any) -> Any:
    """The URL without spaces in its references: URLs have no spaces."""
    return _tidy(url) if isinstance(url, str) else url


def _is_behind_host(url: str) -> bool:
    before = url.partition("{{")[0]
    try:
        parts = urlsplit(before)
    except ValueError:
        return False
    return bool(parts.netloc) and re.search(r"//[^/?#]+[/?#]", before) is not None


def _check_prefix(pointer: str, value: Any, found: Found) -> None:
    legal = f"printable ASCII text without {{{{, at most {PREFIX_CHARACTERS} characters"
    fits = isinstance(value, str) and len(value) <= PREFIX_CHARACTERS and value.isascii() and value.isprintable()
    if not fits or "{{" in value:
        found.append(InvalidInput(pointer, value, "is no text before a secret", legal))
