"""Who is asking: the one object that authentication makes and everything else is given."""

from dataclasses import dataclass, replace
from uuid import UUID

from apps.tenants.models import Role, Tenant, Tier


@dataclass(frozen=True)
class Principal:
    """A person or a program acting in one tenant.

    actor: how the audit log and events name it, such as `key:3f2a91c0` or `user:ada`. is_platform: whether its tenant
    is chronoweb's own (tier SYSTEM), whose owners operate the scheduler itself. scopes: the parts of the API that it
    may use; empty: all. api_requests_per_minute: its tenant's; None: no limit.
    home_region: its tenant's; empty: not known.
    """

    tenant_id: UUID
    tenant_slug: str
    role: Role
    actor: str
    is_platform: bool = False
    scopes: frozenset[str] = frozenset()
    api_requests_per_minute: int | None = None
    home_region: str = ""

    @classmethod
    def in_tenant(cls, tenant: Tenant, *, role: Role, actor: str, scopes: frozenset[str] = frozenset()) -> "Principal":
        return cls(
            tenant_id=tenant.id,
            tenant_slug=tenant.slug,
            role=role,
            actor=actor,
            is_platform=tenant.tier == Tier.SYSTEM,
            scopes=scopes,
            api_requests_per_minute=tenant.api_requests_per_minute,
            home_region=tenant.home_region,
        )

    def at_most(self, role: Role) -> "Principal":
        """The same with no more than `role`."""
        return self if self.role.rank <= role.rank else replace(self, role=role)

    def may(self, needed: Role) -> bool:
        """Whether its role includes `needed`."""
        return self.role.rank >= needed.rank
