"""Which dead letters a page is of: what its address says, and the same in words and in links."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from apps.executions.dead_letters import DeadLetterFilter
from chronoweb.runtime.errors import InvalidInput

SPANS = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
WORDS = {"1h": "the last hour", "24h": "the last 24 h", "7d": "the last 7 days"}
_FINGERPRINT_CHARACTERS = 500


@dataclass(frozen=True)
class Chosen:
    """task_id and fingerprint: None for all. died: one of SPANS, or empty for ever."""

    task_id: UUID | None = None
    fingerprint: str | None = None
    died: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Chosen":
        """What a query or form says. Raises InvalidInput: an act on all instead of some cannot be undone."""
        died, task, fingerprint = (given.get(name, "") for name in ("died", "task", "fingerprint"))
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
        return cls(task_id, fingerprint or None, died)

    def wanted(self, now: datetime, until: datetime | None = None) -> DeadLetterFilter:
        """until (exclusive): when they were counted, so that what dies later is not meant."""
        since = now - SPANS[self.died] if self.died else None
        return DeadLetterFilter(self.task_id, self.fingerprint, since, until)

    @property
    def is_all(self) -> bool:
        return self == Chosen()

    @property
    def is_group(self) -> bool:
        return self.fingerprint is not None

    @property
    def query(self) -> str:
        """`?task=…&died=24h`; empty for all."""
        fields = {"task": self.task_id, "fingerprint": self.fingerprint, "died": self.died}
        text = urlencode({name: value for name, value in fields.items() if value})
        return f"?{text}" if text else ""

    def but(self, **fields: str | UUID | None) -> "Chosen":
        return replace(self, **fields)  # type: ignore[arg-type]  # the names are the fields'

    @property
    def spans(self) -> list[tuple[str, str, bool]]:
        """(address, words, chosen) of each choice of `died`."""
        choices = {"": "ever", **WORDS}
        return [(self.but(died=key).query or "?", words, key == self.died) for key, words in choices.items()]
