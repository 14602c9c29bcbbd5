"""With the real daemons: each cause that can be removed is told, and a second after its removal the work has begun."""

import pytest

from tests.explain_removal import CAUSES, place, seconds_to_start  # noqa: F401 - fixture
from tests.test_end_to_end import Installation, installation  # noqa: F401 - fixture


@pytest.mark.drill
@pytest.mark.parametrize("name", CAUSES)
def test_removal_starts_the_execution_within_a_second(place: Installation, name: str) -> None:  # noqa: F811
    seconds = seconds_to_start(place, CAUSES[name])
    print(f"{name}: started {seconds * 1000:.0f} ms after it was removed")
    assert seconds < 1.0
