"""Session advisory locks: who is alive, seen by everybody at once when a process dies.

PostgreSQL frees them when the session ends, so a killed holder is noticed in the time of one poll.
"""

import zlib
from uuid import UUID

WORKER = 42_001
"""Class of workers' locks; the object is the worker's id."""

ROLE = 42_000
"""Class of roles' locks; the object is derived from the role's name."""

MEMBER = 42_002
"""Class of the locks of those who share the shards; the object is derived from the holder."""

TENANT = 42_003
"""Class of the locks under which dispatchers count what a tenant has outstanding; the object is derived from its id."""


def tenant_object(tenant: UUID) -> int:
    """The lock's object number of a tenant (31 bits). Two that share it only wait for each other."""
    return tenant.int & 0x7FFF_FFFF


def member_object(holder: UUID) -> int:
    """The lock's object number of a holder (31 bits)."""
    return holder.int & 0x7FFF_FFFF


def role_object(role: str) -> int:
    """The lock's object number of a role (31 bits)."""
    return zlib.crc32(role.encode()) & 0x7FFF_FFFF
