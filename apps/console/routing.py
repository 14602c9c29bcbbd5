"""WebSocket addresses."""

from django.urls import path, re_path

from apps.console.backfills.page import BackfillsConsumer
from apps.console.dags.run_page import RunConsumer
from apps.console.dags.runs_live import RunsConsumer
from apps.console.executions.one_live import OneConsumer
from apps.console.executions.socket import ExecutionsConsumer
from apps.console.letters.live import LettersConsumer
from apps.console.overview.views import OverviewConsumer
from apps.console.scheduler.views import SchedulerConsumer
from apps.console.sockets import NoSuchSocket
from apps.console.workers.views import WorkersConsumer

websocket_urlpatterns = [
    path("ws/t/<slug:slug>/", OverviewConsumer.as_asgi()),
    path("ws/t/<slug:slug>/executions/", ExecutionsConsumer.as_asgi()),
    path("ws/t/<slug:slug>/executions/<uuid:identity>/", OneConsumer.as_asgi()),
    path("ws/t/<slug:slug>/dead-letters/", LettersConsumer.as_asgi()),
    path("ws/t/<slug:slug>/dags/", RunsConsumer.as_asgi()),
    path("ws/t/<slug:slug>/dags/<uuid:dag_id>/backfills/", BackfillsConsumer.as_asgi()),
    path("ws/t/<slug:slug>/tasks/<uuid:task_id>/backfills/", BackfillsConsumer.as_asgi()),
    path("ws/t/<slug:slug>/workers/", WorkersConsumer.as_asgi()),
    path("ws/t/<slug:slug>/scheduler/", SchedulerConsumer.as_asgi()),
    path("ws/t/<slug:slug>/runs/<uuid:run_id>/", RunConsumer.as_asgi()),
    re_path(r"", NoSuchSocket.as_asgi()),
]
