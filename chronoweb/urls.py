"""URLs of the web process."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path

from apps.api import health
from apps.console.throttle import throttled
from apps.tenants.admin_people import own_password

urlpatterns = [
    path("livez", health.livez),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    path("api/", include("apps.api.urls")),
    path("admin/login/", throttled(admin.site.login)),
    path("admin/password_change/", admin.site.admin_view(own_password)),
    path("admin/", admin.site.urls),
    path("", include("apps.console.urls")),
]
if settings.DEMO_ENDPOINTS:
    urlpatterns.insert(0, path("", include("apps.quickstart.urls")))

handler400 = "chronoweb.errors.bad_request"
handler403 = "chronoweb.errors.forbidden"
handler404 = "chronoweb.errors.not_found"
handler500 = "chronoweb.errors.server_error"
