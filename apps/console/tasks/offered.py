"""The Python handlers that the form offers: what each takes and says of itself, and which files are broken."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from apps.worker.handlers import known, sources
from apps.worker.handlers.playground import Described

_EMPTY = inspect.Parameter.empty
_VALUES: Mapping[str, Any] = {"str": "", "int": 0, "float": 0.0, "bool": False}
"""What a parameter that must be given begins with, by its annotation."""


@dataclass(frozen=True)
class Taken:
    """One parameter. kind: its annotation. default: as written; empty: it must be given."""

    name: str
    kind: str
    default: str


@dataclass(frozen=True)
class Offer:
    """skeleton: parameters to begin with, as JSON. takes_any: whether it takes others, too."""

    name: str
    doc: str
    file: str
    takes: list[Taken]
    takes_any: bool
    skeleton: str

    @property
    def line(self) -> str:
        return self.doc.partition("\n")[0]


def offered() -> dict[str, Any]:
    """For the form's list."""
    return {"offers": [_offer(one) for one in known.listed()], "broken": broken(), "bare": known.bare()}


def broken() -> list[tuple[str, str]]:
    """Files of the playground, and what is wrong with each."""
    return sorted(known.broken().items())


def chosen(document: Any) -> Offer | None:
    """The handler that a document names, where it is known here."""
    handler = document.get("handler") if isinstance(document, Mapping) else None
    if not isinstance(handler, Mapping) or handler.get("type") != "python":
        return None
    return next((_offer(one) for one in known.listed() if one.name == handler.get("name")), None)


def version() -> str:
    """Other than before when a file of the playground was saved."""
    return f"{crc32(repr(sources.signature_of(sources.files_of(known.playground_folder()))).encode()):x}"


def _offer(one: Described) -> Offer:
    _, *given = one.signature.parameters.values()
    named = [p for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    lacking = {p.name: _VALUES.get(_kind(p)) for p in named if p.default is _EMPTY}
    return Offer(
        one.name,
        one.doc,
        one.file,
        [Taken(p.name, _kind(p), "" if p.default is _EMPTY else repr(p.default)) for p in named],
        any(p.kind is p.VAR_KEYWORD for p in given),
        json.dumps(lacking),
    )


def _kind(parameter: inspect.Parameter) -> str:
    return "" if parameter.annotation is _EMPTY else inspect.formatannotation(parameter.annotation).strip("'")
