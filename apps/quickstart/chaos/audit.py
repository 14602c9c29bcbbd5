"""The audit: accepted and effects against the ledger.

An effect may happen more than once, under different tokens: a worker that dies after its effect and before its commit
leaves one that is repeated elsewhere (at least once). What may not happen: something accepted is lost, an execution
is committed twice, one token runs twice, or something is committed that no handler has done.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from apps.definitions.occurrences import Schedule, occurrences
from apps.executions.states import RESTING, Origin, Outcome, Status
from apps.quickstart.chaos.handlers import Effect
from apps.quickstart.chaos.ledger import Row, Tried
from apps.quickstart.chaos.workload import Load

_EXAMPLES = 5


class Scheduled(NamedTuple):
    """A task that fires by itself. known_since: by then it was created; what was due before may be there or not."""

    name: str
    schedule: Schedule
    known_since: datetime


@dataclass
class Findings:
    """broken: promises that must show zero, with examples of what breaks them. facts: what is good to know."""

    broken: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, name: str, culprits: Iterable[Any]) -> None:
        """Count what must not be there."""
        found = list(culprits)
        self.broken[name] = len(found)
        if found:
            self.examples[name] = [str(one) for one in found[:_EXAMPLES]]

    @property
    def is_clean(self) -> bool:
        return not any(self.broken.values())


def examine(
    *,
    accepted: Mapping[bytes, Load],
    rows: Mapping[bytes, Row],
    attempts: Mapping[bytes, Sequence[Tried]],
    effects: Sequence[Effect],
    schedules: Mapping[bytes, Scheduled],
    leftovers: Mapping[str, int],
) -> Findings:
    """schedules: by task id, bounded by start_at and end_at. leftovers: counts that must be zero."""
    findings = Findings()
    _accepted(findings, accepted, rows)
    _commits(findings, rows, attempts)
    _effects(findings, accepted, rows, attempts, effects)
    _occurrences(findings, schedules, rows)
    findings.broken.update(leftovers)
    return findings


def examine_live(
    *, accepted: Mapping[bytes, Load], rows: Mapping[bytes, Row], attempts: Mapping[bytes, Sequence[Tried]]
) -> Findings:
    """The same while it still runs, of rows and attempts of one moment: what is not at rest is not lost yet."""
    findings = Findings()
    findings.note("lost", _lost(accepted, rows, running={status for status in Status if status not in RESTING}))
    _commits(findings, rows, attempts)
    return findings


def _lost(accepted: Mapping[bytes, Load], rows: Mapping[bytes, Row], running: Collection[Status] = ()) -> Iterator[str]:
    for identity, load in accepted.items():
        row = rows.get(identity)
        if row is None or (row.status is not load.end and row.status not in running):
            yield f"{UUID(bytes=identity)} of {load.name} is {row.status.word if row else 'nowhere'}"


def _accepted(findings: Findings, accepted: Mapping[bytes, Load], rows: Mapping[bytes, Row]) -> None:
    findings.note("lost", _lost(accepted, rows))
    findings.note(
        "unfinished", (f"{_name(row)} is {row.status.word}" for row in rows.values() if row.status not in RESTING)
    )
    serials = Counter(row.serial for row in rows.values() if row.serial is not None)
    findings.note("triggered_twice", (f"trigger {serial}" for serial, count in serials.items() if count > 1))
    findings.facts["accepted"] = len(accepted)
    findings.facts["executions"] = len(rows)
    findings.facts["by_status"] = dict(sorted(Counter(row.status.word for row in rows.values()).items()))


def _commits(findings: Findings, rows: Mapping[bytes, Row], attempts: Mapping[bytes, Sequence[Tried]]) -> None:
    twice, disorder, excess, uncommitted = [], [], [], []
    for row in rows.values():
        tried = attempts.get(row.id, ())
        succeeded = sum(one.outcome is Outcome.SUCCEEDED for one in tried)
        if succeeded > 1:
            twice.append(f"{_name(row)}: {_told(tried)}")
        if (row.status is Status.COMPLETED) != (succeeded == 1) and succeeded <= 1:
            uncommitted.append(f"{_name(row)} is {row.status.word}: {_told(tried)}")
        if not _is_ordered(tried) or (tried and tried[-1].token > row.token):
            disorder.append(f"{_name(row)}: {_told(tried)}")
        if max([row.attempt, *(one.attempt for one in tried)]) > row.max_attempts:
            excess.append(f"{_name(row)}: {_told(tried)}")
    findings.note("committed_twice", twice)
    findings.note("status_and_attempts_disagree", uncommitted)
    findings.note("tokens_not_increasing", disorder)
    findings.note("attempts_over_the_limit", excess)
    outcomes = Counter(one.outcome.word for tried in attempts.values() for one in tried)
    findings.facts["attempts_by_outcome"] = dict(sorted(outcomes.items()))


def _effects(
    findings: Findings,
    accepted: Mapping[bytes, Load],
    rows: Mapping[bytes, Row],
    attempts: Mapping[bytes, Sequence[Tried]],
    effects: Sequence[Effect],
) -> None:
    runs = Counter((effect.execution_id, effect.token) for effect in effects)
    outcomes = {(i, one.token): one.outcome for i, tried in attempts.items() for one in tried}
    findings.note("token_ran_twice", (f"{UUID(bytes=i)} token {t}" for (i, t), n in runs.items() if n > 1))
    findings.note(
        "committed_without_effect",
        (
            f"{UUID(bytes=identity)} token {token}"
            for (identity, token), outcome in outcomes.items()
            if outcome is Outcome.SUCCEEDED and identity in rows and (identity, token) not in runs
        ),
    )
    findings.note("effect_without_attempt", (f"{UUID(bytes=i)} token {t}" for (i, t) in runs if (i, t) not in outcomes))
    repeats = Counter(outcomes[run].word for run in runs if run in outcomes and outcomes[run] is not Outcome.SUCCEEDED)
    findings.facts["effects"] = len(effects)
    findings.facts["effects_of_attempts_that_did_not_commit"] = dict(sorted(repeats.items()))


def _occurrences(findings: Findings, schedules: Mapping[bytes, Scheduled], rows: Mapping[bytes, Row]) -> None:
    missing, doubled, invented = [], [], []
    told: dict[str, dict[str, int]] = {}
    for task_id, (name, schedule, known_since) in schedules.items():
        mine = [row for row in rows.values() if row.task_id == task_id and row.origin is Origin.SCHEDULE]
        seen = Counter(row.nominal_at for row in mine)
        due = set(_due(schedule))
        missing += [f"{name} at {nominal}" for nominal in sorted(due - seen.keys()) if nominal > known_since]
        doubled += [f"{name} at {nominal}" for nominal, count in seen.items() if count > 1]
        invented += [f"{name} at {nominal}" for nominal in seen.keys() - due]
        told[name] = {"due": len(due), **Counter(row.status.word for row in mine)}
    findings.note("occurrences_missing", missing)
    findings.note("occurrences_doubled", doubled)
    findings.note("occurrences_invented", invented)
    findings.facts["occurrences"] = told


def _due(schedule: Schedule) -> list[datetime]:
    assert schedule.start_at is not None
    assert schedule.end_at is not None
    return list(occurrences(schedule, after=datetime.fromtimestamp(0, schedule.start_at.tzinfo)))


def _is_ordered(tried: Sequence[Tried]) -> bool:
    """Each token has one attempt; along growing tokens no attempt's number falls (a release gives its number back)."""
    tokens = [one.token for one in tried]
    numbers = [one.attempt for one in tried]
    return len(set(tokens)) == len(tokens) and numbers == sorted(numbers)


def _name(row: Row) -> str:
    return str(UUID(bytes=row.id))


def _told(tried: Sequence[Tried]) -> str:
    return ", ".join(f"attempt {one.attempt} token {one.token} {one.outcome.word}" for one in tried) or "no attempt"
