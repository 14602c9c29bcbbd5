"""Handlers of this app, found by workers at start."""

from apps.quickstart import demo_handlers
from apps.quickstart.bench import handlers as bench_handlers

__all__ = ["bench_handlers", "demo_handlers"]
