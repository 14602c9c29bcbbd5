"""The server's API: requests, pages, and errors with their reasons."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx

from apps.ctl.answers import Answer, foreign, read
from apps.ctl.errors import CtlError, Exit, usage
from apps.ctl.refusals import away, check

TIMEOUT = httpx.Timeout(60.0, connect=5.0)
"""connect: also of the TLS handshake, which a port that speaks no TLS never ends."""
TRIES = 2
"""A POST carries a key by which the server knows it again, so what was lost on the way may be sent once more."""
LARGEST_PAGE = 200


class Client:
    """One server and one key."""

    def __init__(self, url: str, key: str, *, transport: httpx.BaseTransport | None = None) -> None:
        _refuse_no_address(url)
        if not key.isascii() or not key.isprintable():
            raise usage("the key has characters that no key has; is the file the right one?")
        self.url = url.rstrip("/").removesuffix("/api/v1")
        try:
            self._http = httpx.Client(
                base_url=f"{self.url}/api/v1",
                headers={"Authorization": f"Bearer {key}", "Accept": "application/json"},
                timeout=TIMEOUT,
                transport=transport,
            )
        except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
            raise usage(f"{error}; look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE, SSL_CERT_DIR") from None

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, **parameters: Any) -> Answer:
        return self._call("GET", path, parameters=parameters)

    def post(self, path: str, body: Any = None) -> Answer:
        return self._call("POST", path, body={} if body is None else body)

    def put(self, path: str, body: Any, *, version: int) -> Answer:
        """What is in force there must be `version`."""
        return self._call("PUT", path, body=body, headers={"If-Match": f'"{version}"'})

    def delete(self, path: str, **parameters: Any) -> None:
        check(self._send("DELETE", path, None, _given(parameters), {}))

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        parameters: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer. Parameters that are None are left out. Raises CtlError."""
        sent = dict(headers or {})
        if method == "POST":
            sent["Idempotency-Key"] = f"ctl-{uuid4()}"
        answer = self._send(method, path, body, _given(parameters or {}), sent)
        check(answer)
        return read(answer.content)

    def pages(self, path: str, *, limit: int, **parameters: Any) -> list[Answer]:
        """Up to `limit` items of a list, page by page."""
        return list(self._items(path, limit, parameters))

    def stream(self, path: str, *, headers: Mapping[str, str], **parameters: Any) -> Any:
        """The open answer, as a context manager; reading waits for as long as it takes."""
        return self._http.stream("GET", path, headers=headers, params=parameters)

    def find(self, kind: str, word: str) -> str:
        """The id of the task or DAG (`kind`: tasks, dags) that `word` names, by its name or id."""
        try:
            return str(UUID(word))
        except ValueError:
            pass
        found = self.get(f"/{kind}", name=word, limit=1).objects("items")
        if not found:
            raise CtlError(f"there is none of {kind} with the name {word!r}", Exit.UNKNOWN)
        return str(found[0]["id"])

    def _items(self, path: str, limit: int, parameters: Mapping[str, Any]) -> Iterator[Answer]:
        cursor = None
        while limit > 0:
            page = self.get(path, limit=min(limit, LARGEST_PAGE), cursor=cursor, **parameters)
            items = page.objects("items")
            yield from items
            limit -= len(items)
            before, cursor = cursor, page.get("next_cursor")
            if cursor is None:
                return
            if cursor == before:
                raise foreign("its next page is the same page again")

    def _send(
        self, method: str, path: str, body: Any, parameters: Mapping[str, Any], headers: Mapping[str, str]
    ) -> httpx.Response:
        tries = TRIES if method in ("GET", "POST") else 1
        for left in reversed(range(tries)):
            try:
                return self._http.request(method, path, json=body, params=parameters, headers=headers)
            except httpx.RequestError as error:
                if not left or isinstance(error, httpx.ConnectTimeout):
                    raise away(self.url, error) from None
            except (httpx.InvalidURL, UnicodeError, ValueError) as error:
                raise usage(f"this cannot be sent: {error}") from None
        raise AssertionError("the last try returns or raises")


def _refuse_no_address(url: str) -> None:
    """Raise CtlError for what no server can have."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        is_one = False
    if not is_one:
        raise usage(f"{url!r} is no address of a server; such as https://chronoweb.example.com")


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}
