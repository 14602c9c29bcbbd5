"""The fields of a task's form: where each stands in the document, what it asks, and which types have it."""

from dataclasses import dataclass, field
from typing import Any

from apps.definitions.models import OVERLAP_POLICIES
from apps.definitions.schedules import DST_FOLD, DST_GAP
from apps.executions.handler_spec import TYPES as HANDLERS

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
    """kind: text, area, whole, flag, choice, tags, lines or json. of: the types of schedule or handler that have it."""

    pointer: str
    label: str
    kind: str = "text"
    help: str = ""
    of: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    example: str = ""

    @property
    def group(self) -> str:
        return self.pointer.split("/")[1]

    @property
    def steps(self) -> list[str]:
        return self.pointer.split("/")[1:]


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
            Field("/schedule/type", "Schedule", "choice", choices=SCHEDULES),
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
                "A time that is skipped",
                "choice",
                of=("cron",),
                choices=DST_GAP,
                example=DST_GAP[0],
            ),
            Field(
                "/schedule/dst_fold",
                "A time that comes twice",
                "choice",
                of=("cron",),
                choices=DST_FOLD,
                example=DST_FOLD[0],
            ),
        ),
    ),
    Section(
        "Does",
        (
            Field("/handler/type", "Handler", "choice", choices=tuple(HANDLERS)),
            Field("/handler/name", "Function", of=("python",), example="demo.noop"),
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
            Field("/handler/argv", "Program and arguments", "lines", "one a line", ("command",)),
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
            Field("/retry_policy/max_attempts", "Attempts at most", "whole"),
            Field(
                "/overlap_policy", "While the one before still runs", "choice", choices=OVERLAP_POLICIES, example="skip"
            ),
            Field("/catchup_seconds", "Catch up what was missed within, seconds", "whole", example="3600"),
            Field("/strict_timing", "Exactly on time", "flag", "no jitter: it joins whoever fires at that second"),
            Field("/idempotent", "May run twice", "flag", "else a person decides when nobody knows whether it ran"),
        ),
        True,
    ),
)
FIELDS = tuple(one for section in SECTIONS for one in section.fields)
NEW: dict[str, Any] = {
    "name": "",
    "schedule": {"type": "cron", "expression": "0 2 * * *", "timezone": "UTC"},
    "handler": {"type": "python", "name": "demo.noop"},
    "parameters": {},
}
"""What the form of a new task begins with."""
