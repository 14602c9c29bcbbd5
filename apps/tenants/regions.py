"""Regions: a tenant is served where it is at home. Elsewhere it is told where that is."""

from apps.tenants.principal import Principal
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import ChronowebError


class WrongRegion(ChronowebError):
    """The tenant is at home in another region. base_url: where that answers; None: this installation does not know."""

    def __init__(self, tenant: str, region: str, base_url: str | None) -> None:
        where = f"at {base_url}" if base_url else "in another installation"
        super().__init__(f"tenant {tenant} is at home in region {region}: ask {where}")
        self.region = region
        self.base_url = base_url


def refuse_foreign(who: Principal) -> None:
    """Raise WrongRegion for a tenant of another region. The platform's own tenants are served everywhere."""
    settings = config()
    if settings.region and who.home_region and who.home_region != settings.region and not who.is_platform:
        raise WrongRegion(who.tenant_slug, who.home_region, settings.urls_by_region.get(who.home_region))
