"""What workers have begun by hand-over since the last look: it goes against the same limits as what was dispatched."""

from collections.abc import Mapping

from apps.worker.live_state import LiveState


class HandOvers:
    """Remembers what each worker has said."""

    def __init__(self) -> None:
        self._said: dict[int, dict[str, int]] = {}

    def fresh(self, states: Mapping[int, tuple[float, LiveState]]) -> dict[str, int]:
        """tenant (hex) → how many are new. Of a worker heard of for the first time nothing is: it was, before."""
        found: dict[str, int] = {}
        for worker, (_, state) in states.items():
            before = self._said.get(worker)
            if before is None:
                continue
            for tenant, total in state.handed_over.items():
                known = before.get(tenant, 0)
                # Less than before: the tenant lost its place and has another one, counted from the start.
                new = total - known if total >= known else total
                if new:
                    found[tenant] = found.get(tenant, 0) + new
        self._said = {worker: dict(state.handed_over) for worker, (_, state) in states.items()}
        return found
