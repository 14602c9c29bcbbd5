"""What a handler object in a task definition may say; URLs that are refused when a task is defined."""

from collections.abc import Sequence
from typing import Any

import pytest

from apps.executions.handler_spec import validate_handler
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import check_url

NO_NETWORKS: list[Any] = ["host", "bridge", None, {}, {"allow": []}, {"allow": "a:1"}, {"allow": ["a:1"], "deny": []}]


def public(host: str, port: int) -> Sequence[str]:
    return ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]


def private(host: str, port: int) -> Sequence[str]:
    return ["93.184.215.14", "10.20.30.40"]


def unknown(host: str, port: int) -> Sequence[str]:
    raise OSError("no such name")


def refusal(data: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputs) as caught:
        validate_handler(data, resolve=public)
    return [(error.pointer, f"{error.problem}; legal: {error.legal}") for error in caught.value.errors]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"type": "python", "name": "demo.noop"}, {"type": "python", "name": "demo.noop"}),
        (
            {"type": "webhook", "url": "https://example.com/x"},
            {"type": "webhook", "url": "https://example.com/x", "method": "POST", "headers": {}},
        ),
        (
            {"type": "webhook", "url": "http://example.com:8080/", "method": "GET", "headers": {"A": "b"}, "body": [1]},
            {"type": "webhook", "url": "http://example.com:8080/", "method": "GET", "headers": {"A": "b"}, "body": [1]},
        ),
        (
            {"type": "command", "argv": ["echo", "; id", "$(id)", "-x", ""]},
            {"type": "command", "argv": ["echo", "; id", "$(id)", "-x", ""], "environment": {}},
        ),
        (
            {"type": "command", "argv": ["a"], "stdin": "b\n"},
            {"type": "command", "argv": ["a"], "environment": {}, "stdin": "b\n"},
        ),
        (
            {"type": "command", "argv": ["a"], "limits": {"memory": "1Gi", "cpu_seconds": 60}},
            {"type": "command", "argv": ["a"], "environment": {}, "limits": {"memory": "1Gi", "cpu_seconds": 60}},
        ),
        (
            {"type": "container", "image": "alpine"},
            {
                "type": "container",
                "image": "alpine",
                "command": [],
                "environment": {},
                "resource_requirements": {"cpu": 1, "memory": "512Mi"},
                "network": "none",
            },
        ),
        (
            CONTAINER := {
                "type": "container",
                "image": "registry.example.com:5000/team/tool_x:1.2-rc@sha256:" + "0" * 64,
                "command": ["run", "$(id)", "-x"],
                "environment": {"A": "$B"},
                "resource_requirements": {"cpu": "500m", "memory": "8Gi", "timeout_seconds": 0.5},
                "network": {"allow": ["example.com:443", "[2606:4700::1]:80"]},
            },
            CONTAINER,
        ),
    ],
)
def test_accepted(given: dict[str, Any], stored: dict[str, Any]) -> None:
    assert validate_handler(given, resolve=public) == stored


