"""The words of log lines: what the index knows a chunk by, and what a search looks for. Pure.

A search is words; a line is found if each of them begins a word of it, whatever their case. Index and reader use the
same words, so that the index never hides a line that the reader would show.
"""

import re

MOST_BYTES = 256 * 1024
"""Of one chunk's words; what has more is read whole by every search."""
MOST_CHARACTERS = 64
"""Longer words are known by their beginning."""
MOST_WANTED = 10

_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(rb"\\(?:u[0-9a-f]{4}|.)")
"""What JSON writes for a character that belongs to no word."""


def words_of(text: str) -> list[str]:
    """The words of `text`, folded, in order."""
    return [word[:MOST_CHARACTERS] for word in _WORD.findall(text.casefold())]


def words_of_lines(lines: bytes) -> tuple[str, bool]:
    """(the words of JSON lines, each once, with spaces between; whether these are all)."""
    found = set(_WORD.findall(_ESCAPE.sub(b" ", lines).decode().casefold()))
    known = {word[:MOST_CHARACTERS] for word in found}
    text = " ".join(sorted(known))
    if len(text) * 4 <= MOST_BYTES or len(text.encode()) <= MOST_BYTES:
        return text, True
    return "", False


class Wanted:
    """What a search asks for."""

    def __init__(self, text: str) -> None:
        self.words = list(dict.fromkeys(words_of(text)))[:MOST_WANTED]
        self._patterns = [re.compile(rf"(?<!\w){re.escape(word)}") for word in self.words]

    def __bool__(self) -> bool:
        return bool(self.words)

    def in_text(self, text: str) -> bool:
        folded = text.casefold()
        return all(pattern.search(folded) for pattern in self._patterns)

    @property
    def query(self) -> str:
        """For `to_tsquery`-like casts: every word, as the beginning of one of the chunk's."""
        return " & ".join(f"'{word}':*" for word in self.words)
