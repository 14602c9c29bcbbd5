"""The list of tasks: what each is, when it fires next, how its last executions went; and how many a filter finds."""

from dataclasses import dataclass
from datetime import datetime

from django.http import QueryDict

from apps.console.choices import Choice
from apps.console.tasks import asked as questions
from apps.console.tasks import strips
from apps.console.tasks.asked import Asked
from apps.console.tasks.strips import Mark
from apps.console.wording import first_line
from apps.definitions.crontab.planning import KEY_TAG
from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule, describe, next_occurrence
from apps.tenants.principal import Principal

SHOWN = 50
MOST_COUNTED = 10_000
"""Above it the count is told as "more than"; acts by filter then want a narrower one."""


@dataclass(frozen=True)
class Line:
    """One task of the list. schedule: in plain words. next_at: its next occurrence; None: none, or paused."""

    task: Task
    schedule: str
    zone: str
    next_at: datetime | None
    note: str
    marks: list[Mark]
    tags: list[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """older: the query of the next page; empty: this is all. count: what the filter finds, up to MOST_COUNTED + 1."""

    asked: Asked
    lines: list[Line]
    count: int
    older: str
    standings: list[Choice]
    sorts: list[Choice]
    tags: list[Choice]

    @property
    def is_too_many(self) -> bool:
        return self.count > MOST_COUNTED

    @property
    def unsearched(self) -> str:
        return self.asked.query(q="")

    @property
    def target(self) -> str:
        """The filter alone, for acts."""
        return self.asked.query(sort="")

    @property
    def count_words(self) -> str:
        return f"more than {MOST_COUNTED:,}" if self.is_too_many else f"{self.count:,}"


def read(principal: Principal, given: QueryDict, *, now: datetime) -> Page:
    """Three queries; a fourth behind the first page."""
    asked = Asked.of(given)
    found = asked.page(principal, SHOWN)
    shown = found[:SHOWN]
    marks = strips.of_tasks(principal, [task.id for task in shown], now=now)
    paused = asked.paused
    return Page(
        asked=asked,
        lines=[_line(task, marks[task.id], asked, now) for task in shown],
        count=count(asked, principal),
        older=asked.query(after=shown[-1].id) if len(found) > SHOWN else "",
        standings=[
            Choice("all", asked.query(paused=""), paused is None),
            Choice("not paused", asked.query(paused="false"), paused is False),
            Choice("paused", asked.query(paused="true"), paused is True),
        ],
        sorts=[Choice(text, asked.query(sort=word), asked.sort == word) for word, text in questions.LABELS.items()],
        tags=[Choice(tag, asked.without(tag), True) for tag in asked.tags],
    )


def count(asked: Asked, principal: Principal) -> int:
    """How many the filter finds, at most MOST_COUNTED + 1; one query."""
    return asked.rows(principal).order_by().values("id")[: MOST_COUNTED + 1].count()


def next_of(task: Task, schedule: Schedule, *, now: datetime) -> datetime | None:
    """When it fires next; None while it is paused, or if it never does."""
    return None if task.paused_at is not None else next_occurrence(schedule, after=now)


def _line(task: Task, marks: list[Mark], asked: Asked, now: datetime) -> Line:
    schedule = Schedule.parse(task.schedule)
    tags = [(tag, asked.with_tag(tag)) for tag in [tag for tag in task.tags if not tag.startswith(KEY_TAG)][:3]]
    words = describe(schedule)
    return Line(
        task=task,
        schedule=words,
        zone=schedule.timezone,
        next_at=next_of(task, schedule, now=now),
        note=first_line(task.paused_note),
        marks=marks,
        tags=tags,
    )
