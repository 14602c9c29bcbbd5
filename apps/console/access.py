"""Which tenants a person's pages are of: the same answer as for tokens and sessions of the API."""

from django.db.models import Q, QuerySet

from apps.tenants import people
from apps.tenants.models import Tenant, Tier
from apps.tenants.people import Person, first_tenant_of, tenants_of
from apps.tenants.principal import Principal
from apps.tenants.regions import refuse_foreign
from chronoweb.runtime.config import config

__all__ = ["Person", "first_tenant_of", "principal_of", "tenants_at_home", "tenants_of"]


def principal_of(person: Person, slug: str) -> Principal:
    """`person` acting in the tenant `slug`. Raises NotFound, and WrongRegion for one that is at home elsewhere."""
    who = people.principal_of(person, slug)
    refuse_foreign(who)
    return who


def tenants_at_home(person: Person) -> QuerySet[Tenant]:
    """The person's tenants that this installation serves."""
    theirs, region = tenants_of(person), config().region
    return theirs.filter(Q(home_region__in=("", region)) | Q(tier=Tier.SYSTEM)) if region else theirs
