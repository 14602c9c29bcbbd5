"""Who belongs to a tenant, and as what. A tenant keeps an owner: the last one can neither leave nor be lowered.

Members have no scopes: what a key with scopes gave them would be more than it has. So it takes away alone.
"""

from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from apps.tenants import audit
from apps.tenants.models import Membership, Role, Tenant
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime.errors import Conflict, InvalidInput, NotAllowed


def members(principal: Principal) -> QuerySet[Membership]:
    return scoped(Membership.objects.select_related("user"), principal)


def read_role(value: Any) -> Role:
    """Raises InvalidInput."""
    if not isinstance(value, str) or value not in Role.values:
        raise InvalidInput("/role", value, "is not a role", Role.values)
    return Role(value)


@transaction.atomic
def add(*, principal: Principal, username: Any, role: Role) -> Membership:
    """Make the person of an account a member. Raises InvalidInput for no account, Conflict for a member, NotAllowed."""
    _refuse_scopes(principal, "add members")
    legal = "the name of an account; platform staff make accounts in the admin"
    if not isinstance(username, str) or not username or len(username) > 150 or "\0" in username:
        raise InvalidInput("/username", username, "is not a name", legal)
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise InvalidInput("/username", username, "names no account", legal)
    try:
        with transaction.atomic():
            made = Membership.objects.create(tenant_id=principal.tenant_id, user=user, role=role)
    except IntegrityError:
        raise Conflict(f"{username} is a member of {principal.tenant_slug}; change the role with PATCH") from None
    _record(principal, "membership.create", made)
    return made


@transaction.atomic
def change(*, principal: Principal, username: str, role: Role) -> Membership:
    """Give a member another role. Raises NotFound; Conflict when it is the last owner; NotAllowed."""
    row = _locked(principal, username)
    if role.rank > Role(row.role).rank:
        _refuse_scopes(principal, "raise a member's role")
    if role is not Role.OWNER:
        _keep_an_owner(principal, row)
    before, row.role = row.role, role
    row.save(update_fields=["role"])
    _record(principal, "membership.change", row, before=before)
    return row


@transaction.atomic
def remove(*, principal: Principal, username: str) -> None:
    """End a membership; tokens and open pages of the person end with it. Raises NotFound, Conflict."""
    row = _locked(principal, username)
    _keep_an_owner(principal, row)
    _record(principal, "membership.delete", row)
    row.delete()


def _refuse_scopes(principal: Principal, act: str) -> None:
    if principal.scopes:
        scopes = ", ".join(sorted(principal.scopes))
        raise NotAllowed(
            f"a key with scopes ({scopes}) may not {act}: members have no scopes, and would get more than it has; "
            "it may read, lower and remove them"
        )


def _locked(principal: Principal, username: str) -> Membership:
    Tenant.objects.select_for_update().get(id=principal.tenant_id)  # two owners must not remove each other
    return scoped_get(Membership.objects.select_related("user"), principal, what="member", user__username=username)


def _keep_an_owner(principal: Principal, row: Membership) -> None:
    owners = scoped(Membership.objects.filter(role=Role.OWNER), principal)
    if row.role == Role.OWNER and not owners.exclude(pk=row.pk).exists():
        raise Conflict(f"{row.user.get_username()} is the last owner of {principal.tenant_slug}; name another first")


def _record(principal: Principal, action: str, row: Membership, **detail: Any) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="member",
        target_id=row.user.get_username()[:63],
        detail={"role": row.role, **detail},
    )
