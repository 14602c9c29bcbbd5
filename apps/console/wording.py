"""Figures as people read them."""

from datetime import timedelta


def duration(length: timedelta | None) -> str:
    """`3 ms`, `8.2 s`, `4 min 12 s`, `2 h 04 min`, `3 d 4 h`; an en dash for None. static/console/words.js agrees."""
    if length is None:
        return "–"
    milliseconds = max(0, round(length / timedelta(milliseconds=1)))
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1000:.1f} s"
    seconds = round(milliseconds / 1000)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    minutes = seconds // 60
    if minutes < 1440:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def countdown(length: timedelta) -> str:
    """A time ahead, in whole units: `41 s`, `4 min 12 s`; never below `0 s`."""
    if length < timedelta(minutes=1):
        return f"{max(0, round(length.total_seconds()))} s"
    return duration(length)


def first_line(text: str, most: int = 120) -> str:
    """The first line that says something, cut where it gets long."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= most else line[: most - 1] + "…"
