"""Tenants as the platform's staff make and change them."""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from apps.tenants import audit
from apps.tenants.models import LIMITS, Tenant, Tier
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs, NotFound

FIELDS = ("slug", "name", "tier", "home_region", "weight", *LIMITS)
CHANGEABLE = tuple(name for name in FIELDS if name != "slug")
"""A tenant keeps its slug: URLs and logs are full of it."""
MOST = 2_147_483_647
MOST_WEIGHT = 100
NAME_CHARACTERS, REGION_CHARACTERS = 200, 63
SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAME = re.compile(rf"(?=.*\S)[^\0\r\n]{{1,{NAME_CHARACTERS}}}")
_REGION = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def found_by(rows: QuerySet[Tenant], text: str) -> QuerySet[Tenant]:
    """Those of `rows` that have the text in any part of slug or name."""
    return rows.filter(Q(slug__icontains=text) | Q(name__icontains=text))


def tenant(tenant_id: UUID) -> Tenant:
    """Raises NotFound."""
    found = Tenant.objects.filter(id=tenant_id).first()
    if found is None:
        raise NotFound(f"no tenant with id {tenant_id}")
    return found


@transaction.atomic
def create(*, principal: Principal, data: Mapping[str, Any]) -> Tenant:
    """Raises InvalidInputs; Conflict where the slug is taken."""
    values = _read(data, FIELDS, new=True)
    try:
        with transaction.atomic():
            made = Tenant.objects.create(**values)
    except IntegrityError:
        raise Conflict(f"a tenant is called {values['slug']!r} already") from None
    _record(principal, made, "create", sorted(values))
    return made


@transaction.atomic
def update(*, principal: Principal, tenant_id: UUID, data: Mapping[str, Any]) -> Tenant:
    """Dispatchers follow new limits at once. Raises NotFound, InvalidInputs."""
    found = Tenant.objects.select_for_update().filter(id=tenant_id).first()
    if found is None:
        raise NotFound(f"no tenant with id {tenant_id}")
    values = _read(data, CHANGEABLE, new=False)
    before = {name: getattr(found, name) for name in sorted(values)}
    for name, value in values.items():
        setattr(found, name, value)
    if values:
        found.save(update_fields=[*values, "changed_at"])
        _record(principal, found, "change", sorted(values), before=before, after={n: values[n] for n in before})
    return found


def _read(data: Mapping[str, Any], known: tuple[str, ...], *, new: bool) -> dict[str, Any]:
    unknown = [name for name in data if name not in known]
    errors = [InvalidInput(_pointer(name), data[name], "is not a field here", ", ".join(known)) for name in unknown]
    values = {name: data[name] for name in known if name in data}
    if new:
        values.setdefault("name", values.get("slug"))
        values.setdefault("slug", None)
    for name, value in values.items():
        problem = _problem(name, value)
        if problem is not None:
            errors.append(InvalidInput(f"/{name}", value, *problem))
    if errors:
        raise InvalidInputs(errors)
    return values


def _pointer(name: object) -> str:
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def _problem(name: str, value: Any) -> tuple[str, Any] | None:
    """(what is wrong, what would be right)."""
    if name == "slug" and not (isinstance(value, str) and SLUG.fullmatch(value)):
        return "is not a slug", "1 to 63 of a-z, 0-9 and -, neither first nor last a -"
    if name == "name" and not (isinstance(value, str) and _NAME.fullmatch(value)):
        return "is not a name", f"text of 1 to {NAME_CHARACTERS} characters"
    if name == "tier" and value not in Tier.values:
        return "is not a tier", Tier.values
    if name == "home_region" and not (isinstance(value, str) and _REGION.fullmatch(value)):
        return "is not a region", "1 to 63 of a-z, 0-9 and -, such as eu-west"
    if name == "weight" and not (type(value) is int and 1 <= value <= MOST_WEIGHT):
        return "must be a whole number in its range", f"1 to {MOST_WEIGHT}"
    if name in LIMITS and value is not None and not (type(value) is int and 1 <= value <= MOST):
        return "must be a whole number in its range, or null for no limit", f"1 to {MOST}, null"
    return None


def _record(principal: Principal, row: Tenant, act: str, fields: list[str], **detail: Any) -> None:
    audit.record(
        tenant_id=row.id,
        actor=principal.actor,
        action=f"tenant.{act}",
        target_type="tenant",
        target_id=row.id,
        detail={"fields": fields, **detail},
    )
