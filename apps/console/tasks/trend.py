"""How long a task's executions took and how late they began, as plots. Pure; Python writes the SVG, all of it numbers.

Axes begin at zero and end at the largest value: a plot that cuts its axis lies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.console.tasks.strips import words_of
from apps.console.wording import duration
from apps.executions.task_history import ExecutionLine

WIDTH, HEIGHT = 600, 120
_WINDOW = 20
"""Executions that a point of the percentile lines looks back on."""

_BAR, _GAP = 5, 1
_STRIP_HEIGHT = 44
_LEAST_BAR = 4


@dataclass(frozen=True)
class Trend:
    """A plot and its figures in words. count: values that it is made of; first and last: the ends of the axis."""

    svg: SafeString
    count: int
    p50: str
    p95: str
    p99: str
    most: str
    first: datetime
    last: datetime


def percentile(values: Sequence[timedelta], share: float) -> timedelta:
    """The smallest value that at least this share of `values` (not empty) does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))]


def took(lines: Sequence[ExecutionLine]) -> Trend | None:
    """Of executions that ended, oldest first; None if none has."""
    return _trend([(line, line.took) for line in lines if line.took is not None])


def late(lines: Sequence[ExecutionLine]) -> Trend | None:
    """Of executions that began at their first attempt, oldest first."""
    return _trend([(line, line.late) for line in lines if line.late is not None])


def strip(lines: Sequence[ExecutionLine], link: str) -> SafeString:
    """A bar an execution, oldest first: colour by state, height by duration against the longest one.

    link: the address of an execution, with the id of nobody (32 zeros and four dashes) where its id belongs.
    """
    longest = max((line.took for line in lines if line.took is not None), default=timedelta(0))
    bars = "".join(_bar(at, line, longest, link) for at, line in enumerate(lines))
    width = len(lines) * (_BAR + _GAP)
    return mark_safe(  # noqa: S308  numbers, and words that are escaped
        f'<svg class="history" viewBox="0 0 {width} {_STRIP_HEIGHT}" width="{width * 2}" height="{_STRIP_HEIGHT}"'
        f' preserveAspectRatio="none" role="group" aria-label="the last {len(lines)} executions">{bars}</svg>'
    )


def _bar(at: int, line: ExecutionLine, longest: timedelta, link: str) -> str:
    share = line.took / longest if line.took is not None and longest else 0.0
    height = round(_LEAST_BAR + share * (_STRIP_HEIGHT - _LEAST_BAR), 1)
    said = escape(f"{words_of(line)} · due")
    words = f"{said} {line.scheduled_at:%Y-%m-%d %H:%M:%S} UTC"
    told = f'data-said="{said}" data-said-at="{line.scheduled_at.isoformat()}"'
    href = escape(link.replace("00000000-0000-0000-0000-000000000000", str(line.id)))
    return (
        f'<a href="{href}" aria-label="{words}" data-state="{line.state.word}" {told}><title {told}>{words}</title>'
        f'<rect class="hit" x="{at * (_BAR + _GAP)}" y="0" width="{_BAR + _GAP}" height="{_STRIP_HEIGHT}"/>'
        f'<rect class="run" x="{at * (_BAR + _GAP)}" y="{_STRIP_HEIGHT - height:g}" width="{_BAR}" height="{height:g}"'
        ' rx="1"/></a>'
    )


def _trend(found: Sequence[tuple[ExecutionLine, timedelta | None]]) -> Trend | None:
    points = [(line, value) for line, value in found if value is not None]
    if not points:
        return None
    values = [value for _, value in points]
    first, last = points[0][0].scheduled_at, points[-1][0].scheduled_at
    return Trend(
        svg=_plot(points, max(values)),
        count=len(values),
        p50=duration(percentile(values, 0.5)),
        p95=duration(percentile(values, 0.95)),
        p99=duration(percentile(values, 0.99)),
        most=duration(max(values)),
        first=first,
        last=last,
    )


def _plot(points: Sequence[tuple[ExecutionLine, timedelta]], most: timedelta) -> SafeString:
    first, span = points[0][0].scheduled_at, points[-1][0].scheduled_at - points[0][0].scheduled_at

    def x(line: ExecutionLine) -> float:
        return round(8 + (WIDTH - 16) * ((line.scheduled_at - first) / span if span else 0.5), 1)

    def y(value: timedelta) -> float:
        return round(HEIGHT - 6 - (HEIGHT - 12) * (value / most if most else 0.0), 1)

    dots = "".join(
        f'<path class="dot" data-state="{line.state.word}" d="M{x(line)} {y(value)}h0">'
        f"<title>{escape(words_of(line))}</title></path>"
        for line, value in points
    )
    lines = ""
    for name, share in (("p95", 0.95), ("p50", 0.5)):
        seen = [value for _, value in points]
        rolling = [percentile(seen[max(0, at - _WINDOW + 1) : at + 1], share) for at in range(len(seen))]
        path = " ".join(f"{x(line)},{y(value)}" for (line, _), value in zip(points, rolling, strict=True))
        lines += f'<polyline class="{name}" points="{path}"/>'
    ground = "".join(f'<path class="ground" d="M0 {y(most * share)}H{WIDTH}"/>' for share in (0, 0.5, 1))
    return mark_safe(  # noqa: S308  numbers, and words that are escaped
        f'<svg class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{len(points)} executions">'
        f"{ground}{lines}{dots}</svg>"
    )
