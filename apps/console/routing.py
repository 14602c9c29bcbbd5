"""WebSocket addresses."""

from django.urls import path

from apps.console.consumers import ExecutionsConsumer

websocket_urlpatterns = [
    path("ws/t/<slug:slug>/executions/", ExecutionsConsumer.as_asgi()),
]
