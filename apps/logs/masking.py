"""Secrets do not leave the worker: their values are found in what attempts print, and replaced.

Known are the values of secret-looking names in the task's own configuration (environment, headers, parameters), the
tenant's secrets that were opened for the attempt, and those of the worker's own environment, which its handlers can
read. API keys of chronoweb are known by their form.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from apps.logs.disguises import pattern_of
from chronoweb.runtime.logs import without_secrets

MASK = "***"

_NAME = re.compile(
    r"secret|token|passw|pwd|credential|authorization|api[-_]?key|private[-_]?key|access[-_]?key|signing|cookie|dsn"
    r"|(^|[-_.])(key|auth|pass|pat|pin)($|[-_.])",
    re.IGNORECASE,
)


class Masker:
    """Replaces the values that it was made with. Values of several lines are known line by line."""

    def __init__(self, values: Iterable[str]) -> None:
        self._expression, self.longest = pattern_of(frozenset(values))
        """longest: characters of the longest value: what is cut must keep so many more until it is masked."""

    def __call__(self, text: str) -> str:
        if self._expression is not None:
            text = self._expression.sub(MASK, text)
        return without_secrets(text) if "cw_" in text or "login" in text else text


def looks_secret(name: str) -> bool:
    """Whether a variable, header or parameter of this name holds a secret."""
    return _NAME.search(name) is not None


def secrets_of_task(
    handler: Mapping[str, Any], parameters_json: bytes | None, known: Iterable[str] = ()
) -> frozenset[str]:
    """The secret values of one attempt's configuration. known: those that were opened for it."""
    found = set(known)
    for member in ("environment", "headers"):
        # A mapping there refers to a secret by its name, which is none itself.
        plain = {name: value for name, value in (handler.get(member) or {}).items() if not isinstance(value, Mapping)}
        found |= set(_walk(plain, secret=False)) | _passwords(plain.values())
    if parameters_json and _NAME.search(parameters_json.decode("utf-8", "replace")):
        found |= set(_walk(json.loads(parameters_json), secret=False))
    url = handler.get("url")
    if isinstance(url, str):
        fields = (part.partition("=") for part in urlsplit(url).query.split("&"))
        found |= {form for name, _, text in fields if looks_secret(name) for form in (text, unquote_plus(text))}
    return frozenset(found)


def secrets_of_process(environment: Mapping[str, str]) -> frozenset[str]:
    """The secret values among a process's variables, passwords inside addresses included."""
    found = set(_walk(dict(environment), secret=False))
    return frozenset(found | _passwords(environment.values()))


def _passwords(values: Iterable[Any]) -> set[str]:
    """Those inside addresses, as they stand there and as they are."""
    found = set()
    for value in values:
        if isinstance(value, str) and "://" in value and "@" in value:
            try:
                parts = urlsplit(value)
            except ValueError:
                continue
            if parts.password and parts.password != parts.username:  # that one hides nothing, and may be any word
                found |= {parts.password, unquote(parts.password)}
    return found


def _walk(value: Any, *, secret: bool) -> Iterable[str]:
    """Every text and number below a secret-looking name."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk(inner, secret=secret or looks_secret(str(name)))
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, secret=secret)
    elif secret and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
