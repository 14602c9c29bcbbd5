"""Which tenants a person's pages are of: the same answer as for tokens and sessions of the API."""

from apps.tenants.people import Person, first_tenant_of, principal_of, tenants_of

__all__ = ["Person", "first_tenant_of", "principal_of", "tenants_of"]
