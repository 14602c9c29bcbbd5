"""How long handlers run, measured; and what follows for how many jobs a child holds at once.

A child holds work for `WINDOW_SECONDS`: 256 jobs of 10 µs, one of 5 ms. So pipes stay full where jobs are short
and a short job never sits behind a long one. A handler not seen yet counts as a whole window: one at a time.
"""

WINDOW_SECONDS = 0.003
WINDOW_JOBS = 256
SHORT_SECONDS = 0.001
"""Handlers faster than this are bound by the processor: more children than processors do not speed them up."""
SLOWEST_WEIGHT = 0.02
FEWEST_SAMPLES = 10


class Mean:
    """A moving mean: a plain one at first, then one that forgets."""

    __slots__ = ("count", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.count = 0

    def add(self, sample: float) -> None:
        self.count += 1
        self.value += (sample - self.value) * max(SLOWEST_WEIGHT, 1.0 / self.count)


class Estimates:
    """Mean run times in seconds, by handler name and by class of work."""

    def __init__(self) -> None:
        self._by_name: dict[str, Mean] = {}
        self.by_class = (Mean(), Mean(), Mean())

    def expected(self, name: str) -> float:
        """Seconds that a run of `name` takes; a whole window if that is not known."""
        mean = self._by_name.get(name)
        return WINDOW_SECONDS if mean is None else mean.value

    def known(self, name: str) -> bool:
        """Whether enough runs were seen to act on it; the first ones pay for imports and cold caches."""
        mean = self._by_name.get(name)
        return mean is not None and mean.count >= FEWEST_SAMPLES

    def add(self, name: str, class_index: int, seconds: float) -> None:
        """Note one run."""
        mean = self._by_name.get(name)
        if mean is None:
            mean = self._by_name[name] = Mean()
        mean.add(seconds)
        self.by_class[class_index].add(seconds)
