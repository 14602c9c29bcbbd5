"""Small charts as SVG attributes: every axis begins at zero, and what is not known is a gap. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 120, 32
BAR_STEP = 10
BARS_HEIGHT = 100
_PEAK = 2.0
"""Times the median: such a minute stands out."""


def sparkline(values: Sequence[float | None]) -> list[str]:
    """`points` of polylines over WIDTH × HEIGHT, a new one after each gap; a lone value is a short stroke."""
    known = [value for value in values if value is not None]
    most = max(known, default=0) or 1
    step = WIDTH / max(len(values) - 1, 1)
    pieces: list[list[tuple[float, float]]] = [[]]
    for position, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((position * step, HEIGHT - 2 - (HEIGHT - 4) * value / most))
    drawn = [piece if len(piece) > 1 else [(piece[0][0] - 1, piece[0][1]), piece[0]] for piece in pieces if piece]
    return [" ".join(f"{x:.1f},{y:.1f}" for x, y in piece) for piece in drawn]


@dataclass(frozen=True)
class Bar:
    """One minute. peak: it has much more than most."""

    minute: int
    count: int
    x: int
    y: float
    height: float
    peak: bool


def bars(counts: Sequence[int], most: int) -> list[Bar]:
    """Bars over (BAR_STEP × minutes) × BARS_HEIGHT, on a scale that `most` fills."""
    median = sorted(counts)[len(counts) // 2] if counts else 0
    made = []
    for minute, count in enumerate(counts):
        height = max(1.5, BARS_HEIGHT * count / max(most, 1)) if count else 0.0
        peak = count > max(_PEAK * median, 1) and count > most / 3
        made.append(Bar(minute, count, minute * BAR_STEP, round(BARS_HEIGHT - height, 1), round(height, 1), peak))
    return made
