"""Webhooks: one signed HTTP request an attempt. The whole of it has the task's timeout_seconds."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from uuid import UUID

import httpx
import idna

from apps.executions.failure import FATE_UNKNOWN, FailureClass
from apps.executions.secret_references import put_in, put_in_url, put_in_value, references
from apps.executions.states import Outcome
from apps.logs.attempt_log import AttemptLog
from apps.worker.handlers import signing
from apps.worker.handlers.context import EPOCH
from apps.worker.handlers.outbound_guard import CONNECT_SECONDS, GuardedTransport
from apps.worker.handlers.report import clean_text, make_error, report_texts
from apps.worker.handlers.webhook_journal import Journal
from apps.worker.jobs import Assignment, Report
from chronoweb.runtime.clock import Clock
from chronoweb.runtime.outbound import OutboundRefused, Resolve, split_url, system_resolve

BODY_BYTES = 64 * 1024
ERROR_BODY_CHARACTERS = 4096
REDIRECTS = 5
RETRYABLE = frozenset({408, 425, 429})
LONGEST_WAIT_SECONDS = 1e6
"""That an answer may ask for."""
BODYLESS = frozenset({"GET", "HEAD"})


class WebhookCaller:
    """Sends requests from one event loop; connections are kept for a few seconds between attempts."""

    def __init__(self, *, allowed_networks: Sequence[str], clock: Clock, resolve: Resolve = system_resolve) -> None:
        self._allowed_networks = allowed_networks
        self._resolve = resolve
        self._clock = clock
        self._client: httpx.AsyncClient | None = None

    async def run(self, assignment: Assignment, extra: dict[str, Any], log: AttemptLog | None = None) -> Report:
        """One attempt. 2xx succeeds; connection errors, 408, 425, 429 and 5xx may be retried; others may not.

        extra: filled with what is known when the attempt is stopped from outside.
        """
        journal = Journal(log, self._clock)
        try:
            response, body = await self._request(assignment, extra, journal)
        except (OutboundRefused, httpx.HTTPError) as problem:
            journal.failed(problem)
            return self._no_answer(assignment, problem)
        except (httpx.InvalidURL, idna.IDNAError) as problem:  # what httpx takes for no URL, and split_url did not
            refused = OutboundRefused(f"this is no URL: {problem}")
            journal.failed(refused)
            return self._no_answer(assignment, refused)
        if response.is_success:
            return report_texts({"status": response.status_code}, {"body": body})
        return _failure(self._status_error(response, body))

    def _no_answer(self, assignment: Assignment, problem: Exception) -> Report:
        if isinstance(problem, OutboundRefused | httpx.UnsupportedProtocol):
            return _failure(make_error(type(problem).__name__, str(problem), permanent=True))
        if isinstance(problem, httpx.TooManyRedirects):
            return _failure(make_error("TooManyRedirects", str(problem), permanent=True))
        assert isinstance(problem, httpx.HTTPError)
        return _failure(_connection_error(assignment, problem))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _request(
        self, assignment: Assignment, extra: dict[str, Any], journal: Journal
    ) -> tuple[httpx.Response, str]:
        if self._client is None:
            self._client = httpx.AsyncClient(
                transport=GuardedTransport(self._allowed_networks, self._resolve),
                follow_redirects=False,
                trust_env=False,
                max_redirects=REDIRECTS,
                # One client calls for every tenant: what a server sets in answer to one must not go with another's.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            )
        handler = assignment.handler
        url = put_in_url(handler["url"], assignment.secrets, assignment.secret_mark)
        split_url(url)
        request = self._client.build_request(
            handler.get("method", "POST"),
            url,
            headers=_headers(assignment),
            content=_content(assignment),
            timeout=_timeout(handler),
        )
        self._sign(request, assignment)
        home = _origin(request.url)
        for _ in range(REDIRECTS + 1):
            journal.request(request)
            response = await self._client.send(request, stream=True)
            journal.answer(response)
            try:
                following = response.next_request
                if following is None:
                    extra["status"] = response.status_code
                    body = await _read(response)
                    journal.body(body)
                    return response, body
            finally:
                await response.aclose()
            split_url(str(following.url))
            if _origin(following.url) != home:
                # What the task's author meant for one host is not told to another.
                for name in (*(handler.get("headers") or {}), *signing.HEADERS):
                    following.headers.pop(name, None)
                if following.read() and any(reference.part == "body" for reference in references(handler)):
                    where = _shown(str(following.url))
                    raise OutboundRefused(f"a redirect to {where} would tell another host the secrets of the body")
            elif "webhook-signature" in following.headers:
                self._sign(following, assignment)  # a 303 has dropped the body
            request = following
        raise httpx.TooManyRedirects(f"more than {REDIRECTS} redirects", request=request)

    def _sign(self, request: httpx.Request, assignment: Assignment) -> None:
        headers = signing.sign(
            assignment.webhook_secrets,
            message_id=str(UUID(bytes=assignment.execution_id)),
            timestamp=int(self._clock.time()),
            body=request.read(),
        )
        request.headers.update(headers)

    def _status_error(self, response: httpx.Response, body: str) -> dict[str, Any]:
        status = response.status_code
        retryable = status in RETRYABLE or status >= 500
        error = make_error(
            "WebhookStatus",
            f"HTTP {status} {response.reason_phrase} from {_shown(str(response.url))}",
            permanent=not retryable,
            status=status,
            body=clean_text(body, ERROR_BODY_CHARACTERS),
        )
        wait = _retry_after(response.headers.get("retry-after"), self._clock.now())
        if retryable and wait is not None:
            error["retry_after_seconds"] = wait
        return error


def _timeout(handler: Mapping[str, Any]) -> httpx.Timeout:
    """The total is the runner's business: it stops the attempt."""
    connect = handler.get("connect_timeout_seconds") or CONNECT_SECONDS
    return httpx.Timeout(None, connect=connect, read=handler.get("read_timeout_seconds"))


