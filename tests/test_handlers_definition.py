"""What a handler object in a task definition may say; URLs that are refused when a task is defined."""

from collections.abc import Sequence
from typing import Any

import pytest

from apps.executions.handler_spec import validate_handler
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import check_url


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
        ({"type": "command", "argv": ["a", 1, "b\0"]}, ["/argv/1", "/argv/2"], "NUL"),
        ({"type": "command", "argv": ["a"], "environment": {"A=B": "x"}}, ["/environment/A=B"], "variable name"),
        ({"type": "command", "argv": ["a"], "environment": {"A": 1}}, ["/environment/A"], "text"),
        (
            {"type": "command", "argv": ["a"], "environment": {"CHRONOWEB_X": "1"}},
            ["/environment/CHRONOWEB_X"],
            "set by",
        ),
        ({"type": "command", "argv": ["\ud800"]}, ["/argv/0"], "surrogate"),
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
