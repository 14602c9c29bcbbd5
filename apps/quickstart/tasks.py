"""Handlers of this app, found by workers at start."""

from apps.quickstart import demo_documents, demo_handlers, demo_reports
from apps.quickstart.bench import handlers as bench_handlers
from apps.quickstart.chaos import handlers as chaos_handlers

__all__ = ["bench_handlers", "chaos_handlers", "demo_documents", "demo_handlers", "demo_reports"]
