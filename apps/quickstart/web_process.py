"""The web process as quickstart sees it from outside: is its port free, does it answer."""

from typing import Any

import httpx
import psutil

from apps.quickstart.data_directory import is_free
from apps.quickstart.errors import WebPortTaken
from chronoweb.runtime.clock import Clock

LIVENESS = "/livez"
_POLL_SECONDS = 0.1
_PORT_PATIENCE_SECONDS = 3.0  # processes of a start that was killed may be on their way out


def refuse_taken_port(port: int, clock: Clock) -> None:
    """Raise WebPortTaken, naming the port and, where the system tells, who listens there."""
    deadline = clock.monotonic() + _PORT_PATIENCE_SECONDS
    while not is_free(port):
        if clock.monotonic() >= deadline:
            raise WebPortTaken(
                f"port {port} of 127.0.0.1 is taken{_by_whom(port)}: "
                "stop what listens there, or choose another with --port"
            )
        clock.sleep(_POLL_SECONDS)


def _by_whom(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            address: Any = connection.laddr  # (ip, port), or () where there is none
            if connection.status == psutil.CONN_LISTEN and address and address.port == port and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        return ""  # other users' processes are not ours to see
    return ""


def answers(url: str, *, seconds: float, clock: Clock) -> bool:
    """Whether the web process says within `seconds` that it lives."""
    deadline = clock.monotonic() + seconds
    with httpx.Client(trust_env=False, timeout=2) as client:
        while clock.monotonic() < deadline:
            try:
                if client.get(url + LIVENESS).status_code == httpx.codes.OK:
                    return True
            except httpx.HTTPError:
                pass  # it still starts
            clock.sleep(_POLL_SECONDS)
    return False
