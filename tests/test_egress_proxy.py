"""The way out of a container: listed pairs only, addresses judged as webhooks' are."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from apps.worker.containers.egress_proxy import EgressProxy


def resolve(host: str, port: int) -> Sequence[str]:
    """upstream.test is this machine; rebinding.test names a public address and this machine."""
    known = {"upstream.test": ["127.0.0.1"], "rebinding.test": ["93.184.215.14", "127.0.0.1"]}
    if host not in known:
        raise OSError("no such name")
    return known[host]


@asynccontextmanager
async def upstream() -> AsyncIterator[int]:
    """A server that says what it was sent, until the sender stops; its port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got " + await reader.read())
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def ask(allowed: set[tuple[str, int]], sent: bytes, networks: Sequence[str] = ("127.0.0.0/8",)) -> str:
    """What a client behind the proxy hears."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    port = listening.getsockname()[1]
    proxy = EgressProxy(allowed, networks, resolve)
    await proxy.serve(listening)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    writer.write_eof()
    heard = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await proxy.close()
    return heard.decode()


async def test_connect_carries_anything() -> None:
    async with upstream() as port:
        sent = f"CONNECT Upstream.test:{port} HTTP/1.1\r\nHost: x\r\n\r\nanything\0at all".encode()
        heard = await ask({("upstream.test", port)}, sent)
    assert heard == "HTTP/1.1 200 Connection established\r\n\r\ngot anything\0at all"


async def test_a_plain_request_is_passed_on_once() -> None:
    async with upstream() as port:
        head = f"GET http://upstream.test:{port}/a?b=c HTTP/1.1\r\nHost: upstream.test\r\n"
        more = "Proxy-Authorization: x\r\nConnection: keep-alive\r\nX-A: b\r\n\r\nbody"
        heard = await ask({("upstream.test", port)}, (head + more).encode())
    assert heard == "got GET /a?b=c HTTP/1.1\r\nHost: upstream.test\r\nX-A: b\r\nConnection: close\r\n\r\nbody"


@pytest.mark.parametrize(
    ("allowed", "target", "networks", "status"),
    [
        (("upstream.test", 443), "upstream.test:444", ["127.0.0.0/8"], 403),
        (("upstream.test", 443), "127.0.0.1:443", ["127.0.0.0/8"], 403),
        (("upstream.test", 443), "upstream.test:443", [], 403),
        (("rebinding.test", 443), "rebinding.test:443", [], 403),
        (("missing.test", 443), "missing.test:443", [], 502),
        (("upstream.test", 1), "upstream.test:1", ["127.0.0.0/8"], 502),
        (("upstream.test", 443), "upstream.test", [], 400),
        (("upstream.test", 443), "user@upstream.test:443", [], 400),
        (("upstream.test", 443), "2130706433:443", [], 400),
    ],
)
async def test_refused(allowed: tuple[str, int], target: str, networks: list[str], status: int) -> None:
    heard = await ask({allowed}, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode(), networks)
    assert heard.startswith(f"HTTP/1.1 {status} ")


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"GET ftp://a/ HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n"])
async def test_what_is_no_request_to_a_proxy(sent: bytes) -> None:
    assert (await ask(set(), sent)).startswith("HTTP/1.1 400 ")


@pytest.mark.parametrize("sent", [b"", b"CONNECT a:1 HTTP/1.1\r\n", b"x" * 100_000])
async def test_what_never_ends_its_head_is_hung_up_on(sent: bytes) -> None:
    try:
        assert await ask(set(), sent) == ""
    except ConnectionError:
        pass