@pytest.mark.parametrize(
    ("data", "pointers", "says"),
    [
        (None, [""], "python"),
        ("demo.noop", [""], "python"),
        ({}, ["/type"], "webhook"),
        ({"type": "shell"}, ["/type"], "command"),
        ({"type": ["python"]}, ["/type"], "command"),
        ({"type": "python"}, ["/name"], "missing"),
        ({"type": "python", "name": "a b"}, ["/name"], "demo.noop"),
        ({"type": "python", "name": 3}, ["/name"], "demo.noop"),
        ({"type": "python", "name": "a", "url": "x", "a/b~": 1}, ["/url", "/a~1b~0"], "type, name"),
        ({"type": "webhook", "method": "post", "url": "https://example.com"}, ["/method"], "PATCH"),
        ({"type": "webhook", "url": "ftp://example.com"}, ["/url"], "http and https"),
        ({"type": "webhook", "url": 5}, ["/url"], "text"),
        ({"type": "webhook", "url": "https://x.com", "headers": []}, ["/headers"], "object"),
        ({"type": "webhook", "url": "https://x.com", "headers": {"A": "b\r\nC: d"}}, ["/headers/A"], "printable"),
        ({"type": "webhook", "url": "https://x.com", "headers": {"A:": "b"}}, ["/headers/A:"], "header name"),
        ({"type": "webhook", "url": "https://x.com", "headers": {"HOST": "b"}}, ["/headers/HOST"], "set by"),
        (
            {"type": "webhook", "url": "https://x.com", "headers": {"X-Fencing-Token": "1"}},
            ["/headers/X-Fencing-Token"],
            "set by",
        ),
        ({"type": "webhook", "url": "https://x.com", "body": "\0"}, ["/body"], "NUL"),
        ({"type": "webhook", "url": "https://x.com", "body": {"a": "\0"}}, ["/body"], "NUL"),
        ({"type": "webhook", "url": "https://x.com", "body": "x" * 70_000}, ["/body"], "65536"),
        ({"type": "command", "argv": "rm -rf /"}, ["/argv"], "shell is never used"),
        ({"type": "command", "argv": []}, ["/argv"], "1 to 256"),
        ({"type": "command", "argv": [""]}, ["/argv/0"], "no program"),
        ({"type": "command", "argv": ["a"], "stdin": 1}, ["/stdin"], "text"),
        ({"type": "command", "argv": ["a"], "stdin": "a\0"}, ["/stdin"], "NUL"),
        ({"type": "command", "argv": ["a", 1, "b\0"]}, ["/argv/1", "/argv/2"], "NUL"),
        ({"type": "command", "argv": ["a"], "environment": {"A=B": "x"}}, ["/environment/A=B"], "variable name"),
        ({"type": "command", "argv": ["a"], "environment": {"A": 1}}, ["/environment/A"], "text"),
        (
            {"type": "command", "argv": ["a"], "environment": {"CHRONOWEB_X": "1"}},
            ["/environment/CHRONOWEB_X"],
            "set by",
        ),
        ({"type": "command", "argv": ["\ud800"]}, ["/argv/0"], "surrogate"),
        ({"type": "command", "argv": ["a"], "limits": []}, ["/limits"], "open_files"),
        ({"type": "command", "argv": ["a"], "limits": {"ram": 1}}, ["/limits/ram"], "memory"),
        ({"type": "command", "argv": ["a"], "limits": {"memory": "lots"}}, ["/limits/memory"], "512Mi"),
        ({"type": "command", "argv": ["a"], "limits": {"memory": "900Gi"}}, ["/limits/memory"], "COMMAND_MEMORY_MIB"),
        ({"type": "command", "argv": ["a"], "limits": {"processes": 0}}, ["/limits/processes"], "1 to 1024"),
        ({"type": "command", "argv": ["a"], "limits": {"processes": "9"}}, ["/limits/processes"], "whole number"),
        ({"type": "container"}, ["/image"], "missing"),
        *(
            ({"type": "container", "image": image}, ["/image"], "registry.example.com/team/tool:1.2")
            for image in (
                *("", "-v", "--privileged", "A/B", "a b", "a;id", "a:", "a:b:c", "a@sha256:12", "../x", "oci:x", "/x"),
                *("docker-archive:x", "dir:x", "x" * 600, 5, None, "a//b", "a\n"),
            )
        ),
        ({"type": "container", "image": "a", "command": "rm -rf /"}, ["/command"], "shell is never used"),
        ({"type": "container", "image": "a", "command": ["a\0"]}, ["/command/0"], "NUL"),
        ({"type": "container", "image": "a", "environment": {"A": "b\nC=d"}}, ["/environment/A"], "one line"),
        ({"type": "container", "image": "a", "environment": {"A": "b\rC"}}, ["/environment/A"], "one line"),
        ({"type": "container", "image": "a", "environment": {"A": "b" * 40_000}}, ["/environment/A"], "32768"),
        ({"type": "container", "image": "a", "environment": {"CHRONOWEB_X": "b"}}, ["/environment/CHRONOWEB_X"], "set"),
        *(
            ({"type": "container", "image": "a", "resource_requirements": {name: value}}, [pointer], says)
            for name, value, pointer, says in (
                ("cpu", 4.5, "/resource_requirements/cpu", "0.01 to 4"),
                ("cpu", "5000m", "/resource_requirements/cpu", "0.01 to 4"),
                ("cpu", 0, "/resource_requirements/cpu", "0.01 to 4"),
                ("cpu", "half", "/resource_requirements/cpu", "500m"),
                ("cpu", True, "/resource_requirements/cpu", "500m"),
                ("cpu", float("nan"), "/resource_requirements/cpu", "500m"),
                ("memory", "9Gi", "/resource_requirements/memory", "8Gi"),
                ("memory", "1Mi", "/resource_requirements/memory", "8Mi"),
                ("memory", "512MB", "/resource_requirements/memory", "512Mi"),
                ("memory", -1, "/resource_requirements/memory", "8Mi"),
                ("timeout_seconds", 0, "/resource_requirements/timeout_seconds", "86400"),
                ("timeout_seconds", "9", "/resource_requirements/timeout_seconds", "number"),
                ("gpu", 1, "/resource_requirements/gpu", "memory"),
            )
        ),
        *(
            ({"type": "container", "image": "a", "network": network}, ["/network"], "host:port")
            for network in NO_NETWORKS
        ),
        *(
            (
                {"type": "container", "image": "a", "network": {"allow": ["example.com:1", pair]}},
                ["/network/allow/1"],
                "",
            )
            for pair in ("example.com", "example.com:", ":443", "a:b", "a:99999", "http://a:1", "u@a:1", "a:1/x", 5)
        ),
    ],
)
def test_refused_with_a_pointer(data: Any, pointers: list[str], says: str) -> None:
    found = refusal(data)
    assert [pointer for pointer, _ in found] == pointers
    assert says in " ".join(text for _, text in found)


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "//example.com", "javascript:alert(1)", "file:///etc/passwd", "http://", "http:///x"),
        *("http://user:pw@example.com/", "http://user@example.com/", "http://@example.com/"),
        *("http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/", "http://1.2.3.4.5/"),
        *(
            "http://0x7f.1/",
            "http://example.com:99999/",
            "http://example.com:0/",
            "http://example.com:x/",
            "http://exa mple.com/",
            "http://[::1",
        ),
        *("http://example.com\\@127.0.0.1/", "http://example.com/\n", "http://[fe80::1%25eth0]/", "http://%31/"),
    ],
)
def test_urls_refused_by_their_form(url: str) -> None:
    with pytest.raises(InvalidInput):
        check_url(url, [], resolve=public)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),  # noqa: S104 - bound to by nobody
        *("224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1"),
        *("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fec0::1]", "[ff02::1]", "[::ffff:10.0.0.1]", "[::127.0.0.1]"),
        *("[64:ff9b::a00:1]", "[64:ff9b:1::1]", "[2002:a00:1::]", "[2001::1]", "[2001:db8::1]", "[::ffff:7f00:1]"),
    ],
)
def test_addresses_that_are_not_public_are_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match="CHRONOWEB_OUTBOUND_ALLOWED_NETWORKS"):
        check_url(f"https://{host}/", [])


