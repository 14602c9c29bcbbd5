"""Headers of requests and answers, each described once; operations name them."""

from apps.api.authentication import TENANT_HEADER
from apps.api.openapi.shapes import COUNT, Shape, text
from apps.executions.idempotency import LONGEST_KEY

_ETAG = '^(W/)?"[0-9]{1,9}"$'

OF_REQUESTS: dict[str, Shape] = {
    "Idempotency-Key": {
        "description": "Sent again with the same key and body, the request gets the first answer and happens once.",
        "schema": {**text(LONGEST_KEY, 1), "pattern": r"^[\x20-\x7e]+$"},
        "example": "order-4711",
    },
    "If-Match": {
        "description": "The ETag that the edit was made from; 412 when it is no longer in force.",
        "schema": {"anyOf": [{"type": "string", "pattern": '^(W/)?"[!#-~]*"$'}, {"const": "*"}]},
        "example": '"3"',
    },
    "Last-Event-ID": {
        "description": "For event streams: go on behind this line.",
        "schema": {"type": "string", "pattern": "^([0-9]{1,18}-[0-9]{1,18})?$"},
        "example": "1-120",
    },
}

OF_ANSWERS: dict[str, Shape] = {
    "ETag": {"description": "The version in force, for If-Match.", "schema": {"type": "string", "pattern": _ETAG}},
    "Location": {
        "description": "Where to read what was made.",
        "schema": {"type": "string", "pattern": "^/api/v1/"},
    },
    "Cache-Control": {"description": "no-store: it holds a secret.", "schema": {"type": "string"}},
    "Content-Disposition": {"description": "A name for the file.", "schema": {"type": "string"}},
    "WWW-Authenticate": {"description": "How to prove who asks.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": COUNT},
    "Idempotent-Replayed": {
        "description": "true: the answer is that of an earlier request with this key.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "RateLimit-Limit": {"description": "Requests that the tenant has in the window.", "schema": COUNT},
    "RateLimit-Remaining": {"description": "Requests that are left of them.", "schema": COUNT},
    "RateLimit-Reset": {"description": "Seconds until the window ends.", "schema": COUNT},
    "RateLimit-Policy": {
        "description": "The limit and its window in seconds.",
        "schema": {"type": "string", "pattern": "^[0-9]+;w=[0-9]+$"},
    },
}
RATE_LIMITS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy")
"""On every answer to a tenant that has a limit."""

SECURITY: dict[str, Shape] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, or an access token of POST /api/v1/auth/token.",
    },
    "session": {
        "type": "apiKey",
        "in": "header",
        "name": TENANT_HEADER,
        "description": "The slug of the tenant, beside the cookie of a signed-in browser; what writes also needs the "
        "header X-CSRFToken.",
    },
}
