"""The live page's socket: whose it is, what it sends, how it heals, what it costs."""

import asyncio
import json
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings

from apps.console import door, sockets
from apps.console import hub as hubs
from apps.console import pace as pace_module
from apps.console.executions import live
from apps.console.pace import BUDGET, MOST_DEBT_SECONDS, WINDOW_SECONDS, Pace
from apps.executions import feed
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.quickstart.bench.pages import counted
from apps.tenants import onlookers
from apps.tenants.models import Membership, Role, Tenant
from chronoweb.asgi import application
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.console_ledger import HOSTILE, Ledger, change, heard_by_writers, make_person, make_tenant
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

in_thread = database_sync_to_async


@pytest.fixture(scope="module", autouse=True)
def _feed_ends_with_the_module() -> Iterator[None]:
    yield
    feed.close()


@in_thread
def prepare() -> tuple[Tenant, Ledger, str, int]:
    """A tenant, its ledger, and a member's session cookie and id."""
    tenant = make_tenant()
    person = make_person(tenant)
    client = Client()
    client.force_login(person)
    return tenant, Ledger(tenant), client.cookies[settings.SESSION_COOKIE_NAME].value, person.pk


def socket(
    slug: str,
    cookie: str,
    *,
    query: str = "",
    origin: str = "http://localhost",
    subprotocols: list[str] | None = None,
) -> WebsocketCommunicator:
    """query: what comes behind the address of the list: its query string, or an id and a slash."""
    headers = [
        (b"host", b"localhost"),
        (b"origin", origin.encode()),
        (b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode()),
    ]
    return WebsocketCommunicator(application, f"/ws/t/{slug}/executions/{query}", headers, subprotocols)


@asynccontextmanager
async def connected(slug: str, cookie: str, query: str = "") -> AsyncIterator[WebsocketCommunicator]:
    communicator = socket(slug, cookie, query=query)
    accepted, _ = await communicator.connect(timeout=PATIENCE_SECONDS)
    assert accepted
    yield communicator
    await communicator.disconnect()


async def until(
    communicator: WebsocketCommunicator, wanted: Callable[[dict[str, Any]], bool], seconds: float = PATIENCE_SECONDS
) -> dict[str, Any]:
    """The first message row that is `wanted`."""
    async with asyncio.timeout(seconds):
        while True:
            message = await communicator.receive_json_from(timeout=seconds)
            for row in message["rows"]:
                if wanted(row):
                    return row


def hubs_of(tenant: Tenant) -> list[hubs.Hub[Any]]:
    return [found for key, found in hubs.hubs().items() if key == ("executions", tenant.id)]


async def test_strangers_other_tenants_and_other_origins_are_refused() -> None:
    tenant, _, cookie, _ = await prepare()
    foreign, _, foreign_cookie, _ = await prepare()
    for communicator in (
        socket(tenant.slug, "no-session"),
        socket(tenant.slug, foreign_cookie),
        socket(foreign.slug, cookie),
        socket("no-such-tenant", cookie),
        socket(tenant.slug, cookie, origin="https://evil.example"),
    ):
        accepted, _ = await communicator.connect(timeout=PATIENCE_SECONDS)
        assert not accepted


async def test_an_unknown_address_is_refused_and_no_fault() -> None:
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    for path in ("/ws/", "/ws/t/no-such-page/", "/elsewhere"):
        accepted, _ = await WebsocketCommunicator(application, path, headers=headers).connect(timeout=PATIENCE_SECONDS)
        assert not accepted


async def closed(communicator: WebsocketCommunicator) -> int:
    """The code with which it is closed."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (event := await communicator.receive_output(timeout=PATIENCE_SECONDS))["type"] != "websocket.close":
            pass
    code: int = event["code"]
    return code


async def test_pages_send_nothing_so_who_sends_is_no_page() -> None:
    """Nobody keeps a process busy by what it would only throw away."""
    tenant, _, cookie, _ = await prepare()
    async with connected(tenant.slug, cookie) as communicator:
        await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        await communicator.send_to(bytes_data=b"\xff")
        assert await closed(communicator) == sockets.NOT_ASKED


async def test_one_person_and_one_tenant_have_so_many_pages_live(settings: Settings) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, live_views_per_person=2, live_views_per_tenant=3)
    tenant, _, cookie, _ = await prepare()
    other = await in_thread(another_member)(tenant)
    async with AsyncExitStack() as stack:
        for whose in (cookie, cookie, other):
            await stack.enter_async_context(connected(tenant.slug, whose))
        for whose in (cookie, other):
            one_more = await stack.enter_async_context(connected(tenant.slug, whose))
            assert await closed(one_more) == sockets.NO_PLACE
    async with connected(tenant.slug, cookie) as communicator:
        assert (await communicator.receive_json_from(timeout=PATIENCE_SECONDS))["type"] == "snapshot"
    assert not onlookers._places._taken


def another_member(tenant: Tenant) -> str:
    """Their session's cookie."""
    client = Client()
    client.force_login(make_person(tenant))
    return client.cookies[settings.SESSION_COOKIE_NAME].value


