"""The proven energy-latency front of a machine of any hierarchy, limited bandwidths included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from costmodel.exact.pareto import FrontPoint, pareto_front
from costmodel.exact_any.choice import is_older
from costmodel.exact_any.known import Known
from costmodel.exact_any.prover import STEP_SECONDS, AnyProver
from costmodel.exact_any.staircase import Staircase
from costmodel.exact_any.weighted import FIRST_MAPPINGS, LeastSum, Line, least_sum
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError


class FrontProver(AnyProver):
    """Finds the mappings that no other beats in energy and latency at once.

    It works as the proof of one objective does, but what a set of mappings must be better than
    depends on how many cycles they take at least: the least energy of all that are as fast.
    """

    _settles = False

    def __init__(self, space: MapSpace, *, keep: Mapping[str, Sequence[str]] | None = None) -> None:
        """As `AnyProver` does; sets of mappings are taken up by their least EDP."""
        self._front = Staircase(space)
        super().__init__(space, objective="edp", keep=keep)

    def _nothing_known(self) -> Known:
        return self._front

    def points(self) -> list[FrontPoint]:
        """The front so far, fastest first; the front once the proof is finished."""
        found = []
        front = self._front
        for cycles, energy, code in zip(front.cycles, front.energies, front.mappings, strict=True):
            one, inside = self.space.in_order(code)
            tables = one.tables
            factors = tables.factors[inside[: tables.sizes.size] + tables.row_start[:-1]]
            elements = int(factors[:, tables.slot_spatial == 1].prod())
            found.append(FrontPoint(elements, int(cycles), energy, code))
        return found


def prove_front(
    space: MapSpace,
    *,
    keep: Mapping[str, Sequence[str]] | None = None,
    known: Sequence[Codes] = (),
    say: Callable[[str], None] = lambda text: None,
) -> list[FrontPoint]:
    """All points of the energy-latency front, fastest first.

    Args:
        space: a map space that can be proven.
        keep: the tensors that a level keeps, for levels where that is not searched.
        known: mappings `[D]` found elsewhere.
        say: called now and then with how far it is.

    Raises:
        ConfigError: the space cannot be proven, or has no feasible mapping.
    """
    limited = any(
        getattr(level, key) is not None
        for level in space.accelerator.levels
        for key in ("read_bandwidth", "write_bandwidth", "bandwidth")
    )
    if is_older(space) and not limited:
        return pareto_front(
            space, keep=keep, after_point=lambda i, n: say(f"{i} of {n} element counts")
        )
    prover = FrontProver(space, keep=keep)
    first = space.sample(np.random.default_rng(0), FIRST_MAPPINGS, feasible=True)
    prover.offer(np.concatenate([first, *(code[None] for code in known)]))
    if is_older(space) and not keep and _is_one_point(space, prover, say):
        return prover.points()
    while not prover.finished:
        prover.step()
        bounded, points = prover.bounds_computed, len(prover.points())
        say(f"{points} points so far, {bounded:,} bounds")
    if not prover.points():
        raise ConfigError(
            f"No mapping of {space.workload.name} on {space.accelerator.name} is feasible."
        )
    return prover.points()


def _is_one_point(space: MapSpace, prover: FrontProver, say: Callable[[str], None]) -> bool:
    """Whether the fewest cycles and the least energy are one mapping's: then no other is left.

    Where words wait for a bandwidth, fewer of them take less of both. What is found is offered.
    """
    ends: list[Line] = []
    for weight in (None, Fraction(0)):
        proof, line = LeastSum(space, weight), None
        while line is None or not line.proven:
            line = proof.run(STEP_SECONDS)
            say("the fewest cycles" if weight is None else "the least energy")
        ends.append(line)
        if line.point is None:
            return False
        prover.offer(line.point.code[None])
    fewest, least = (line.point for line in ends)
    assert fewest is not None  # both have one
    assert least is not None
    between = least_sum(space, least.energy / least.cycles, known=(fewest, least))
    if between.point is not None:
        prover.offer(between.point.code[None])
    return len(prover.points()) == 1
