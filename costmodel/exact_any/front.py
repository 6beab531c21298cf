"""The proven energy-latency front of a machine of any hierarchy, limited bandwidths included."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from costmodel.exact_any.choice import FIRST_MAPPINGS
from costmodel.exact_any.known import SLACK, Known
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.staircase import Staircase
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError


class FrontPoint(NamedTuple):
    """A mapping that no other beats in energy and latency at once.

    elements: processing elements in use; latency_cycles: cycles; energy_pj: energy, pJ; code: `[D]`
    the mapping.
    """

    elements: int
    latency_cycles: int
    energy_pj: float
    code: Codes


class Front(NamedTuple):
    """What is known of a front.

    points: the mappings known that no other beats, the fastest first; bounds: cycles and energy,
    pJ: from so many cycles on, up to those of the next, no mapping needs less; fewer cycles than
    those of the first no mapping takes. proven: whether the points are all there are; then the
    bounds are theirs.
    """

    points: list[FrontPoint]
    bounds: list[tuple[int, float]]
    proven: bool

    def least_energy(self, cycles: int) -> float:
        """What no mapping of at most so many cycles undercuts, pJ; inf: there is none."""
        return next((energy for c, energy in reversed(self.bounds) if c <= cycles), math.inf)


class FrontProver(AnyProver):
    """Finds the mappings that no other beats in energy and latency at once.

    It works as the proof of one objective does, but what a set of mappings must be better than
    depends on how many cycles they take at least: the least energy of all that are as fast.
    """

    _settles = False

    def __init__(
        self,
        space: MapSpace,
        *,
        keep: Mapping[str, Sequence[str]] | None = None,
        build: bool = True,
    ) -> None:
        """As `AnyProver` does; sets of mappings are taken up by their least EDP."""
        self._front = Staircase(space)
        super().__init__(space, objective="edp", keep=keep, build=build)

    def _nothing_known(self) -> Known:
        return self._front

    def bounds(self) -> list[tuple[int, float]]:
        """Cycles and energy, pJ, of the corners below which no mapping lies, the fastest first."""
        front = self._front
        cycles, energy = np.array(front.cycles), np.array(front.energies)
        if not self._built:
            return [(0, 0.0)]
        if not self.finished:
            least, fewest = self._queue.bounds_left()
            cycles, energy = np.append(cycles, fewest), np.append(energy, least * (1 - SLACK))
        order = np.lexsort((energy, cycles))
        cycles, energy = cycles[order], energy[order]
        lower = energy < np.append(np.inf, np.minimum.accumulate(energy)[:-1])
        return list(zip(cycles[lower].astype(int).tolist(), energy[lower].tolist(), strict=True))

    def points(self) -> list[FrontPoint]:
        """The front so far, fastest first; the front once the proof is finished."""
        found = []
        front = self._front
        for cycles, energy, code in zip(front.cycles, front.energies, front.mappings, strict=True):
            found.append(FrontPoint(_elements(self.space, code), int(cycles), energy, code))
        return found


def prove_front(
    space: MapSpace,
    *,
    keep: Mapping[str, Sequence[str]] | None = None,
    known: Sequence[Codes] = (),
    say: Callable[[str], None] = lambda text: None,
) -> list[FrontPoint]:
    """All points of the energy-latency front, fastest first.

    The arguments are those of `search_front`, the errors too.
    """
    return search_front(space, keep=keep, known=known, say=say).points


def search_front(
    space: MapSpace,
    *,
    keep: Mapping[str, Sequence[str]] | None = None,
    known: Sequence[Codes] = (),
    seconds: float | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Front:
    """Proves the energy-latency front, or gets as far as the time allows.

    Args:
        space: a map space that can be proven.
        keep: the tensors that a level keeps, for levels where that is not searched.
        known: mappings `[D]` found elsewhere.
        seconds: the most that it may take; None: however long.
        say: called now and then with how far it is.

    Raises:
        ConfigError: the space cannot be proven, or has no feasible mapping.
    """
    ends = math.inf if seconds is None else time.monotonic() + seconds
    prover = FrontProver(space, keep=keep, build=False)
    first = space.sample(np.random.default_rng(0), FIRST_MAPPINGS, feasible=True)
    offered = np.concatenate([*(code[None] for code in known), first])
    # Ever more at a time: of networks of millions of children each takes seconds.
    done = 0
    while done < len(offered) and (not done or time.monotonic() < ends):
        prover.offer(offered[done : 2 * done + 1])
        done = 2 * done + 1
    while not prover.finished and time.monotonic() < ends:
        prover.step()
        bounded, count = prover.bounds_computed, len(prover.points())
        say(f"{count} points so far, {bounded:,} bounds")
    if prover.finished and not prover.points():
        raise ConfigError(
            f"No mapping of {space.workload.name} on {space.accelerator.name} is feasible."
        )
    return Front(prover.points(), prover.bounds(), prover.finished)


def _elements(space: MapSpace, code: Codes) -> int:
    """How many processing elements a mapping uses."""
    one, inside = space.in_order(code)
    tables = one.tables
    factors = tables.factors[inside[: tables.sizes.size] + tables.row_start[:-1]]
    return int(factors[:, tables.slot_spatial == 1].prod())
