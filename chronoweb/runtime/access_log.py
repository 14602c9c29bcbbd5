"""daphne's access log as JSON lines: what was asked, never with what. Queries and login links stay out of it."""

import json
from datetime import UTC
from typing import Any

from daphne.access import AccessLogGenerator

from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.logs import without_secrets

_SOCKET_ACTIONS = {"connecting": "web.socket_asked", "connected": "web.socket_opened", "rejected": "web.socket_refused"}
_SOCKET_ACTIONS |= {"disconnected": "web.socket_closed"}


def install() -> None:
    """Let every daphne of this process log like this, however it was started."""
    AccessLogGenerator.__call__ = _log


def _log(self: Any, protocol: str, action: str, details: dict[str, Any]) -> None:
    """daphne's action logger. details["path"] may be text or bytes, with a query or without."""
    if protocol == "http" and action == "complete":
        kind, more = "web.request", {"status": details["status"], "bytes": details["size"]}
        more |= {"method": details["method"], "ms": round((details["time_taken"] or 0) * 1000, 1)}
    elif protocol == "websocket" and action in _SOCKET_ACTIONS:
        kind, more = _SOCKET_ACTIONS[action], {}
    else:
        return
    path = details["path"]
    path = path.decode("latin-1") if isinstance(path, bytes) else str(path)
    line = {
        "time": SYSTEM_CLOCK.now().astimezone(UTC).isoformat(timespec="milliseconds"),
        "level": "info",
        "logger": "access",
        "action": kind,
        "path": path.partition("?")[0],
        "client": details["client"],
        **more,
    }
    self.stream.write(without_secrets(json.dumps(line)) + "\n")
