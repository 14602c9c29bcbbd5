"""What a webhook's log says: requests and answers, without headers, bodies or queries, which may hold secrets."""

import httpx

from apps.logs.attempt_log import AttemptLog
from apps.logs.records import HTTP
from chronoweb.runtime.clock import Clock


class Journal:
    """Of one attempt. log: None where nobody keeps it."""

    def __init__(self, log: AttemptLog | None, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._sent_at = 0.0

    def request(self, request: httpx.Request) -> None:
        self._sent_at = self._clock.monotonic()
        self._say(f"→ {request.method} {shown(request.url)} ({len(request.read()):,} bytes)")

    def answer(self, response: httpx.Response) -> None:
        where = response.headers.get("location") if response.is_redirect else None
        to = f" to {shown(httpx.URL(where))}" if where else ""
        self._say(f"← {response.status_code} {response.reason_phrase}{to} after {self._took()}")

    def body(self, text: str) -> None:
        self._say(f"← {len(text):,} characters of body after {self._took()}")

    def failed(self, problem: Exception) -> None:
        self._say(f"× {type(problem).__name__}: {problem}")

    def _took(self) -> str:
        return f"{(self._clock.monotonic() - self._sent_at) * 1000:.0f} ms"

    def _say(self, text: str) -> None:
        if self._log is not None:
            line = text.replace("\n", " ").encode("utf-8", "replace")
            self._log.write(HTTP, int(self._clock.time() * 1e6), line + b"\n", forced=True)


def shown(url: httpx.URL) -> str:
    """Without query and fragment."""
    return str(url).partition("?")[0].partition("#")[0]
