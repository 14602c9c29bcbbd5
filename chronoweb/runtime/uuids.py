"""Ids as people and programs write them."""

from uuid import UUID


def parse_uuid(text: str) -> UUID | None:
    """The id that a text is; None for what is none."""
    try:
        return UUID(text)
    except ValueError:
        return None
