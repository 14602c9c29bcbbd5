"""An HTTP client that costs next to nothing, for loads on a machine that also runs what they load.

Connections stay open, each with one request at a time; who finds none free opens another, up to a bound, then waits.
It speaks what chronoweb's web process speaks: bodies have a Content-Length or come in chunks.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Any, NamedTuple

_PATIENCE_SECONDS = 30.0
_END_OF_HEAD = b"\r\n\r\n"


class Answer(NamedTuple):
    """status: 0 where the connection ended before an answer had come."""

    status: int
    body: bytes


class _Connection(asyncio.Protocol):
    """One open connection: bytes out, one answer in."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: Any = None
        self.is_open = False

    def connection_made(self, transport: Any) -> None:
        self._transport, self.is_open = transport, True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._give(Answer(0, repr(error).encode() if error else b"the connection was closed"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        answer = parse(self._received)
        if answer is not None:
            self._received.clear()
            self._give(answer)

    def _give(self, answer: Answer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Client:
    """Requests of one key to one server. at_once: the most connections."""

    def __init__(self, host: str, port: int, *, key: str, at_once: int) -> None:
        self._address = host, port
        self._head = f" HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
        self._free: deque[_Connection] = deque()
        self._room = asyncio.Semaphore(at_once)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._free:
            connection.close()

    async def request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """One request. path: with its query, below the server's root. Raises TimeoutError after 30 s."""
        head = f"{method} {path}{self._head}"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        async with self._room:
            connection = await self._connection()
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    answer = await connection.ask(f"{head}\r\n".encode() + (body or b""))
            except BaseException:
                connection.close()  # what still comes belongs to no other request
                raise
            if connection.is_open:
                self._free.append(connection)
            return answer

    async def _connection(self) -> _Connection:
        while self._free:
            connection = self._free.pop()
            if connection.is_open:
                return connection
        _, made = await asyncio.get_running_loop().create_connection(_Connection, *self._address)
        return made


def parse(received: bytearray) -> Answer | None:
    """The answer, once it is whole."""
    end = received.find(_END_OF_HEAD)
    if end < 0:
        return None
    head, begin = bytes(received[:end]).lower(), end + len(_END_OF_HEAD)
    status = int(head[9:12])
    if status in (204, 304):
        return Answer(status, b"")
    where = head.find(b"\r\ncontent-length:")
    if where < 0:
        body = _from_chunks(received, begin)
        return None if body is None else Answer(status, body)
    length = int(head[where + 17 :].split(b"\r\n", 1)[0])
    if len(received) < begin + length:
        return None
    return Answer(status, bytes(received[begin : begin + length]))


def _from_chunks(received: bytearray, at: int) -> bytes | None:
    found: list[bytes] = []
    while (end := received.find(b"\r\n", at)) >= 0:
        size = int(received[at:end].split(b";")[0], 16)
        begin, at = end + 2, end + 4 + size
        if len(received) < at:
            return None
        if not size:
            return b"".join(found)
        found.append(bytes(received[begin : begin + size]))
    return None
