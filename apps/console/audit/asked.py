"""What of the audit log was asked for. It stands in the URL as a whole, so a link is a saved filter."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from apps.tenants.audit_reading import AuditFilter
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

SPANS = {
    "1h": (timedelta(hours=1), "last hour"),
    "24h": (timedelta(hours=24), "last 24 h"),
    "7d": (timedelta(days=7), "last 7 days"),
    "30d": (timedelta(days=30), "last 30 days"),
}
WORDS = {"actor": "by", "action": "act", "target_type": "kind", "target_id": "object"}
"""A filter of words → how its chip begins."""
_LONGEST = {"actor": 200, "action": 63, "target_type": 63, "target_id": 63}
_TIMES = ("since", "until")
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Asked:
    """words: by name of the filter, as a whole. span: one of SPANS, or empty. since, until: as they were written, read
    as UTC where they name no zone. before: the id that the page begins behind.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    span: str = ""
    since: str = ""
    until: str = ""
    before: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Asked":
        """From a query. Raises InvalidInputs for what cannot be meant: a filter that is left out would show more."""
        texts = {name: given.get(name, "").strip() for name in (*WORDS, *_TIMES, "span", "before")}
        wrong = [
            InvalidInput(f"/{name}", texts[name][:80], "is none that there can be", f"at most {most} characters")
            for name, most in _LONGEST.items()
            if len(texts[name]) > most or "\0" in texts[name]
        ]
        if texts["span"] and texts["span"] not in SPANS:
            wrong.append(InvalidInput("/span", texts["span"][:80], "is no span of time", tuple(SPANS)))
        for name in _TIMES:
            if texts[name] and _moment(texts[name]) is None:
                legal = "ISO 8601, such as 2026-11-30T09:00"
                wrong.append(InvalidInput(f"/{name}", texts[name][:80], "is no time", legal))
        before = texts["before"]
        if before and not (before.isascii() and before.isdigit() and len(before) <= _MOST_DIGITS):
            wrong.append(InvalidInput("/before", before[:80], "is no entry", "the id of one"))
        if wrong:
            raise InvalidInputs(wrong)
        return cls(
            words={name: texts[name] for name in WORDS if texts[name]},
            span=texts["span"],
            since=texts["since"],
            until=texts["until"],
            before=int(before) if before else None,
        )

    def wanted(self, now: datetime) -> AuditFilter:
        since, until = _moment(self.since), _moment(self.until)
        if self.span:
            begins = now - SPANS[self.span][0]
            since = begins if since is None else max(since, begins)
        return AuditFilter(**self.words, since=since, until=until)

    @property
    def is_open(self) -> bool:
        return not (self.words or self.span or self.since or self.until)

    def query(self, **changes: str | int) -> str:
        """The query string of this question with some parts changed; the page starts anew unless `before` is given."""
        values = {**self.words, "span": self.span, "since": self.since, "until": self.until, **changes}
        return f"?{urlencode({name: value for name, value in values.items() if value})}"

    @property
    def chips(self) -> list[tuple[str, str, str]]:
        """(words, value, the query without it) of each filter that is on, but for the span."""
        found = [(WORDS[name], value, self.query(**{name: ""})) for name, value in self.words.items()]
        return found + [(name, text, self.query(**{name: ""})) for name in _TIMES if (text := getattr(self, name))]

    @property
    def spans(self) -> list[tuple[str, str, bool]]:
        """(query, words, whether it is chosen) of each choice of the span."""
        choices = {"": "ever", **{key: words for key, (_, words) in SPANS.items()}}
        return [(self.query(span=key), words, key == self.span) for key, words in choices.items()]


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
