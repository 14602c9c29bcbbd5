"""A run's socket: whose it is, what it tells, in which versions, and what many viewers cost."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any
from uuid import UUID

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import Client

from apps.console import door, sockets
from apps.console import hub as hubs
from apps.console.dags import nodes, run_state
from apps.console.dags.run_state import RunSource
from apps.console.dags.runs_live import RunsSource
from apps.console.executions.live import ExecutionsSource
from apps.executions import feed
from apps.executions.dags import operations
from apps.executions.dags.models import RunNode
from apps.executions.states import Status
from apps.tenants.models import Membership, Tenant
from chronoweb.asgi import application
from tests.console_dags import SALES, Dags, make_member
from tests.console_ledger import heard_by_writers, make_tenant
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)
in_thread = database_sync_to_async


@pytest.fixture(scope="module", autouse=True)
def _feed_ends_with_the_module() -> Iterator[None]:
    yield
    feed.close()


@in_thread
def prepare() -> tuple[Dags, str, UUID]:
    """A tenant's DAGs, a member's session cookie, and a run that waits for its first node."""
    dags = Dags(make_tenant())
    client = Client()
    client.force_login(make_member(dags.tenant))
    return dags, client.cookies[settings.SESSION_COOKIE_NAME].value, dags.start(dags.make("sales", SALES))


@asynccontextmanager
async def connected(tenant: Tenant, cookie: str, path: str) -> AsyncIterator[WebsocketCommunicator]:
    headers = [
        (b"host", b"localhost"),
        (b"origin", b"http://localhost"),
        (b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode()),
    ]
    communicator = WebsocketCommunicator(application, f"/ws/t/{tenant.slug}/{path}", headers=headers)
    accepted, _ = await communicator.connect(timeout=PATIENCE_SECONDS)
    assert accepted
    yield communicator
    await communicator.disconnect()


class Screen:
    """What a page would show: boxes by their place, and every version in the order in which it came."""

    def __init__(self, communicator: WebsocketCommunicator) -> None:
        self._communicator = communicator
        self.boxes: dict[int, dict[str, Any]] = {}
        self.versions: dict[int, list[list[int]]] = {}
        self.heads: list[str] = []
        self.kinds: list[str] = []

    async def hear(self) -> None:
        message = await self._communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        self.kinds.append(message["type"])
        for box in message["boxes"]:
            self.boxes[box["at"]] = box
            self.versions.setdefault(box["at"], []).append(box["version"])
        self.heads += [message["head"]] if message["head"] else []

    @property
    def states(self) -> dict[str, str]:
        """In the order of SALES; there the boxes are its nodes."""
        return {node["id"]: self.boxes[at]["state"] for at, node in enumerate(SALES)}

    async def until(self, **wanted: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not wanted.items() <= self.states.items():
                await self.hear()


async def test_who_leaves_the_tenant_loses_a_page_on_which_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "RECHECK_SECONDS", 0.3)
    dags, cookie, run = await prepare()
    async with connected(dags.tenant, cookie, f"runs/{run}/") as communicator:
        await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        for hub in hubs.hubs().values():
            await hub.stop()  # from here on there is nothing to tell
        await Membership.objects.filter(tenant=dags.tenant).adelete()
        while (event := await communicator.receive_output(timeout=PATIENCE_SECONDS))["type"] != "websocket.close":
            pass
    assert event["code"] == sockets.NOT_FOUND


async def test_nodes_without_an_execution_change_live_too() -> None:
    dags, cookie, run = await prepare()
    async with connected(dags.tenant, cookie, f"runs/{run}/") as communicator:
        screen = Screen(communicator)
        await screen.hear()
        assert screen.states["extract"] == "scheduled"
        assert screen.states["archive"] == "pending"
        await heard_by_writers(dags.tenant)
        await in_thread(dags.end)(run, extract={"shops": [1, 2], "type": "invoice"})
        await screen.until(extract="succeeded", receipts="skipped", archive="skipped", clean="scheduled")
        assert screen.boxes[2]["name"] == "score × 2"
        [edge] = [state for _, state in screen.boxes[3]["edges"]]
        assert edge == "untaken"
        await in_thread(dags.begin)(await in_thread(dags.waiting)(run, "clean"))
        await screen.until(clean="running")
        assert screen.boxes[1]["since"] is not None
        await in_thread(operations.pause_run)(principal=dags.who, run_id=run)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "paused" not in screen.heads[-1]:
                await screen.hear()
    for versions in screen.versions.values():
        assert versions == sorted(versions)
    assert set(screen.kinds[1:]) == {"boxes"}


async def test_clearing_goes_on_in_versions() -> None:
    dags, cookie, run = await prepare()
    await in_thread(dags.end)(run, extract=Status.DEAD_LETTER)
    async with connected(dags.tenant, cookie, f"runs/{run}/") as communicator:
        screen = Screen(communicator)
        await screen.hear()
        assert screen.states["clean"] == "upstream_failed"
        before = screen.boxes[0]["version"]
        await heard_by_writers(dags.tenant)
        await in_thread(operations.rerun_from_failed)(principal=dags.who, run_id=run)
        await screen.until(extract="scheduled", clean="pending", publish="pending")
        assert screen.boxes[0]["version"] > before


async def test_each_write_of_a_node_grows_its_revision() -> None:
    dags, _, run = await prepare()

    def revisions() -> dict[str, int]:
        return dict(RunNode.objects.filter(run_id=run).values_list("node_id", "revision"))

    seen = [await in_thread(revisions)()]
    for act in (
        lambda: dags.end(run, extract={"shops": [], "type": "receipt"}),
        lambda: operations.mark_node(principal=dags.who, run_id=run, node_id="clean", state="failed"),
        lambda: operations.clear_node(principal=dags.who, run_id=run, node_id="extract"),
        lambda: operations.cancel_run(principal=dags.who, run_id=run),
    ):
        await in_thread(act)()
        seen.append(await in_thread(revisions)())
    for before, after in itertools.pairwise(seen):
        assert all(after[node] >= before[node] for node in before)
        assert after != before
    assert seen[-1]["extract"] > seen[0]["extract"]


async def test_a_run_that_is_told_of_is_read_where_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand nodes each end changes a few; what holds of the run as a whole changes them all."""
    dags, _, run = await prepare()
    asked: list[Collection[int] | None] = []
    plain = nodes.read

    def noted(*given: Any, positions: Collection[int] | None = None, **more: Any) -> Any:
        asked.append(positions)
        return plain(*given, positions=positions, **more)

    monkeypatch.setattr(nodes, "read", noted)
    source = RunSource(dags.who, run)

    def told(act: Callable[[], Any]) -> tuple[Collection[int] | None, set[str]]:
        """Which nodes were read, and the states of those that have changed."""
        act()
        update = source.update({run}, looking=False)
        assert update is not None
        return asked[-1], {update.views[node].state for node in update.changed}

    await in_thread(source.update)(set(), looking=True)
    some, states = await in_thread(told)(lambda: dags.end(run, extract={"shops": [1], "type": "invoice"}))
    assert some is not None
    assert 1 < len(some) < len(SALES)
    assert {"succeeded", "skipped", "scheduled"} <= states
    assert await in_thread(told)(lambda: operations.pause_run(principal=dags.who, run_id=run)) == (None, set())