def _connection_error(assignment: Assignment, problem: httpx.HTTPError) -> dict[str, Any]:
    """Once a connection stood, the request may have been acted on, whatever became of the answer."""
    text = f"{type(problem).__name__} from {_shown(assignment.handler['url'])}: {problem}"
    more: dict[str, Any] = (
        {} if isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout) else {"fate": FATE_UNKNOWN}
    )
    if isinstance(problem, httpx.TimeoutException):
        more["class"] = FailureClass.TIMEOUT.value
    return make_error("WebhookConnectionError", text, **more)


def _headers(assignment: Assignment) -> dict[str, str]:
    handler = assignment.handler
    given = put_in(handler.get("headers"), assignment.secrets, assignment.secret_mark)
    own = {
        "Idempotency-Key": assignment.idempotency_key,
        "X-Fencing-Token": str(assignment.token),
        "X-Chronoweb-Execution-Id": str(UUID(bytes=assignment.execution_id)),
        "Accept-Encoding": "identity",  # so that a small answer cannot unpack to a huge one
    }
    if assignment.traceparent:
        own["traceparent"] = assignment.traceparent
    names = {name.lower() for name in own}
    headers = {"User-Agent": "chronoweb"}
    if _content(assignment) is not None:
        headers["Content-Type"] = "text/plain" if isinstance(handler.get("body"), str) else "application/json"
    for name, value in given.items():
        if name.lower() not in names:
            headers = {key: kept for key, kept in headers.items() if key.lower() != name.lower()}
            headers[name] = value
    return {**headers, **own}


def _content(assignment: Assignment) -> bytes | None:
    """The handler's own body (text as it is, anything else as JSON), or what is known of the execution.

    GET and HEAD carry a body only if the handler gives one.
    """
    handler = assignment.handler
    body = put_in_value(handler.get("body"), assignment.secrets, assignment.secret_mark)
    if isinstance(body, str):
        return body.encode()
    if body is None:
        if handler.get("method", "POST") in BODYLESS:
            return None
        body = {
            "execution_id": str(UUID(bytes=assignment.execution_id)),
            "task": assignment.task_name,
            "attempt": assignment.attempt,
            "scheduled_at": _instant(assignment.scheduled_at_us),
            "nominal_at": _instant(assignment.nominal_at_us),
            "parameters": json.loads(assignment.parameters_json or b"{}"),
        }
    return json.dumps(body).encode()


async def _read(response: httpx.Response) -> str:
    """The first 64 KiB of the body as text; the rest is not read."""
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("", "identity"):
        return f"(body with content-encoding {encoding} not shown)"
    data = bytearray()
    async for chunk in response.aiter_raw(BODY_BYTES):
        data += chunk
        if len(data) >= BODY_BYTES:
            break
    try:
        return bytes(data[:BODY_BYTES]).decode(response.charset_encoding or "utf-8", "replace")
    except (LookupError, ValueError):  # no encoding, or one that knows no replacement, such as idna
        return bytes(data[:BODY_BYTES]).decode("utf-8", "replace")


def _retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or as a date; None without a usable one."""
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), LONGEST_WAIT_SECONDS))
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max(0.0, (when - now).total_seconds()), LONGEST_WAIT_SECONDS)


def _failure(error: dict[str, Any]) -> Report:
    return Report(int(Outcome.FAILED), None, error)


def _instant(microseconds: int | None) -> str | None:
    return None if microseconds is None else (EPOCH + timedelta(microseconds=microseconds)).isoformat()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _shown(url: str) -> str:
    """A URL without its query, which may hold secrets."""
    return url.partition("?")[0].partition("#")[0]
