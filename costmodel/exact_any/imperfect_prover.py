"""A lower bound where loops have remainders, and the gap of the best mapping known, at any time.

Perfect factors are some of them, so that the bound holds of map spaces without remainders as well.
Boxes of spatial factors are taken up by rising bound: first what they cost at least in a coarse
grid of extents, then in two halves, in the end in finer grids. Nothing here looks for mappings:
what is found elsewhere is offered, and is proven where it reaches the bound.

Its public face is that of `costmodel.exact_any.prover.AnyProver`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from costmodel.costs import Objective
from costmodel.exact.objective import objective_kind
from costmodel.exact.progress import AnyLevelsProgress, Earlier
from costmodel.exact.restriction import restriction
from costmodel.exact_any.known import SLACK, Known
from costmodel.exact_any.problem import energy_unit, floor_outcome, why_too_many_keeps
from costmodel.exact_any.scored_run import ScoredRun
from costmodel.exact_imperfect.boundaries import Boundaries
from costmodel.exact_imperfect.boxes import Piece, Queue, best_halves, narrowed, whole_box
from costmodel.exact_imperfect.cells import cells_of
from costmodel.exact_imperfect.chain import Chain, Operation
from costmodel.exact_imperfect.charges import Charges
from costmodel.exact_imperfect.grid import FloatArray, Grid, fits
from costmodel.exact_imperfect.prices import Box, least_cycles, prices
from costmodel.exact_imperfect.spreads import Spread, tightened
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from costmodel.tile_chains.links import has_links, windowed
from costmodel.tile_chains.rules import Rules
from costmodel.tile_chains.spatial import keep_choices
from mapspace.errors import ConfigError, ContractError

Outcome = tuple[int, int]
"""Energy in units and cycles."""

STEP_SECONDS = 0.05
CELLS = (6_000, 60_000)
"""Cells of one grid after another."""
OVERCOUNT = 16
"""Energy unit: Timeloop's counting may charge more work than there is."""


def why_not_imperfect(space: MapSpace) -> str | None:
    """Why nothing can be bounded of a map space with remainders, in one line; None if it can."""
    name = space.accelerator.name
    if space.accelerator.overflow != "invalid":
        return f"{name} bypasses what overflows; the exact search needs overflow: invalid."
    if not space.tables.machine.always_kept[0] and space.tables.machine.cumulative:
        return f"{name} is judged as timeloop-model does; the exact search looks at each fan-out."
    return why_too_many_keeps(space)


def check_top(top: int) -> None:
    """Refuses more than the best mapping.

    Raises:
        ConfigError: `top` is not 1.
    """
    if top != 1:
        raise ConfigError(f"top: expected 1 where there is a bound and no proof, got {top}.")


class _Order:
    """What bounds read of one order of buffers."""

    def __init__(self, space: MapSpace, keeps: list[tuple[int, ...]]) -> None:
        self.space, self.keeps = space, keeps

    @lru_cache(maxsize=len(CELLS))  # noqa: B019 - lives as long as its proof
    def operation(self, grids: int) -> Operation:
        """The operation on one of the grids."""
        tables = self.space.tables
        return Operation(tables, Grid(tables.sizes, CELLS[grids]))

    @lru_cache(maxsize=64)  # noqa: B019 - as above
    def free(self, grids: int, kept: int) -> list[FloatArray]:
        """Per level, what fits."""
        grid, levels = self.operation(grids).grid, self.space.accelerator.levels
        return [
            fits(self.space.tables, grid, level, bits, levels[level].banks or 0)
            for level, bits in enumerate(self.keeps[kept])
        ]

    def energy(self, piece: Piece, grids: int) -> float:
        """Energy, pJ, that the mappings of a piece need at least; inf if there are none."""
        if self._hands_on:
            # What levels deliver is not bounded.
            return float(self.space.tables.macs) * self.space.tables.mac_energy * (1 - SLACK)
        energy, operation = 0.0, self.operation(grids)
        for sure in (False, True):
            found = prices(self.space.tables, self.keeps[piece.kept], piece.box, sure=sure)
            if found is not None:
                chain = Chain(operation, self.free(grids, piece.kept), found, piece.box)
                energy = max(energy, (found.fixed + chain.least()) * (1 - SLACK))
        return max(energy, self._by_boundaries(piece, grids) if self._may_sum else 0.0)

    @cached_property
    def _may_sum(self) -> bool:
        """Whether lemma 10 holds: no tensor moves twice by a dimension, no output by a sum."""
        tables = self.space.tables
        return not tables.tangled.any() and not tables.sliding[tables.part_kind > 0].any()

    def _by_boundaries(self, piece: Piece, grids: int) -> float:
        """The bound of lemma 10: it knows windows, and what elements do by themselves."""
        spread = tightened(self.space, Spread(piece.box.low, piece.box.high))
        if spread is None or (spread.is_point and not self._has_room(spread)):
            return math.inf
        cells = cells_of(self.space.tables.sizes, CELLS[grids])
        charges = Charges(self.space, self.keeps[piece.kept], spread, cells)
        return Boundaries(charges).least() * (1 - SLACK)

    def _has_room(self, point: Spread) -> bool:
        """Whether spatial factors fit along width and height."""
        rules, slots = Rules(self.space), self.space.tables.spatial_slot.tolist()
        return all(
            rules.arrangements(level, point.least[level])
            for level, slot in enumerate(slots)
            if slot >= 0
        )

    def cycles(self, box: Box) -> int:
        """Cycles that the mappings of a box take at least."""
        tables = self.space.tables
        if self._hands_on:
            bandwidth = np.full_like(tables.bandwidth, np.inf)
            shared = np.full_like(tables.machine.shared, np.inf)
            tables = tables._replace(
                bandwidth=bandwidth, machine=tables.machine._replace(shared=shared)
            )
        return least_cycles(tables, box)

    @cached_property
    def _hands_on(self) -> bool:
        """Whether neighbours, or MACs, may hand words to each other."""
        shared = self.space.accelerator.levels[-1].fanout > 1
        return has_links(self.space) and (shared or any(windowed(self.space)))


