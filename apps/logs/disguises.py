"""How a value may look where it was written into something else: one pattern for all of its forms. Pure.

Found are the value as it is, escaped for JSON (also JSON within JSON within JSON), for URLs, for HTML, mixed, line by
line, in Base64 wherever it stands in what was encoded, and in hexadecimal.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, quote_plus

LEAST_CHARACTERS = 4
"""Shorter values are not looked for: replacing every `1` would hide nothing and spoil the text."""
_LEAST_IN_BASE64 = 6
_LEAST_IN_HEX = 8
_PLAIN = frozenset("_-.~")
_NO_SECRETS = frozenset({"true", "false", "null", "none"})
_BACKSLASHES = r"\\{0,7}"  # what three times JSON puts in front of a quote
_MOST_SIGNS = 500
"""Characters with forms in one pattern: each costs a third of a millisecond, and a tenant chooses them."""
_LONGEST = 24
"""Characters that escaping makes of one at most, for what is not a percent sequence."""


class Pattern(NamedTuple):
    """expression: None where nothing is looked for. longest: characters of the longest text that it may match."""

    expression: re.Pattern[str] | None
    longest: int


@lru_cache(maxsize=512)
def pattern_of(values: frozenset[str]) -> Pattern:
    """Matches every form of the values, those of longer ones first."""
    parts = sorted({part for value in values for part in _parts(value)}, key=lambda one: (-len(one), one))
    if not parts:
        return Pattern(None, 0)
    signs = _MOST_SIGNS
    found: list[tuple[str, int]] = []
    literal: set[str] = set()
    for part in reversed(parts):
        signs -= sum(not _is_plain(character) for character in part)
        if signs >= 0:
            found.append(_written(part))
        else:
            literal |= _usual_forms(part)
        literal |= set(_encoded(part))
    ordered = sorted(literal, key=lambda one: (-len(one), one))
    expression = "|".join([*(text for text, _ in reversed(found)), *map(re.escape, ordered)])
    return Pattern(re.compile(expression), max([longest for _, longest in found] + [len(one) for one in ordered]))


def _parts(value: str) -> Iterator[str]:
    """The value, its lines, and what follows the scheme of an Authorization header."""
    scheme, _, credentials = value.partition(" ")
    behind = [credentials] if scheme.lower() in ("bearer", "basic", "token") else []
    for part in (value, *(line.strip() for line in value.splitlines()), *behind):
        if len(part) >= LEAST_CHARACTERS and part.lower() not in _NO_SECRETS:
            yield part


def _is_plain(character: str) -> bool:
    """Whether nothing escapes it."""
    return character.isascii() and (character.isalnum() or character in _PLAIN)


def _usual_forms(part: str) -> set[str]:
    """Those of a value with so many signs that one pattern of all its forms would take too long to make."""
    texts = {part, html.escape(part), quote(part, safe=""), quote(part), quote_plus(part)}
    for _ in range(2):
        texts |= {json.dumps(text)[1:-1] for text in texts} | {json.dumps(t, ensure_ascii=False)[1:-1] for t in texts}
    return texts


def _written(part: str) -> tuple[str, int]:
    """Pattern of a text, escaped or not, character by character; the longest that it may match."""
    found = [_character(part[0], is_first=True), *map(_character, part[1:])]
    return "".join(text for text, _ in found), sum(longest for _, longest in found)


@lru_cache(maxsize=4096)
def _character(character: str, *, is_first: bool = False) -> tuple[str, int]:
    """is_first: backslashes in front of it may stay. Then every form begins with a certain character, which is fast."""
    if _is_plain(character):
        return character if character.isalnum() else re.escape(character), 1
    before = "" if is_first else _BACKSLASHES
    raw = character.encode("utf-8", "replace")
    forms = ["".join(f"%(?:25)?{_hexadecimal(f'{byte:02x}')}" for byte in raw), *_json_forms(character)]
    forms += [f"{before}{form}" for form in _html_forms(character)]
    forms.append(r"\\{1,8}" if character == "\\" else before + re.escape(character))
    if character == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})", max(5 * len(raw), _LONGEST)


def _json_forms(character: str) -> Iterator[str]:
    r"""\u00e9, and \n where there is such a letter; the backslashes of JSON in JSON."""
    units = character.encode("utf-16-be", "replace")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    yield "".join(rf"\\{{1,4}}u{_hexadecimal(pair)}" for pair in pairs)
    short = json.dumps(character)[1:-1]
    if len(short) == 2 and short[1].isalpha():
        yield rf"\\{{1,4}}{short[1]}"


def _html_forms(character: str) -> Iterator[str]:
    named = html.escape(character)
    if named != character:
        yield f"&(?:amp;){{0,2}}{named[1:]}"
        yield f"&(?:amp;){{0,2}}#(?:{ord(character)}|[xX]0{{0,4}}{_hexadecimal(f'{ord(character):x}')});"


def _hexadecimal(digits: str) -> str:
    """The digits, in capitals or not."""
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _encoded(part: str) -> Iterable[str]:
    raw = part.encode("utf-8", "replace")
    yield from _in_base64(raw)
    if len(raw) >= _LEAST_IN_HEX:
        yield from (raw.hex(), raw.hex().upper())


def _in_base64(raw: bytes) -> Iterator[str]:
    """The part of its Base64 that is the same whatever stands before and after it, for each place that it may have."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        inner = text[-(-before * 4 // 3) : (before + len(raw)) * 4 // 3]
        if len(inner) >= _LEAST_IN_BASE64:
            yield from (inner, inner.replace("+", "-").replace("/", "_"))
