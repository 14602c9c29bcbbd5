"""Executions with their attempts, events and dead letters, oldest first, in the states that a week's work is in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import psycopg

from apps.executions.states import ACTIVE, Hold, Origin, Outcome, Overlap, Status
from apps.quickstart.seeding import lines
from apps.quickstart.seeding.definitions import Made
from apps.quickstart.seeding.lines import NULL, instant

AHEAD_SHARE = 0.02
"""Of all: due within the next hour."""
AHEAD_MS = 3_600_000
NEAR_MS = 40_000
"""What was due within it may still run."""
HELD_MS = 3_600_000
"""What has been waiting for something since: due within it."""
TOKEN = (1 << 32) + 1
EXECUTIONS = (
    "id scheduled_at run_at nominal_at wake_at created_at dispatched_at started_at finished_at token tenant_id task_id"
    " task_version_id worker_id version attempt max_attempts status hold class priority origin overlap slot_key"
    " idempotency_key result error"
).split()
ATTEMPTS = (
    "scheduled_at execution_id attempt token tenant_id worker_id outcome due_at started_at finished_at error".split()
)
EVENTS = "scheduled_at execution_id tenant_id at source target token actor reason".split()
LETTERS = "execution_id scheduled_at tenant_id task_id fingerprint since".split()
SENT = "execution_id scheduled_at worker_id class tenant_id token dispatched_at".split()
WAITERS = "key scheduled_at execution_id places".split()
SLOTS = "key n execution_id scheduled_at".split()
_FAULTS = tuple(
    (kind, message.format(n), failure)
    for n in range(8)
    for kind, message, failure in (
        ("ConnectionError", "upstream-{} refused the connection", "transient"),
        ("ValueError", 'amount "12,5{}" is no number', "permanent"),
        ("Timeout", "no answer from shard {} within 30 s", "timeout"),
        ("HTTPStatusError", "503 from https://hooks.example.com/{}", "transient"),
        ("KeyError", "'customer_{}'", "permanent"),
    )
)
_ERRORS = tuple(
    lines.document({"type": kind, "message": message, "class": failure, "traceback": f"Traceback: {kind}: {message}"})
    for kind, message, failure in _FAULTS
)
_PRINTS = tuple(lines.text(f"{kind}: {message}") for kind, message, _ in _FAULTS)
_RESULT = lines.document({"rows": 1200, "ok": True})

_RAN = frozenset({Status.COMPLETED, Status.DEAD_LETTER})
_FAILED = frozenset({Status.RETRYING, Status.DEAD_LETTER})
_BEGUN = _RAN | _FAILED | ACTIVE
_BY_PEOPLE = {Status.CANCELLED: "cancelled: wrong day", Status.SKIPPED: "as many as may ran already"}
_ENDED = frozenset(_BY_PEOPLE) | {Status.RETRYING}
_SCHEDULE = str(int(Origin.SCHEDULE))
_BUFFER, _ALLOW = str(int(Overlap.BUFFER_ALL)), str(int(Overlap.ALLOW_ALL))


@dataclass
class Crowd:
    """One tenant's, and its share of the work."""

    tenant_id: str
    share: float
    tasks: list[Made]


@dataclass
class Chunk:
    """Lines of one COPY each."""

    executions: list[str] = field(default_factory=list)
    attempts: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    waiters: list[str] = field(default_factory=list)
    slots: list[str] = field(default_factory=list)

    def write(self, connection: psycopg.Connection) -> int:
        """All of it, in one transaction; returns how many executions."""
        with connection.transaction():
            for table, columns, rows in (
                ("executions", EXECUTIONS, self.executions),
                ("attempts", ATTEMPTS, self.attempts),
                ("execution_events", EVENTS, self.events),
                ("dead_letters", LETTERS, self.letters),
                ("outstanding", SENT, self.sent),
                ("slots", SLOTS, self.slots),
                ("slot_waiters", WAITERS, self.waiters),
            ):
                if rows:
                    lines.write_lines(connection, table, columns, rows)
        return len(self.executions)


