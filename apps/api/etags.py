"""If-Match: an edit names the version that it was made from."""

import re

from rest_framework.request import Request

_ETAG = re.compile(r'\s*(?:W/)?"(\d{1,9})"\s*', re.ASCII)


def expected_version(request: Request) -> int | None:
    """The version that If-Match demands; one that nothing has when it cannot be read: then nothing matches."""
    text = request.headers.get("If-Match")
    if text is None or text.strip() == "*":
        return None
    match = _ETAG.fullmatch(text)
    return int(match[1]) if match else -1
