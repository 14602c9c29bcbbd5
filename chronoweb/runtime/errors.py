"""The one exception tree. A message says what happened, to which id, what happens next, and the legal values."""

from collections.abc import Sequence
from typing import Any


class ChronowebError(Exception):
    """Root of every error that chronoweb raises itself."""


class ConfigurationError(ChronowebError):
    """A setting is missing or out of range; the process cannot start with it."""


class ServiceUnavailable(ChronowebError):
    """PostgreSQL, Redis or the broker did not answer; the loop backs off and tries again."""


class TooSlow(ChronowebError):
    """What was asked takes longer than a request of the web may; the text says what to narrow."""


class VaultAway(ServiceUnavailable):
    """Vault does not answer, is sealed or overloaded: later it may be different."""


class VaultRefused(ChronowebError):
    """Vault has no such value, or this installation may not read it: somebody must change something."""


class NotFound(ChronowebError):
    """No such object in the principal's tenant: a foreign id and an unknown one look the same."""


class NotAllowed(ChronowebError):
    """Who asks may not do this; the text says why."""


class Conflict(ChronowebError):
    """The object is in a state that forbids what was asked."""

    def __init__(self, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.extra = extra


class LeadershipLost(ChronowebError):
    """This process's epoch is stale: another holder took the role; it must stop writing at once."""


class ZombieWriteSuppressed(ChronowebError):
    """A worker tried to write under a fencing token that is no longer the execution's: nothing was written."""


class InvalidInput(ChronowebError):
    """One value that was handed in is wrong.

    pointer: JSON pointer (RFC 6901) to the field, "" for the whole document.
    legal: the values or the range that would have been accepted, for people to read.
    """

    def __init__(self, pointer: str, value: Any, problem: str, legal: Sequence[Any] | str | None = None) -> None:
        self.pointer = pointer
        self.value = value
        self.problem = problem
        self.legal = legal
        super().__init__(f"{pointer or '/'}: {problem}")


class InvalidInputs(ChronowebError):
    """Several values are wrong; all are reported at once."""

    def __init__(self, errors: Sequence[InvalidInput]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(str(error) for error in self.errors))


class Contradiction(InvalidInputs):
    """Values that are right one by one and cannot hold together; all of them are named."""
