"""A container's only way out: a network namespace with a loopback, on which the worker's proxy listens.

The listening socket is made inside the namespace and handed out; the worker accepts on it and connects from its
own network. So the container reaches the proxy and nothing else, by whatever protocol. Only podman joins a
namespace that exists, and only root makes one.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from apps.worker.containers import loopback_namespace
from apps.worker.containers.egress_proxy import EgressProxy, Pair
from apps.worker.containers.engine import Engine

START_SECONDS = 10.0
PROXY = f"http://127.0.0.1:{loopback_namespace.PORT}"
VARIABLES = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1"),
}


class NoGate(Exception):
    """This worker cannot restrict a container to some hosts."""


class Gate:
    """Open from `open` to `close`."""

    def __init__(self, holder: subprocess.Popen[bytes], control: socket.socket, proxy: EgressProxy) -> None:
        self._holder = holder
        self._control = control
        self._proxy = proxy

    @property
    def network(self) -> str:
        """For the engine's --network."""
        return f"ns:/proc/{self._holder.pid}/ns/net"

    @classmethod
    async def open(cls, engine: Engine, allowed: Sequence[Pair], allowed_networks: Sequence[str]) -> "Gate":
        """Raises NoGate."""
        if not engine.is_podman or os.geteuid() != 0:
            raise NoGate(
                'network "allow" needs podman and a worker that runs as root; this one has '
                f"{engine.kind} and user id {os.geteuid()}"
            )
        control, theirs = socket.socketpair()
        with theirs:
            holder = subprocess.Popen(  # no preexec_fn: starting it does not fork the worker in an unsafe way
                [sys.executable, "-I", "-S", str(Path(loopback_namespace.__file__))],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        gate = cls(holder, control, EgressProxy(allowed, allowed_networks))
        try:
            listening = await asyncio.to_thread(_receive, control)
            if listening is None:
                _, error = await asyncio.to_thread(holder.communicate)
                raise NoGate(error.decode("utf-8", "replace").strip() or "a network namespace cannot be made")
            await gate._proxy.serve(listening)
        except BaseException:
            await gate.close()
            raise
        return gate

    async def close(self) -> None:
        """The namespace is gone with the last process in it."""
        await self._proxy.close()
        self._control.close()
        self._holder.kill()
        await asyncio.to_thread(self._holder.wait)
        if self._holder.stderr is not None:
            self._holder.stderr.close()


def _receive(control: socket.socket) -> socket.socket | None:
    control.settimeout(START_SECONDS)
    try:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    except OSError:
        return None
    if not data or not descriptors:
        return None
    listening = socket.socket(fileno=descriptors[0])
    listening.setblocking(False)
    return listening
