"""Addresses that only quickstart's demo has."""

from django.urls import path

from apps.quickstart import upstream

urlpatterns = [path("upstream", upstream.upstream)]
