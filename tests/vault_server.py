"""A server that answers as Vault's key-value store, version 2, does: what its client is tested against.

It is no Vault: it knows tokens, AppRole, paths and the answers of a few troubles, and keeps everything in memory.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN, ROLE, SECRET_ID = "vault-root-token", "a-role-id", "a-secret-id"


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "VaultServer"

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        if self.server.hangs:
            self.server.hung.wait(10)
        if self.server.trouble is not None:
            self._answer(self.server.trouble, {"errors": ["trouble"]})
        elif self.headers.get("X-Vault-Token") not in self.server.tokens:
            self._answer(403, {"errors": ["permission denied"]})
        else:
            fields = self.server.kept.get(self.path.removeprefix("/v1/").split("?")[0])
            if fields is None:
                self._answer(404, {"errors": []})
            else:
                self._answer(200, {"data": {"data": fields, "metadata": {"version": 1, "deletion_time": ""}}})

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.server.logins.append(given)
        if self.path == "/v1/auth/approle/login" and given == {"role_id": ROLE, "secret_id": SECRET_ID}:
            token = f"approle-token-{len(self.server.logins)}"
            self.server.tokens = {token}
            self._answer(200, {"auth": {"client_token": token, "lease_duration": self.server.lease_seconds}})
        else:
            self._answer(400, {"errors": ["invalid role or secret ID"]})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class VaultServer(ThreadingHTTPServer):
    """kept: path behind /v1/ → fields. trouble: the status that everything is answered with."""

    daemon_threads = True

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.tokens = {TOKEN}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.logins: list[dict[str, str]] = []
        self.trouble: int | None = None
        self.hangs = False
        self.hung = threading.Event()
        self.lease_seconds = 3600
        super().__init__(("127.0.0.1", 0), _Answers)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def put(self, path: str, **fields: Any) -> None:
        """Below the mount "secret"."""
        self.kept[f"secret/data/{path}"] = fields

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what some tests are about."""

    def close(self) -> None:
        self.hung.set()
        self.shutdown()
        self.server_close()
