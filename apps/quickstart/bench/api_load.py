"""A load of requests as programs and pages make them, at a constant rate, whatever the answers take.

    python -m apps.quickstart.bench.api_load URL RATE SECONDS   (the key in CHRONOWEB_API_KEY)

A process of its own, so that what it does is not part of what it measures. It writes one JSON object: for each kind of
request the latencies in ms, counted from when the request was due, and the errors. The rate does not wait for answers
(an open loop): a server that is late has more and more to do, as it would have in life. What this process costs is told
as well, for it takes that much of the machine from what it loads.
"""

import asyncio
import json
import os
import random
import re
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from apps.quickstart.bench.http_client import Answer, Client

MIX = {
    "list tasks": 10,
    "read task": 12,
    "list executions": 12,
    "list executions of a task": 8,
    "read execution": 14,
    "list dead letters": 4,
    "list workers": 2,
    "who": 3,
    "preview schedule": 3,
    "create task": 5,
    "edit task": 6,
    "pause and resume": 2,
    "trigger": 10,
    "trigger later": 6,
    "trigger ten": 2,
    "cancel": 4,
    "delete task": 1,
}
"""Of a hundred requests; two for a pause and its resume."""
SEED = 20_260_301
AT_ONCE = 200
KEPT = 500
"""Ids that are remembered for requests about them."""
ROOT = "/api/v1"
_ID = re.compile(rb'"id": ?"([0-9a-f-]{36})"')
_BEGINNING = 8192
"""Bytes of a page that are looked at for ids."""


@dataclass
class Results:
    """Latencies (ms) by kind, and what went wrong."""

    latencies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    """All requests, those before the clock ran included."""
    cpu_seconds: float = 0.0
    """Of this process, its start included."""

    def to_json(self) -> str:
        return json.dumps(vars(self))


class Asks(Protocol):
    """What the load needs of a client."""

    async def request(self, method: str, path: str, body: bytes | None = None) -> Answer: ...


