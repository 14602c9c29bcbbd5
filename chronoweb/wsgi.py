"""WSGI entry point, for installations that serve REST alone; the live console needs asgi.py."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoweb.settings")
application = get_wsgi_application()  # loads the apps, and with them the checks

from chronoweb.runtime import checks  # noqa: E402  needs the loaded apps

checks.refuse_to_serve()
