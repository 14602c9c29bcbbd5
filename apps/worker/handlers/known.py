"""Handlers for processes that run none, such as the web: what `tasks.py` of installed apps and the playground define.

The playground is read and not loaded: it is edited while it is tried, and only children that can be killed run it.
"""

import inspect
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from apps.worker.handlers import playground
from apps.worker.handlers.playground import Described
from apps.worker.handlers.registry import REGISTRY
from apps.worker.handlers.sources import HandlerSources, load_all

_loading = threading.Lock()
_loaded = threading.Event()


def playground_folder() -> Path:
    """Where workers look for it, too."""
    return settings.BASE_DIR / "playground"


def signature_of(name: str) -> inspect.Signature | None:
    """The signature of a handler, its context first; None if it is not known here, or it cannot be told."""
    _load_once()
    handler = REGISTRY.handlers.get(name)
    if handler is not None:
        return _signature(handler.function)
    read = playground.read(playground_folder()).handlers.get(name)
    return None if read is None else read.signature


def listed() -> list[Described]:
    """What forms offer: the playground's first, then those of installed apps, each by name."""
    _load_once()
    installed = [
        Described(one.name, inspect.getdoc(one.function) or "", signature)
        for one in REGISTRY.handlers.values()
        if one.listed and (signature := _signature(one.function)) is not None
    ]
    own = {one.name for one in installed}
    played = [one for one in playground.read(playground_folder()).handlers.values() if one.name not in own]
    return sorted([*played, *installed], key=lambda one: (not one.file, one.name))


def broken() -> dict[str, str]:
    """Files of the playground that cannot be read as Python, and why."""
    return playground.read(playground_folder()).broken


def bare() -> list[str]:
    """Files of the playground that have functions and offer none of them."""
    return playground.read(playground_folder()).bare


def _load_once() -> None:
    if not _loaded.is_set():
        with _loading:
            if not _loaded.is_set():
                load_all(HandlerSources())
                _loaded.set()


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return signature if signature.parameters else None
