"""HTTP under ASGI: each request on one thread of a few, from its middleware to its end.

All views are plain functions. Django's own handler starts a thread for each request and changes between it and the
event loop several times, which costs as much as most views; here a request is handed over once. What is streamed (the
live tail of a log) is sent by the event loop, so a viewer occupies no thread.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers import base
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.http import FileResponse
from django.urls import set_script_prefix


class ThreadedHandler(ASGIHandler):
    """threads: how many requests are worked on at once; the others wait."""

    def __init__(self, *, threads: int) -> None:
        base.BaseHandler.__init__(self)
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="web request")

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        try:
            loop = asyncio.get_running_loop()
            response = await loop.run_in_executor(self._threads, self._respond, scope, body)
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)
        finally:
            body.close()

    def _respond(self, scope: Any, body: Any) -> Any:
        """On a thread: the answer, and but for streams all that belongs to its end."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        response: Any = refusal if request is None else self.get_response(request)
        response._handler_class = self.__class__
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            response.close()  # gives the connection to the database back
        return response

    async def _stream(self, response: Any, receive: Any, send: Any) -> None:
        """Until its end, or until nobody listens any more."""
        async with ThreadSensitiveContext():
            tasks = [
                asyncio.create_task(self.listen_for_disconnect(receive)),
                asyncio.create_task(self.send_response(response, send)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                with suppress(asyncio.CancelledError, RequestAborted):
                    await tasks[0]
                try:
                    with suppress(asyncio.CancelledError):
                        await tasks[1]
                finally:
                    await sync_to_async(response.close)()
