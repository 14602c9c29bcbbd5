"""Reading logs: pages, searches, downloads and the live tail, over what is kept and what still waits, as one."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.conf import settings as django_settings
from django.db import connection
from django.test import AsyncClient, override_settings

from apps.definitions.models import Task
from apps.executions.models import Attempt, Execution
from apps.executions.states import Outcome, Status
from apps.logs import live, reading
from apps.logs.daemon import LogShipper
from apps.logs.models import LogChunk
from apps.logs.records import BEGINNING, Batch, Position
from apps.logs.transport import Taken, make_publisher, make_tail
from apps.quickstart.services import ServiceAddresses
from apps.tenants import onlookers
from apps.tenants.models import ApiKey, Membership
from chronoweb.runtime.addresses import Addresses
from tests.console_ledger import make_person
from tests.factories import Api, execution, make_api, make_task, problem, reread
from tests.log_tools import batch
from tests.stack import quick_config
from tests.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.django_db(transaction=True)
TOKEN = 1
"""Of executions that tests/factories.py makes."""


class Logbook:
    """One tenant's execution, its transport, and a shipper."""

    def __init__(self, services: ServiceAddresses, prefix: str) -> None:
        url = urlsplit(services.database_url)._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
        self.addresses = Addresses(url, url, services.redis_url, "")
        self.config = quick_config(prefix, log_ship_seconds=0.05, log_claim_seconds=0.3)
        self.api: Api = make_api()
        self.task: Task = make_task(self.api.principal)
        self.row: Execution = execution(self.task, Status.RUNNING)
        self.shipper = LogShipper(self.config, self.addresses)

    def write(self, *batches: Batch) -> None:
        publisher = make_publisher(self.addresses, self.config)
        for one in batches:
            eventually(lambda one=one: publisher.publish([one]) == [Taken.YES])  # type: ignore[misc]
        publisher.close()

    def say(self, first: int, last: int, **more: Any) -> None:
        self.write(batch(self.row.id.bytes, first, last, **{"token": TOKEN, **more}))

    def ship(self, until: int, row: Execution | None = None) -> None:
        chunks = LogChunk.objects.filter(execution_id=(row or self.row).id, last_seq__gte=until)
        eventually(lambda: self.shipper.run_once() and chunks.exists())

    def finish(self, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        now = django_now()
        Attempt.objects.create(
            scheduled_at=self.row.scheduled_at,
            execution_id=self.row.id,
            attempt=1,
            token=TOKEN,
            tenant_id=self.row.tenant_id,
            worker_id=1,
            outcome=outcome,
            due_at=now,
            started_at=now,
            finished_at=now,
        )
        Execution.objects.with_id(self.row.id).update(status=Status.COMPLETED, finished_at=now)

    @property
    def path(self) -> str:
        return f"/executions/{self.row.id}/logs"

    def stream(self, after: Position = BEGINNING, **options: Any) -> live.Stream:
        tail = make_tail(self.addresses, self.config, self.row.id.bytes)
        return live.Stream(self.api.principal, reread(self.row), tail, after, **options)


def django_now() -> Any:
    from tests.factories import now

    return now()


@pytest.fixture
def book(services: ServiceAddresses, redis_prefix: str, tmp_path: Path) -> Iterator[Logbook]:
    backend = {"BACKEND": "apps.logs.objects.DurableFiles", "OPTIONS": {"location": str(tmp_path / "kept")}}
    made = Logbook(services, redis_prefix)
    changed = {
        "STORAGES": {**django_settings.STORAGES, "logs": backend},
        "CHRONOWEB": replace(django_settings.CHRONOWEB, redis_prefix=redis_prefix),
        "SERVICES": made.addresses,
    }
    with override_settings(**changed):
        yield made
    made.shipper.close()


def numbers(items: list[dict[str, Any]]) -> list[int]:
    return [item["seq"] for item in items]


# ---- pages --------------------------------------------------------------------------------------------------------


def test_pages_go_on_by_key_while_lines_come_and_are_shipped(book: Logbook) -> None:
    book.say(1, 30)
    book.ship(30)
    book.say(31, 50)
    seen: list[int] = []
    cursor = ""
    while True:
        page = book.api.get(f"{book.path}?limit=7{cursor and '&cursor=' + cursor}").json()
        seen += numbers(page["items"])
        if len(seen) == 35:
            book.ship(50)  # what was in the transport is in the index now
            book.say(51, 60, ended=True)
        if page["next_cursor"] is None:
            break
        cursor = page["next_cursor"]
    assert seen == list(range(1, 61))
    [first] = book.api.get(f"{book.path}?limit=1").json()["items"]
    assert first == {
        "id": f"{TOKEN}-1", "attempt": 1, "seq": 1, "time": "2026-01-01T00:00:00.000000Z", "stream": "stdout",
        "text": "line 1",
    }  # fmt: skip


def test_filters_and_a_search_in_one_log(book: Logbook) -> None:
    book.say(1, 40, text="needle in line")
    book.ship(40)
    book.say(41, 60, text="Needle waits")
    found = book.api.get(f"{book.path}?search={quote('needle 4')}&limit=1000").json()["items"]
    assert numbers(found) == [4, 40, *range(41, 50)]
    assert book.api.get(f"{book.path}?search=nothing").json() == {"items": [], "next_cursor": None}
    assert book.api.get(f"{book.path}?stream=stderr,log").json()["items"] == []
    assert book.api.get(f"{book.path}?attempt=2").json()["items"] == []
    for query in ("limit=0", "limit=1001", "cursor=x", "stream=stdin", "search=%E2%80%A6", "attempt=a", "unknown=1"):
        problem(book.api.get(f"{book.path}?{query}"), 400)


def test_a_foreign_log_is_not_there(book: Logbook) -> None:
    book.say(1, 3)
    book.ship(3)
    stranger = make_api()
    for path in (book.path, f"{book.path}/download"):
        problem(stranger.get(path), 404)
    problem(stranger.get(book.path, headers={"Accept": "text/event-stream"}), 404)
    assert stranger.get("/logs?search=line").json()["items"] == []
    assert len(book.api.get("/logs?search=line").json()["items"]) == 3


def test_the_search_of_a_tenant_finds_the_lines_and_goes_on_by_key(book: Logbook) -> None:
    others = [execution(book.task, Status.RUNNING) for _ in range(3)]
    for number, row in enumerate(others):
        book.write(batch(row.id.bytes, 1, 20, token=TOKEN, text=f"needle of n{number} is"))
    for row in others:
        book.ship(20, row)
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = book.api.get(f"/logs?search=needle&limit=7{cursor and '&cursor=' + quote(cursor)}").json()
        found += page["items"]
        if page["next_cursor"] is None:
            break
        cursor = page["next_cursor"]
    latest_first = sorted(others, key=lambda row: row.id, reverse=True)
    assert [(line["execution_id"], line["seq"]) for line in found] == [
        (str(row.id), n) for row in latest_first for n in range(1, 21)
    ]
    [only] = book.api.get(f"/logs?search={quote('needle n1 17')}").json()["items"]
    assert only["text"] == "needle of n1 is 17"
    problem(book.api.get("/logs"), 400)
    problem(book.api.get("/logs?search=x&cursor=junk"), 400)


def whole(answer: Any) -> bytes:
    async def read() -> bytes:
        return b"".join([part async for part in answer.streaming_content])

    return async_to_sync(read)()


def test_a_download_is_what_was_written(book: Logbook) -> None:
    book.say(1, 30)
    book.ship(30)
    book.say(31, 50)
    raw = b"".join(batch(book.row.id.bytes, a, b, token=TOKEN).lines for a, b in ((1, 30), (31, 50)))
    answer = book.api.get(f"{book.path}/download")
    assert whole(answer) == raw
    assert answer["Content-Disposition"] == f'attachment; filename="log-{book.row.id}.jsonl"'
    text = whole(book.api.get(f"{book.path}/download?format=text"))
    assert text.decode().splitlines() == [f"line {n}" for n in range(1, 51)]
    problem(book.api.get(f"{book.path}/download?format=pdf"), 400)


def test_an_object_that_is_gone_is_told_and_nothing_breaks(book: Logbook, tmp_path: Path) -> None:
    book.say(1, 30)
    book.ship(30)
    for file in (tmp_path / "kept").rglob("*.gz"):
        file.unlink()
    book.say(31, 32)
    first, *rest = book.api.get(book.path).json()["items"]
    assert (first["seq"], first["stream"]) == (30, "system")
    assert "lines 1 to 30: the object that these lines were kept in is gone" in first["text"]
    assert numbers(rest) == [31, 32]


# ---- live ---------------------------------------------------------------------------------------------------------


class Viewer:
    """Reads a stream's events."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self._events = events
        self._buffer = b""
        self.comments = 0

    async def next(self, seconds: float = PATIENCE_SECONDS) -> dict[str, str]:
        async with asyncio.timeout(seconds):
            while True:
                head, found, rest = self._buffer.partition(b"\n\n")
                if not found:
                    self._buffer += await anext(self._events)
                    continue
                self._buffer = rest
                if head.startswith(b":"):
                    self.comments += 1
                    continue
                event: dict[str, str] = {}
                for line in head.decode().splitlines():
                    name, _, value = line.partition(": ")
                    event[name] = f"{event[name]}\n{value}" if name in event else value
                if "data" in event:
                    return event

    async def numbers(self, count: int) -> list[int]:
        return [json.loads((await self.next())["data"])["seq"] for _ in range(count)]


@asynccontextmanager
async def viewing(stream: live.Stream) -> AsyncIterator[Viewer]:
    events = stream.events()
    try:
        yield Viewer(events)
    finally:
        await events.aclose()  # type: ignore[attr-defined]


in_thread = database_sync_to_async


@pytest.fixture
def abook(book: Logbook) -> Logbook:
    return book


async def test_lines_come_at_once_and_the_end_is_said(abook: Logbook, monkeypatch: pytest.MonkeyPatch) -> None:
    book = abook
    monkeypatch.setattr(live, "FOLLOW_SECONDS", 10 * PATIENCE_SECONDS)  # who has to look again comes too late
    await in_thread(book.say)(1, 5)
    stream = await in_thread(book.stream)()
    async with viewing(stream) as viewer:
        assert await viewer.numbers(5) == [1, 2, 3, 4, 5]
        for number in range(6, 16):
            await in_thread(book.say)(number, number)
            assert await viewer.numbers(1) == [number]
        monkeypatch.setattr(live, "FOLLOW_SECONDS", 0.5)
        await in_thread(book.say)(16, 15, ended=True)
        await in_thread(book.finish)()
        last = await viewer.next()
        assert last["event"] == "end"
        assert json.loads(last["data"]) == {"status": "completed", "attempt": 1, "last": f"{TOKEN}-15"}
        with pytest.raises(StopAsyncIteration):
            await viewer.next()


async def test_a_viewer_goes_on_behind_any_line(abook: Logbook) -> None:
    book = abook
    await in_thread(book.say)(1, 30)
    await in_thread(book.ship)(30)
    await in_thread(book.say)(31, 40)
    for after in (0, 1, 17, 30, 35, 39):
        stream = await in_thread(book.stream)(Position(TOKEN, after) if after else BEGINNING)
        async with viewing(stream) as viewer:
            assert await viewer.numbers(40 - after) == list(range(after + 1, 41))
    stream = await in_thread(book.stream)(grouped=True)
    async with viewing(stream) as viewer:
        first = await viewer.next()
        assert (first["event"], first["id"]) == ("lines", f"{TOKEN}-30")
        assert numbers([json.loads(line) for line in first["data"].splitlines()]) == list(range(1, 31))


async def test_no_line_is_missed_or_seen_twice_while_lines_are_shipped(abook: Logbook) -> None:
    """Everything that is written is shipped at once, so that the transport is mostly empty."""
    book = abook
    stop = asyncio.Event()

    async def ship() -> None:
        while not stop.is_set():
            await in_thread(book.shipper.run_once, thread_sensitive=False)()
            await asyncio.sleep(0.01)

    shipping = asyncio.create_task(ship())
    try:
        stream = await in_thread(book.stream)()
        async with viewing(stream) as viewer:
            for start in range(1, 600, 20):
                await in_thread(book.say)(start, start + 19, ended=start == 581)
                if start % 60 == 1:
                    await asyncio.sleep(0.1)
            assert await viewer.numbers(600) == list(range(1, 601))
            await in_thread(book.finish)()
            assert (await viewer.next())["event"] == "end"
    finally:
        stop.set()
        await shipping


async def test_an_attempt_without_lines_ends_too_and_so_does_one_whose_worker_was_lost(
    abook: Logbook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "UNSAID_SECONDS", 10 * PATIENCE_SECONDS)
    book = abook
    await in_thread(book.finish)(Outcome.CRASHED)
    stream = await in_thread(book.stream)()
    async with viewing(stream) as viewer:
        assert (await viewer.next())["event"] == "end"
    await in_thread(book.say)(1, 3)
    stream = await in_thread(book.stream)()
    async with viewing(stream) as viewer:
        assert await viewer.numbers(3) == [1, 2, 3]
        assert (await viewer.next())["event"] == "end"


async def test_silence_is_broken_by_comments(abook: Logbook, monkeypatch: pytest.MonkeyPatch) -> None:
    """And in silence the database is asked ever more rarely."""
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 1.0)
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(live, "FOLLOW_SECONDS", 0.02)
    looks, plain = [], reading.standing

    def looked(*given: Any, **named: Any) -> reading.Standing:
        looks.append(1)
        return plain(*given, **named)

    monkeypatch.setattr(reading, "standing", looked)
    stream = await in_thread(abook.stream)()
    events = stream.events()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for data in events:
                if data.startswith(b":"):
                    break
    finally:
        await events.aclose()
    assert 2 <= len(looks) <= 6


@pytest.mark.parametrize("ends", ["key", "membership", "session"])
async def test_who_may_not_look_any_more_is_shown_nothing_more(
    abook: Logbook, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """A tail without an end ends for who has lost the key, or left the tenant, since it began."""
    monkeypatch.setattr(live, "RECHECK_SECONDS", 0.2)
    await in_thread(abook.say)(1, 2)
    tenant, headers = abook.api.tenant, {"Accept": "text/event-stream"}
    if ends == "key":
        answer = await in_thread(abook.api.get)(abook.path, headers=headers)
    else:
        browser = AsyncClient()
        await browser.aforce_login(await in_thread(make_person)(tenant))
        answer = await browser.get(f"/t/{tenant.slug}{abook.path}", headers=headers)
    viewer = Viewer(aiter(answer.streaming_content))
    assert await viewer.numbers(2) == [1, 2]
    assert onlookers._places._taken
    if ends == "session":
        await browser.alogout()
    else:
        rows = ApiKey.objects.all() if ends == "key" else Membership.objects.all()
        await rows.filter(tenant=tenant).adelete()
    with pytest.raises(StopAsyncIteration):
        await viewer.next()
    answer.close()
    assert not onlookers._places._taken
