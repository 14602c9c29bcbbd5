"""What a Python handler may be given, where this process knows its function.

Definitions are checked by it. Whoever can load handlers says how by `provide`; without that every handler is unknown,
and what is unknown is not refused: the worker that runs it may know it.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from chronoweb.runtime.errors import InvalidInput

Lookup = Callable[[str], inspect.Signature | None]

_lookups: list[Lookup] = []
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def provide(lookup: Lookup) -> None:
    """Ask `lookup` from now on: the signature of the handler of a name, its context included; None if unknown."""
    _lookups[:] = [lookup]


def signature_of(name: str) -> inspect.Signature | None:
    """The signature of a handler; None if this process does not know it."""
    return _lookups[0](name) if _lookups else None


def misfits(signature: inspect.Signature, parameters: Mapping[str, Any]) -> list[InvalidInput]:
    """What of `parameters` the handler would not take, and what it lacks; pointers are relative ("/amount")."""
    _, *takes = signature.parameters.values()
    named = {p.name: p for p in takes if p.kind in _NAMED}
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in takes)
    legal = ", ".join([*named, *(["any other"] if takes_any else [])]) or "no parameters"
    unexpected = [] if takes_any else [name for name in parameters if name not in named]
    lacking = [name for name, p in named.items() if p.default is inspect.Parameter.empty and name not in parameters]
    return [
        *(_error(name, parameters[name], "is not a parameter of the handler", legal) for name in unexpected),
        *(_error(name, None, "is missing: the handler needs it", legal) for name in lacking),
    ]


def _error(name: str, value: Any, problem: str, legal: str) -> InvalidInput:
    return InvalidInput("/" + name.replace("~", "~0").replace("/", "~1"), value, problem, legal)
