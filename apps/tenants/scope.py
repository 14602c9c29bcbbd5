"""Tenant scoping: the one place that turns a principal into a filter.

Every list, count, detail, stream and export starts from `scoped`; a foreign id is then the same as an unknown one.
"""

from typing import TypeVar

from django.db.models import Model, QuerySet

from apps.tenants.principal import Principal
from chronoweb.runtime.errors import NotFound

M = TypeVar("M", bound=Model)


def scoped(rows: QuerySet[M], principal: Principal) -> QuerySet[M]:
    """Only the principal's tenant's rows."""
    return rows.filter(tenant_id=principal.tenant_id)


def scoped_get(rows: QuerySet[M], principal: Principal, *, what: str, **lookup: object) -> M:
    """The one row that `lookup` finds in the principal's tenant; NotFound otherwise, foreign ids included."""
    # PostgreSQL's text has no NUL character, so nothing is called so; asking would be an error.
    is_askable = not any(isinstance(value, str) and "\0" in value for value in lookup.values())
    found = scoped(rows, principal).filter(**lookup).first() if is_askable else None
    if found is None:
        wanted = ", ".join(f"{key} {value}" for key, value in lookup.items())
        raise NotFound(f"no {what} with {wanted} in tenant {principal.tenant_slug}")
    return found
