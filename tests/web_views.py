"""Views that a test of the web process's handler serves."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path

closed = threading.Event()
gate = threading.Barrier(3, timeout=60)


def plain(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"thread": threading.current_thread().name, "body": request.body.decode()})


def together(request: HttpRequest) -> HttpResponse:
    """Answers once three of it are at work."""
    gate.wait()
    return HttpResponse("met")


def server_process(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return JsonResponse(cursor.fetchone()[0], safe=False)


def limit_of_idleness(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        return JsonResponse(cursor.fetchone()[0], safe=False)


def stream(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            await asyncio.sleep(600 if "endless" in request.GET else 0)
            yield b"two"
        finally:
            closed.set()

    return StreamingHttpResponse(parts())


def fails(request: HttpRequest) -> HttpResponse:
    raise ValueError("on purpose")


urlpatterns: list[Any] = [
    path("plain", plain),
    path("together", together),
    path("server-process", server_process),
    path("limit-of-idleness", limit_of_idleness),
    path("stream", stream),
    path("fails", fails),
]
