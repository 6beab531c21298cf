"""All that a problem can cost, mapping by mapping, by the program that shares no code with proofs.

`costmodel.independent` lists and counts in plain Python; tiny problems alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import reduce

from costmodel import MapSpace
from costmodel.costs import Objective
from costmodel.independent.check import objective_of
from costmodel.independent.counting import Cost, Counter, Tiling, why_not_counted
from costmodel.independent.mappings import Mappings, every_order, order_count
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload

MOST = 800


def front_of(costs: Iterable[Cost]) -> list[Cost]:
    """The costs that no other is as good as in both, by cycles."""
    kept: list[Cost] = []
    for energy, cycles in sorted(set(costs), key=lambda cost: (cost[1], cost[0])):
        if not kept or energy < kept[-1][0]:
            kept.append((energy, cycles))
    return kept


def every_cost(
    work: Workload, machine: Accelerator, most: float, fits: Callable[[Tiling], bool] | None = None
) -> set[Cost] | None:
    """Energy, pJ, and cycles of every mapping; None where there are more than so many.

    Args:
        work: the operation.
        machine: one that `costmodel.independent` counts.
        most: mappings, and tilings, that may be looked at.
        fits: what a tiling has to hold beside the machine's own limits.
    """
    space, counter = Mappings(work, machine), Counter(work, machine)
    if space.shape_count() > most:
        return None
    found: set[Cost] = set()
    looked = 0
    for tiling in (each for shape in space.shapes() for each in space.tilings(shape)):
        able = counter.why_not(tiling) is None and (fits is None or fits(tiling))
        looked += order_count(tiling) if able else 1
        if looked > most:
            return None
        if able:
            known: dict[object, int] = {}
            found |= {counter.cost(tiling, each, known) for each in every_order(tiling)}
    return found


def counted_front(work: Workload, machine: Accelerator, most: int = MOST) -> list[Cost] | None:
    """Energy, pJ, and cycles that no mapping beats in both; empty where no mapping is feasible.

    None where such machines are not counted, or the problem has more than so many mappings.
    """
    orders = MapSpace(work, machine).orders
    machines = [machine] if orders is None else [one.accelerator for one in orders.spaces]
    found: list[Cost] = []
    for one in machines:
        costs = None if why_not_counted(work, one) else every_cost(work, one, most)
        if costs is None:
            return None
        found = front_of([*found, *costs])
    return found


def sums_of(fronts: Sequence[tuple[int, Sequence[Cost]]]) -> list[Cost]:
    """The front of all sums, a cost from each of the fronts, so many times."""

    def joined(sums: list[Cost], other: tuple[int, Sequence[Cost]]) -> list[Cost]:
        count, front = other
        return front_of((e + count * f, c + count * d) for e, c in sums for f, d in front)

    return reduce(joined, fronts, [(Fraction(0), 0)])


def least_of(costs: Iterable[Cost], objective: Objective) -> Fraction:
    """The least objective, in pJ and cycles."""
    return min(objective_of(objective, cost) for cost in costs)
