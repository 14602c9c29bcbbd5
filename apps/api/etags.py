"""If-Match: an edit names the version that it was made from."""

import re

from rest_framework.request import Request

from apps.api.problems import header_error

_ETAG = re.compile(r'(?:W/)?"([\x21\x23-\x7e]*)"', re.ASCII)
_NOTHING = -1
"""A version that nothing has."""


def expected_version(request: Request) -> int | None:
    """The version that If-Match demands; None: any. Raises InvalidInput for what is no ETag at all; one that was never
    given matches nothing.
    """
    text = request.headers.get("If-Match")
    if text is None or text.strip() == "*":
        return None
    match = _ETAG.fullmatch(text.strip())
    if match is None:
        raise header_error("If-Match", text, "is not an ETag", 'the ETag of an answer, such as "3", or *')
    return int(match[1]) if match[1].isdecimal() and len(match[1]) < 10 else _NOTHING
