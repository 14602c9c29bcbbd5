"""Addresses of the console. A tenant stands in the URL, so that a copied link opens what its sender saw."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from apps.console import views
from apps.console.throttle import throttled

_login = LoginView.as_view(template_name="console/login.html", redirect_authenticated_user=True)

app_name = "console"
urlpatterns = [
    path("", views.home, name="home"),
    path("console/executions/", views.home),
    path("t/<slug:slug>/executions/", views.executions, name="executions"),
    path("t/<slug:slug>/executions/<uuid:identity>/", views.execution, name="execution"),
    path("t/<slug:slug>/workers/", views.workers, name="workers"),
    path("t/<slug:slug>/executions/<uuid:identity>/logs", views.logs, name="logs"),
    path("t/<slug:slug>/executions/<uuid:identity>/logs/download", views.download_logs, name="download_logs"),
    path("login/", throttled(_login), name="login"),
    path("login/<str:token>", views.login_by_link, name="login_by_link"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
