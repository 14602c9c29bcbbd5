"""Signatures of handlers for processes that run none, such as the web: what `tasks.py` of installed apps define.

The playground is not loaded here: it is edited while it is tried, and only children that can be killed run it.
"""

import inspect
import threading
from collections.abc import Callable
from functools import lru_cache

from apps.worker.handlers.registry import REGISTRY
from apps.worker.handlers.sources import HandlerSources, load_all

_loading = threading.Lock()
_loaded = threading.Event()


def signature_of(name: str) -> inspect.Signature | None:
    """The signature of a handler, its context first; None if no installed app defines it, or it cannot be told."""
    if not _loaded.is_set():
        with _loading:
            if not _loaded.is_set():
                load_all(HandlerSources())
                _loaded.set()
    handler = REGISTRY.handlers.get(name)
    if handler is None:
        return None
    return _signature(handler.function)


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return signature if signature.parameters else None
