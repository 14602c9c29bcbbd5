"""The admin's look (django-unfold): the console's design, and a menu by what an operator looks for.

Colours, space and type are the console's tokens, put in the theme's terms by static/admin_theme/admin.css.
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def _may_see(model: str) -> Callable[[HttpRequest], bool]:
    app, name = model.split(".")
    return lambda request: any(request.user.has_perm(f"{app}.{act}_{name}") for act in ("view", "change"))


def _entry(title: str, icon: str, model: str, says: str) -> dict[str, Any]:
    link = reverse_lazy(f"admin:{model.replace('.', '_')}_changelist")
    return {"title": title, "icon": icon, "link": link, "permission": _may_see(model), "says": says}


def _group(title: str, *entries: tuple[str, str, str, str]) -> dict[str, Any]:
    return {"title": title, "separator": True, "items": [_entry(*entry) for entry in entries]}


def _file(name: str) -> Callable[[HttpRequest], str]:
    return lambda request: static(name)


_MENU = [
    {"items": [{"title": "Back to the console", "icon": "arrow_back", "link": "/"}]},
    _group(
        "What runs",
        ("Executions", "play_circle", "executions.execution", "what must run and what did; cancel, retry"),
        ("Runs of DAGs", "account_tree", "executions.dagrun", "with their nodes; pause, resume, cancel"),
        ("Outstanding", "hourglass_top", "executions.outstanding", "dispatched and not ended"),
        ("Dead letters", "warning", "executions.deadletter", "out of attempts; replay"),
        ("Replays", "replay", "executions.replay", "of many dead letters; stop"),
        ("Circuits", "power_off", "executions.circuitbreaker", "what has failed lately; close"),
    ),
    _group(
        "Definitions",
        ("Tasks", "event_repeat", "definitions.task", "what to run and when; pause, resume, run now"),
        ("DAGs", "schema", "definitions.dag", "tasks in order; edit, pause, resume, run now"),
        ("Backfills", "history", "definitions.backfill", "ranges of the past that are run on request"),
        ("Versions of tasks", "difference", "executions.taskversion", "a snapshot for each change"),
        ("Versions of DAGs", "difference", "executions.dagversion", "a snapshot for each change"),
    ),
    _group(
        "Fleet",
        ("Workers", "dns", "executions.worker", "who does the work, with which slots and labels"),
        ("Leases", "key_visualizer", "executions.lease", "which process has which role, in which epoch"),
        ("Findings", "troubleshoot", "executions.finding", "what the watchdog found and mended"),
    ),
    _group(
        "Tenants",
        ("Tenants", "apartment", "tenants.tenant", "limits, what is used, what holds them"),
        ("Members", "group", "tenants.membership", "who may do what in which tenant"),
        ("API keys", "key", "tenants.apikey", "ways in for programs; issue, revoke"),
        ("Sign-ins", "login", "tenants.signin", "who has tokens of the API"),
        ("Secrets", "lock", "tenants.secret", "names and places, never values"),
        ("Channels", "campaign", "tenants.notificationchannel", "where tenants want to be told"),
        ("Audit log", "policy", "tenants.auditentry", "who did what to which object, and from where"),
    ),
    _group(
        "Accounts",
        ("Users", "person", "auth.user", "people who may log in; who of them is platform staff"),
        ("Groups", "groups", "auth.group", "permissions of the admin that several have"),
    ),
]

UNFOLD: dict[str, object] = {
    "SITE_TITLE": "chronoweb",
    "SITE_HEADER": "chronoweb",
    "SITE_SUBHEADER": "admin",
    "SITE_SYMBOL": "schedule",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/console/favicon.svg"}],
    "SHOW_HISTORY": False,
    "SHOW_BACK_BUTTON": False,
    "DASHBOARD_CALLBACK": "apps.executions.admin_holds.wide_holds",
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": _MENU},
    "STYLES": [_file("console/tokens.css"), _file("console/states.css"), _file("admin_theme/admin.css")],
    "SCRIPTS": [_file(f"admin_theme/{name}.js") for name in ("theme", "without_eval", "labels")],
}
