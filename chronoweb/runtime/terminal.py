"""Texts of others, such as names and lines of logs, written so that a terminal shows them and obeys nothing of them."""

import re

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tabs and newlines, what turns the direction of a line, and what is half a character."""
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def visible(text: str, *, colours: bool = False) -> str:
    r"""The text with escapes such as `\x1b` for what terminals obey. colours: these alone stay."""
    if not colours:
        return _OBEYED.sub(_escape, text)
    parts = _COLOUR.split(text)
    return "".join(part if index % 2 else _OBEYED.sub(_escape, part) for index, part in enumerate(parts))


def visible_json(text: str) -> str:
    """The same of a JSON document, which means what it meant: such characters stand in its strings alone."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def is_harmless(text: str) -> bool:
    """Whether nothing in it is obeyed."""
    return _OBEYED.search(text) is None


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
