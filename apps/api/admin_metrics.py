"""/api/v1/admin/metrics: the installation in figures, for the platform's own tenants."""

import logging
from dataclasses import asdict
from typing import Any

import redis
from django.db import connection as django_connection
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.openapi.declare import documented
from apps.api.representations import moment
from apps.api.scheduler import PlatformView, frozen
from apps.executions import freezing, person_store, summary
from apps.explain.depth import depths
from chronoweb.runtime import postgres, redis_client
from chronoweb.runtime.config import config

logger = logging.getLogger(__name__)


class AdminMetrics(PlatformView):
    """Rates, latencies, depths of queues by class, what runs, dead letters. From small tables and a bounded sample."""

    @documented("See the installation in figures", gives="AdminMetrics")
    def get(self, request: Request) -> Response:
        raw = postgres.raw(django_connection)
        found = summary.summary(raw)
        return Response(
            {
                "at": moment(person_store.database_now(raw)),
                "frozen": frozen(freezing.standing(None)),
                **found,
                "queues": _queues(),
            }
        )


def _queues() -> dict[str, Any] | None:
    """None: Redis is away."""
    try:
        client = redis_client.connect()
        try:
            found = depths(client, config().redis_prefix, now_ms=redis_client.now_ms(client))
        finally:
            client.close()
    except redis.RedisError as error:
        logger.warning("Redis is away", extra={"action": "api.redis_away", "error": str(error)})
        return None
    return {word: asdict(depth) for word, depth in found.items()}
