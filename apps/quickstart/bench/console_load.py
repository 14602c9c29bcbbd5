"""Many pages that look: WebSockets of the console, held open by one process, which answers pings and counts frames.

    python -m apps.quickstart.bench.console_load HOST PORT < LINES

Each line that it reads is an order: {"open": [[path, cookie], …]} opens these and waits until each has had its first
frame, {"count": true} does nothing. Each is answered with {"frames", "octets", "open", "refused"} since the last one.
The end of the input ends it. A process of its own, so that what it does is not part of what it measures.
"""

import asyncio
import base64
import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any

AT_ONCE = 16
"""Handshakes under way: a server that is busy answers them one after another, and forgets those that wait for 5 s."""
PACKED = "chronoweb.zlib"
"""As pages of today's browsers ask for it (apps/console/sockets.py)."""
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_FIRST_FRAME_SECONDS = 120.0
TRIES = 5
_PAUSE_SECONDS = 1.0


@dataclass
class Crowd:
    """All sockets, and what came over them."""

    host: str
    port: int
    frames: int = 0
    octets: int = 0
    open: int = 0
    refused: list[str] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def add(self, places: list[tuple[str, str]]) -> None:
        """Open these, AT_ONCE at a time; returns when each has had its first frame, or is refused."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(path: str, cookie: str) -> None:
            first = asyncio.Event()
            async with gate:
                task = asyncio.create_task(self._hold(path, cookie, first))
                self._tasks.add(task)
                task.add_done_callback(lambda _: first.set())
                await asyncio.wait_for(first.wait(), _FIRST_FRAME_SECONDS)

        await asyncio.gather(*(one(path, cookie) for path, cookie in places))

    async def _hold(self, path: str, cookie: str, first: asyncio.Event) -> None:
        """Opens and reads; tries again where it is refused, as pages do."""
        for _ in range(TRIES):
            opened = await self._shake_hands(path, cookie)
            if opened is not None:
                await self._read(*opened, first)
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _shake_hands(self, path: str, cookie: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
            writer.write(self._handshake(path, cookie))
            status = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0]
            if b" 101 " in status:
                return reader, writer
            self.refused.append(status.decode())
            writer.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            self.refused.append(str(error))
        return None

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: asyncio.Event) -> None:
        self.open += 1
        try:
            while True:
                code, payload = await _frame(reader)
                if code == _PING:
                    writer.write(_masked(_PONG, payload))
                elif code == _CLOSE:
                    self.refused.append(f"closed: {payload[:80]!r}")
                    return
                elif code in (_TEXT, _BINARY):
                    self.frames += 1
                    self.octets += len(payload)
                    first.set()
        except (OSError, asyncio.IncompleteReadError) as error:
            self.refused.append(str(error))
        finally:
            self.open -= 1
            writer.close()

    def _handshake(self, path: str, cookie: str) -> bytes:
        place = f"{self.host}:{self.port}"
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {place}",
            f"Origin: http://{place}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            f"Sec-WebSocket-Protocol: {PACKED}",
            f"Cookie: {cookie}",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def count(self) -> dict[str, Any]:
        """Since the last count."""
        told = {"frames": self.frames, "octets": self.octets, "open": self.open, "refused": self.refused[:5]}
        self.frames = self.octets = 0
        return told


async def _frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """(code, payload) of a server's frame (RFC 6455): unmasked; the console's messages are one frame each."""
    head = await reader.readexactly(2)
    length = head[1] & 0x7F
    if length >= 126:
        length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8), "big")
    return head[0] & 0x0F, await reader.readexactly(length)


def _masked(code: int, payload: bytes) -> bytes:
    """A client's short frame."""
    mask = os.urandom(4)
    return bytes((0x80 | code, 0x80 | len(payload))) + mask + bytes(b ^ mask[n % 4] for n, b in enumerate(payload))


async def main(host: str, port: int) -> None:
    crowd = Crowd(host, port)
    orders = asyncio.StreamReader(limit=16 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        order = json.loads(line)
        if "open" in order:
            await crowd.add([(path, cookie) for path, cookie in order["open"]])
        print(json.dumps(crowd.count()), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
