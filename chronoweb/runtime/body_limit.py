"""Bodies end where they arrive: daphne takes as many bytes as anybody sends, writes them to a file, and then asks the
application. What is a little too large still reaches the views, whose refusal says more.
"""

import json
from typing import Any

from daphne.http_protocol import WebRequest
from django.conf import settings

_TIMES = 2
"""Of what a body may have: more is refused before it is read."""
_plain_length = WebRequest.gotLength
_plain_chunk = WebRequest.handleContentChunk
_plain_request = WebRequest.requestReceived


def install() -> None:
    """Let every daphne of this process refuse so, however it was started."""
    WebRequest.gotLength = _length
    WebRequest.handleContentChunk = _chunk
    WebRequest.requestReceived = _request


def _most() -> int:
    return _TIMES * settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def _length(self: Any, length: int | None) -> None:
    self.body_bytes = 0
    _plain_length(self, length)
    if length is not None and length > _most():
        _refuse(self)


def _chunk(self: Any, data: bytes) -> None:
    if self.body_bytes > _most():
        return  # what was on its way when it was refused
    self.body_bytes += len(data)
    if self.body_bytes > _most():
        _refuse(self)
    else:
        _plain_chunk(self, data)


def _request(self: Any, command: bytes, path: bytes, version: bytes) -> None:
    if self.body_bytes <= _most():
        _plain_request(self, command, path, version)


def _refuse(self: Any) -> None:
    self.body_bytes = _most() + 1
    detail = f"the body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes"
    problem = {"type": "urn:chronoweb:problem:body-too-large", "title": "Content Too Large", "status": 413}
    body = json.dumps(problem | {"detail": detail}).encode()
    self.channel.transport.write(
        b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/problem+json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    self.channel.loseConnection()
