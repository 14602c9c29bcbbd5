"""What is drawn when a row is made: ids of tenants, tasks and DAGs (UUIDv7, so that they sort by creation), secrets."""

import base64
import os
import secrets
from uuid import UUID

from chronoweb.runtime.clock import SYSTEM_CLOCK


def new_uuid() -> UUID:
    """A UUIDv7 of this moment (host clock; order among hosts does not matter)."""
    head = int(SYSTEM_CLOCK.time() * 1000).to_bytes(6, "big")
    r = os.urandom(10)
    return UUID(bytes=head + bytes((0x70 | (r[0] & 15), r[1], 0x80 | (r[2] & 0x3F))) + r[3:10])


def new_webhook_secret() -> str:
    """A secret for signing webhooks in the form of Standard Webhooks: "whsec_" and 32 random bytes in base64."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
