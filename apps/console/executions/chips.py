"""The question of a list in words and links: what narrows it, each with a way out, and what else could."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qsl

from apps.console.choices import Choice
from apps.console.executions.asked import AHEAD, HOLDS, SPANS, Asked
from apps.executions.states import ExecutionClass, Hold

WHEN = {
    "": "whenever",
    "1h": "in the last hour",
    "24h": "in the last 24 h",
    "7d": "in the last 7 days",
    "35d": "in the last 35 days",
    AHEAD: "from now on",
}
WHY = {
    Hold.PAUSED: "task paused",
    Hold.OVERLAP: "earlier execution",
    Hold.CONCURRENCY: "concurrency key",
    Hold.CIRCUIT: "circuit open",
    Hold.NO_WORKER: "no worker",
    Hold.QUOTA: "quota used up",
    Hold.FROZEN: "frozen",
    Hold.RETRY_BUDGET: "retry budget",
    Hold.DELETED: "task deleted",
}
assert set(WHEN) == {"", *SPANS, AHEAD}
assert set(WHY) == set(HOLDS.values())


@dataclass(frozen=True)
class Chip:
    """Something that narrows the list, and the question without it. since, until: moments that the page words."""

    label: str
    value: str
    query: str
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Menu:
    """Choices of one kind."""

    label: str
    choices: list[Choice]


def menus(asked: Asked) -> list[Menu]:
    """What may be chosen, each of its kind."""
    whens = [Choice(words, _when(asked, word), _is_when(asked, word)) for word, words in WHEN.items()]
    classes = [Choice("any", asked.query(**{"class": None}), not asked.classes)] + [
        Choice(one.word, asked.query(**{"class": one.word}), asked.classes == {one}) for one in ExecutionClass
    ]
    reasons = [Choice("anything, or nothing", asked.query(why=None), asked.why is None)] + [
        Choice(words, asked.query(why=hold.word), asked.why is hold) for hold, words in WHY.items()
    ]
    return [Menu("Due", whens), Menu("Class", classes), Menu("Waits for", reasons)]


def chips(asked: Asked, *, task_name: str = "") -> list[Chip]:
    """What narrows the list now. States have a strip of their own."""
    made = []
    if asked.name:
        made.append(Chip("task", f"“{asked.name}”", asked.query(q=None)))
    if asked.task:
        made.append(Chip("task", task_name or str(asked.task), asked.query(task=None)))
    if asked.run:
        made.append(Chip("run", str(asked.run), asked.query(run=None)))
    if asked.classes:
        made.append(Chip("class", ", ".join(one.word for one in sorted(asked.classes)), asked.query(**{"class": None})))
    if asked.due:
        made.append(Chip("due", WHEN[asked.due], asked.query(due=None)))
    if asked.since:
        made.append(Chip("due from", "", asked.query(since=None), since=asked.since))
    if asked.until:
        made.append(Chip("due until", "", asked.query(until=None), until=asked.until))
    if asked.error:
        made.append(Chip("error", asked.error, asked.query(error=None)))
    if asked.worker is not None:
        made.append(Chip("worker", f"worker-{asked.worker}", asked.query(worker=None)))
    if asked.why:
        made.append(Chip("waits for", WHY[asked.why], asked.query(why=None)))
    return made


def hidden(asked: Asked, *but: str) -> list[tuple[str, str]]:
    """The question as fields of a form that asks `but` anew."""
    return [(name, value) for name, value in parse_qsl(asked.query()[1:]) if name not in but]


def _when(asked: Asked, word: str) -> str:
    return asked.query(due=word or None, since=None, until=None)


def _is_when(asked: Asked, word: str) -> bool:
    return asked.due == word and (bool(word) or not (asked.since or asked.until))
