"""The state machine of an execution, as data.

`TRANSITIONS` is the one table: every status change in the project is one of its rows. The named SQL takes its
status numbers from here (`sql_constants`), the API and the console their words and groups.
"""

from dataclasses import dataclass
from enum import IntEnum


class Status(IntEnum):
    """Where an execution is. Each comment says who moves rows out of the state."""

    SCHEDULED = 0  # preloader (hydrate), a hand-over, an edit, cancel; refusals put rows back here with a hold
    PRELOADED = 1  # dispatcher; eviction and edits move it back
    DISPATCHED = 2  # the worker it was sent to claims it; watchdog reclaims
    RUNNING = 3  # its worker, fenced; watchdog when the worker is lost
    WAITING = 4  # a person, a sensor, a callback, or its own deadline; holds no slot
    RETRYING = 5  # preloader, when run_at nears
    COMPLETED = 6  # nobody
    CANCELLED = 7  # a person: mark; an edit revives an occurrence that an earlier edit superseded
    SKIPPED = 8  # a person: mark
    DEAD_LETTER = 9  # a person: replay, discard, mark; once, a run's failure policy

    @property
    def word(self) -> str:
        """The state's name as the API and the console write it."""
        return self.name.lower()

    @classmethod
    def from_word(cls, word: str) -> "Status":
        """The state called `word`; KeyError if there is none."""
        return cls[word.upper()]


RESTING = frozenset({Status.COMPLETED, Status.CANCELLED, Status.SKIPPED, Status.DEAD_LETTER})
"""No process moves a row out of these; only a person's act does."""

ACTIVE = frozenset({Status.DISPATCHED, Status.RUNNING})
"""Sent to a worker: counted in `outstanding`, written only under the fencing token."""

PENDING = frozenset({Status.SCHEDULED, Status.PRELOADED, Status.RETRYING})
"""Not sent yet: edits, pauses and cancels still reach it before it starts."""


@dataclass(frozen=True)
class Transition:
    """One row of the table: from `source` to `target`, by whom and why."""

    source: Status
    target: Status
    by: str


def _rows(sources: tuple[Status, ...], targets: tuple[Status, ...], by: str) -> list[Transition]:
    return [Transition(source, target, by) for source in sources for target in targets]


TRANSITIONS: tuple[Transition, ...] = (
    *_rows((Status.SCHEDULED,), (Status.PRELOADED,), "preloader: hydrate, hold empty"),
    *_rows((Status.PRELOADED,), (Status.SCHEDULED,), "eviction, edit, or the dispatcher meeting a hold"),
    *_rows((Status.PRELOADED,), (Status.DISPATCHED,), "dispatcher, under a new token"),
    *_rows(
        (Status.PRELOADED, Status.SCHEDULED),
        (Status.SKIPPED,),
        "overlap skip, DAG condition or rule, misfire",
    ),
    *_rows((Status.PRELOADED,), (Status.DEAD_LETTER,), "dispatcher: it has waited longer than its queue_seconds"),
    *_rows((Status.DISPATCHED,), (Status.RUNNING,), "worker: claim with that token"),
    *_rows((Status.SCHEDULED,), (Status.RUNNING,), "worker that ended its last parent: hand-over, under a new token"),
    *_rows(
        (Status.DISPATCHED, Status.RUNNING),
        (Status.PRELOADED,),
        "reclaim under token + 1, or release by a draining or full worker; wake_at set",
    ),
    *_rows((Status.RUNNING,), (Status.COMPLETED, Status.RETRYING, Status.DEAD_LETTER), "worker, fenced"),
    *_rows((Status.RUNNING,), (Status.WAITING,), "worker: approval, sensor, callback"),
    *_rows((Status.WAITING,), (Status.SCHEDULED, Status.DEAD_LETTER), "one fenced UPDATE, or its deadline"),
    *_rows((Status.WAITING,), (Status.COMPLETED,), "a person approves, or its deadline does"),
    *_rows((Status.RETRYING,), (Status.PRELOADED,), "preloader, when run_at nears"),
    *_rows(
        (
            Status.SCHEDULED,
            Status.PRELOADED,
            Status.DISPATCHED,
            Status.RUNNING,
            Status.WAITING,
            Status.RETRYING,
        ),
        (Status.CANCELLED,),
        "API, overlap, DAG, edit (superseded); RUNNING by its worker or, 30 s later, the watchdog",
    ),
    *_rows(
        (Status.DEAD_LETTER,),
        (Status.SCHEDULED, Status.CANCELLED, Status.COMPLETED),
        "a person: replay, discard, mark; a run's failure policy: retry, once",
    ),
    *_rows((Status.CANCELLED, Status.SKIPPED), (Status.COMPLETED,), "a person: mark"),
    *_rows((Status.CANCELLED,), (Status.SCHEDULED,), "an edit brings a superseded occurrence back"),
)

