"""The API's description as a document, and as pages to read and try it with: /api/v1/openapi.json and /api/docs."""

import json
from functools import cache

from django.http import HttpResponse
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.views.generic import TemplateView
from rest_framework.request import Request

from apps.api.base import PublicView
from apps.api.openapi.declare import Answer, documented
from apps.executions.idempotency import digest


class OpenApiDocument(PublicView):
    """OpenAPI 3.1, as docs/openapi.yaml has it. No key is needed."""

    @documented("Read this description", gives={200: Answer({"application/json": {"type": "object"}})})
    def get(self, request: Request) -> HttpResponse:
        text, etag = _text()
        answer = HttpResponse(text, content_type="application/json", headers={"ETag": etag})
        found: HttpResponse = get_conditional_response(request._request, etag=etag, response=answer) or answer
        return found


class Docs(TemplateView):
    """Swagger UI from this server's own static files; the page has no inline script."""

    template_name = "api/docs.html"


@cache
def _text() -> tuple[bytes, str]:
    from apps.api.openapi.document import document

    text = json.dumps(document(), ensure_ascii=False, separators=(",", ":")).encode()
    return text, quote_etag(digest(text)[:32])
