"""The proven energy-latency front of a machine of any hierarchy, limited bandwidths included."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from costmodel.costs import STATUS_OK
from costmodel.exact.pareto import FrontPoint, pareto_front
from costmodel.exact_any.choice import is_older
from costmodel.exact_any.known import SLACK, Known, Target
from costmodel.exact_any.prover import STEP_SECONDS, AnyProver
from costmodel.exact_any.weighted import LeastSum, Line, least_sum
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from costmodel.tile_chains.tiles import FloatArray
from mapspace.errors import ConfigError


class _Front(Known):
    """The mappings known that no other beats in energy and latency at once."""

    def __init__(self, space: MapSpace) -> None:
        super().__init__(space, "edp")
        self.cycles: list[float] = []
        self.energies: list[float] = []
        self.mappings: list[Codes] = []

    @property
    def full(self) -> bool:
        """Never: what others must be better than depends on their cycles."""
        return False

    def limit(self, cycles: float) -> float:
        """The energy that the fastest mappings known, of so many cycles at most, need at least."""
        at = bisect.bisect_right(self.cycles, cycles)
        return self.energies[at - 1] * (1 - SLACK) if at else float("inf")

    def target(self, cycles: float) -> Target:
        """What is known of so many cycles holds for more."""
        return Target(self.limit(cycles), 0.0, math.inf)

    def too_slow(self, energies: FloatArray, cycles: FloatArray) -> npt.NDArray[np.bool_]:
        """Which sets of mappings are beaten by one that is no slower."""
        least = np.concatenate([[np.inf], self.energies]) * (1 - SLACK)
        at = np.searchsorted(np.array(self.cycles), cycles, side="right")
        beaten: npt.NDArray[np.bool_] = energies >= least[at]
        return beaten

    def take(self, codes: Codes) -> None:
        """Keeps of mappings `[B, D]` those that none beats, in place of those that they beat."""
        costs = LoopNestModel().evaluate(self._space, codes)
        for b in np.flatnonzero(costs.status == STATUS_OK):
            energy, cycles = float(costs.energy_pj[b]), float(costs.latency_cycles[b])
            if energy >= self.limit(cycles):
                continue
            first = bisect.bisect_left(self.cycles, cycles)
            last = first
            while last < len(self.cycles) and self.energies[last] >= energy * (1 - SLACK):
                last += 1
            self.cycles[first:last] = [cycles]
            self.energies[first:last] = [energy]
            self.mappings[first:last] = [codes[b].copy()]


class FrontProver(AnyProver):
    """Finds the mappings that no other beats in energy and latency at once.

    It works as the proof of one objective does, but what a set of mappings must be better than
    depends on how many cycles they take at least: the least energy of all that are as fast.
    """

    _settles = False

    def __init__(self, space: MapSpace, *, keep: Mapping[str, Sequence[str]] | None = None) -> None:
        """As `AnyProver` does; sets of mappings are taken up by their least EDP."""
        self._front = _Front(space)
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
    if known:
        prover.offer(np.stack(known))
    if limited and not keep and _is_one_point(space, prover, say):
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
