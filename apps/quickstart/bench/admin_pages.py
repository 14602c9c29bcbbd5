"""The admin's pages for the scenario `pages`: each list as it comes, by a tenant, without hits, and its newest row."""

from collections.abc import Iterator

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from apps.tenants.admin_lists import TenantFilter

QUESTIONS = {
    "execution": (
        "status__exact=6&due=week",
        "status__exact=9&due=week",
        "due=week&p=40",
        "hold__exact=4",
        "q={identity}",
    ),
    "dagrun": ("due=week", "status__exact=1&due=week"),
    "deadletter": ("died=week", "q=nothing-has-this", "p=20"),
    "task": ("q=orders", "q=nothing-has-this", "standing=paused", "p=100", "o=-5"),
    "auditentry": ("q=user:nobody", "when=week"),
}
"""Query strings that are asked besides the list without any, by the model's name. In braces: samples by their names."""


def staff() -> Client:
    """Who may see all of it."""
    person, _ = get_user_model().objects.get_or_create(
        username="bench-of-the-platform", defaults={"is_staff": True, "is_superuser": True}
    )
    client = Client(headers={"host": "localhost"}, raise_request_exception=False)
    client.force_login(person)
    return client


def addresses(slug: str, known: dict[str, object]) -> Iterator[tuple[str, str]]:
    """(name, path)."""
    yield "admin", reverse("admin:index")
    for model, pages in admin.site._registry.items():
        name = str(model._meta.model_name)
        base = f"admin:{model._meta.app_label}_{name}"
        path = reverse(f"{base}_changelist")
        yield f"admin {name}", path
        for question in (*([f"tenant={slug}"] if TenantFilter in pages.list_filter else []), *QUESTIONS.get(name, ())):
            yield f"admin {name}?{question}", f"{path}?{question}".format_map(known)
        newest = model._default_manager.order_by("-pk").values_list("pk", flat=True).first()
        if newest is not None:
            yield f"admin {name} one", reverse(f"{base}_change", args=[newest])
