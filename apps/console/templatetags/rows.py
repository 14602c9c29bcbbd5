"""An execution as a row of a table."""

from typing import Any

from django import template
from django.utils.safestring import SafeString

from apps.console.row_html import Row, row_html

register = template.Library()


@register.simple_tag(takes_context=True)
def execution_row(context: dict[str, Any], row: Row) -> SafeString:
    """As sockets send it. With `picks` in the context: with a box to choose it by."""
    return row_html(row, context["tenant_slug"], picks=bool(context.get("picks")))
