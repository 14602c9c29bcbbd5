"""What a container handler may say. Pure, but for the look-up of host names that it asks to reach.

{"type": "container", "image": "registry/name:tag", "command": ["program", "argument"],
 "environment": {"NAME": "text"},
 "resource_requirements": {"cpu": "500m", "memory": "512Mi", "timeout_seconds": 60},
 "network": "none" or {"allow": ["host:port", …]}}
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.executions.program_checks import ARGUMENTS_AT_MOST, Found, check_environment, check_text, escape
from apps.executions.quantities import parse_bytes, parse_cpu
from chronoweb.runtime.errors import InvalidInput
from chronoweb.runtime.outbound import OutboundRefused, Resolve, check_url, split_url

CPU_AT_MOST = 4.0
CPU_AT_LEAST = 0.01
MEMORY_AT_LEAST = 8 * 1024**2
MEMORY_AT_MOST = 8 * 1024**3
TIMEOUT_AT_MOST = 86400
IMAGE_CHARACTERS = 512
PAIRS_AT_MOST = 32
VALUE_BYTES = 32 * 1024
DEFAULT_RESOURCES = {"cpu": 1, "memory": "512Mi"}

_ALNUM = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{{1,5}})?/)?{_ALNUM}(?:/{_ALNUM})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_TRANSPORTS = frozenset(
    {
        *("dir", "docker", "docker-archive", "docker-daemon", "oci", "oci-archive", "containers-storage", "ostree"),
        *("sif", "tarball"),
    }
)
"""podman reads "oci:x" as a folder of the worker's machine, not as image oci with tag x."""


@dataclass(frozen=True, slots=True)
class Resources:
    """cpu in processors, memory in bytes; timeout_seconds None: the task's own."""

    cpu: float
    memory: int
    timeout_seconds: float | None


def resources(handler: Mapping[str, Any]) -> Resources:
    """What a handler that passed the checks asks for. Raises ValueError for one that did not."""
    given = {**DEFAULT_RESOURCES, **(handler.get("resource_requirements") or {})}
    return Resources(parse_cpu(given["cpu"]), parse_bytes(given["memory"]), given.get("timeout_seconds"))


