"""Counts as people read them."""

from django import template

register = template.Library()
_STEPS = ((1_000_000_000, "G"), (1_000_000, "M"), (100_000, "k"))


@register.filter
def thousands(count: int) -> str:
    """`1,204`."""
    return f"{count:,}"


@register.filter
def short(count: float) -> str:
    """`48,120`, `186 k`, `1.86 M`."""
    for least, letter in _STEPS:
        if count >= least:
            figure = count / (1000 if letter == "k" else least)
            return f"{figure:.3g} {letter}"
    return f"{round(count):,}"
