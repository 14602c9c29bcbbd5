"""Addresses that only quickstart has."""

from django.urls import path

from apps.quickstart import upstream
from apps.quickstart.break_it import views

app_name = "quickstart"
urlpatterns = [
    path("demo/upstream", upstream.upstream),
    path("t/<slug:slug>/break-it/", views.page, name="break_it"),
    path("t/<slug:slug>/break-it/state", views.state, name="break_it_state"),
    path("t/<slug:slug>/break-it/act/<slug:act>", views.act, name="break_it_act"),
]
