"""Who is asking: the one object that authentication makes and everything else is given."""

from dataclasses import dataclass
from uuid import UUID

from apps.tenants.models import Role


@dataclass(frozen=True)
class Principal:
    """A person or a program acting in one tenant.

    actor: how the audit log and events name it, such as `key:3f2a91c0` or `user:ada`. is_platform: whether its tenant
    is chronoweb's own (tier SYSTEM), whose owners operate the scheduler itself.
    """

    tenant_id: UUID
    tenant_slug: str
    role: Role
    actor: str
    is_platform: bool = False

    def may(self, needed: Role) -> bool:
        """Whether its role includes `needed`."""
        return self.role.rank >= needed.rank
