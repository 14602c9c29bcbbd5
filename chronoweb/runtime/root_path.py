"""What a request is for is said by its path alone.

daphne lets every client name a prefix of its own path (`Daphne-Root-Path`): the resolver then takes another route than
the path that scopes of keys, policies of pages and the audit log go by. An installation below a prefix says so in its
settings (Django's FORCE_SCRIPT_NAME), never by a request.
"""

from typing import Any


class NoRootPath:
    """An ASGI application whose requests and sockets have no prefix."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        return await self._application({**scope, "root_path": ""}, receive, send)
