"""Logs of an execution: what is there, or live until it ends, across lost connections."""

from collections.abc import Iterator

import httpx

from apps.ctl.answers import Answer, Foreign, foreign, read
from apps.ctl.client import Client
from apps.ctl.errors import CtlError, Exit
from apps.ctl.refusals import away, check
from chronoweb.runtime.clock import Clock

PATIENCE_SECONDS = 60.0
"""So long a server that is away is asked again."""
_RETRY_SECONDS = 0.5
_LAST_EVENT_ID = "Last-Event-ID"


def kept(client: Client, execution_id: str, *, attempt: int | None, limit: int) -> Iterator[Answer]:
    """The lines that are there now, in order."""
    yield from client.pages(f"/executions/{execution_id}/logs", limit=limit, attempt=attempt)


def follow(client: Client, execution_id: str, clock: Clock) -> Iterator[Answer]:
    """Lines as they come; returns when the execution has ended. Raises CtlError when the server stays away."""
    last, deadline = "", clock.monotonic() + PATIENCE_SECONDS
    while True:
        headers = {"Accept": "text/event-stream", **({_LAST_EVENT_ID: last} if last else {})}
        try:
            with client.stream(f"/executions/{execution_id}/logs", headers=headers) as answer:
                if not answer.is_success:
                    answer.read()
                check(answer)
                if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                    raise foreign("it is no stream of events")
                for kind, identity, data in events(answer.iter_lines()):
                    deadline = clock.monotonic() + PATIENCE_SECONDS
                    if kind == "end":
                        return
                    if data:
                        yield read(data)
                        last = identity or last
        except httpx.RequestError as error:
            if clock.monotonic() > deadline:
                raise away(client.url, error) from None
        except Foreign:
            raise
        except CtlError as error:
            if error.code is not Exit.AWAY or clock.monotonic() > deadline:
                raise
        else:
            if clock.monotonic() > deadline:
                raise CtlError(f"{client.url} ends the stream without an event, over and over", Exit.AWAY)
        clock.sleep(_RETRY_SECONDS)


def events(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """(event, id, data) of server-sent events; only whole ones."""
    kind, identity = "message", ""
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield kind, identity, "\n".join(data)
            kind, data = "message", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "id":
            identity = value
        elif name == "data":
            data.append(value)
