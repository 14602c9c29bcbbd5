"""What a list of executions was asked for. It stands in the address as a whole, so a link is a saved filter."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict

from apps.executions import ids, selectors
from apps.executions.models import Execution
from apps.executions.states import PENDING, ExecutionClass, Hold, Status
from chronoweb.runtime.errors import InvalidInput
from chronoweb.runtime.uuids import parse_uuid

LONGEST = 200
SPANS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "35d": timedelta(days=35)}
AHEAD = "ahead"
HOLDS = {hold.word: hold for hold in Hold if hold is not Hold.NONE}
_CLASSES = {one.word: one for one in ExecutionClass}
_MOST_WORKER = (1 << 63) - 1


@dataclass(frozen=True)
class Asked:
    """The list's question. name: a part of the task's name. due: a word of SPANS, or AHEAD; empty: since and until
    say. error: the class of the error, as a whole. before: the last id of the page before, which acts do not mind.
    """

    states: frozenset[Status] = frozenset()
    name: str = ""
    task: UUID | None = None
    run: UUID | None = None
    classes: frozenset[ExecutionClass] = frozenset()
    due: str = ""
    since: datetime | None = None
    until: datetime | None = None
    error: str = ""
    worker: int | None = None
    why: Hold | None = None
    before: UUID | None = None

    @classmethod
    def of(cls, given: QueryDict) -> "Asked":
        """From `state` and `class` (several), `q`, `task`, `run`, `due`, `since`, `until`, `error`, `worker`, `why` and
        `before`. Raises InvalidInput: an act on all instead of some cannot be undone.
        """
        worker = _text(given, "worker").removeprefix("worker-")
        if worker and not (worker.isascii() and worker.isdigit() and int(worker[:20]) <= _MOST_WORKER):
            raise InvalidInput("/worker", worker, "is no worker", "its number, such as 7")
        due, why = _text(given, "due"), _text(given, "why")
        if due and due not in (*SPANS, AHEAD):
            raise InvalidInput("/due", due, "is no span of time", ", ".join((*SPANS, AHEAD)))
        return cls(
            states=frozenset(_word("state", word, _STATES) for word in given.getlist("state") if word),
            name=_text(given, "q"),
            task=_id(given, "task"),
            run=_id(given, "run"),
            classes=frozenset(_word("class", word, _CLASSES) for word in given.getlist("class") if word),
            due=due,
            since=None if due else _moment(given, "since"),
            until=None if due else _moment(given, "until"),
            error=_text(given, "error"),
            worker=int(worker) if worker else None,
            why=_word("why", why, HOLDS) if why else None,
            before=_id(given, "before"),
        )

    @property
    def is_open(self) -> bool:
        """Whether it finds everything."""
        return replace(self, before=None) == Asked()

    @property
    def is_of_states(self) -> bool:
        """Whether nothing but states narrows it."""
        return replace(self, before=None, states=frozenset()) == Asked()

    def wanted(self, now: datetime) -> selectors.Filter:
        """The ledger's filter. What waits for a reason is only sought where something waits."""
        since, until = self.between(now)
        states = (self.states & PENDING or PENDING) if self.why else self.states
        return selectors.Filter(
            task_id=self.task,
            dag_run_id=self.run,
            statuses=states,
            since=since,
            until=until,
            name=self.name,
            classes=self.classes,
            error_type=self.error,
            worker_id=self.worker,
            holds=frozenset() if self.why is None else frozenset({self.why}),
        )

    def between(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """The bounds of scheduled_at: inclusive, exclusive."""
        if self.due == AHEAD:
            return now, None
        if self.due:
            return now - SPANS[self.due], now
        return self.since, self.until

    def finds(self, row: Execution, now: datetime) -> bool:
        """Whether the list shows it: the same as `wanted`, of a row that was read."""
        since, until = self.between(now)
        error = row.error.get("type") if isinstance(row.error, dict) else None
        return (
            (not self.states or row.state in self.states)
            and (self.task is None or row.task_id == self.task)
            and (self.run is None or row.dag_run_id == self.run)
            and (not self.classes or row.class_index in self.classes)
            and (since is None or row.scheduled_at >= since)
            and (until is None or row.scheduled_at < until)
            and self.name.lower() in row.task_version.name.lower()
            and (not self.error or error == self.error)
            and (self.worker is None or row.worker_id == self.worker)
            and (self.why is None or (row.hold == self.why and row.state in PENDING))
        )

    def query(self, **changes: Any) -> str:
        """The query string of this question with some parts changed; the page starts anew unless `before` is given."""
        values: Mapping[str, Any] = {
            "state": [state.word for state in sorted(self.states)],
            "q": self.name,
            "task": self.task,
            "run": self.run,
            "class": [one.word for one in sorted(self.classes)],
            "due": self.due,
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
            "error": self.error,
            "worker": self.worker,
            "why": self.why and self.why.word,
            "before": None,
            **changes,
        }
        pairs = [(name, one) for name, value in values.items() for one in _several(value)]
        return f"?{urlencode(pairs)}"


_STATES = {state.word: state for state in Status}


def _several(value: Any) -> list[str]:
    """Nothing of what is None or empty."""
    return [one for one in map(str, value) if one] if isinstance(value, list) else [str(value)] if value else []


def _word(name: str, word: str, known: Mapping[str, Any]) -> Any:
    if word not in known:
        raise InvalidInput(f"/{name}", word[:LONGEST], "is not known", ", ".join(known))
    return known[word]


def _text(given: QueryDict, name: str) -> str:
    text = given.get(name, "").strip()
    if len(text) > LONGEST or "\0" in text:
        raise InvalidInput(f"/{name}", None, "is nothing to look for", f"at most {LONGEST} characters")
    return text


def _id(given: QueryDict, name: str) -> UUID | None:
    text = _text(given, name)
    found = parse_uuid(text) if text else None
    if text and found is None:
        raise InvalidInput(f"/{name}", text, "is not an id", "a UUID")
    return found


def _moment(given: QueryDict, name: str) -> datetime | None:
    """Without an offset it is of UTC."""
    text = _text(given, name).replace(" ", "+")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if not ids.EARLIEST <= moment < ids.LATEST:
            raise ValueError(text)
    except (ValueError, OverflowError):
        raise InvalidInput(f"/{name}", text, "is not a date-time", "ISO 8601, of this age") from None
    return moment.astimezone(UTC)
