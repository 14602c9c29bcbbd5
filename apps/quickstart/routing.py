"""Sockets that only quickstart has."""

from django.urls import path

from apps.quickstart.break_it.views import BreakItConsumer

websocket_urlpatterns = [path("ws/t/<slug:slug>/break-it/", BreakItConsumer.as_asgi())]
