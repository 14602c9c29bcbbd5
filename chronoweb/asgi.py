"""ASGI entry point: pages and REST over HTTP, the live console over WebSockets of this origin only."""

import gc
import os

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoweb.settings")
django.setup(set_prefix=False)  # loads the apps, which the routing imports

from apps.console.origin import SameOrigin  # noqa: E402  needs the loaded apps
from apps.console.routing import websocket_urlpatterns  # noqa: E402  likewise
from chronoweb.runtime import access_log, body_limit, checks, web_connections  # noqa: E402  likewise
from chronoweb.runtime.config import config  # noqa: E402  likewise
from chronoweb.runtime.root_path import NoRootPath  # noqa: E402  likewise
from chronoweb.runtime.web_handler import ThreadedHandler  # noqa: E402  likewise

sockets = list(websocket_urlpatterns)
if settings.DEMO_ENDPOINTS:
    from apps.quickstart.routing import websocket_urlpatterns as quickstarts

    sockets = [*quickstarts, *sockets]

access_log.install()
body_limit.install()
web_connections.share()
checks.refuse_to_serve()

# What is loaded by now stays. Looking through it for garbage again and again took a tenth of the time of requests.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 20, 20)

application = NoRootPath(
    ProtocolTypeRouter(
        {
            "http": ThreadedHandler(threads=config().web_threads),
            "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(sockets))),
        }
    )
)
