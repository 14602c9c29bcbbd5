"""Secrets do not come back: their values are found in what an attempt returned or raised, and replaced. Pure.

Found is a value in all of its disguises (apps/logs/disguises.py), and what a cut has left of it at either end of a
text. Values of few characters are not looked for.
"""

import json
from typing import Any

from apps.logs.disguises import pattern_of
from apps.logs.masking import MASK

_LEAST_AT_EDGE = 6
_LONGEST_AT_EDGE = 4096


def hide(values: tuple[str, ...], result_json: bytes | None, error: Any) -> tuple[bytes | None, Any]:
    """(result, error) of an attempt without the values."""
    if result_json is not None:
        found = json.loads(result_json)
        masked = _without(values, found)
        result_json = result_json if masked == found else json.dumps(masked, ensure_ascii=False).encode()
    return result_json, _without(values, error)


def _without(values: tuple[str, ...], value: Any) -> Any:
    if isinstance(value, str):
        return _text(values, value)
    if isinstance(value, list):
        return [_without(values, item) for item in value]
    if isinstance(value, dict):
        return {_text(values, str(key)): _without(values, item) for key, item in value.items()}
    return value


def _text(values: tuple[str, ...], text: str) -> str:
    pattern = pattern_of(frozenset(values)).expression
    if pattern is None:
        return text
    text = pattern.sub(MASK, text)
    for value in values:
        for n in range(min(len(value) - 1, len(text), _LONGEST_AT_EDGE), _LEAST_AT_EDGE - 1, -1):
            if text.startswith(value[-n:], text.startswith("…")):
                text = MASK + text[n + text.startswith("…") :]
            if text.removesuffix("…").endswith(value[:n]):
                text = text.removesuffix("…")[:-n] + MASK
    return text
