"""What the page keeps: what was accepted and what was in flight when something broke.

In a file beside all services, so that what they lose can be missed.
"""

import json
import threading
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from apps.quickstart.data_directory import read_json, write_private

MOST_ACTS = 6
MOST_ACCEPTED = 1600

_lock = threading.Lock()


@dataclass(frozen=True)
class Act:
    """Something that was broken. name: what was hit; pid: 0 for none. flying: what was in flight then, by token."""

    at: datetime
    act: str
    name: str
    pid: int = 0
    flying: dict[UUID, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        flying = {str(identity): token for identity, token in self.flying.items()}
        return {"at": self.at.isoformat(), "act": self.act, "name": self.name, "pid": self.pid, "flying": flying}

    @classmethod
    def of(cls, found: dict[str, Any]) -> "Act":
        flying = {UUID(identity): token for identity, token in found["flying"].items()}
        return cls(datetime.fromisoformat(found["at"]), found["act"], found["name"], found["pid"], flying)


@dataclass(frozen=True)
class Notes:
    """acts: the latest first. accepted: of the latest loads, in their order. task: that they are of."""

    acts: list[Act] = field(default_factory=list)
    accepted: list[UUID] = field(default_factory=list)
    task: UUID | None = None


class Notebook:
    """One file. The web process alone writes it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notes.json"

    def read(self) -> Notes:
        found = read_json(self._path)
        if found is None:
            return Notes()
        accepted = [UUID(text) for text in found["accepted"]]
        return Notes([Act.of(one) for one in found["acts"]], accepted, UUID(found["task"]) if found["task"] else None)

    def broke(self, act: Act) -> None:
        with _lock:
            notes = self.read()
            self._write(Notes([act, *notes.acts][:MOST_ACTS], notes.accepted, notes.task))

    def took(self, task: UUID, accepted: list[UUID]) -> None:
        """A load was accepted; of another task than before only it is kept."""
        with _lock:
            notes = self.read()
            before = notes.accepted if notes.task == task else []
            self._write(Notes(notes.acts, [*before, *accepted][-MOST_ACCEPTED:], task))

    def _write(self, notes: Notes) -> None:
        document = {
            "acts": [act.to_json() for act in notes.acts],
            "accepted": [str(identity) for identity in notes.accepted],
            "task": str(notes.task) if notes.task else None,
        }
        write_private(self._path, json.dumps(document))
