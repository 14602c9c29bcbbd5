"""What the filter bars of lists are made of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """A link that changes the question."""

    label: str
    query: str
    chosen: bool
