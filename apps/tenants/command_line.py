"""Who acts when somebody types a command: the tenant that an option names, and the account of the shell."""

import argparse
import getpass
from typing import Any

from django.core.management.base import CommandError

from apps.tenants.models import Role, Tenant, Tier
from apps.tenants.principal import Principal


def add_tenant_option(parser: argparse.ArgumentParser) -> None:
    """`--tenant SLUG`."""
    parser.add_argument("--tenant", metavar="SLUG", help="whose (default: the only tenant, if there is one)")


def principal_of(options: dict[str, Any]) -> Principal:
    """The tenant's owner, acting from the command line. Raises CommandError, the tenants named."""
    tenants = Tenant.objects.exclude(tier=Tier.SYSTEM).order_by("slug")
    slug = options["tenant"]
    found = list(tenants.filter(slug=slug)[:1] if slug else tenants[:2])
    if len(found) != 1:
        known = ", ".join(tenants.values_list("slug", flat=True)[:20]) or "none yet"
        wanted = f"no tenant {slug!r}" if slug else "say which tenant with --tenant"
        raise CommandError(f"{wanted}; tenants: {known}")
    tenant = found[0]
    return Principal(tenant_id=tenant.id, tenant_slug=tenant.slug, role=Role.OWNER, actor=f"shell:{_account()}")


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "unknown"