async def test_what_the_feed_does_not_tell_is_found_all_the_same() -> None:
    dags, cookie, run = await prepare()
    async with connected(dags.tenant, cookie, f"runs/{run}/") as communicator:
        screen = Screen(communicator)
        await screen.hear()
        with silent_feed():
            await in_thread(dags.begin)(await in_thread(dags.waiting)(run))
        await screen.until(extract="running")


@contextmanager
def silent_feed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feed, "changed", lambda *_: None)
        patch.setattr(feed, "changed_many", lambda *_: None)
        yield


async def test_what_the_feed_left_out_makes_runs_look_and_lists_wait() -> None:
    dags, _, run = await prepare()
    thread = ThreadPoolExecutor(1)
    sources = (RunSource(dags.who, run), RunsSource(dags.who), ExecutionsSource(dags.who))
    made: list[hubs.Hub[Any]] = [hubs.Hub(source, thread) for source in sources]
    for hub in made:
        hub.hear(set(), left_out=True)
    assert [hub._look_now for hub in made] == [True, False, False]
    thread.shutdown()


async def test_a_run_that_is_not_there_opens_no_socket() -> None:
    dags, cookie, _ = await prepare()
    other, _, foreign = await prepare()
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode()))
    for slug, run in ((dags.tenant.slug, foreign), (other.tenant.slug, foreign), (dags.tenant.slug, UUID(int=7))):
        communicator = WebsocketCommunicator(application, f"/ws/t/{slug}/runs/{run}/", headers=headers)
        accepted, _ = await communicator.connect(timeout=PATIENCE_SECONDS)
        assert not accepted


async def test_many_viewers_cost_what_one_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read does not grow with who looks; a socket costs its own check at the door."""
    reads: list[bool] = []
    plain = run_state.RunSource.update

    def counted(self: run_state.RunSource, changed: set[UUID], *, looking: bool) -> run_state.RunUpdate | None:
        reads.append(looking)
        return plain(self, changed, looking=looking)

    monkeypatch.setattr(run_state.RunSource, "update", counted)
    monkeypatch.setattr(run_state.RunSource, "look_seconds", 60.0)
    dags, cookie, run = await prepare()
    async with AsyncExitStack() as stack:
        screens = [
            Screen(await stack.enter_async_context(connected(dags.tenant, cookie, f"runs/{run}/"))) for _ in range(25)
        ]
        for screen in screens:
            await screen.hear()
        assert len(reads) == 1
        [hub] = [found for key, found in hubs.hubs().items() if key == ("run", dags.tenant.id, run)]
        assert len(hub.viewers) == 25
        await heard_by_writers(dags.tenant)
        await in_thread(dags.end)(run, extract={"shops": [1], "type": "receipt"})
        for screen in screens:
            await screen.until(extract="succeeded", receipts="scheduled")
        assert len(reads) <= 4
    assert ("run", dags.tenant.id, run) not in hubs.hubs()


async def test_strips_hear_of_runs_that_begin_and_end() -> None:
    dags, cookie, run = await prepare()
    async with connected(dags.tenant, cookie, "dags/") as communicator:
        snapshot = await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
        assert [(one["id"], one["state"]) for one in snapshot["runs"]] == [(str(run), "running")]
        await heard_by_writers(dags.tenant)
        await in_thread(operations.cancel_run)(principal=dags.who, run_id=run)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                message = await communicator.receive_json_from(timeout=PATIENCE_SECONDS)
                if [one["state"] for one in message["runs"] if one["id"] == str(run)] == ["cancelled"]:
                    break