class Load:
    """One client of one key, and what it knows of the tenant."""

    def __init__(self, client: Asks) -> None:
        self._client = client
        self._random = random.Random(SEED)  # noqa: S311 - a mix that is the same each time
        self._tasks: deque[str] = deque(maxlen=KEPT)
        self._spare: deque[str] = deque(maxlen=KEPT)
        self._executions: deque[str] = deque(maxlen=KEPT)
        self._later: deque[str] = deque(maxlen=KEPT)
        self._number = 0
        self.results = Results()

    async def prepare(self, count: int = 20) -> None:
        """Tasks to read, edit and trigger, before the clock runs."""
        for _ in range(count):
            self._tasks.append(await self._create())
            self._spare.append(await self._create())
        for _ in range(count):
            await self._trigger()
            await self._trigger_later()

    async def run(self, *, rate: int, seconds: float) -> Results:
        """Send `rate` requests a second."""
        names, weights = list(MIX), list(MIX.values())
        loop = asyncio.get_running_loop()
        begin = loop.time()
        running: set[asyncio.Task[None]] = set()
        for number in range(int(rate * seconds)):
            due = begin + number / rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            name = self._random.choices(names, weights)[0]
            task = asyncio.create_task(self._timed(name, due))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)
        return self.results

    async def each(self) -> Results:
        """One of each kind, one after the other."""
        for name in MIX:
            await self._timed(name, asyncio.get_running_loop().time())
        return self.results

    async def _timed(self, name: str, due: float) -> None:
        act: Callable[[], Awaitable[object]] = getattr(self, "_" + name.replace(" ", "_"))
        try:
            await act()
        except (OSError, AssertionError) as error:
            self.results.errors[f"{name}: {type(error).__name__} {error}"[:300]] += 1
        self.results.latencies[name].append((asyncio.get_running_loop().time() - due) * 1000)

    async def _ask(self, method: str, path: str, body: Any = None, **parameters: Any) -> bytes:
        self.results.sent += 1
        url = f"{ROOT}{path}?{urlencode(parameters)}" if parameters else f"{ROOT}{path}"
        content = None if body is None else json.dumps(body).encode()
        answer = await self._client.request(method, url, content)
        assert 200 <= answer.status < 300, f"{answer.status} {answer.body[:200]!r}"
        return answer.body

    def _any(self, known: Sequence[str]) -> str:
        return self._random.choice(known)

    async def _create(self) -> str:
        self._number += 1
        handler = {"type": "python", "name": "bench.nothing"}
        cron = {"type": "cron", "expression": f"{self._number % 60} 3 1 1 *", "timezone": "Europe/Paris"}
        document = {"name": f"load-{time.monotonic_ns()}-{self._number}", "schedule": cron, "handler": handler}
        made = await self._ask("POST", "/tasks", {**document, "overlap_policy": "allow_all", "tags": ["load"]})
        return _first_id(made)

    async def _list_tasks(self) -> None:
        await self._ask("GET", "/tasks", limit=50)

    async def _read_task(self) -> None:
        await self._ask("GET", f"/tasks/{self._any(self._tasks)}")

    async def _list_executions(self) -> None:
        page = await self._ask("GET", "/executions", limit=50)
        self._executions.extend(found.decode() for found in _ID.findall(page[:_BEGINNING])[:2])

    async def _list_executions_of_a_task(self) -> None:
        await self._ask("GET", "/executions", task_id=self._any(self._tasks), limit=50)

    async def _read_execution(self) -> None:
        await self._ask("GET", f"/executions/{self._any(self._executions)}")

    async def _list_dead_letters(self) -> None:
        await self._ask("GET", "/admin/dlq", limit=50)

    async def _list_workers(self) -> None:
        await self._ask("GET", "/workers")

    async def _who(self) -> None:
        await self._ask("GET", "/tenants/me")

    async def _preview_schedule(self) -> None:
        await self._ask("POST", "/schedules/preview", {"type": "cron", "expression": "30 2 * * 1-5", "count": 5})

    async def _create_task(self) -> None:
        self._spare.append(await self._create())

    async def _edit_task(self) -> None:
        self._number += 1
        await self._ask("PATCH", f"/tasks/{self._any(self._tasks)}", {"description": f"edit {self._number}"})

    async def _pause_and_resume(self) -> None:
        task = self._any(self._tasks)
        await self._ask("POST", f"/tasks/{task}/pause", {"note": "load"})
        await self._ask("POST", f"/tasks/{task}/resume")

    async def _trigger(self) -> None:
        made = await self._ask("POST", f"/tasks/{self._any(self._tasks)}/trigger", {"parameters": {}})
        self._executions.append(_first_id(made))

    async def _trigger_later(self) -> None:
        later = datetime.now(UTC) + timedelta(minutes=50)  # noqa: TID251 - the server takes any time near
        made = await self._ask("POST", f"/tasks/{self._any(self._tasks)}/trigger", {"run_at": later.isoformat()})
        self._later.append(_first_id(made))

    async def _trigger_ten(self) -> None:
        await self._ask("POST", f"/tasks/{self._any(self._tasks)}/trigger-batch", {"items": [{}] * 10})

    async def _cancel(self) -> None:
        if self._later:
            await self._ask("POST", f"/executions/{self._later.popleft()}/cancel")

    async def _delete_task(self) -> None:
        if self._spare:
            await self._ask("DELETE", f"/tasks/{self._spare.popleft()}")


def _first_id(document: bytes) -> str:
    """Of what was made. Reading whole documents would cost as much as sending the request."""
    found = _ID.search(document)
    assert found is not None, f"no id in {document[:200]!r}"
    return found[1].decode()


async def main(url: str, rate: int, seconds: float) -> Results:
    where = urlsplit(url)
    assert where.hostname
    assert where.port
    async with Client(where.hostname, where.port, key=os.environ["CHRONOWEB_API_KEY"], at_once=AT_ONCE) as client:
        load = Load(client)
        await load.prepare()
        results = await load.run(rate=rate, seconds=seconds)
    results.cpu_seconds = time.process_time()
    return results


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))).to_json())
