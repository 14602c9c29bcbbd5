"""The admin's look (django-unfold): the console's accent, and a menu by what an operator looks for."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def _may_see(model: str) -> Callable[[HttpRequest], bool]:
    app, name = model.split(".")
    return lambda request: request.user.has_perm(f"{app}.view_{name}")


def _entry(title: str, icon: str, model: str) -> dict[str, Any]:
    link = reverse_lazy(f"admin:{model.replace('.', '_')}_changelist")
    return {"title": title, "icon": icon, "link": link, "permission": _may_see(model)}


def _group(title: str, *entries: tuple[str, str, str]) -> dict[str, Any]:
    return {"title": title, "separator": True, "items": [_entry(*entry) for entry in entries]}


_MENU = [
    _group(
        "What runs",
        ("Executions", "play_circle", "executions.execution"),
        ("Runs of DAGs", "account_tree", "executions.dagrun"),
        ("In workers' hands", "hourglass_top", "executions.outstanding"),
        ("Dead letters", "warning", "executions.deadletter"),
        ("Replays", "replay", "executions.replay"),
        ("Circuits", "power_off", "executions.circuitbreaker"),
    ),
    _group(
        "Definitions",
        ("Tasks", "event_repeat", "definitions.task"),
        ("DAGs", "schema", "definitions.dag"),
        ("Backfills", "history", "definitions.backfill"),
        ("Versions of tasks", "difference", "executions.taskversion"),
        ("Versions of DAGs", "difference", "executions.dagversion"),
    ),
    _group(
        "The fleet",
        ("Workers", "dns", "executions.worker"),
        ("Leases", "key_visualizer", "executions.lease"),
    ),
    _group(
        "Tenants",
        ("Tenants", "apartment", "tenants.tenant"),
        ("Members", "group", "tenants.membership"),
        ("API keys", "key", "tenants.apikey"),
        ("Sign-ins", "login", "tenants.signin"),
        ("Secrets", "lock", "tenants.secret"),
        ("Channels", "campaign", "tenants.notificationchannel"),
        ("Audit log", "policy", "tenants.auditentry"),
    ),
    _group(
        "Accounts",
        ("People", "person", "auth.user"),
        ("Groups", "groups", "auth.group"),
    ),
]

_ACCENT = {
    # The console's accent (static/console/tokens.css) from pale to dark.
    "50": "240 244 255",
    "100": "226 233 255",
    "200": "200 213 255",
    "300": "164 186 255",
    "400": "124 156 255",
    "500": "86 122 240",
    "600": "61 98 224",
    "700": "48 78 186",
    "800": "40 64 150",
    "900": "33 51 116",
    "950": "20 31 74",
}
UNFOLD: dict[str, object] = {
    "SITE_TITLE": "chronoweb",
    "SITE_HEADER": "chronoweb",
    "SITE_SUBHEADER": "administration",
    "SITE_SYMBOL": "schedule",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/console/favicon.svg"}],
    "SHOW_HISTORY": False,
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": _MENU},
    "SCRIPTS": [lambda request: static("admin_theme/without_eval.js")],
    "COLORS": {"primary": {shade: f"rgb({rgb.replace(' ', ', ')})" for shade, rgb in _ACCENT.items()}},
}
