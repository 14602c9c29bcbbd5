"""Which workers may run what: by the labels that work requires, and by the tenant that a worker is kept for.

A worker kept for a tenant runs nothing else, and while one lives that carries the labels, that tenant's work goes
nowhere else. Members of the hot tier that the same workers may run share a pool; a tenant whose small limit of
concurrency holds exactly has pools of its own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from apps.dispatcher.credits import Credit
from apps.worker.class_slots import CLASSES

ASIDE = 0
"""The pool of what no live worker may run: popped too, to be put aside."""
_ASIDE_ROOM = 1000
_UNBOUND = 1_000_000


@dataclass
class Pools:
    """Made anew each time that credits are counted. routes: labels by route.

    exact: tenants (hex) that have pools of their own. goes_aside: whether the work of a tenant with a route, which no
    live worker may run, has waited enough.
    """

    credits: Sequence[Credit] = ()
    routes: Mapping[int, Collection[str]] = field(default_factory=dict)
    goes_aside: Callable[[str, int], bool] = lambda tenant, route: False
    exact: Collection[str] = ()
    _of: dict[tuple[str, int], int | None] = field(default_factory=dict)
    _numbers: dict[tuple[str | None, tuple[int, ...]], int] = field(default_factory=dict)
    members: list[list[Credit]] = field(default_factory=lambda: [[]])
    """The workers of each pool; none in ASIDE."""
    tenants: list[str | None] = field(default_factory=lambda: [None])
    """The tenant whose own each pool is."""
    met_unknown_route: bool = False

    def pool_of(self, tenant: str, route: int) -> int | None:
        """The pool of a tenant's (hex) work with a route; None when it is to wait in the hot tier."""
        if (tenant, route) not in self._of:
            self._of[tenant, route] = self._find(tenant, route)
        return self._of[tenant, route]

    def is_served(self, tenant: str, route: int) -> bool:
        """Whether a live worker may run a tenant's (hex) work with a route."""
        return self.pool_of(tenant, route) not in (None, ASIDE)

    def _find(self, tenant: str, route: int) -> int | None:
        labels = self.routes.get(route, ())
        if route and not labels:
            self.met_unknown_route = True
            return None  # made a moment ago; read again at the next count
        able = [c for c in self.credits if c.tenant in (None, tenant) and (not labels or c.labels.issuperset(labels))]
        own = [credit for credit in able if credit.tenant is not None]
        able = own or able
        if not able:
            return ASIDE if route and self.goes_aside(tenant, route) else None
        owner = tenant if tenant in self.exact else None
        key = owner, tuple(sorted(credit.worker_id for credit in able))
        if key not in self._numbers:
            self._numbers[key] = len(self.members)
            self.members.append(able)
            self.tenants.append(owner)
        return self._numbers[key]

    def rooms(self) -> list[list[int]]:
        """How many executions of each class may be popped now, of each pool."""
        rooms = [[sum(credit.left[c] for credit in able) for c in range(CLASSES)] for able in self.members]
        rooms[ASIDE] = [_ASIDE_ROOM] * CLASSES
        return rooms

    def totals(self) -> list[int]:
        """The same of all workers together: pools overlap."""
        return [sum(credit.left[c] for credit in self.credits) for c in range(CLASSES)]


class NoBounds(Pools):
    """For who pops without workers: everything, as one pool."""

    def pool_of(self, tenant: str, route: int) -> int | None:
        return ASIDE

    def rooms(self) -> list[list[int]]:
        return [[_UNBOUND] * CLASSES]

    def totals(self) -> list[int]:
        return [_UNBOUND] * CLASSES
