"""The way out of a container that may reach some hosts: an HTTP proxy that connects to listed pairs only.

Names are resolved here, and every address is checked as a webhook's is (chronoweb/runtime/outbound.py), then
connected to as it was checked. CONNECT carries anything; a plain request is passed on once, and its connection
leads to that one host until it ends.
"""

import asyncio
import logging
import socket
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from apps.executions.container_spec import split_pair
from chronoweb.runtime.outbound import OutboundRefused, Resolve, check_address, parse_networks, system_resolve

logger = logging.getLogger(__name__)

HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10.0
CONNECT_SECONDS = 10.0
CHUNK_BYTES = 64 * 1024
CONNECTIONS_AT_MOST = 64

Pair = tuple[str, int]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Refusal(Exception):
    """status: the answer's status line behind the version."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class EgressProxy:
    """Serves one container until it is closed."""

    def __init__(
        self, allowed: Collection[Pair], allowed_networks: Sequence[str], resolve: Resolve = system_resolve
    ) -> None:
        self._allowed = frozenset(allowed)
        self._networks = parse_networks(allowed_networks)
        self._resolve = resolve
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, listening: socket.socket) -> None:
        """Accept on `listening`, which is this object's from now on."""
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=HEAD_BYTES)

    async def close(self) -> None:
        """Hang up everything."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._converse((reader, writer))
        except asyncio.CancelledError:
            writer.transport.abort()  # only `close` cancels; a cancelled end would be logged as an error
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _converse(self, client: Streams) -> None:
        try:
            if len(self._tasks) > CONNECTIONS_AT_MOST:
                raise _Refusal("503 Service Unavailable", f"more than {CONNECTIONS_AT_MOST} connections at once")
            async with asyncio.timeout(HEAD_SECONDS):
                head = await client[0].readuntil(b"\r\n\r\n")
            pair, onward = target_of(head)
            server = await self._connect(pair)
        except _Refusal as refusal:
            logger.info("egress refused", extra={"action": "worker.egress_refused", "reason": str(refusal)})
            body = f"{refusal}\n".encode()
            answer = f"HTTP/1.1 {refusal.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
            client[1].write(answer.encode() + b"Connection: close\r\n\r\n" + body)
            await client[1].drain()
            return
        try:
            if onward is None:
                client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server[1].write(onward)
            await asyncio.gather(_pump(client[0], server[1]), _pump(server[0], client[1]))
        finally:
            server[1].transport.abort()

    async def _connect(self, pair: Pair) -> Streams:
        host, port = pair
        if pair not in self._allowed:
            raise _Refusal("403 Forbidden", f'{host}:{port} is not in the handler\'s network "allow"')
        try:
            addresses = await asyncio.get_running_loop().run_in_executor(None, self._resolve, host, port)
            for address in addresses:
                check_address(address, self._networks, host=host)
        except OutboundRefused as problem:
            raise _Refusal("403 Forbidden", str(problem)) from None
        except (OSError, UnicodeError) as problem:
            raise _Refusal("502 Bad Gateway", f"{host} cannot be resolved: {problem}") from None
        failure: Exception = OSError(f"{host} has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(address, port)
            except (OSError, TimeoutError) as problem:
                failure = problem
        raise _Refusal("502 Bad Gateway", f"{host}:{port} cannot be reached: {failure or 'timed out'}")


def target_of(head: bytes) -> tuple[Pair, bytes | None]:
    """Where a request's head leads, and the head to send there; None for CONNECT. Raises _Refusal."""
    first, _, rest = head.partition(b"\r\n")
    words = first.decode("latin-1").split(" ")
    if len(words) != 3:
        raise _Refusal("400 Bad Request", "this is no HTTP request")
    method, target, version = words
    try:
        if method == "CONNECT":
            return split_pair(target), None
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.netloc:
            raise OutboundRefused("a proxy takes CONNECT, or a request with an http URL")
        pair = split_pair(parts.netloc if parts.port else f"{parts.netloc}:80")
    except (OutboundRefused, ValueError) as problem:
        raise _Refusal("400 Bad Request", str(problem)) from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    dropped = (b"proxy-", b"connection:")
    headers = [line for line in rest.split(b"\r\n") if line and not line.lower().startswith(dropped)]
    lines = [f"{method} {path} {version}".encode("latin-1"), *headers, b"Connection: close", b"", b""]
    return pair, b"\r\n".join(lines)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
