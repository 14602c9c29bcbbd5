"""Signatures of webhooks, after Standard Webhooks: the receiver can tell that chronoweb sent it, unchanged, just now.

The signed text is `id.timestamp.body`; the id is the execution's, the same at each attempt. During a rotation there is
one signature for each secret, and one that fits is enough.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
_PREFIX = "whsec_"


def sign(secrets: Sequence[str], *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers; none without a secret. timestamp: seconds since the epoch."""
    if not secrets:
        return {}
    signed = f"{message_id}.{timestamp}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode() for secret in secrets]
    values = (message_id, str(timestamp), " ".join(f"v1,{signature}" for signature in signatures))
    return dict(zip(HEADERS, values, strict=True))


def _key(secret: str) -> bytes:
    text = secret.removeprefix(_PREFIX)
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text.encode()
