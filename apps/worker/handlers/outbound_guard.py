"""HTTP connections that only reach allowed addresses.

A name is resolved once for each connection, every one of its addresses is checked, and the connection goes to
the address that was checked: a name server that answers differently a moment later changes nothing. TLS and the
Host header keep the name.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore
import httpx

from chronoweb.runtime.outbound import (
    OutboundRefused,
    Resolve,
    check_address,
    check_host,
    is_this_machine,
    parse_networks,
    system_resolve,
)

CONNECT_SECONDS = 10.0


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Resolves, checks and connects."""

    def __init__(self, allowed_networks: Sequence[str], resolve: Resolve = system_resolve) -> None:
        self._allowed = parse_networks(allowed_networks)
        self._resolve = resolve
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises OutboundRefused if any address of `host` is not allowed; httpcore's errors otherwise."""
        check_host(host)
        try:
            addresses = await asyncio.get_running_loop().run_in_executor(None, self._resolve, host, port)
        except (OSError, UnicodeError) as problem:
            if is_this_machine(host):
                check_address("127.0.0.1", self._allowed, host=host)
            raise httpcore.ConnectError(f"{host} cannot be resolved: {problem}") from problem
        for address in addresses:
            check_address(address, self._allowed, host=host)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as problem:
                failure = problem
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise OutboundRefused("webhooks do not reach Unix sockets")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx's transport on guarded connections. Proxies of the environment are not used: they would resolve."""

    def __init__(self, allowed_networks: Sequence[str], resolve: Resolve = system_resolve) -> None:
        super().__init__(trust_env=False)
        # httpx has no argument for the network backend; its pool is replaced by one that differs in that alone.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False),
            max_connections=None,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=GuardedBackend(allowed_networks, resolve),
        )
