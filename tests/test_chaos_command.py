"""manage.py chaos: the plan repeats, the audit sees what is wrong, and a round under attack is clean."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from apps.definitions.occurrences import Schedule
from apps.executions.states import Origin, Outcome, Status
from apps.quickstart.chaos import audit, plan
from apps.quickstart.chaos.handlers import Effect
from apps.quickstart.chaos.ledger import Row, Tried
from apps.quickstart.chaos.workload import LOADS, Load
from tests.quickstart_tools import ROOT, bare_environment

SHORT = ("--minutes", "0.5", "--faults-per-minute", "44", "--rate", "100", "--seed", "7")


def chaos(*arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "chaos", *arguments],
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


# ---- the plan -----------------------------------------------------------------------------------------------------


def test_a_seed_repeats_its_faults_and_another_has_others() -> None:
    first = plan.plan(seed=3, seconds=600, per_minute=36, transport="redis")
    assert first == plan.plan(seed=3, seconds=600, per_minute=36, transport="redis")
    assert first != plan.plan(seed=4, seconds=600, per_minute=36, transport="redis")
    assert len(first) >= 300


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short = plan.plan(seed=5, seconds=60, per_minute=36, transport="redis")
    assert plan.plan(seed=5, seconds=600, per_minute=36, transport="redis")[: len(short)] == short


@pytest.mark.parametrize("transport", ["redis", "kafka"])
def test_one_bag_holds_every_kind(transport: str) -> None:
    bag = len(plan.BAG) + len(plan.KAFKA_BAG) * (transport == "kafka")
    kinds = {fault.kind for fault in plan.plan(seed=1, seconds=600, per_minute=60, transport=transport)[:bag]}
    assert kinds == {*plan.BAG, *(plan.KAFKA_BAG if transport == "kafka" else ())}


def test_the_command_prints_the_plan_and_starts_nothing() -> None:
    told = chaos("--plan", *SHORT, seconds=90)
    faults = plan.plan(seed=7, seconds=0.5 * 60, per_minute=44, transport="redis")
    assert told.stdout.splitlines() == [fault.line() for fault in faults]


# ---- the audit ----------------------------------------------------------------------------------------------------

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TASK, TIMED = uuid4().bytes, uuid4().bytes
DONE = next(load for load in LOADS if load.end is Status.COMPLETED)


@dataclass
class Books:
    """Everything in order: two triggers, one of them crashed once after its effect; two occurrences, one skipped."""

    accepted: dict[bytes, Load] = field(default_factory=dict)
    rows: dict[bytes, Row] = field(default_factory=dict)
    attempts: dict[bytes, list[Tried]] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    leftovers: dict[str, int] = field(default_factory=dict)
    known_since: datetime = NOW - SECOND

    def __post_init__(self) -> None:
        self.plain = self.add(Row(uuid4().bytes, TASK, Status.COMPLETED, 1, 3, 10, NOW, Origin.MANUAL, 1), DONE)
        self.repeated = self.add(Row(uuid4().bytes, TASK, Status.COMPLETED, 2, 3, 12, NOW, Origin.MANUAL, 2), DONE)
        self.attempts[self.repeated].insert(0, Tried(1, 10, Outcome.CRASHED))
        self.effects.append(Effect(self.repeated, 10, 1))
        self.fired = self.add(Row(uuid4().bytes, TIMED, Status.COMPLETED, 1, 3, 10, NOW, Origin.SCHEDULE, None))
        skipped = Row(uuid4().bytes, TIMED, Status.SKIPPED, 0, 3, 0, NOW + SECOND, Origin.SCHEDULE, None)
        self.rows[skipped.id] = skipped

    def add(self, row: Row, load: Load | None = None) -> bytes:
        self.rows[row.id] = row
        self.attempts[row.id] = [Tried(row.attempt, row.token, Outcome.SUCCEEDED)]
        self.effects.append(Effect(row.id, row.token, row.attempt))
        if load is not None:
            self.accepted[row.id] = load
        return row.id

    def change(self, identity: bytes, **values: Any) -> None:
        self.rows[identity] = self.rows[identity]._replace(**values)

    def examine(self) -> audit.Findings:
        schedule = Schedule(type="interval", every_seconds=1, start_at=NOW, end_at=NOW + 2 * SECOND)
        return audit.examine(
            accepted=self.accepted,
            rows=self.rows,
            attempts=self.attempts,
            effects=self.effects,
            schedules={TIMED: audit.Scheduled("each-second", schedule, self.known_since)},
            leftovers=self.leftovers,
        )


def test_books_in_order_are_clean_and_a_crash_before_the_commit_is_a_repeat() -> None:
    findings = Books().examine()
    assert findings.is_clean, findings.broken
    assert findings.facts["effects_of_attempts_that_did_not_commit"] == {"crashed": 1}


def test_while_it_runs_only_what_is_gone_or_ended_otherwise_is_lost() -> None:
    books = Books()

    def live() -> dict[str, int]:
        findings = audit.examine_live(accepted=books.accepted, rows=books.rows, attempts=books.attempts)
        return {name: count for name, count in findings.broken.items() if count}

    books.change(books.plain, status=Status.RUNNING)
    books.attempts[books.plain] = []
    assert live() == {}
    books.change(books.plain, status=Status.DEAD_LETTER)
    assert live() == {"lost": 1}
    del books.rows[books.plain]
    _commit_twice(books)
    assert live() == {"lost": 1, "committed_twice": 1}


def _remove(books: Books) -> None:
    del books.rows[books.plain], books.attempts[books.plain]
    books.effects = [effect for effect in books.effects if effect.execution_id != books.plain]


def _commit_twice(books: Books) -> None:
    books.attempts[books.repeated][0] = Tried(1, 10, Outcome.SUCCEEDED)


def _lose_an_occurrence(books: Books) -> None:
    books.rows = {i: row for i, row in books.rows.items() if row.status is not Status.SKIPPED}


def _double_an_occurrence(books: Books) -> None:
    books.add(books.rows[books.fired]._replace(id=uuid4().bytes))


BREAKS: dict[str, Callable[[Books], Any]] = {
    "lost": _remove,
    "unfinished": lambda books: books.change(books.fired, status=Status.RUNNING),
    "triggered_twice": lambda books: books.change(books.plain, serial=2),
    "committed_twice": _commit_twice,
    "status_and_attempts_disagree": lambda books: books.attempts.pop(books.fired),
    "tokens_not_increasing": lambda books: books.attempts[books.repeated].insert(1, Tried(3, 11, Outcome.FAILED)),
    "attempts_over_the_limit": lambda books: books.change(books.repeated, max_attempts=1),
    "token_ran_twice": lambda books: books.effects.append(Effect(books.plain, 10, 1)),
    "committed_without_effect": lambda books: books.effects.remove(Effect(books.plain, 10, 1)),
    "effect_without_attempt": lambda books: books.effects.append(Effect(books.plain, 11, 2)),
    "occurrences_missing": _lose_an_occurrence,
    "occurrences_doubled": _double_an_occurrence,
    "occurrences_invented": lambda books: books.change(books.fired, nominal_at=NOW + 9 * SECOND),
    "slots": lambda books: books.leftovers.update(slots=1),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_wrong_is_found_and_named(name: str) -> None:
    books = Books()
    BREAKS[name](books)
    findings = books.examine()
    assert findings.broken[name] == 1
    assert not findings.is_clean


def test_a_dead_letter_is_lost_unless_it_was_to_become_one() -> None:
    books = Books()
    hopeless = next(load for load in LOADS if load.end is Status.DEAD_LETTER)
    for load in (hopeless, DONE):
        row = Row(uuid4().bytes, TASK, Status.DEAD_LETTER, 3, 3, 30, NOW, Origin.MANUAL, None)
        books.rows[row.id], books.accepted[row.id] = row, load
    assert books.examine().broken["lost"] == 1


def test_an_occurrence_from_before_its_task_was_known_may_be_missing() -> None:
    books = Books(known_since=NOW + SECOND)
    _lose_an_occurrence(books)
    assert books.examine().is_clean


# ---- the round ----------------------------------------------------------------------------------------------------


@pytest.mark.timeout(400)
def test_under_attack_nothing_is_lost_and_nothing_committed_twice(tmp_path: Path) -> None:
    ended = chaos(*SHORT, "--json", str(tmp_path / "audit.json"), seconds=380)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(ended.stdout)
    assert told == json.loads((tmp_path / "audit.json").read_text())
    assert told["clean"]
    assert not any(told["broken"].values())
    assert told["accepted"] >= 300, "on a busy machine fewer"
    assert told["effects"] >= told["by_status"]["completed"]
    assert told["faults"]["total"] + sum(told["faults_missed"].values()) >= 22
    assert told["faults"]["total"] >= 11, "on a busy machine some come too late"


@pytest.mark.drill
@pytest.mark.timeout(1500)
def test_ten_minutes_under_attack() -> None:
    told = _drill("--minutes", "10", "--seed", "18")
    assert told["faults"]["total"] >= 300
    assert told["executions"] >= 100_000


@pytest.mark.drill
@pytest.mark.timeout(1500)
def test_kafka_under_attack() -> None:
    """Fewer faults: a group of consumers needs seconds to form again after each death of a member."""
    told = _drill("--transport", "kafka", "--minutes", "3", "--seed", "4", "--rate", "60", "--faults-per-minute", "12")
    assert told["faults"]["total"] >= 30


def _drill(*arguments: str) -> Any:
    ended = chaos(*arguments, seconds=1400)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)