class Ledger:
    """Makes executions one after another. Times are ms since the epoch."""

    def __init__(self, crowds: list[Crowd], *, now_ms: int, random: Random, workers: list[int]) -> None:
        self._crowds = crowds
        self._shares = [crowd.share for crowd in crowds]
        self._now = now_ms
        self._random = random
        self._workers = workers
        self._running: dict[str, str] = {}
        """Overlap keys that an execution holds, and for which others wait."""

    def chunks(self, count: int, *, begin_ms: int) -> Iterator[Chunk]:
        """`count` executions, evenly from `begin_ms` to now; AHEAD_SHARE of them beyond."""
        ahead = round(count * AHEAD_SHARE)
        past = count - ahead
        chunk = Chunk()
        for number in range(count):
            if number < past:
                due = begin_ms + int((self._now - begin_ms) * number / past)
            else:
                due = self._now + 2000 + int(AHEAD_MS * (number - past) / ahead)
            [crowd] = self._random.choices(self._crowds, self._shares)
            task = crowd.tasks[int(len(crowd.tasks) * self._random.random() ** 3)]
            self._add(chunk, crowd.tenant_id, task, due)
            if len(chunk.executions) >= lines.CHUNK:
                yield chunk
                chunk = Chunk()
        if chunk.executions:
            yield chunk

    def _add(self, chunk: Chunk, tenant: str, task: Made, due: int) -> None:
        identity = f"{due:012x}7{task.mark}{1 << 63 | self._random.getrandbits(62):016x}"
        age, lot = self._now - due, self._random.random()
        if age < 0:
            status = Status.PRELOADED if lot < 0.9 else Status.SCHEDULED
            self._row(chunk, tenant, task, identity, due, status, run_at=due + int(lot * 60_000))
        elif age < NEAR_MS and lot < 0.6:
            self._row(chunk, tenant, task, identity, due, Status.RUNNING if lot < 0.45 else Status.DISPATCHED)
        elif age < HELD_MS and lot < 0.12:
            self._waiting(chunk, tenant, task, identity, due)
        elif lot > 0.995:
            self._row(chunk, tenant, task, identity, due, Status.DEAD_LETTER, tries=3)
        elif lot > 0.97:
            self._row(chunk, tenant, task, identity, due, Status.SKIPPED if lot > 0.98 else Status.CANCELLED)
        else:
            self._row(chunk, tenant, task, identity, due, Status.COMPLETED, tries=2 if lot > 0.94 else 1)

    def _waiting(self, chunk: Chunk, tenant: str, task: Made, identity: str, due: int) -> None:
        """For another execution, a circuit, a person, the next try."""
        lot, later = self._random.random(), self._now + self._random.randrange(600_000)
        if task.paused:
            self._row(chunk, tenant, task, identity, due, Status.SCHEDULED, hold=Hold.PAUSED)
        elif lot < 0.4:
            key = f"task:{task.id}"
            if key not in self._running:
                self._running[key] = identity
                chunk.slots.append("\t".join((key, "0", identity, instant(due))))
                self._row(chunk, tenant, task, identity, due, Status.RUNNING, slot_key=key)
            else:
                chunk.waiters.append("\t".join((key, instant(due), identity, "1")))
                self._row(chunk, tenant, task, identity, due, Status.SCHEDULED, hold=Hold.OVERLAP, slot_key=key)
        elif lot < 0.75:
            self._row(chunk, tenant, task, identity, due, Status.RETRYING, tries=1, run_at=later)
        elif lot < 0.85:
            self._row(chunk, tenant, task, identity, due, Status.SCHEDULED, hold=Hold.RETRY_BUDGET, run_at=later)
        else:
            self._row(chunk, tenant, task, identity, due, Status.WAITING, tries=0)

    def _row(
        self,
        chunk: Chunk,
        tenant: str,
        task: Made,
        identity: str,
        due: int,
        status: Status,
        *,
        tries: int = 0,
        run_at: int | None = None,
        hold: Hold = Hold.NONE,
        slot_key: str = NULL,
    ) -> None:
        random = self._random
        at, worker, begun = instant(due), str(random.choice(self._workers)), status in _BEGUN
        started = due + 2 + int(random.expovariate(0.2))
        finished = started + 20 + int(random.expovariate(1 / 900))
        rests, failed = status in _RAN, status in _FAILED
        ended = instant(finished if rests else started)
        fault, attempt = random.randrange(len(_ERRORS)), max(tries, int(status is Status.RUNNING))
        for number in range(1, tries + 1):
            good, last = number == tries and not failed, number == tries
            begin = started - 1000 * (tries - number)  # each a second before the next
            times = [instant(begin - 2), instant(begin), instant(finished if last else begin + 500)]
            outcome = str(int(Outcome.SUCCEEDED if good else Outcome.FAILED))
            tried = [at, identity, str(number), str(TOKEN + number), tenant, worker, outcome, *times]
            chunk.attempts.append("\t".join([*tried, NULL if good else _ERRORS[fault]]))
        if status is Status.DEAD_LETTER:
            chunk.letters.append("\t".join((identity, at, tenant, task.id, _PRINTS[fault], ended)))
        elif status in _BY_PEOPLE:
            told = (at, identity, tenant, at, "0", str(int(status)), "0", "user:ada", _BY_PEOPLE[status])
            chunk.events.append("\t".join(told))
        if status in ACTIVE:
            sent = (identity, at, worker, str(task.class_index), tenant, str(TOKEN), instant(started - 2))
            chunk.sent.append("\t".join(sent))
        moved = at if run_at is None else instant(run_at)
        times = [at, moved, at, moved if status is Status.RETRYING else NULL, instant(due - 3_600_000)]
        times += [instant(started - 2) if begun else NULL, instant(started) if attempt else NULL]
        times += [ended if rests or status in _ENDED else NULL]
        whose = [str(TOKEN + tries) if begun else "0", tenant, task.id, task.version, worker if begun else NULL]
        where = [str(2 + 3 * tries), str(attempt), "3", str(int(status)), str(int(hold)), str(task.class_index)]
        where += [str(task.priority), _SCHEDULE, _ALLOW if slot_key is NULL else _BUFFER, slot_key, f"{task.id}@{at}"]
        said = [_RESULT if status is Status.COMPLETED else NULL, _ERRORS[fault] if failed else NULL]
        chunk.executions.append("\t".join([identity, *times, *whose, *where, *said]))


def seed_executions(
    connection: psycopg.Connection,
    ledger: Ledger,
    count: int,
    *,
    begin_ms: int,
    done: Callable[[int], None],
) -> None:
    """`count` executions from `begin_ms` on."""
    for chunk in ledger.chunks(count, begin_ms=begin_ms):
        done(chunk.write(connection))
