"""Where the outside calls of tasks may not go: refused when a task is saved, and again at each connection."""

from collections.abc import Iterator
from typing import Any

import httpcore
import pytest

from apps.executions.container_spec import registry_of
from apps.executions.handler_spec import validate_handler
from apps.executions.states import Outcome
from apps.worker.containers.egress_proxy import EgressProxy
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.containers.run import ContainerRunner
from apps.worker.handlers.outbound_guard import GuardedBackend
from apps.worker.handlers.webhook import WebhookCaller
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInputs
from chronoweb.runtime.outbound import SETTING, OutboundRefused
from tests.factories import document, make_api, problem
from tests.runner_tools import Watched, assignment, watched
from tests.test_handlers_webhook import Server, server  # noqa: F401 - a fixture

FORBIDDEN = {
    "169.254.169.254": "169.254.169.254",
    "[::1]": "::1",
    "[::ffff:10.0.0.1]": "10.0.0.1",
    "[::ffff:a00:1]": "10.0.0.1",
    "2130706433": "127.0.0.1",
    "0x7f000001": "127.0.0.1",
    "0177.0.0.1": "127.0.0.1",
    "127.1": "127.0.0.1",
    "0": "0.0.0.0",  # noqa: S104 - bound to by nobody
    "localhost": "127.0.0.1",
    "LocalHost.": "127.0.0.1",
    "a.localhost": "127.0.0.1",
    "10.0.0.1": "10.0.0.1",
    "192.168.0.1.": "192.168.0.1",
    "[64:ff9b::7f00:1]": "127.0.0.1",
    "192.0.0.192": "192.0.0.192",
    "[::ffff:192.0.0.192]": "192.0.0.192",
    "[64:ff9b::c000:c0]": "192.0.0.192",
    "[2002:c000:c0::]": "192.0.0.192",
    "192.0.0.9": "192.0.0.9",
    "192.88.99.1": "192.88.99.1",
    "168.63.129.16": "168.63.129.16",
    "100.100.100.200": "100.100.100.200",
    "[3fff::1]": "3fff::1",
    "[2001:2::1]": "2001:2::1",
    "[5f00::1]": "5f00::1",
    "169.254.169.254。": "169.254.169.254",
    "127。0.0｡1": "127.0.0.1",
    "①②⑦.⓪.⓪.①": "127.0.0.1",
}
"""A host → the address that it leads to, which the refusal names."""
TRICKS = (
    "http://8.8.8.8@127.0.0.1/",
    "http://user:secret@8.8.8.8/",
    "http://127.0.0.1#@8.8.8.8/",
    "http://8.8.8.8\\@127.0.0.1/",
    "http:///127.0.0.1/",
    "http://8.8.8.8 @127.0.0.1/",
    "http://127.0.0.1%2f@8.8.8.8/",
    "gopher://8.8.8.8/",
    "file:///etc/passwd",
)


def resolves_to(*addresses: str) -> Any:
    """A resolver whose every answer is the next of these; the last one stays."""
    left = list(addresses)
    return lambda host, port: [left.pop(0) if len(left) > 1 else left[0]]


@pytest.fixture(scope="module")
def strict() -> Iterator[Watched]:
    with watched(slots=4) as one:
        yield one


# ---- at save ------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("host", FORBIDDEN)
def test_a_task_is_not_saved_and_the_refusal_says_what_would_allow_it(host: str) -> None:
    refused = problem(
        make_api().post("/tasks", document(handler={"type": "webhook", "url": f"http://{host}:8080/x"})), 422
    )
    [error] = refused["errors"]
    assert error["pointer"] == "/handler/url"
    assert FORBIDDEN[host] in error["detail"]
    assert SETTING in error["detail"]


@pytest.mark.django_db
def test_a_name_is_refused_by_what_it_resolves_to() -> None:
    with pytest.raises(InvalidInputs) as refused:
        validate_handler({"type": "webhook", "url": "https://intern.example/"}, resolve=resolves_to("10.1.2.3"))
    for part in ("10.1.2.3", "intern.example", "private", SETTING):
        assert part in str(refused.value)
    allowed = {"allowed_networks": ["10.1.0.0/16"], "resolve": resolves_to("10.1.2.3")}
    assert validate_handler({"type": "webhook", "url": "https://intern.example/"}, **allowed)


@pytest.mark.parametrize("url", TRICKS)
def test_tricks_with_the_form(url: str) -> None:
    with pytest.raises(InvalidInputs):
        validate_handler({"type": "webhook", "url": url})


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("busybox", None),
        ("library/busybox:1", None),
        ("localhost/built-here:1", None),
        ("169.254.169.254/x", "169.254.169.254"),
        ("localhost:5000/x", "localhost:5000"),
        ("127.0.0.1:5000/a/b@sha256:" + "0" * 64, "127.0.0.1:5000"),
    ],
)
def test_images_come_from_public_registries(image: str, registry: str | None) -> None:
    assert registry_of(image) == registry
    handler = {"type": "container", "image": image}
    if registry is None:
        assert validate_handler(handler)["image"] == image
        return
    with pytest.raises(InvalidInputs, match=SETTING):
        validate_handler(handler)
    assert validate_handler(handler, allowed_networks=["127.0.0.0/8", "::1/128", "169.254.0.0/16"])


