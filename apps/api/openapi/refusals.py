"""How requests are refused: problem details (RFC 9457), one answer for each status, shared by all operations."""

from http import HTTPStatus

from apps.api.openapi.headers import RATE_LIMITS
from apps.api.openapi.shapes import ANYTHING, POSITIVE, TEXT, Shape, many, one_of, record, ref, text
from apps.api.problems import CONTENT_TYPE, MOST_ERRORS
from apps.definitions.mismatch import MOST_DIFFERENCES

EVERYWHERE = (400, 503)
FOR_PEOPLE = (401, 403, 421, 429)
"""Of every route that asks who is there."""
WITH_BODY = (413, 415, 422)
"""Of every route that takes a body."""

KINDS = {
    400: (
        ("malformed", "invalid-query", "contradiction"),
        "The request cannot be read, its query has wrong or unknown parameters, or what it says contradicts itself.",
    ),
    401: (("unauthenticated",), "Nobody, or nobody known, asks."),
    403: (("forbidden",), "Who asks may not do this: role, scope or CSRF token."),
    404: (("not-found",), "It is not there, or another tenant's."),
    409: (("conflict",), "What is there does not allow it."),
    412: (("version-mismatch",), "It has been edited since the version that If-Match names."),
    413: (("body-too-large",), "The body is larger than the installation takes."),
    415: (("unsupported-media-type",), "The body is not application/json."),
    421: (("wrong-region",), "The tenant is at home in another region."),
    422: (("invalid-input",), "The body was read, and is wrong: each error with its JSON pointer."),
    429: (("too-many-requests",), "A limit of requests is reached."),
    503: (
        ("unavailable", "too-slow"),
        "A service that this needs does not answer, or what is asked takes too long; nothing was written.",
    ),
}
"""Status → kinds of problems (the last word of `type`), and what they mean."""

EXTRA_FIELDS: dict[int, dict[str, Shape]] = {
    421: {
        "region": {"type": "string", "description": "where the tenant is at home"},
        "base_url": {"type": ["string", "null"], "description": "where that region answers; null: not known here"},
    },
    412: {
        "version": {**POSITIVE, "description": "the one in force"},
        "changed": {**many(TEXT), "description": "fields that differ from the version that If-Match names"},
        "differences": {
            **many(record({"pointer": TEXT, "yours": ANYTHING, "current": ANYTHING}), most=MOST_DIFFERENCES),
            "description": "where what was sent differs from what is in force",
        },
    },
}
"""Status → further members of its problems."""

_HEADERS = {401: ("WWW-Authenticate",), 429: ("Retry-After", *RATE_LIMITS), 503: ("Retry-After",)}


def schemas() -> dict[str, Shape]:
    """Problem, and what an error of one is."""
    return {
        "Problem": {
            "type": "object",
            "description": "RFC 9457. Kinds may have members of their own.",
            "properties": {
                "type": {"type": "string", "pattern": "^urn:chronoweb:problem:[a-z-]+$"},
                "title": {"type": "string"},
                "status": {"type": "integer", "minimum": 400, "maximum": 599},
                "detail": {"type": "string", "minLength": 1},
                "errors": many("ProblemError", most=MOST_ERRORS),
            },
            "required": ["type", "title", "status", "detail"],
        },
        "ProblemError": {
            "type": "object",
            "properties": {
                "pointer": {"type": "string", "description": "JSON pointer into the body; empty for the whole"},
                "header": {"type": "string", "description": "the header that is wrong"},
                "parameter": {"type": "string", "description": "the parameter of the query that is wrong"},
                "detail": text(10_000, 1),
                "value": {"description": "what was given, shortened; absent where it must not be shown"},
                "legal": {
                    "description": "what would be right",
                    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
                },
            },
            "required": ["pointer", "detail"],
            "additionalProperties": False,
        },
    }


def responses() -> dict[str, Shape]:
    """The answers, by the names under which operations refer to them."""
    return {name_of(status): _response(status) for status in KINDS}


def reference(status: int) -> Shape:
    return {"$ref": f"#/components/responses/{name_of(status)}"}


def name_of(status: int) -> str:
    """Such as NotFound."""
    return "".join(word.capitalize() for word in HTTPStatus(status).name.split("_"))


def _response(status: int) -> Shape:
    kinds, meaning = KINDS[status]
    own = {
        "type": one_of(f"urn:chronoweb:problem:{kind}" for kind in kinds),
        "status": {"const": status},
        **EXTRA_FIELDS.get(status, {}),
    }
    needs_errors = {"required": ["errors"]} if status == 422 else {}
    schema = {"allOf": [ref("Problem"), {"type": "object", "properties": own, **needs_errors}]}
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS.get(status, ())}
    return {
        "description": meaning,
        "content": {CONTENT_TYPE: {"schema": schema}},
        **({"headers": headers} if headers else {}),
    }
