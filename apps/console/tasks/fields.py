"""The fields of a task's form: where each stands in the document, what it asks, and which types have it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.definitions.models import OVERLAP_POLICIES
from apps.definitions.schedules import DST_FOLD, DST_GAP
from apps.executions.handler_spec import TYPES as HANDLERS
from apps.executions.retry import RetryPolicy

SCHEDULES = ("cron", "interval", "one_shot", "manual", "event")
SCHEDULE_FIELDS = {
    "expression": ("cron",),
    "every_seconds": ("interval",),
    "run_at": ("one_shot",),
    "start_at": ("cron", "interval"),
    "end_at": ("cron", "interval"),
    "dst_gap": ("cron",),
    "dst_fold": ("cron",),
}


@dataclass(frozen=True)
class Field:
    """kind: text, area, whole, flag, choice, tags, lines, command or json. of: the types of schedule or handler that
    have it. words: choice → what it means, where its name does not say it.
    """

    pointer: str
    label: str
    kind: str = "text"
    help: str = ""
    of: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    example: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return self.pointer.split("/")[1]

    @property
    def steps(self) -> list[str]:
        return self.pointer.split("/")[1:]

    @property
    def options(self) -> list[tuple[str, str]]:
        """(value, what the page calls it)."""
        return [(one, f"{one}: {self.words[one]}" if one in self.words else one) for one in self.choices]

    @property
    def by_default(self) -> str:
        """What an empty choice is called."""
        return f"{dict(self.options).get(self.example, self.example)} (default)" if self.example else "–"


@dataclass(frozen=True)
class Section:
    title: str
    fields: tuple[Field, ...] = field(default_factory=tuple)
    is_folded: bool = False


SECTIONS = (
    Section(
        "What",
        (
            Field("/name", "Name", example="nightly-report"),
            Field("/description", "Description", "area"),
            Field("/tags", "Tags", "tags", "separated by commas"),
        ),
    ),
    Section(
        "When",
        (
            Field(
                "/schedule/type",
                "Schedule",
                "choice",
                choices=SCHEDULES,
                words={
                    "interval": "every so many seconds",
                    "one_shot": "once, at a time",
                    "manual": "only when triggered",
                    "event": "when something else calls for it",
                },
            ),
            Field(
                "/schedule/expression",
                "Cron expression",
                help="minute, hour, day of month, month, day of week; six fields begin with seconds",
                of=("cron",),
                example="0 2 * * *",
            ),
            Field("/schedule/every_seconds", "Every … seconds", "whole", of=("interval",), example="300"),
            Field("/schedule/run_at", "At", help="ISO 8601; without offset in the zone below", of=("one_shot",)),
            Field("/schedule/timezone", "Time zone", help="a name such as Europe/Paris", example="UTC"),
            Field("/schedule/start_at", "Starts at", of=("cron", "interval"), example="2027-01-01T00:00:00Z"),
            Field("/schedule/end_at", "Ends before", of=("cron", "interval"), example="2028-01-01T00:00:00Z"),
            Field(
                "/schedule/dst_gap",
                "When the clock goes forward over its time",
                "choice",
                of=("cron",),
                choices=DST_GAP,
                example=DST_GAP[0],
                words={"shift": "run once, right after the gap", "skip": "leave that day out"},
            ),
            Field(
                "/schedule/dst_fold",
                "When the clock goes back and its time comes twice",
                "choice",
                of=("cron",),
                choices=DST_FOLD,
                example=DST_FOLD[0],
                words={"first": "run the first time", "last": "run the second time", "both": "run twice"},
            ),
        ),
    ),
    Section(
        "Does",
        (
            Field(
                "/handler/type",
                "Handler",
                "choice",
                choices=tuple(HANDLERS),
                words={
                    "python": "a function of yours",
                    "webhook": "an HTTP request",
                    "command": "a shell line or a program",
                    "container": "an image",
                },
            ),
            Field("/handler/name", "Function", of=("python",), example="choose one below"),
            Field("/handler/url", "URL", of=("webhook",), example="https://example.com/hook"),
            Field("/handler/method", "Method", of=("webhook",), example="POST"),
            Field(
                "/handler/headers",
                "Headers",
                "json",
                "a JSON object; {{secret:NAME}} stands for a secret",
                ("webhook",),
            ),
            Field("/handler/body", "Body", "json", "JSON; empty: the parameters", ("webhook",)),
            Field(
                "/handler/argv",
                "Command",
                "command",
                "One line runs as a shell line, by /bin/sh -c. Several lines run without a shell: the program, then "
                "each argument on a line of its own.",
                ("command",),
                example='echo "hello from $(hostname)"',
            ),
            Field("/handler/image", "Image", of=("container",), example="docker.io/library/python:3.12"),
            Field(
                "/handler/command", "Command", "lines", "one argument a line; empty: the image's own", ("container",)
            ),
            Field("/handler/environment", "Environment", "json", "a JSON object of texts", ("command", "container")),
            Field("/parameters", "Parameters", "json", "a JSON object that each run is given"),
        ),
    ),
    Section(
        "How",
        (
            Field("/priority", "Priority", "whole", "1 the most urgent, 10 the least", example="5"),
            Field("/timeout_seconds", "Time limit of an attempt, seconds", "whole", example="300"),
            Field(
                "/retry_policy/max_attempts",
                "Attempts at most",
                "whole",
                "1: no retry",
                example=str(RetryPolicy().max_attempts),
            ),
            Field(
                "/overlap_policy", "While the one before still runs", "choice", choices=OVERLAP_POLICIES, example="skip"
            ),
            Field("/catchup_seconds", "Catch up what was missed within, seconds", "whole", example="3600"),
            Field(
                "/strict_timing",
                "Exactly on time",
                "flag",
                "else some seconds before or after, always the same, to spread the load (jitter)",
            ),
            Field(
                "/idempotent",
                "May run twice",
                "flag",
                "if its worker is lost while it runs, it runs again; unchecked, it waits for a person",
            ),
        ),
        True,
    ),
)
FIELDS = tuple(one for section in SECTIONS for one in section.fields)
NEW: dict[str, Any] = {
    "name": "",
    "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "UTC"},
    "handler": {"type": "python"},
    "parameters": {},
}
"""What the form of a new task begins with."""
