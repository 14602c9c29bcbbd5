"""How often a tenant may ask in a minute, and how often anybody may try a password."""

import hashlib
import ipaddress
import unicodedata

from apps.tenants.principal import Principal
from chronoweb.runtime.config import config
from chronoweb.runtime.rate_limit import Taken, TooMany, limiter


def count_request(who: Principal) -> Taken | None:
    """Count one request of the tenant. None: it has no limit, or Redis is away. Raises TooMany."""
    if who.api_requests_per_minute is None:
        return None
    taken = limiter().take(name_of(who), who.api_requests_per_minute)
    if taken is not None and not taken.let_in:
        what = f"{taken.limit} requests a minute are the limit of tenant {who.tenant_slug} (api_requests_per_minute)"
        raise TooMany(taken, f"{what}; ask again in {taken.retry_seconds} s")
    return taken


def name_of(who: Principal) -> str:
    return f"api:{who.tenant_id.hex}"


def count_attempt(*, address: str, username: str) -> None:
    """Count one try of a password, by address and by account. Raises TooMany."""
    settings = config()
    address, account = network_of(address), account_of(username)
    for counted, limit in (
        (f"login:address:{address}", settings.login_tries_per_address),
        (f"login:account:{account}:{address}", settings.login_tries_per_account),
    ):
        taken = limiter().take(counted, limit)
        if taken is not None and not taken.let_in:
            raise TooMany(taken, f"too many tries to log in; try again in {taken.retry_seconds} s")


def account_of(username: str) -> str:
    """Whose tries are counted together. Forms take away spaces at the ends and know one name by many spellings."""
    name = unicodedata.normalize("NFKC", username).strip().casefold()
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]


def network_of(address: str) -> str:
    """Whose tries are counted together: an address, or of IPv6 the /64 from which its holder may choose any."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)
