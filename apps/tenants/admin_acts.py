"""Acts of the admin: the services that the API uses, row by row, as the person who is logged in."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import ChronowebError

MOST = 500
"""Rows of one act: "all that the filter finds" may be millions."""
_TOLD = 5


def actor(request: HttpRequest) -> str:
    """How the audit log names who uses the admin."""
    return f"user:{request.user.get_username()}"


def principal_in(request: HttpRequest, tenant: Tenant) -> Principal:
    """Who is logged in, acting in this tenant. Whether they may is the admin's permission."""
    return Principal.in_tenant(tenant, role=Role.OWNER, actor=actor(request))


def each(
    pages: "ModelAdmin[Any]",
    request: HttpRequest,
    rows: QuerySet[Any],
    done: str,
    act: Callable[[Principal, Any], Any],
) -> None:
    """Do it to each of the rows, one transaction a row; what cannot be done is said by name."""
    found = list(rows.select_related("tenant")[: MOST + 1])
    if len(found) > MOST:
        pages.message_user(request, f"More than {MOST} at once: narrow the filter. Nothing was done.", messages.ERROR)
        return
    refused: list[str] = []
    for row in found:
        try:
            act(principal_in(request, row.tenant), row)
        except ChronowebError as error:
            refused.append(f"{row} is not {done}: {error}")
    for words in refused[:_TOLD]:
        pages.message_user(request, words, messages.ERROR)
    more = f" {len(refused) - _TOLD} more were refused." if len(refused) > _TOLD else ""
    pages.message_user(request, f"{len(found) - len(refused)} {done}.{more}")
