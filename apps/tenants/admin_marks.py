"""How the admin writes what the console writes, too: states with their icon, ids short, durations of time, tables."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from unfold.utils import prettify_json

_SHOWN_OF_AN_ID = 8
NOTHING = "–"


def state_mark(word: str, said: str = "") -> str:
    """The icon and colour that states.css has of this state, and its name, or what is said instead."""
    return format_html(
        '<span class="st" data-state="{}"><svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>'
        '<span class="word">{}</span></span>',
        *(word, static("console/icons.svg"), word, said or word.replace("_", " ")),
    )


def short_id(identity: object) -> str:
    """Its end, by which ids differ; the whole on hover. `–` for None."""
    if identity is None:
        return NOTHING
    text = str(identity)
    shown = text if len(text) <= _SHOWN_OF_AN_ID + 1 else f"…{text[-_SHOWN_OF_AN_ID:]}"
    return format_html('<span class="mono" title="{}">{}</span>', text, shown)


def one_line(text: str) -> str:
    """Cut off by the browser where it is long; the whole on hover. Its direction stays its own."""
    return format_html('<bdi class="name" title="{}">{}</bdi>', text, text) if text else NOTHING


def as_json(value: Any) -> str:
    """As the theme writes JSON; `–` where there is none yet, which the theme calls null."""
    return NOTHING if value is None else prettify_json(value, None) or json.dumps(value, indent=2)


def moment(instant: datetime | None) -> str:
    """In UTC, as everywhere in the admin."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if instant else NOTHING


def page_link(model: Any, identity: object, words: object) -> str:
    """To the admin's page of that row; plain words where the admin has none."""
    meta = model._meta
    try:
        path = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[identity])
    except NoReverseMatch:
        return format_html("{}", words)
    return format_html('<a href="{}">{}</a>', path, words)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> str:
    """What belongs to a row and has no page of its own."""
    if not rows:
        return format_html('<span class="quiet">{}</span>', empty)
    titles = format_html_join("", '<th scope="col">{}</th>', ((title,) for title in head))
    body = format_html_join("", "<tr>" + "<td>{}</td>" * len(head) + "</tr>", rows)
    return format_html(
        '<div class="told-scroll" tabindex="0" role="group" aria-label="{}"><table class="told">'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        *(", ".join(head), titles, body),
    )
