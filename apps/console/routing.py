"""WebSocket addresses."""

from django.urls import path, re_path

from apps.console.consumers import ExecutionsConsumer, NoSuchSocket

websocket_urlpatterns = [
    path("ws/t/<slug:slug>/executions/", ExecutionsConsumer.as_asgi()),
    re_path(r"", NoSuchSocket.as_asgi()),
]
