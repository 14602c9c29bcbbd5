"""Which dead letters a page is of: what its address says, and the same in words and in links."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict

from apps.executions.dead_letters import DeadLetterFilter
from chronoweb.runtime.errors import InvalidInput
from chronoweb.runtime.uuids import parse_uuid

SPANS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
WORDS = {"1h": "the last hour", "24h": "the last 24 h", "7d": "the last 7 days"}
MOST_CHOSEN = 100
_FINGERPRINT_CHARACTERS = 500
EACH = "each"
"""What `show` says for a list of dead letters rather than of their kinds."""


@dataclass(frozen=True)
class Chosen:
    """task_id and fingerprint: None for all. died: one of SPANS, or empty for ever. show: EACH, or empty."""

    task_id: UUID | None = None
    fingerprint: str | None = None
    died: str = ""
    show: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Chosen":
        """What a query or form says. Raises InvalidInput: an act on all instead of some cannot be undone."""
        died, task, fingerprint, show = (given.get(name, "") for name in ("died", "task", "fingerprint", "show"))
        if show not in ("", EACH):
            raise InvalidInput("/show", show, "is nothing that can be shown", EACH)
        if died and died not in SPANS:
            raise InvalidInput("/died", died, "is no span of time", ", ".join(SPANS))
        if len(fingerprint) > _FINGERPRINT_CHARACTERS or "\0" in fingerprint:
            raise InvalidInput(
                "/fingerprint", None, "is no fingerprint", f"at most {_FINGERPRINT_CHARACTERS} characters"
            )
        try:
            task_id = UUID(task) if task else None
        except ValueError:
            raise InvalidInput("/task", task, "is not an id", "a UUID") from None
        return cls(task_id, fingerprint or None, died, show)

    def wanted(self, now: datetime, until: datetime | None = None) -> DeadLetterFilter:
        """until (exclusive): when they were counted, so that what dies later is not meant."""
        since = now - SPANS[self.died] if self.died else None
        return DeadLetterFilter(self.task_id, self.fingerprint, since, until)

    @property
    def is_all(self) -> bool:
        return replace(self, show="") == Chosen()

    @property
    def is_group(self) -> bool:
        return self.fingerprint is not None

    @property
    def is_listed(self) -> bool:
        """One by one rather than by kind."""
        return self.is_group or self.show == EACH

    @property
    def query(self) -> str:
        """`?task=…&died=24h`; empty for all."""
        fields = {"task": self.task_id, "fingerprint": self.fingerprint, "died": self.died, "show": self.show}
        text = urlencode({name: value for name, value in fields.items() if value})
        return f"?{text}" if text else ""

    def but(self, **fields: str | UUID | None) -> "Chosen":
        return replace(self, **fields)  # type: ignore[arg-type]  # the names are the fields'

    @property
    def spans(self) -> list[tuple[str, str, bool]]:
        """(address, words, chosen) of each choice of `died`."""
        choices = {"": "ever", **WORDS}
        return [(self.but(died=key).query or "?", words, key == self.died) for key, words in choices.items()]

    @property
    def shows(self) -> list[tuple[str, str, bool]]:
        """The same of `show`."""
        choices = {"": "by kind", EACH: "one by one"}
        return [(self.but(show=key).query or "?", words, key == self.show) for key, words in choices.items()]


def chosen_ids(given: QueryDict) -> tuple[UUID, ...]:
    """Those that were ticked. Raises InvalidInput, also for none: an act on all instead of some cannot be undone."""
    texts = given.getlist("id")
    found = tuple(dict.fromkeys(one for one in map(parse_uuid, texts) if one))
    if not found or len(found) != len(set(texts)) or len(found) > MOST_CHOSEN:
        raise InvalidInput("/id", None, "are no ids that a page shows", f"1 to {MOST_CHOSEN} ids")
    return found
