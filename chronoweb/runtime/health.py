"""/livez, /readyz and /metrics of a daemon, on a port of its own.

/livez touches nothing. /readyz is about progress: it fails when the last successful pass is too old.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

FAILURE_SHADOW_SECONDS = 5.0
"""A failed pass makes a daemon unready for this long."""


class Health:
    """When the daemon last did what it is for."""

    def __init__(self, name: str, *, stale_after_seconds: float = 15.0, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self._stale_after = stale_after_seconds
        self._clock = clock
        self._last_success: float | None = None
        self._failures = 0
        self._last_failure: float | None = None

    def succeeded(self) -> None:
        """A pass ended well."""
        self._last_success = self._clock.monotonic()

    def failed(self) -> None:
        """A pass ended in a fault of ours."""
        self._failures += 1
        self._last_failure = self._clock.monotonic()

    def age_seconds(self) -> float | None:
        """Since the last successful pass; None before the first."""
        return None if self._last_success is None else self._clock.monotonic() - self._last_success

    def ready(self) -> bool:
        """Whether it makes progress: the last good pass is recent, and no pass has failed lately.

        A pass that has nothing to do succeeds always, so one between two failures proves nothing.
        """
        age = self.age_seconds()
        if age is None or age > self._stale_after:
            return False
        return self._last_failure is None or self._clock.monotonic() - self._last_failure > FAILURE_SHADOW_SECONDS

    def report(self) -> dict[str, object]:
        age = self.age_seconds()
        return {
            "daemon": self.name,
            "ready": self.ready(),
            "last_success_age_seconds": None if age is None else round(age, 3),
            "stale_after_seconds": self._stale_after,
            "failed_passes": self._failures,
        }


def serve(health: Health, *, port: int, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Answer on `port` from a thread; port 0 picks a free one (`.server_port`)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/livez":
                self._answer(200, "application/json", b'{"alive": true}')
            elif self.path == "/readyz":
                body = json.dumps(health.report()).encode()
                self._answer(200 if health.ready() else 503, "application/json", body)
            elif self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest())
            else:
                self._answer(404, "application/json", b'{"paths": ["/livez", "/readyz", "/metrics"]}')

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes come every few seconds; they are not worth a line each."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