async def test_a_snapshot_comes_first_and_is_the_tenants_own() -> None:
    tenant, ledger, cookie, _ = await prepare()
    _, other, _, _ = await prepare()
    mine = await in_thread(ledger.add)(Status.RUNNING, task=HOSTILE)
    await in_thread(other.add)(Status.RUNNING)
    async with connected(tenant.slug, cookie) as communicator:
        snapshot = await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
    assert snapshot["type"] == "snapshot"
    assert [row["id"] for row in snapshot["rows"]] == [str(mine.id)]
    assert "<img" not in snapshot["rows"][0]["html"]
    assert 'data-state="running"' in snapshot["summary"]


async def test_pages_that_unpack_are_sent_packed_what_others_are_sent_as_text() -> None:
    tenant, ledger, cookie, _ = await prepare()
    for _ in range(3):
        await in_thread(ledger.add)(Status.COMPLETED)
    packing = socket(tenant.slug, cookie, subprotocols=["other", sockets.PACKED])
    assert await packing.connect(timeout=PATIENCE_SECONDS) == (True, sockets.PACKED)
    async with connected(tenant.slug, cookie) as plain:
        packed, text = (
            await packing.receive_output(timeout=PATIENCE_SECONDS),
            await plain.receive_output(timeout=PATIENCE_SECONDS),
        )
    await packing.disconnect()
    assert zlib.decompress(packed["bytes"]).decode() == text["text"]
    assert 3 * len(packed["bytes"]) < len(text["text"])


async def test_a_change_arrives_with_its_version() -> None:
    tenant, ledger, cookie, _ = await prepare()
    row = await in_thread(ledger.add)(Status.RUNNING)
    async with connected(tenant.slug, cookie) as communicator:
        await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        await heard_by_writers(tenant)
        await in_thread(change)(row, status=Status.COMPLETED, finished_at=row.started_at + timedelta(seconds=2))
        feed.changed(tenant.id, [row.id])
        update = await until(communicator, lambda r: r["id"] == str(row.id))
    assert (update["state"], update["version"]) == ("completed", row.version)
    assert "2.0 s" in update["html"]


async def test_what_the_feed_does_not_tell_is_found_all_the_same() -> None:
    tenant, ledger, cookie, _ = await prepare()
    row = await in_thread(ledger.add)(Status.RUNNING)
    async with connected(tenant.slug, cookie) as communicator:
        await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        await in_thread(change)(row, status=Status.RETRYING)
        update = await until(communicator, lambda r: r["id"] == str(row.id))
    assert update["state"] == "retrying"


async def test_a_filtered_page_adds_its_state_alone_and_changes_what_it_shows() -> None:
    tenant, ledger, cookie, _ = await prepare()
    row = await in_thread(ledger.add)(Status.RUNNING)
    async with connected(tenant.slug, cookie, "?state=running") as communicator:
        snapshot = await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        assert [r["state"] for r in snapshot["rows"]] == ["running"]
        await in_thread(change)(row, status=Status.COMPLETED, finished_at=row.started_at)
        new = await in_thread(ledger.add)(Status.RUNNING)
        feed.changed(tenant.id, [row.id, new.id])
        found: dict[str, dict[str, Any]] = {}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not {str(row.id), str(new.id)} <= found.keys():
                message = await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
                found |= {r["id"]: r for r in message["rows"]}
    assert found[str(row.id)]["insert"] is False
    assert found[str(new.id)]["insert"] is True


async def test_viewers_of_one_tenant_share_one_reading() -> None:
    tenant, ledger, cookie, _ = await prepare()
    await in_thread(ledger.add)(Status.RUNNING)
    async with connected(tenant.slug, cookie) as one, connected(tenant.slug, cookie) as other:
        await one.receive_json_from(timeout=PATIENCE_SECONDS)
        await other.receive_json_from(timeout=PATIENCE_SECONDS)
        hubs = hubs_of(tenant)
        assert [len(hub.viewers) for hub in hubs] == [2]
    assert not hubs_of(tenant)


async def test_a_viewer_that_fell_behind_starts_over() -> None:
    tenant, ledger, cookie, _ = await prepare()
    row = await in_thread(ledger.add)(Status.RUNNING)
    async with connected(tenant.slug, cookie) as communicator:
        await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        (hub,) = hubs_of(tenant)
        (viewer,) = hub.viewers
        viewer.fell_behind = True
        viewer.give(live.Update(rows=[], index=None, tenant_slug=tenant.slug, now=SYSTEM_CLOCK.now()))
        message = await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
    assert message["type"] == "snapshot"
    assert [r["id"] for r in message["rows"]] == [str(row.id)]


