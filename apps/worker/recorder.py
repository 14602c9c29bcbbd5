"""Writes what running attempts say, by group commit: progress and checkpoints of all of them in one fenced statement.

A checkpoint is answered when it is committed, or when it never will be. Attempts that say nothing cost nothing here.
"""

import threading
from collections.abc import Callable, Iterable

import psycopg

from apps.executions import feed, store
from apps.executions.rows import Claimed, Note
from apps.worker.handlers.line import ENDED
from apps.worker.jobs import Answer, Assignment
from apps.worker.ledger_thread import LedgerThread
from apps.worker.zombies import look_again
from chronoweb.runtime import faults

_BATCH = 200
_BATCH_BYTES = 8 << 20
_IDLE_SECONDS = 0.5
_LOST = "the execution is no longer this attempt's: another worker has it, or it was ended; nothing was written"

Key = tuple[bytes, int]


class Recorder(LedgerThread):
    """A thread with a connection of its own; a NoteTaker. `on_zombie` is told when this worker has been given up."""

    def __init__(
        self, *, worker_id: int, url: str, running: dict[Key, Claimed], on_zombie: Callable[[str], None]
    ) -> None:
        super().__init__("recorder", url)
        self._worker_id = worker_id
        self._running = running
        self._on_zombie = on_zombie
        self._notes: dict[Key, Note] = {}
        self._answers: dict[Key, list[Answer]] = {}
        self._writing: dict[Key, Note] = {}
        self._writing_answers: dict[Key, list[Answer]] = {}
        self._speaking: set[Key] = set()
        """Attempts that run and have, or will have, a row."""
        self._left: set[Key] = set()
        """Attempts that have ended and may have a row."""
        self._lock = threading.Lock()
        self._changed = threading.Event()

    def progressed(self, said: list[tuple[Assignment, float, float | None]]) -> None:
        with self._lock:
            for assignment, done, total in said:
                note = self._note(assignment)
                note.done, note.total = done, total
        self._changed.set()

    def keep(self, assignment: Assignment, text: bytes, answer: Answer) -> None:
        with self._lock:
            note = self._note(assignment)
            note.checkpoint = text
            self._answers.setdefault((note.id, note.token), []).append(answer)
        self._changed.set()

    def ended(self, assignments: Iterable[Assignment]) -> None:
        """These attempts say nothing more: from now on a write that meets no row means nothing."""
        unanswered: list[Answer] = []
        with self._lock:
            if not self._speaking:
                return
            for assignment in assignments:
                key = assignment.execution_id, assignment.token
                if key in self._speaking:
                    self._speaking.remove(key)
                    self._left.add(key)
                    self._notes.pop(key, None)
                    unanswered += self._answers.pop(key, [])
        for answer in unanswered:
            answer(ENDED)

    def has_left(self, key: Key) -> bool:
        """Whether an attempt that has ended may have left a row; asked once."""
        with self._lock:
            if key not in self._left:
                return False
            self._left.remove(key)
            return True

    def wake(self) -> None:
        self._changed.set()

    def finished(self) -> bool:
        return not self._notes and not self._writing

    def step(self, connection: psycopg.Connection) -> None:
        """Write what was said, or wait for something to be said."""
        if not self._writing:
            self._collect()
        if not self._writing:
            self._changed.wait(_IDLE_SECONDS)
            self._changed.clear()
            return
        notes = sorted(self._writing.values(), key=lambda note: note.id)
        written = store.note_progress(connection, notes, worker_id=self._worker_id)
        faults.point("worker.noted")
        refused = [(note.id, note.token) for note in notes if note.id not in written]
        self._answer(set(refused))
        with self._lock:
            mine = [key for key in refused if key in self._speaking]
        if mine:
            look_again(connection, mine, self._on_zombie)
        feed.changed_many(
            (claimed.tenant_id, note.id)
            for note in notes
            if (claimed := self._running.get((note.id, note.token))) and note.id in written
        )

    def _note(self, assignment: Assignment) -> Note:
        key = assignment.execution_id, assignment.token
        self._speaking.add(key)
        if key not in self._notes:
            self._notes[key] = Note(*key)
        return self._notes[key]

    def _collect(self) -> None:
        """Take a batch: one note of each execution, and no more checkpoints than a statement should carry."""
        size, seen = 0, set[bytes]()
        with self._lock:
            for key, note in list(self._notes.items()):
                if len(self._writing) >= _BATCH or size > _BATCH_BYTES:
                    return
                if note.id in seen:
                    continue
                seen.add(note.id)
                size += len(note.checkpoint or b"")
                self._writing[key] = self._notes.pop(key)
                if key in self._answers:
                    self._writing_answers[key] = self._answers.pop(key)

    def _answer(self, refused: set[Key]) -> None:
        answers, self._writing_answers, self._writing = self._writing_answers, {}, {}
        for key, waiting in answers.items():
            for answer in waiting:
                answer(_LOST if key in refused else None)
