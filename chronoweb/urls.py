"""URLs of the web process."""

from django.contrib import admin
from django.urls import include, path

from apps.api import health

urlpatterns = [
    path("livez", health.livez),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    path("api/", include("apps.api.urls")),
    path("admin/", admin.site.urls),
    path("", include("apps.console.urls")),
]

handler400 = "apps.api.problems.bad_request"
