"""What runs under attack: tasks that are triggered through the API, and tasks with schedules of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apps.executions.states import Status

_EFFECT = {"type": "python", "name": "chaos.effect"}
_MANUAL = {"type": "manual"}
_PATIENT = {"max_attempts": 50, "backoff": "exponential_jitter", "base_delay_seconds": 0.5, "max_delay_seconds": 5}
"""Crashes cost attempts: with so many, what is accepted must end COMPLETED, however often its worker is killed."""


@dataclass(frozen=True)
class Load:
    """One triggered task. share: of all triggers. places: how many run at once. end: the state that each of its
    executions must end in.
    """

    name: str
    priority: int
    share: float
    parameters: Mapping[str, Any]
    handler: str = "chaos.effect"
    retry_policy: Mapping[str, Any] = field(default_factory=lambda: _PATIENT)
    places: int | None = None
    end: Status = Status.COMPLETED

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "priority": self.priority,
            "schedule": _MANUAL,
            "overlap_policy": "allow_all",
            "concurrency": None if self.places is None else {"key": self.name, "limit": self.places},
            "handler": {"type": "python", "name": self.handler},
            "timeout_seconds": 60,
            "retry_policy": dict(self.retry_policy),
        }


LOADS = (
    Load("load-critical", 2, 0.2, {}),
    Load("load-standard", 5, 0.66, {}),
    Load("load-bulk", 9, 0.1, {}),
    Load("load-flaky", 5, 0.02, {"failures": 2}),
    Load("load-slow", 5, 0.01, {"work_ms": 700}, places=8),
    Load(
        "load-hopeless",
        5,
        0.01,
        {},
        handler="chaos.hopeless",
        retry_policy=_PATIENT | {"max_attempts": 3},
        end=Status.DEAD_LETTER,
    ),
)


def scheduled_documents(*, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Tasks that fire from `start` (inclusive) to `end` (exclusive), both aware: all of it is known beforehand."""
    bounds = {"start_at": start.isoformat(), "end_at": end.isoformat()}
    minute = {"type": "cron", "expression": "* * * * *", "timezone": "Europe/Paris", **bounds}
    second = {"type": "interval", "every_seconds": 1, **bounds}
    five = {"type": "interval", "every_seconds": 5, **bounds}
    return [
        _scheduled("each-minute", minute, "allow_all", {}, strict_timing=True),
        _scheduled("each-second", second, "allow_all", {}),
        _scheduled("each-5-seconds-flaky", five, "allow_all", {"failures": 2}),
        _scheduled("each-second-skipping", second, "skip", {"work_ms": 1500}),
    ]


def _scheduled(
    name: str, schedule: dict[str, Any], overlap: str, parameters: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "schedule": schedule,
        "overlap_policy": overlap,
        "handler": _EFFECT,
        "parameters": parameters,
        "timeout_seconds": 60,
        "retry_policy": _PATIENT,
        **more,
    }
