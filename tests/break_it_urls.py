"""The addresses of a web process that quickstart has started."""

from django.urls import include, path

from chronoweb import urls

urlpatterns = [path("", include("apps.quickstart.urls")), *urls.urlpatterns]
handler400, handler500 = urls.handler400, urls.handler500