def allowed_pairs(handler: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The (host, port) pairs that a handler asks to reach; hosts in lower case."""
    network = handler.get("network")
    return [split_pair(text) for text in network["allow"]] if isinstance(network, Mapping) else []


def split_pair(text: Any) -> tuple[str, int]:
    """("host", port) of "host:port", "[::1]:port". Raises OutboundRefused for what is none by its form."""
    if not isinstance(text, str) or any(character in text for character in "/?#@"):
        raise OutboundRefused('must be text such as "example.com:443"')
    parts = split_url(f"https://{text}/")
    if not parts.port or text.endswith(":"):
        raise OutboundRefused("the port is missing")
    return (parts.hostname or "").rstrip("."), parts.port


def check_image(pointer: str, value: Any, found: Found) -> None:
    legal = f"an image reference such as registry.example.com/team/tool:1.2, at most {IMAGE_CHARACTERS} characters"
    if not isinstance(value, str) or len(value) > IMAGE_CHARACTERS or not _IMAGE.fullmatch(value):
        found.append(InvalidInput(pointer, value, "is no image reference", legal))
    elif value.partition(":")[0] in _TRANSPORTS and ":" in value:
        found.append(InvalidInput(pointer, value, f"names a place to read from ({value.partition(':')[0]}:)", legal))


def registry_of(image: str) -> str | None:
    """The host, and the port if there is one, that the image would be fetched from; None: the engine's own choice."""
    first, slash, _ = image.partition("/")
    named = bool(slash) and ("." in first or ":" in first)
    return first if named else None


def check_registry(pointer: str, image: Any, found: Found, *, networks: Sequence[str], resolve: Resolve) -> None:
    """A registry is asked from inside the installation's network, so it is guarded as a webhook's host is."""
    registry = registry_of(image) if isinstance(image, str) and _IMAGE.fullmatch(image) else None
    if registry is None:
        return
    try:
        check_url(f"https://{registry}/", networks, resolve=resolve)
    except InvalidInput as problem:
        found.append(InvalidInput(pointer, image, f"names a registry: {problem.problem}", "one of a public host"))


def check_command(pointer: str, value: Any, found: Found) -> None:
    """The image's own command stands for an empty list."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) > ARGUMENTS_AT_MOST:
        legal = f'["program", "argument", …], at most {ARGUMENTS_AT_MOST}; a shell is never used'
        found.append(InvalidInput(pointer, value, "must be a list of texts, not a command line", legal))
        return
    for index, argument in enumerate(value):
        check_text(f"{pointer}/{index}", argument, found)


def check_container_environment(pointer: str, value: Any, found: Found) -> None:
    """As for commands; engines read the variables from a file, a line each."""
    check_environment(pointer, value, found)
    for name, text in value.items() if isinstance(value, Mapping) else ():
        if isinstance(text, str) and (
            "\n" in text or "\r" in text or len(text.encode("utf-8", "replace")) > VALUE_BYTES
        ):
            legal = f"one line of at most {VALUE_BYTES} bytes; longer texts go into the parameters"
            found.append(InvalidInput(f"{pointer}/{escape(str(name))}", None, "is no value for a container", legal))


def check_resources(pointer: str, value: Any, found: Found) -> None:
    if not isinstance(value, Mapping):
        found.append(InvalidInput(pointer, value, "must be an object", tuple(RESOURCES)))
        return
    for name, amount in value.items():
        at = f"{pointer}/{escape(str(name))}"
        if name not in RESOURCES:
            found.append(InvalidInput(at, amount, "unknown resource", tuple(RESOURCES)))
            continue
        parse, low, high, legal = RESOURCES[name]
        try:
            number = parse(amount)
        except ValueError as problem:
            found.append(InvalidInput(at, amount, str(problem), legal))
            continue
        if not low <= number <= high:
            found.append(InvalidInput(at, amount, "is out of range", legal))


def check_network(pointer: str, value: Any, found: Found, *, allowed_networks: Sequence[str], resolve: Resolve) -> None:
    """allowed_networks: CIDRs that may be reached although private."""
    if value == "none":
        return
    pairs = value.get("allow") if isinstance(value, Mapping) and set(value) == {"allow"} else None
    if not isinstance(pairs, list) or not 1 <= len(pairs) <= PAIRS_AT_MOST:
        legal = f'"none", or {{"allow": ["host:port", …]}} with 1 to {PAIRS_AT_MOST} pairs'
        found.append(InvalidInput(pointer, value, "is no network of a container", legal))
        return
    for index, pair in enumerate(pairs):
        try:
            split_pair(pair)
            check_url(f"https://{pair}/", allowed_networks, resolve=resolve)
        except OutboundRefused as problem:
            found.append(InvalidInput(f"{pointer}/allow/{index}", pair, str(problem), '"example.com:443"'))
        except InvalidInput as problem:
            found.append(InvalidInput(f"{pointer}/allow/{index}", pair, problem.problem, "a public host and a port"))


def _parse_seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("must be a number of seconds")
    return float(value)


RESOURCES: dict[str, tuple[Any, float, float, str]] = {
    "cpu": (parse_cpu, CPU_AT_LEAST, CPU_AT_MOST, f'{CPU_AT_LEAST} to {CPU_AT_MOST:g} processors, such as 0.5, "500m"'),
    "memory": (parse_bytes, MEMORY_AT_LEAST, MEMORY_AT_MOST, '"8Mi" to "8Gi", such as "512Mi"'),
    "timeout_seconds": (_parse_seconds, 0.001, TIMEOUT_AT_MOST, f"more than 0, at most {TIMEOUT_AT_MOST} seconds"),
}
