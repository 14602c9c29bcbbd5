"""How the keys of the hot tier are called, for who writes it (dispatcher/hot_tier.py) and who only looks (explain)."""


def shard_key(prefix: str, shard: int, name: str) -> str:
    """A key of one shard: all of a shard's share a hash tag."""
    return f"{prefix}{{{shard}}}:{name}"


def ring_key(prefix: str, shard: int, class_index: int) -> str:
    """ZSET: member → its earliest entry's score."""
    return shard_key(prefix, shard, f"ring:{class_index}")


def entries_key(prefix: str, shard: int, class_index: int, member: str) -> str:
    """ZSET: id (16 bytes) → due, ms by Redis's clock."""
    return shard_key(prefix, shard, f"z:{class_index}:{member}")


def member_name(tenant: bytes, route: int) -> str:
    """What stands in a ring for a tenant's work with a route."""
    return f"{tenant.hex()}.{route}" if route else tenant.hex()


def lookahead_key(prefix: str) -> str:
    """STRING: how many seconds ahead the preloader fills the hot tier now; gone soon after it has fallen silent."""
    return f"{prefix}lookahead"


def over_rate_key(prefix: str) -> str:
    """HASH: tenant (hex) → "ms by Redis's clock, limit a second" of when a dispatcher last found its rate used up."""
    return f"{prefix}over_rate"


def pace_key(prefix: str, tenant: str) -> str:
    """HASH: pace_field → "ms by Redis's clock, ended, seconds, ended, seconds": how much of a tenant's (hex)
    has ended at a worker in the last seconds, and within a minute. Gone soon after nothing ends any more.
    """
    return f"{prefix}pace:{tenant}"


def pace_field(class_index: int, worker_id: int) -> str:
    """Of one class, at one worker."""
    return f"{class_index}.{worker_id}"
