"""Which addresses the outside calls of users' tasks may reach.

Whoever defines a task chooses its webhook's URL, and the request leaves from inside the installation's network.
So every address that is not public is refused, unless CHRONOWEB_OUTBOUND_ALLOWED_NETWORKS lists it: once when
the task is defined (`check_url`) and again, on the address that is really connected to, for each request.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import SplitResult, urlsplit

import idna

from chronoweb.runtime.errors import ChronowebError, InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Sequence[str]]

SETTING = "CHRONOWEB_OUTBOUND_ALLOWED_NETWORKS"
SCHEMES = ("http", "https")
URL_CHARACTERS = 2048
HOST_CHARACTERS = 253
_SHOWN_CHARACTERS = 80

_NAT64 = IPv6Network("64:ff9b::/96")
_REFUSED: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # shared by providers' customers; 100.100.100.200 is a cloud's metadata
        "168.63.129.16/32",  # public by its form, and Azure's own host of each machine
        "192.0.0.0/24",  # for protocols; 192.0.0.192 is a cloud's metadata
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "64:ff9b:1::/48",  # NAT64 for local use
        "100::/64",
        "100:0:0:1::/64",
        "2001::/23",  # for protocols; Teredo carries an IPv4 address in a form that is not worth decoding
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",  # site-local, as it was before unique local addresses
        "::/96",  # IPv4-compatible
    )
)
"""Beside what Python's ipaddress knows, which differs from one release to the next."""
_NUMERIC_LABEL = re.compile(r"\d+|0x[0-9a-f]*", re.IGNORECASE)


class OutboundRefused(ChronowebError):
    """An outside call would have reached an address that is not allowed; nothing was sent."""


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """CIDRs as networks. Raises ValueError, naming the text, for one that is none."""
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def check_address(text: str, allowed: Sequence[Network], *, host: str) -> None:
    """Raise OutboundRefused unless `text`, an address of `host`, is public or lies in an allowed network.

    An address that carries another (IPv4-mapped, 6to4, NAT64) is judged by the one that it carries.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    real = _carried(address)
    if any(real in network or address in network for network in allowed):
        return
    kind = _refused_kind(real)
    if kind is not None:
        shown = str(real) if real == address else f"{address} ({real})"
        of = "" if host.strip("[]") == str(address) else f", an address of {host},"
        raise OutboundRefused(f"{shown}{of} is {kind}; {SETTING} does not list a network that contains it")


def split_url(url: str) -> SplitResult:
    """The parts of a URL that may be called, by its form alone. Raises OutboundRefused."""
    if not isinstance(url, str) or not url or len(url) > URL_CHARACTERS:
        raise OutboundRefused(f"a URL is text of 1 to {URL_CHARACTERS} characters")
    if any(character.isspace() or not character.isprintable() for character in url) or "\\" in url:
        raise OutboundRefused("a URL contains no spaces, control characters or backslashes")
    try:
        parts = urlsplit(url)
        if parts.port == 0:
            raise ValueError("port 0 cannot be called")
    except ValueError as problem:
        raise OutboundRefused(f"this is no URL: {problem}") from None
    if parts.scheme.lower() not in SCHEMES:
        is_ = f"is {parts.scheme!r}" if parts.scheme else "is missing"
        raise OutboundRefused(f"the scheme {is_}; http and https are possible, as in https://example.com")
    if parts.username is not None or parts.password is not None:
        raise OutboundRefused("user and password do not belong into a URL; use a header")
    check_host(parts.hostname or "")
    return parts


def check_host(host: str) -> str:
    """The host as it goes on the wire: an address, or a name in ASCII (IDNA). Raises OutboundRefused.

    Refused are an absent host, names that cannot be (empty or too long parts, broken punycode), and numbers that
    resolvers read as an address although they do not look like one: 2130706433, 0x7f.1, 0177.0.0.1 and digits of
    other scripts all reach 127.0.0.1.
    """
    if not host:
        raise OutboundRefused("the host is missing")
    if "%" in host:
        raise OutboundRefused(f"the host {host!r} contains a '%'")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    name = _in_ascii(host)
    last = name.rstrip(".").rpartition(".")[2]
    if _NUMERIC_LABEL.fullmatch(last) or ":" in name:
        usual = "is neither a name nor an address in its usual form (such as 192.0.2.1)"
        raise OutboundRefused(f"the host {host!r} {usual}{_read_as(name)}")
    return name


def _in_ascii(host: str) -> str:
    """A name as name servers know it. Raises OutboundRefused for what none can have."""
    shown = host if len(host) <= _SHOWN_CHARACTERS else f"{host[:_SHOWN_CHARACTERS]}…"
    try:
        # What is ASCII already may have parts that IDNA forbids and networks have: my_service.
        name = host.lower() if host.isascii() else idna.encode(host, uts46=True).decode()
        for label in name.split("."):
            if label.startswith("xn--"):
                idna.ulabel(label)
    except UnicodeError as problem:  # idna.IDNAError is one
        raise OutboundRefused(f"the host {shown!r} is no name: {problem}") from None
    labels = name.removesuffix(".").split(".")
    if len(name.removesuffix(".")) > HOST_CHARACTERS or not all(1 <= len(label) <= 63 for label in labels):
        raise OutboundRefused(
            f"the host {shown!r} is no name: it has at most {HOST_CHARACTERS} characters, and 1 to 63 between two dots"
        )
    return name


def _read_as(host: str) -> str:
    """What the system's resolver would make of such a number."""
    try:
        address = ipaddress.ip_address(socket.inet_aton(host.rstrip(".")))
    except (OSError, ValueError):
        return ""
    return f"; it would lead to {address}: write that, and if it is private, {SETTING} must list it"


def system_resolve(host: str, port: int) -> list[str]:
    """The addresses of `host`, in the system's order. Raises OSError (socket.gaierror) if there is none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def literal_resolve(host: str, port: int) -> list[str]:
    """The address that `host` is written as; none of a name, which nobody is asked for."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        return []


def check_url(url: str, allowed_networks: Sequence[str], *, resolve: Resolve = system_resolve) -> None:
    """Raise InvalidInput (pointer "") for a URL that webhooks could not call.

    A name is resolved, which may take as long as the system's resolver takes; every one of its addresses must
    be allowed. A name that does not resolve passes: it may exist by the time that the task is due.
    """
    try:
        parts = split_url(url)
        host = check_host(parts.hostname or "")
        try:
            addresses = resolve(host, parts.port or (443 if parts.scheme == "https" else 80))
        except (OSError, UnicodeError):
            if not is_this_machine(host):
                return
            addresses = ["127.0.0.1"]
        for address in addresses:
            check_address(address, parse_networks(allowed_networks), host=host)
    except OutboundRefused as refused:
        raise InvalidInput("", url, str(refused), "an http or https URL of a public host") from None


def is_this_machine(name: str) -> bool:
    """Whether a name is the machine's own by RFC 6761, whatever the resolver of this process says."""
    return f".{name.rstrip('.').lower()}".endswith(".localhost")


def _carried(address: Address) -> Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _refused_kind(address: Address) -> str | None:
    """Why an address is not public; None if it is."""
    for kind, matches in (
        ("unspecified", address.is_unspecified),
        ("a loopback address", address.is_loopback),
        ("link-local", address.is_link_local),
        ("multicast", address.is_multicast),
        ("reserved", address.is_reserved or any(address in network for network in _REFUSED)),
        ("private", not address.is_global),
    ):
        if matches:
            return kind
    return None
