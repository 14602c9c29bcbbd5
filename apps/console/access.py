"""Which tenants a person's pages are of: the same answer as for tokens and sessions of the API."""

from apps.tenants import people
from apps.tenants.people import Person, first_tenant_of, tenants_of
from apps.tenants.principal import Principal
from apps.tenants.regions import refuse_foreign

__all__ = ["Person", "first_tenant_of", "principal_of", "tenants_of"]


def principal_of(person: Person, slug: str) -> Principal:
    """As people.principal_of; WrongRegion for a tenant that is at home elsewhere."""
    principal = people.principal_of(person, slug)
    refuse_foreign(principal)
    return principal
