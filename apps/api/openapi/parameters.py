"""Parameters of queries and paths, each described once. A view that means something else by one says so itself.

Beside what JSON Schema knows, `"required": True` makes a parameter one that must be there.
"""

from apps.api.openapi.shapes import MOMENT, Shape, one_of, text, whole
from apps.api.pagination import DEFAULT_LIMIT, LARGEST_LIMIT

TEXT = text(200)

OF_QUERIES: dict[str, Shape] = {
    "attempt": {**whole(1, 10**6), "description": "of this attempt alone"},
    "before": {**whole(1, 2**31 - 1), "description": "below this version"},
    "compare": {**whole(1, 2**31 - 1), "description": "add what has changed since this version"},
    "cursor": {"type": "string", "description": "next_cursor of the page before, with the same filters"},
    "format": {**one_of(("jsonl", "text")), "default": "jsonl"},
    "grouped": {**one_of(("true", "false")), "description": "event streams: many lines in one event"},
    "limit": {**whole(1, LARGEST_LIMIT), "default": DEFAULT_LIMIT, "description": "rows of a page"},
    "since": {**MOMENT, "description": "not before"},
    "until": {**MOMENT, "description": "before"},
}

OF_PATHS: dict[str, Shape] = {
    "circuit_id": whole(0, 2**63 - 1),
    "worker_id": whole(0, 2**63 - 1),
    "number": whole(0, 2**31 - 1),
    "name": TEXT,
    "node_id": text(100, 1),
    "username": text(150, 1),
}
"""Those that are no UUID; a UUID needs no entry."""