_ALLOWED = frozenset((row.source, row.target) for row in TRANSITIONS)


def may(source: Status, target: Status) -> bool:
    """Whether the table has this change."""
    return (source, target) in _ALLOWED


def sources_of(target: Status) -> tuple[Status, ...]:
    """Every state from which `target` can be reached in one step, in number order."""
    return tuple(sorted(source for source, reached in _ALLOWED if reached is target))


class Hold(IntEnum):
    """Why an execution may not be dispatched now. 0 = it may."""

    NONE = 0
    PAUSED = 1  # its task is paused
    DELETED = 2  # its task is deleted
    FROZEN = 3  # its tenant or the whole fleet is frozen; hydrate takes it again once that hold is gone
    OVERLAP = 4  # the task's slot is taken; the row stands in slot_waiters
    CIRCUIT = 5  # what it calls is in quarantine; the row stands in circuit_waiters
    RETRY_BUDGET = 6  # its tenant retries too much; run_at has been moved, and the next dispatch lifts it
    CONCURRENCY = 7  # its key's places are taken; the row stands in slot_waiters
    NO_WORKER = 8  # no live worker carries its labels; the row stands in route_waiters
    QUOTA = 9  # a scheduling quota of its tenant is used up; hydrate takes it again once the tenant's hold is gone

    @property
    def word(self) -> str:
        return self.name.lower()


WIDE = (Hold.FROZEN, Hold.QUOTA)
"""Holds of a whole tenant, or (FROZEN) of everything: what they refuse stays in the preloader's index meanwhile."""


class Outcome(IntEnum):
    """How one attempt ended."""

    SUCCEEDED = 0
    FAILED = 1
    TIMED_OUT = 2
    CRASHED = 3
    CANCELLED = 4
    RELEASED = 5

    @property
    def word(self) -> str:
        return self.name.lower()


class Origin(IntEnum):
    """What made the execution."""

    SCHEDULE = 0
    MANUAL = 1
    BACKFILL = 2
    DAG = 3
    RERUN = 4

    @property
    def word(self) -> str:
        return self.name.lower()


class Overlap(IntEnum):
    """What happens when the previous execution of the task still runs."""

    ALLOW_ALL = 0
    SKIP = 1
    BUFFER_ONE = 2
    BUFFER_ALL = 3
    CANCEL_OTHER = 4

    @property
    def word(self) -> str:
        return self.name.lower()


class ExecutionClass(IntEnum):
    """Own topics and worker capacity, from the priority."""

    CRITICAL = 0
    STANDARD = 1
    BULK = 2

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of_priority(cls, priority: int) -> "ExecutionClass":
        """Priority 1-3 is critical, 4-7 standard, 8-10 bulk."""
        return cls.CRITICAL if priority <= 3 else cls.STANDARD if priority <= 7 else cls.BULK


def sql_constants() -> dict[str, str]:
    """Names that the named SQL may use in braces: every enum member as PREFIX_NAME, and the grouped sets."""
    prefixed: dict[str, type[IntEnum]] = {
        "": Status,
        "HOLD_": Hold,
        "OUTCOME_": Outcome,
        "ORIGIN_": Origin,
        "OVERLAP_": Overlap,
    }
    names = {f"{prefix}{member.name}": str(int(member)) for prefix, kind in prefixed.items() for member in kind}
    # The lot of the row `e`: 16 random bits of its id, beside those that choose the shard.
    names["LOT"] = "(get_byte(uuid_send(e.id), 13) * 256 + get_byte(uuid_send(e.id), 14))"
    for group, members in (("RESTING", RESTING), ("ACTIVE", ACTIVE), ("PENDING", PENDING)):
        names[f"IN_{group}"] = "(" + ", ".join(str(int(member)) for member in sorted(members)) + ")"
    names["HOLDS_WIDE"] = "(" + ", ".join(str(int(hold)) for hold in WIDE) + ")"
    for target in Status:
        names[f"BEFORE_{target.name}"] = "(" + ", ".join(str(int(s)) for s in sources_of(target)) + ")"
    return names
