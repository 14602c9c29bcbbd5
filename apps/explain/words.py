"""The words for why an execution is not running: one code and one sentence for each meaning. Pure.

The API, the lists and the console take them from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from apps.executions.circuits import name_of


class Code(StrEnum):
    """What a reason is called. Limits and quotas are called as the tenant's fields are."""

    TASK_PAUSED = "task_paused"
    TASK_DELETED = "task_deleted"
    TENANT_FROZEN = "tenant_frozen"
    SCHEDULER_FROZEN = "scheduler_frozen"
    EXECUTIONS_PER_HOUR = "executions_per_hour"
    COMPUTE_MINUTES_PER_MONTH = "compute_minutes_per_month"
    LOG_STORAGE_GB = "log_storage_gb"
    MAX_CONCURRENT_WORKERS = "max_concurrent_workers"
    RATE_LIMIT_RPS = "rate_limit_rps"
    OVERLAP = "overlap"
    CONCURRENCY_KEY = "concurrency_key"
    CIRCUIT_OPEN = "circuit_open"
    CIRCUIT_SLOW_START = "circuit_slow_start"
    RETRY_BUDGET = "retry_budget"
    RETRY_DELAY = "retry_delay"
    NOT_DUE = "not_due"
    NO_WORKER = "no_worker"
    NO_FREE_SLOT = "no_free_slot"
    NOT_LOADED = "not_loaded"
    NO_PRELOADER = "no_preloader"
    NO_DISPATCHER = "no_dispatcher"
    IN_QUEUE = "in_queue"
    AWAITING_CLAIM = "awaiting_claim"
    APPROVAL = "approval"
    RUN_PAUSED = "run_paused"
    RUN_STOPPED = "run_stopped"
    OPEN_DEPENDENCIES = "open_dependencies"
    CANCEL_REQUESTED = "cancel_requested"
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    DEAD_LETTER = "dead_letter"
    NODE_FINAL = "node_final"


@dataclass(frozen=True, slots=True)
class Reason:
    """clears_when: when it ends by itself, if that is known. begins: when what waits for its turn might start, a guess.
    lead: what a countdown to either begins with; empty: none.
    """

    code: Code
    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    clears_when: datetime | None = None
    lead: str = ""
    begins: datetime | None = None

    @property
    def until(self) -> datetime | None:
        """What pages count down to."""
        return (self.clears_when or self.begins) if self.lead else None


def noted(text: str, note: str | None) -> str:
    """A sentence and what a person noted with it."""
    line = first_line(note or "")
    return f"{text}: {line}" if line else text


def task_paused(note: str | None) -> str:
    return noted("its task is paused", note)


def frozen(code: Code, note: str | None) -> str:
    return noted("the scheduler is frozen" if code is Code.SCHEDULER_FROZEN else "its tenant is frozen", note)


TASK_DELETED = "its task is deleted"
OVERLAP = "waits for the task's earlier execution"
AWAITING_CLAIM = "sent, not begun yet"
APPROVAL = "waits for an answer"
ASKED_TO_STOP = "asked to stop"
NOT_LOADED = "waits for the preloader: not in the hot tier yet"
DUE_NOW = "due now"

_QUOTAS = {
    Code.EXECUTIONS_PER_HOUR: "executions this hour",
    Code.COMPUTE_MINUTES_PER_MONTH: "compute minutes this month",
    Code.LOG_STORAGE_GB: "GB of logs",
}


def quota(code: Code, used: float, limit: float) -> str:
    """`quota: 10,000 of 10,000 executions this hour`."""
    return f"quota: {used:,.12g} of {limit:,} {_QUOTAS[code]}"


def max_concurrent(used: int, limit: int) -> str:
    return f"limit: {used:,} of {limit:,} running for its tenant"


def rate_limit(limit: int) -> str:
    return f"rate limit: {limit:,}/s"


def circuit_open(key: str | None) -> str:
    return f"circuit open: {name_of(key)}"


def circuit_slow_start(key: str | None) -> str:
    return f"circuit in slow start: {name_of(key)}"


def no_dispatcher(shard: int) -> str:
    return f"no dispatcher holds shard {shard}"


def no_free_slot(word: str, slots: int) -> str:
    return f"no free slot: all {slots:,} for {word} work are in use"


def attempt_lead(attempt: int, most: int, *, budget: bool = False) -> str:
    """What a retry's countdown begins with."""
    return f"{'retry budget: ' if budget else ''}attempt {attempt} of {most}"


def counted_down(code: Code, lead: str, over: str, until: datetime, now: datetime, **more: Any) -> Reason:
    """A reason that ends at an instant: `due in 41 s`."""
    ahead = until - now
    if ahead <= timedelta(0):
        return Reason(code, over, clears_when=until, **more)
    return Reason(code, f"{lead} {countdown(ahead)}", clears_when=until, lead=lead, **more)


def all_wait(code: Code, text: str, *, now: datetime, waiting: int, seconds: float | None, **more: Any) -> Reason:
    """The same of all that waits: `rate limit: 1,000/s, 18,400 wait, the last starts in about 18 s`."""
    text = f"{text}, {waiting:,} wait"
    if seconds is None:
        return Reason(code, text, **more)
    lead, length = f"{text}, the last starts in about", timedelta(seconds=seconds)
    return Reason(code, f"{lead} {countdown(length)}", begins=now + length, lead=lead, **more)


def in_turn(
    code: Code, text: str, *, now: datetime, ahead: int | None = None, seconds: float | None = None, **more: Any
) -> Reason:
    """A reason that ends with its turn: `rate limit: 1,000/s, 18,400 ahead, starts in about 18 s`.

    ahead: how many go before it; None: not known. seconds: until it might start; None: nobody can tell.
    """
    figures = dict(more.pop("figures", {}))
    if ahead is None:
        return Reason(code, text, figures, **more)
    figures["ahead"] = ahead
    text = f"{text}, {ahead:,} ahead" if ahead else f"{text}, next in its queue"
    if seconds is None:
        return Reason(code, text, figures, **more)
    figures["starts_in_seconds"] = round(seconds, 1)
    lead, length = f"{text}, starts in about", timedelta(seconds=seconds)
    if length < timedelta(seconds=1):
        return Reason(code, f"{text}, starts within a second", figures, begins=now + length, **more)
    return Reason(code, f"{lead} {countdown(length)}", figures, begins=now + length, lead=lead, **more)


# ---- figures as people read them ------------------------------------------------------------------------------------


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