@pytest.mark.parametrize("host", ["93.184.215.14", "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]", "[64:ff9b::5db8:d70e]"])
def test_public_addresses_pass(host: str) -> None:
    check_url(f"https://{host}:8443/x?y#z", [])


def test_a_name_with_a_private_address_is_refused_and_the_message_says_what_to_do() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_url("https://intranet.example/", [], resolve=private)
    assert "10.20.30.40, an address of intranet.example, is private" in caught.value.problem
    assert "CHRONOWEB_OUTBOUND_ALLOWED_NETWORKS" in caught.value.problem


@pytest.mark.parametrize(
    ("url", "networks"),
    [
        ("http://127.0.0.1:8000/", ["127.0.0.0/8"]),
        ("http://[::ffff:127.0.0.1]/", ["127.0.0.0/8"]),
        ("http://[::1]/", ["::1/128"]),
        ("http://10.1.2.3/", ["192.168.0.0/16", "10.0.0.0/8"]),
    ],
)
def test_listed_networks_are_allowed(url: str, networks: list[str]) -> None:
    check_url(url, networks)


def test_a_name_that_does_not_resolve_yet_is_allowed_at_definition() -> None:
    check_url("https://not-yet.example/", [], resolve=unknown)


@pytest.mark.parametrize("pair", ["127.0.0.1:5432", "[::1]:6379", "169.254.169.254:80", "2130706433:80"])
def test_containers_reach_no_private_address(pair: str) -> None:
    with pytest.raises(InvalidInputs) as caught:
        validate_handler({"type": "container", "image": "a", "network": {"allow": [pair]}})
    assert [error.pointer for error in caught.value.errors] == ["/network/allow/0"]
