"""Which tenants a person sees, and as whom they act in one: of pages, sockets, tokens and sessions alike."""

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import QuerySet

from apps.tenants.models import Membership, Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import NotFound

Person = AbstractBaseUser | AnonymousUser


def tenants_of(person: Person) -> QuerySet[Tenant]:
    """The tenants whose pages `person` may open: those they are a member of; a superuser's are all."""
    if not person.is_authenticated or not person.is_active:
        return Tenant.objects.none()
    if getattr(person, "is_superuser", False):
        return Tenant.objects.all()
    return Tenant.objects.filter(memberships__user__pk=person.pk)


def first_tenant_of(person: Person) -> Tenant | None:
    """Where `person` starts: the first tenant that they are a member of; a superuser's may be any."""
    theirs = tenants_of(person).order_by("slug")
    return theirs.filter(memberships__user__pk=person.pk or 0).first() or theirs.first()


def principal_of(person: Person, slug: str) -> Principal:
    """`person` acting in the tenant `slug`; NotFound when it is not theirs, which says nothing about its existence.

    One statement: every page and every socket asks.
    """
    found = _everywhere(slug) if getattr(person, "is_superuser", False) else _as_member(person, slug)
    if found is None or not person.is_active:
        raise NotFound(f"no tenant {slug} that you are a member of")
    tenant, role = found
    return Principal.in_tenant(tenant, role=role, actor=f"user:{_name(person)}")


def _everywhere(slug: str) -> tuple[Tenant, Role] | None:
    tenant = Tenant.objects.filter(slug=slug).first()
    return None if tenant is None else (tenant, Role.OWNER)


def _as_member(person: Person, slug: str) -> tuple[Tenant, Role] | None:
    theirs = Membership.objects.filter(tenant__slug=slug, user__pk=person.pk or 0).select_related("tenant")
    member = theirs.first()
    return None if member is None else (member.tenant, Role(member.role))


def _name(person: Person) -> str:
    return str(getattr(person, "username", person.pk))
