"""The client: creates tasks and triggers them through the REST API, as a program elsewhere would.

Accepted is what it got a 2xx for. A request whose answer is lost is sent again with the same key until it is answered.
"""

import itertools
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import httpx

from apps.quickstart.chaos.workload import LOADS, Load
from chronoweb.runtime.clock import SYSTEM_CLOCK

_TIMEOUT_SECONDS = 8.0
_RETRY_SECONDS = 0.25
_MOST_ITEMS = 500
_PACE_SECONDS = 0.25
_LATER_SHARE = 0.4
_FARTHEST_SECONDS = 75.0


class Client:
    """One tenant's connection to the API."""

    def __init__(self, url: str, key: str) -> None:
        self.retried = 0
        self._http = httpx.Client(
            base_url=f"{url}/api/v1/",
            headers={"Authorization": f"Bearer {key}"},
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
        )

    def post(self, path: str, body: Any, *, give_up: threading.Event | None = None) -> httpx.Response | None:
        """The answer, however often it takes; None if `give_up` is set before there is one. Never a 5xx."""
        key = str(uuid.uuid4())
        while not (give_up and give_up.is_set()):
            try:
                answer = self._http.post(path, json=body, headers={"Idempotency-Key": key})
                if answer.status_code < 500 and answer.status_code not in (409, 429):
                    return answer
            except httpx.HTTPError:
                pass  # nobody knows whether it was done: the same key asks again
            self.retried += 1
            threading.Event().wait(_RETRY_SECONDS)
        return None

    def close(self) -> None:
        self._http.close()


class LoadThread:
    """Triggers one tenant's tasks at a rate (a second), catching up after each outage, until `stop`.

    seconds: how long it will go on; nothing is asked for later than that.
    """

    serials = itertools.count()

    def __init__(self, client: Client, tasks: Mapping[str, str], *, rate: float, seconds: float, seed: int) -> None:
        self.accepted: dict[bytes, Load] = {}
        self.refused: Counter[str] = Counter()
        self._client = client
        self._tasks = tasks
        self._rate = rate
        self._end = SYSTEM_CLOCK.now() + timedelta(seconds=seconds)
        self._draw = random.Random(seed)  # noqa: S311 - the load may be repeated too
        self._stop = threading.Event()
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """No new request; the one under way is answered, or given up after `seconds`."""
        self._stop.set()
        self._thread.join(seconds)
        self._give_up.set()
        self._thread.join(_TIMEOUT_SECONDS + 1)

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._stop.is_set():
            wanted = min(_MOST_ITEMS, int((time.monotonic() - began) * self._rate) - sent)
            if wanted > 0:
                load = self._draw.choices(LOADS, [load.share for load in LOADS])[0]
                # A rare task comes rarely and in small batches: it takes its share of executions, not of requests.
                count = wanted if load.share > 0.05 else min(wanted, 10)
                self._trigger(load, count)
                sent += count
            else:
                self._stop.wait(_PACE_SECONDS)

    def _trigger(self, load: Load, count: int) -> None:
        items = [self._item(load) for _ in range(count)]
        path = f"tasks/{self._tasks[load.name]}/trigger-batch"
        answer = self._client.post(path, {"items": items}, give_up=self._give_up)
        if answer is None:
            return
        if not answer.is_success:
            self.refused[f"{answer.status_code} {answer.text[:300]}"] += 1
            return
        self.accepted.update((uuid.UUID(item["id"]).bytes, load) for item in answer.json()["items"])

    def _item(self, load: Load) -> dict[str, Any]:
        item: dict[str, Any] = {"parameters": {**load.parameters, "serial": next(self.serials)}}
        if self._draw.random() < 0.5:
            item["idempotency_key"] = f"chaos-{item['parameters']['serial']}"
        if self._draw.random() < _LATER_SHARE:
            now = SYSTEM_CLOCK.now()
            ahead = now + timedelta(seconds=self._draw.uniform(0, _FARTHEST_SECONDS))
            item["run_at"] = max(now, min(ahead, self._end)).isoformat()
        return item