class ImperfectProver(ScoredRun):
    """Bounds the best mapping of a map space with remainders from below.

    Attributes:
        space: the map space.
        objective: what is minimised.
        keep: the restriction, as of `AnyProver`.
        unit_pj: the unit of energy, pJ.
        finished: whether the best mapping known is proven, to within SLACK.
        rounds: always 1.
        earlier_seconds: always 0.
    """

    def __init__(
        self,
        space: MapSpace,
        *,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        top: int = 1,
        build: bool = True,
    ) -> None:
        """Lists one box per order of buffers and choice of kept tensors.

        Args:
            space: a map space that `why_not_imperfect` has nothing against.
            objective: `edp`, `energy`, `latency` or `ed2p`.
            keep: the tensors that a level keeps, for levels where that is not searched.
            top: 1: other mappings than the best one are not listed.
            build: not needed.

        Raises:
            ConfigError: the space cannot be bounded, or `top` is not 1.
        """
        problem = why_not_imperfect(space)
        if problem is not None:
            raise ConfigError(problem)
        check_top(top)
        self.space = space
        self.objective: Objective = objective
        self.keep = restriction(space.workload, space.accelerator, keep)
        self.rounds, self.earlier_seconds = 1, 0.0
        self.unit_pj = energy_unit(space) * OVERCOUNT
        self._kind = objective_kind(objective)
        counts, certain = {"boxes": 0, "chains": 0}, floor_outcome(space, self.unit_pj)
        super().__init__(Known(space, objective), counts, certain)
        self._limit: float | None = None
        spaces = (space,) if space.orders is None else space.orders.spaces
        self._orders = [_Order(one, keep_choices(one, keep)) for one in spaces]
        self._keeps = [order.keeps for order in self._orders]
        self._queue = Queue()
        self._stuck = False
        self._root = self._roots()
        self._built = False

    def _roots(self) -> list[Piece]:
        found = []
        for number, order in enumerate(self._orders):
            box = narrowed(whole_box(order.space), order.space.tables.fanout)
            assert box is not None  # factors of 1 have room
            cycles = max(order.cycles(box), self._certain[1])
            found += [Piece(number, kept, box, 0.0, cycles, 0) for kept in range(len(order.keeps))]
        return found

    @property
    def built(self) -> bool:
        """Whether every mapping is in a box with a bound, or none is needed."""
        return self._built or self.finished

    def _value(self, energy: float, cycles: float) -> float:
        if self.objective == "latency":
            return cycles
        return energy * cycles ** {"energy": 0, "edp": 1, "ed2p": 2}[self.objective]

    def _bound(self, piece: Piece, grids: int) -> None:
        """Bounds a piece in a grid and queues it."""
        energy = max(self._orders[piece.order].energy(piece, grids), piece.energy)
        self._counts["chains"] += 1
        if energy < math.inf:
            found = piece._replace(energy=energy, grids=grids + 1)
            self._queue.put(self._value(energy, piece.cycles), found)

    def _work(self) -> None:
        """One piece of work."""
        if self._limit is None and self.gap == 0:
            self.finished = True
            return
        if self._root:
            self._bound(self._root.pop(), 0)
            self._built = not self._root
            return
        if not len(self._queue):
            self.finished = True
            return
        bound, piece = self._queue.least
        if not bound < self._to_beat():
            self.finished = True
            return
        order = self._orders[piece.order]
        parts = (
            None
            if piece.grids == 0
            else best_halves(piece.box, order.space.tables.fanout, order.cycles)
        )
        if parts is None and piece.grids == len(CELLS):
            self._stuck = True
            return
        self._queue.take()
        if parts is None:
            self._bound(piece, piece.grids)
            return
        for box, cycles in parts:
            self._counts["boxes"] += 1
            cycles = max(cycles, piece.cycles)
            part = piece._replace(box=box, cycles=cycles, grids=0)
            # Its energy is bounded when its turn comes.
            self._queue.put(self._value(part.energy, cycles), part)

    def _to_beat(self) -> float:
        if self._limit is not None:
            return self._limit
        best = self._known.best
        return math.inf if best is None else self._value(*best) * (1 - SLACK)

    def step(self, *, parts: int | None = None) -> None:
        """Works for some STEP_SECONDS.

        Args:
            parts: for so many parts of its work in place of that, however long they take.

        Raises:
            ContractError: the proof is finished.
        """
        if self.finished:
            raise ContractError("The proof is finished: there is nothing left to do.")
        ends = time.monotonic() + STEP_SECONDS if parts is None else math.inf
        last = math.inf if parts is None else self._steps + parts
        if self._stuck:
            self._steps += 1
            best = self._known.best
            self.finished = best is not None and not self._queue.least[0] < self._to_beat()
            self._halted.wait(STEP_SECONDS)
            return
        while not (self.finished or self._stuck or self._halted.is_set()) and self._steps < last:
            self._steps += 1
            self._work()
            if time.monotonic() >= ends:
                return

    def run(
        self,
        seconds: float | None = None,
        *,
        gap: float = 0.0,
        after_step: Callable[[Any], None] | None = None,
    ) -> None:
        """Works until nothing more can be had or so many seconds have passed.

        Args:
            seconds: None: however long it takes.
            gap: end when the best mapping is certainly within this share of the optimum.
            after_step: called after every step.
        """
        ends = math.inf if seconds is None else time.monotonic() + seconds
        while not self.finished and not 0 < gap >= self.gap and time.monotonic() < ends:
            if self._stuck and seconds is None:
                return
            self.step()
            if after_step is not None:
                after_step(self)

    def allows(self, code: Codes) -> bool:
        """Whether a mapping `[D]` is one of those that the proof speaks of."""
        if self.keep is None:
            return True
        return self._kept_by(code) in self._keeps[self._order_of(code)]

    def _is_narrow(self) -> bool:
        return self.keep is not None

    @property
    def lower_outcome(self) -> Outcome:
        """What no mapping's objective undercuts, to within SLACK."""
        best = self.best_outcome
        if self.finished and best is not None and self._limit is None:
            return best
        if not self._built or not len(self._queue):
            return self._certain if best is None else min(self._certain, best, key=self.rank_of)
        piece = self._queue.least[1]
        return self._lower(piece.energy, piece.cycles)

    def search_below(
        self, limit: Outcome, seconds: float | None = None
    ) -> tuple[Outcome | None, float]:
        """Bounds all mappings again until none can be below a limit.

        Args:
            limit: energy in units and cycles.
            seconds: the most that it may take; None: however long it takes.

        Returns:
            None, since it looks for no mapping; and 1 if nothing can be below, else nan.
        """
        if self.value_of(self._certain) >= self.value_of(limit):
            return None, 1.0
        again = ImperfectProver(self.space, objective=self.objective, keep=self.keep)
        energy, cycles = float(limit[0] * self.unit_pj), float(limit[1])
        again._limit = again._value(energy, cycles) * (1 - 2 * SLACK)
        again.run(seconds)
        self._counts = again._counts
        return None, 1.0 if again.finished else math.nan

    @property
    def bounds_computed(self) -> int:
        """How many sets of mappings were bounded so far."""
        return self._counts["chains"]

    def progress(self) -> AnyLevelsProgress | None:
        """None: a bound is soon found again."""
        return None

    def resume(self, earlier: Earlier) -> None:
        """Refuses: nothing is recorded.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("progress: bounds without a proof are made anew; start without it.")
