"""Figures as people read them: the words of apps/explain, under the name that the console's modules use."""

from apps.explain.words import countdown, duration, first_line

__all__ = ["countdown", "duration", "first_line"]
