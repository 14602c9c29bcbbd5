"""How much is seeded, and whose it is."""

from dataclasses import dataclass

TENANTS = ("acme", "globex", "initech", "umbrella", "hooli")
SHARES = (0.72, 0.14, 0.08, 0.04, 0.02)
"""Of all tasks and executions, for each tenant: one is large, as in life."""
LEAST_EXECUTIONS = 1000
LEAST_TASKS = 50
RUNS_EACH = 12
"""Runs of each DAG."""
MOST_DAYS = 60


@dataclass(frozen=True)
class Sizes:
    """days: of the past, today included. dags: of the first tenant; each has RUNS_EACH runs, whose nodes are executions
    beyond `executions`.
    """

    executions: int = 2_000_000
    tasks: int = 100_000
    dags: int = 1_000
    days: int = 7
    tenants: tuple[str, ...] = TENANTS
    seed: int = 1

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the tenants, together 1."""
        chosen = SHARES[: len(self.tenants)]
        return tuple(share / sum(chosen) for share in chosen)

    def tasks_of(self, number: int) -> int:
        return max(LEAST_TASKS // 2, round(self.tasks * self.shares[number]))
