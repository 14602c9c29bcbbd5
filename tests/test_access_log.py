"""Logs tell what was asked, and not with what: no query, no login link, no key."""

import io
import json
import logging
from typing import Any

import pytest
from daphne.access import AccessLogGenerator
from django.test import RequestFactory

from chronoweb.runtime import access_log
from chronoweb.runtime.logs import JsonFormatter

HTTP = {"status": 200, "size": 5, "method": "GET", "time_taken": 0.0123, "client": "127.0.0.1:5"}
KEY = "cw_abcdefghijklmnopqrstuvwxyz012345"


def written(protocol: str, action: str, **details: Any) -> dict[str, Any]:
    access_log.install()
    stream = io.StringIO()
    AccessLogGenerator(stream)(protocol, action, {**HTTP, **details})
    text = stream.getvalue()
    assert text.endswith("}\n")
    line: dict[str, Any] = json.loads(text)
    return line


@pytest.mark.parametrize("path", ["/api/v1/tasks?search=hush", b"/api/v1/tasks?search=hush", "/api/v1/tasks?a=?hush"])
def test_a_request_is_written_without_its_query(path: Any) -> None:
    line = written("http", "complete", path=path)
    assert (line["path"], line["status"], line["method"], line["ms"]) == ("/api/v1/tasks", 200, "GET", 12.3)
    assert "hush" not in json.dumps(line)


def test_a_socket_is_written_without_its_query() -> None:
    line = written("websocket", "connecting", path="/ws/t/a/executions/?state=hush")
    assert (line["action"], line["path"]) == ("web.socket_asked", "/ws/t/a/executions/")


def test_login_links_and_keys_are_not_written() -> None:
    assert written("http", "complete", path="/login/WzEsImFi:1vP:hush")["path"] == "/login/…"
    assert written("http", "complete", path="/login/")["path"] == "/login/"
    assert KEY not in written("http", "complete", path=f"/api/v1/{KEY}")["path"]


def test_django_names_a_request_without_its_query() -> None:
    record = logging.makeLogRecord({"msg": "Not Found", "request": RequestFactory().get("/x?token=hush")})
    line = JsonFormatter().format(record)
    assert "hush" not in line
    assert json.loads(line)["request"] == "GET /x"
    record = logging.makeLogRecord({"msg": "Forbidden: /login/WzEsImFi:1vP:hush"})
    assert "hush" not in JsonFormatter().format(record)