@pytest.mark.parametrize("ends", ["membership", "session", "password", "account"])
async def test_who_may_not_look_any_more_loses_the_socket(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    monkeypatch.setattr(door, "RECHECK_SECONDS", 0.0)
    tenant, _, cookie, person_id = await prepare()
    async with connected(tenant.slug, cookie) as communicator:
        await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        await in_thread(end)(ends, person_id, cookie)
        assert await closed(communicator) == sockets.NOT_FOUND


def end(what: str, person_id: int, cookie: str) -> None:
    """What lets a person look on; by logging out, say."""
    if what == "membership":
        Membership.objects.filter(user_id=person_id).delete()
    elif what == "session":
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = cookie
        assert client.post("/logout/").status_code == 302
    else:
        person = User.objects.get(pk=person_id)
        if what == "password":
            person.set_password("another one")
        person.is_active = what != "account"
        person.save()


async def test_who_gets_another_role_gets_a_socket_of_that_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each role has pieces of its own; the page opens the next socket by itself."""
    monkeypatch.setattr(door, "RECHECK_SECONDS", 0.0)
    tenant, _, cookie, person_id = await prepare()
    async with connected(tenant.slug, cookie) as communicator:
        await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        await Membership.objects.filter(user_id=person_id).aupdate(role=Role.VIEWER)
        await closed(communicator)
    async with connected(tenant.slug, cookie) as communicator:
        assert (await communicator.receive_json_from(timeout=PATIENCE_SECONDS))["type"] == "snapshot"


async def test_rows_far_ahead_are_not_pushed() -> None:
    """They come near soon enough; a page that shows the present must not fill with the next hour."""
    tenant, ledger, cookie, _ = await prepare()
    for n in range(10):
        await in_thread(ledger.add)(Status.SCHEDULED, due=timedelta(seconds=30 + n))
    async with connected(tenant.slug, cookie) as communicator:
        await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        await heard_by_writers(tenant)
        far: Execution = await in_thread(ledger.add)(Status.SCHEDULED, due=timedelta(minutes=50))
        feed.changed(tenant.id, [far.id])
        update = await until(communicator, lambda r: r["id"] == str(far.id))
    assert update["insert"] is False


async def test_a_narrowed_page_adds_what_its_question_finds() -> None:
    tenant, ledger, cookie, _ = await prepare()
    async with connected(tenant.slug, cookie, "?q=WANT&class=standard") as communicator:
        assert (await communicator.receive_json_from(timeout=PATIENCE_SECONDS))["summary"] is None
        await heard_by_writers(tenant)
        rows = [await in_thread(ledger.add)(Status.RUNNING, task=name) for name in ("wanted", "other")]
        feed.changed(tenant.id, [row.id for row in rows])
        found: dict[str, bool] = {}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found) < 2:
                message = await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
                found |= {row["id"]: row["insert"] for row in message["rows"]}
    assert found == {str(rows[0].id): True, str(rows[1].id): False}
    accepted, _ = await socket(tenant.slug, cookie, query="?state=no_such_state").connect(timeout=PATIENCE_SECONDS)
    assert not accepted


async def test_one_execution_is_followed_by_its_own_members_alone() -> None:
    tenant, ledger, cookie, _ = await prepare()
    _, _, foreign_cookie, _ = await prepare()
    row = await in_thread(ledger.add)(Status.RUNNING)
    for slug, who in ((tenant.slug, foreign_cookie), (foreign_cookie[:5], cookie)):
        accepted, _ = await socket(slug, who, query=f"{row.id}/").connect(timeout=PATIENCE_SECONDS)
        assert not accepted
    async with connected(tenant.slug, cookie, f"{row.id}/") as communicator:
        snapshot = await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        assert set(snapshot["pieces"]) == {"head", "why", "fault", "attempts", "data", "story", "lineage"}
        await heard_by_writers(tenant)
        await in_thread(change)(row, status=Status.COMPLETED, finished_at=row.started_at, result={"rows": 1204})
        feed.changed(tenant.id, [row.id])
        told: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "1204" not in told.get("data", ""):
                told |= (await communicator.receive_json_from(timeout=PATIENCE_SECONDS))["pieces"]
    assert f'data-row-version="{row.version}"' in told["head"]
    assert 'data-standing="resting"' in told["head"]


async def test_thirty_sockets_cost_the_database_what_three_cost() -> None:
    """Open pages: what is read, and who may look, is asked once for all; what they are told is written once."""
    spent, written = [], set()
    for count in (3, 30):
        tenant, ledger, cookie, _ = await prepare()
        row = await in_thread(ledger.add)(Status.RUNNING)
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(connected(tenant.slug, cookie)) for _ in range(count)]
            for communicator in opened:
                await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
            [hub], [the_door] = hubs_of(tenant), door._doors.values()
            await hub.stop()  # from here on it reads when it is told to
            await in_thread(change)(row, status=Status.COMPLETED)
            with counted() as statements:
                hub._hand_out(await hub.read(partial(hub.source.update, {row.id}, looking=True)))
                await the_door.ask()
                told = [await communicator.receive_output(timeout=PATIENCE_SECONDS) for communicator in opened]
            spent.append(len(statements))
            written |= {len({id(one["text"]) for one in told})}
            assert [len(json.loads(one["text"])["rows"]) for one in told] == [1] * count
    assert spent[1] == spent[0] > 0
    assert written == {1}


def test_what_was_spent_is_earned_before_more_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """One page that is open changes at once; what costs more comes more rarely, but within its patience."""
    began = 1000.0
    monkeypatch.setattr(pace_module, "time", SimpleNamespace(monotonic=lambda: began))  # no time passes
    pace = Pace()
    assert pace.wait_seconds(began - WINDOW_SECONDS, patience=2.0) == 0
    pace.spend(WINDOW_SECONDS * BUDGET / 2)
    assert 0 < pace.wait_seconds(began, patience=2.0) <= WINDOW_SECONDS
    for _ in range(3):  # other hubs
        pace.spend(WINDOW_SECONDS * BUDGET)
    assert 3 * WINDOW_SECONDS < pace.wait_seconds(began, patience=2.0) < 4 * WINDOW_SECONDS
    assert WINDOW_SECONDS < pace.wait_seconds(began, patience=0.4) <= 0.4
    pace.spend(100.0)
    assert pace.wait_seconds(began, patience=60.0) < MOST_DEBT_SECONDS + 1, "debts are not kept for ever"


class _Counting:
    """A source that notes when it was read, and of what."""

    look_seconds, patience_seconds, minds_gaps = 60.0, 0.4, False

    def __init__(self) -> None:
        self.read: list[set[UUID]] = []

    def wants(self, identities: set[UUID]) -> set[UUID]:
        return identities

    def update(self, changed: set[UUID], *, looking: bool) -> None:
        self.read.append(changed)


async def test_nothing_is_read_while_nothing_changes_and_then_within_its_patience() -> None:
    thread, source, pace = ThreadPoolExecutor(1), _Counting(), Pace()
    hub: hubs.Hub[Any] = hubs.Hub(source, thread, pace)
    began, changed = time.monotonic(), [uuid4(), uuid4()]
    hub.start()
    await hub.started.wait()
    pace.spend(100.0)
    for one in changed:
        hub.hear({one}, left_out=False)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(source.read) < 2:
            await asyncio.sleep(0.01)
    assert time.monotonic() - began >= source.patience_seconds, "the process could not afford it sooner"
    assert source.read == [set(), set(changed)]
    await hub.stop()
    thread.shutdown()


async def test_who_comes_at_once_shares_a_reading_until_there_is_news() -> None:
    thread, reads = ThreadPoolExecutor(1), []
    hub: hubs.Hub[Any] = hubs.Hub(live.ExecutionsSource.__new__(live.ExecutionsSource), thread)

    def reading() -> int:
        reads.append(1)
        return len(reads)

    assert await asyncio.gather(*(hub.shared("page", reading) for _ in range(9))) == [1] * 9
    hub._hand_out(None)
    assert (await hub.shared("page", reading), await hub.shared("other", reading)) == (2, 3)
    thread.shutdown()


class _Silent:
    """A source whose ledger is away, and comes back."""

    look_seconds, patience_seconds, minds_gaps = 0.01, 0.01, False

    def __init__(self) -> None:
        self.is_away = False

    def wants(self, identities: set[UUID]) -> set[UUID]:
        return identities

    def update(self, changed: set[UUID], *, looking: bool) -> int | None:
        if self.is_away:
            raise OperationalError("away")
        return None


async def test_viewers_are_told_when_the_ledger_falls_silent_and_when_it_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "_RETRY_SECONDS", 0.01)
    source, key = _Silent(), uuid4()

    def make() -> hubs.Source[int]:
        return source

    async with hubs.joined(key, key, make) as (_, viewer):
        for is_away, told in ((True, hubs.Unread.SILENT), (False, hubs.Unread.HEARD)):
            source.is_away = is_away
            assert await asyncio.wait_for(viewer.updates.get(), PATIENCE_SECONDS) is told
            assert viewer.updates.empty()
