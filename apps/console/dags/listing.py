"""The list of DAGs: what each is, when it fires next, how its last runs went."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.http import QueryDict

from apps.console.dags import strips
from apps.console.dags.strips import Mark
from apps.console.wording import first_line
from apps.definitions.dags import selectors
from apps.definitions.models import Dag
from apps.definitions.schedules import Schedule
from apps.definitions.selectors import narrowed
from apps.definitions.wording import describe
from apps.tenants.principal import Principal

SHOWN = 50


@dataclass(frozen=True)
class Line:
    """One DAG of the list. schedule: in plain words."""

    dag: Dag
    schedule: str
    note: str
    marks: list[Mark]


@dataclass(frozen=True)
class Page:
    """after: the name to go on behind; empty when this is all."""

    lines: list[Line]
    search: str
    tag: str
    paused: bool | None
    after: str
    is_filtered: bool

    def query(self, **changes: str) -> str:
        """The query string of this question with some parts changed, from its first page on."""
        paused = {True: "true", False: "false", None: ""}[self.paused]
        values = {"q": self.search, "tag": self.tag, "paused": paused, **changes}
        return "?" + urlencode({name: value for name, value in values.items() if value})

    @property
    def query_any(self) -> str:
        return self.query(paused="")

    @property
    def query_going(self) -> str:
        return self.query(paused="false")

    @property
    def query_paused(self) -> str:
        return self.query(paused="true")

    @property
    def query_untagged(self) -> str:
        return self.query(tag="")

    @property
    def query_older(self) -> str:
        return self.query(after=self.after)


def read(principal: Principal, asked: QueryDict, *, now: datetime) -> Page:
    """Two queries. asked: `q` (in any part of the name), `tag`, `paused` (true, false), `after`."""
    search, tag, after = (asked.get(name, "").replace("\0", "")[:200] for name in ("q", "tag", "after"))
    paused = {"true": True, "false": False}.get(asked.get("paused", ""))
    rows = narrowed(selectors.dags(principal), search=search, tag=tag, paused=paused)
    if after:
        rows = rows.filter(name__gt=after)
    found = list(rows.order_by("name")[: SHOWN + 1])
    shown = found[:SHOWN]
    marks = strips.of_dags(principal, [dag.id for dag in shown], now=now)
    lines = [Line(dag, schedule_words(dag), first_line(dag.paused_note), marks[dag.id]) for dag in shown]
    more = shown[-1].name if len(found) > SHOWN else ""
    return Page(lines, search, tag, paused, more, bool(search or tag or after or paused is not None))


def schedule_words(dag: Dag) -> str:
    """`at 02:00 every day (Europe/Paris)`."""
    return describe(Schedule.parse(dag.schedule))