NO_NAMES = ("xn--", "a.xn--", "xn--a", "ex..ample", "x" * 64 + ".example", "☃.example", ".".join(["abcdefgh"] * 29))


@pytest.mark.django_db
@pytest.mark.parametrize("host", NO_NAMES)
def test_what_cannot_be_a_hosts_name_is_not_saved(host: str) -> None:
    refused = problem(make_api().post("/tasks", document(handler={"type": "webhook", "url": f"http://{host}/x"})), 422)
    assert [error["pointer"] for error in refused["errors"]] == ["/handler/url"]
    assert "is no name" in refused["errors"][0]["detail"]


def test_names_in_every_script_and_form_pass() -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["8.8.8.8"]

    for host in ("Bücher.example", "my_service.example.", "xn--bcher-kva.example", "straße。example"):
        validate_handler({"type": "webhook", "url": f"http://{host}/"}, resolve=resolve)
    wanted = ["xn--bcher-kva.example", "my_service.example.", "xn--bcher-kva.example", "xn--strae-oqa.example"]
    assert asked == wanted, "the name that the attempt will ask for"


# ---- at connect ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", FORBIDDEN)
def test_an_attempt_is_refused_whatever_was_saved(strict: Watched, host: str) -> None:
    [result] = strict.run(assignment({"type": "webhook", "url": f"http://{host}:9/", "headers": {}}))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error["permanent"] is True
    assert result.error["type"] == "OutboundRefused"
    assert SETTING in result.error["message"]


@pytest.mark.parametrize("host", NO_NAMES)
def test_what_was_saved_before_and_is_no_name_fails_for_good(strict: Watched, host: str) -> None:
    [result] = strict.run(assignment({"type": "webhook", "url": f"http://{host}:9/", "headers": {}}))
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == ("OutboundRefused", True)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "2130706433", "127.1"])
def test_a_redirect_is_checked_as_the_first_address_was(server: Server, host: str) -> None:  # noqa: F811
    """This server is allowed, by its one address; what it sends on to is not."""
    handler = {"type": "webhook", "url": f"{server.url}/redirect/http://{host}:9/", "headers": {}}
    with watched(allowed_networks=["127.0.0.1/32"]) as one:
        [result] = one.run(assignment(handler))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error["type"] == "OutboundRefused"


async def test_a_name_that_changes_its_mind_changes_nothing() -> None:
    """Saved with a public address, private at the attempt; and private a moment after it was checked."""
    backend = GuardedBackend([], resolves_to("8.8.8.8", "10.0.0.1"))
    backend._resolve("first.example", 80)
    with pytest.raises(OutboundRefused, match=r"10\.0\.0\.1, an address of first\.example"):
        await backend.connect_tcp("first.example", 80)
    went: list[str] = []

    class Sockets(httpcore.AnyIOBackend):
        async def connect_tcp(self, host: str, *args: Any, **named: Any) -> Any:
            went.append(host)
            raise httpcore.ConnectError("far enough")

    backend = GuardedBackend([], resolves_to("8.8.8.8", "127.0.0.1"))
    backend._sockets = Sockets()
    with pytest.raises(httpcore.ConnectError):
        await backend.connect_tcp("second.example", 80)
    assert went == ["8.8.8.8"], "the address that was checked, not the name"


async def test_a_caller_resolves_for_each_connection() -> None:
    caller = WebhookCaller(allowed_networks=[], clock=SYSTEM_CLOCK, resolve=resolves_to("10.0.0.1"))
    report = await caller.run(assignment({"type": "webhook", "url": "http://public.example/", "headers": {}}), {})
    assert report.error is not None
    assert "10.0.0.1" in report.error["message"]
    await caller.close()


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "::1"])
async def test_containers_leave_by_the_same_guard(address: str) -> None:
    proxy = EgressProxy([("public.example", 443)], [], resolves_to(address))
    with pytest.raises(Exception, match=SETTING):
        await proxy._connect(("public.example", 443))


async def test_an_image_is_not_fetched_from_a_private_registry() -> None:
    fetching = ContainerRunner(ContainerPolicy(pull="missing"), SYSTEM_CLOCK)
    refusal = await fetching._registry_refused("127.0.0.1:5000/x")
    assert refusal is not None
    assert SETTING in refusal
    allowed = ContainerRunner(ContainerPolicy(pull="missing", allowed_networks=("127.0.0.0/8",)), SYSTEM_CLOCK)
    assert await allowed._registry_refused("127.0.0.1:5000/x") is None
    local = ContainerRunner(ContainerPolicy(pull="never"), SYSTEM_CLOCK)
    assert await local._registry_refused("127.0.0.1:5000/x") is None
