"""The strip above the table: the newest executions by state, as a bar and as links."""

from dataclasses import dataclass

from django.template.loader import render_to_string

from apps.console.listing import BACK, NEWEST, Index
from apps.console.rows import label
from apps.executions.states import Status

ORDER = (
    Status.COMPLETED,
    Status.RUNNING,
    Status.DISPATCHED,
    Status.PRELOADED,
    Status.SCHEDULED,
    Status.RETRYING,
    Status.WAITING,
    Status.SKIPPED,
    Status.CANCELLED,
    Status.DEAD_LETTER,
)


@dataclass(frozen=True)
class Part:
    """One state's share. x and width are thousandths of the bar."""

    state: str
    label: str
    count: int
    x: float
    width: float
    chosen: bool


def parts(index: Index, chosen: Status | None) -> list[Part]:
    """Every state, in the order of its life; the bar shows those that have rows."""
    total = len(index.newest)
    made, x = [], 0.0
    for status in ORDER:
        count = index.counts.get(status, 0)
        width = 1000 * count / total if total else 0.0
        made.append(Part(status.word, label(status), count, round(x, 1), round(width, 1), status is chosen))
        x += width
    return made


def scope_words(index: Index) -> str:
    """What the counts are of, honestly."""
    if len(index.newest) < NEWEST:
        return f"all {len(index.newest):,} due in the last {BACK.days} days"
    return f"of the newest {NEWEST:,} that were due"


def render(index: Index, *, tenant_slug: str, chosen: Status | None) -> str:
    """The strip's HTML; page and socket send the same."""
    context = {
        "parts": parts(index, chosen),
        "scope": scope_words(index),
        "chosen": chosen,
        "tenant_slug": tenant_slug,
        "total": len(index.newest),
    }
    return render_to_string("console/_summary.html", context)
