"""What gives up after tenths of a second, so that nobody waits, waits here: a plugin of the suite (see conftest.py).

On a busy machine any answer may come that late. Tests of the giving up itself set their own limits.
"""

from collections.abc import Iterator

import hypothesis
import pytest

from apps.console.executions import page
from apps.definitions import collisions
from apps.executions import idempotency, searching
from chronoweb.runtime import rate_limit
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.waiting import PATIENCE_SECONDS, eventually

# An example may take as long as the machine lets it, and so may making one.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_out_for_lack_of_time() -> Iterator[None]:
    """A search ends before it has looked at all; a request that Redis has not counted in time is let in; one that
    waits for another of the same key is refused; what was read for many pages is read anew after a moment.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "PAGE_SECONDS", PATIENCE_SECONDS)
        patch.setattr(collisions, "KEPT_SECONDS", PATIENCE_SECONDS)
        patch.setattr(page, "AHEAD_SECONDS", PATIENCE_SECONDS)
        patch.setattr(idempotency, "WAIT_SECONDS", int(PATIENCE_SECONDS))
        patch.setattr(rate_limit, "_PATIENCE_SECONDS", PATIENCE_SECONDS)
        yield


@pytest.fixture
def early_in_the_minute() -> None:
    """No minute ends while the test runs: what counts the occurrences of a minutely task would find another one."""
    eventually(lambda: SYSTEM_CLOCK.now().second < 45, every=0.1)
