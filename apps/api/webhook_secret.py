"""/api/v1/webhook-secret: what this tenant's webhooks are signed with. For its owners; each look is recorded."""

from typing import Any

from django.db import connection as django_connection
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.openapi.declare import documented
from apps.api.representations import moment
from apps.executions import person_store
from apps.tenants import webhook_secrets
from apps.tenants.models import Role
from chronoweb.runtime import postgres


class WebhookSecret(ApiView):
    def needed_role(self, request: Request) -> Role:
        return Role.OWNER

    @documented("Show what signs webhooks", gives="WebhookSecret", headers=("Cache-Control",))
    def get(self, request: Request) -> Response:
        now = person_store.database_now(postgres.raw(django_connection))
        return _answer(webhook_secrets.show(principal=principal(request), now=now))


class RotateWebhookSecret(ApiView):
    """A new one; the one before signs beside it for a day."""

    secret_answer = True

    def needed_role(self, request: Request) -> Role:
        return Role.OWNER

    @documented(
        "Replace what signs webhooks",
        takes="Empty",
        body_optional=True,
        gives="WebhookSecret",
        headers=("Cache-Control",),
    )
    def post(self, request: Request) -> Response:
        body_object(request, fields=())
        now = person_store.database_now(postgres.raw(django_connection))
        return _answer(webhook_secrets.rotate(principal=principal(request), now=now))


def _answer(shown: webhook_secrets.Shown) -> Response:
    body: dict[str, Any] = {
        "secret": shown.secret,
        "secret_before": shown.before,
        "secret_before_valid_until": moment(shown.valid_until),
    }
    return Response(body, headers={"Cache-Control": "no-store"})
