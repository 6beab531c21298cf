"""The proof on any hierarchy as an object: it works in small steps, and can be stopped at any time.

Assignments (kept tensors and spatial factors of all levels) are taken up by rising lower bound: a
floor first, then what the chain of tables says, then the tilings below the best mapping known.
What is left when no assignment can hold a better mapping is the optimum.

Its public face is that of `costmodel.exact.prover.Prover`, so that whoever shows or certifies a
proof need not know which one it was.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from costmodel.accelerators import accelerator
from costmodel.costs import STATUS_OK, Objective
from costmodel.exact.objective import ENERGY, INFINITE, LATENCY, objective_kind, rank, value
from costmodel.exact.restriction import restriction
from costmodel.exact_any.assignments import Spreads, list_assignments
from costmodel.exact_any.leaves import Assignment, Leaves
from costmodel.exact_any.ports import Port, port_weights, ports
from costmodel.exact_any.problem import energy_unit, why_not_any
from costmodel.exact_any.rules import Rules
from costmodel.exact_any.shape import build_shape
from costmodel.exact_any.spatial import keep_choices
from costmodel.exact_any.tables import ChainTables
from costmodel.exact_any.tiles import Lattice
from costmodel.exact_any.walk import (
    bound_tiles,
    cross_boundary,
    empty_lines,
    enter_tile,
)
from costmodel.exact_any.weights import weights
from costmodel.loop_nest.constraints import Constraints
from costmodel.loop_nest.map_space import MapSpace
from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.tables import Array
from costmodel.space import Codes
from costmodel.workload_families import cnn
from mapspace.errors import ConfigError, ContractError

Outcome = tuple[int, int]
"""Energy in units and cycles."""

SLACK = 1e-12
"""Energies are sums in floating point: what is closer than this share counts as equal."""

STEP_SECONDS = 0.05


@lru_cache(maxsize=1)
def load_compiled() -> None:
    """Compiles the proof, or loads it compiled, by proving something trivial."""
    machine = accelerator(
        {
            "name": "two-fan-outs",
            "mac_energy_pj": 1.0,
            "levels": [
                {"name": "DRAM", "energy_pj": 200},
                {"name": "L2", "energy_pj": 6, "capacity_words": 64, "fanout": 2},
                {"name": "L1", "energy_pj": 1, "capacity_words": 16, "fanout": 2},
            ],
        }
    )
    AnyProver(MapSpace(cnn(N=1, K=2, C=2, P=2, Q=1, R=2, S=1), machine)).run()


class AnyProver:
    """Finds the best mapping of a map space on any hierarchy, and proves that there is none better.

    Attributes:
        space: the map space.
        objective: what is minimised.
        keep: the restriction: tensors kept per level, where that is fixed and the machine leaves
            it open; None: all mappings of the machine count.
        unit_pj: the unit of energy, pJ.
        finished: whether the optimum is proven, to within SLACK.
        rounds: always 1.
        constrained: whether it is of what constraints leave alone; such a proof has no certificate.
        ties: that a finished proof does not say which of equal mappings is the better one.
        threads: how many threads work; it is one.
    """

    ties = False

    def __init__(
        self,
        space: MapSpace,
        *,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        constraints: Constraints | None = None,
        build: bool = True,
    ) -> None:
        """Notes what is to be proven; the first step lists the assignments.

        Args:
            space: a map space that `why_not_any` has nothing against.
            objective: `edp`, `energy`, `latency` or `ed2p`.
            keep: the tensors that a level keeps, for levels where that is not searched.
            constraints: what a mapper's constraints leave of the space; the proof is then of those
                mappings, and `constrained` says so.
            build: False to leave listing the assignments to the first steps.

        Raises:
            ConfigError: the space or the objective is none that can be proven.
        """
        problem = why_not_any(space)
        if problem is not None:
            raise ConfigError(problem)
        self.space = space
        self.objective: Objective = objective
        self.keep = restriction(space.workload, space.accelerator, keep)
        self._rules = Rules(space, constraints)
        self._constraints = constraints
        self.constrained = self._rules.given
        self._keeps = self._rules.keeps(keep_choices(space, keep))
        self.rounds = 1
        self.finished = False
        self.threads = 1
        self.unit_pj = energy_unit(space)
        self._kind = objective_kind(objective)
        self._unit = float(self.unit_pj)
        self._best: tuple[float, float] | None = None
        self._code: Codes | None = None
        self._bound: tuple[float, float] = (0.0, 0.0)
        self._halted = threading.Event()
        self._counts = dict.fromkeys(("assignments", "chains", "tiles", "tilings", "orders"), 0)
        self._steps = 0
        self._built = False
        self._work = self._prove()
        while build and not self._built:
            next(self._work)

    @property
    def built(self) -> bool:
        """Whether the assignments are listed; before that there is no lower bound."""
        return self._built

    def step(self, bounds: int = 0) -> None:
        """Works for some STEP_SECONDS.

        Raises:
            ContractError: the proof is finished.
        """
        if self.finished:
            raise ContractError("The proof is finished: there is nothing left to do.")
        ends = time.monotonic() + STEP_SECONDS
        while not self.finished and time.monotonic() < ends and not self._halted.is_set():
            self._steps += 1
            if next(self._work, self) is self:
                self.finished = True

    def run(
        self,
        seconds: float | None = None,
        *,
        gap: float = 0.0,
        after_step: Callable[[AnyProver], None] | None = None,
    ) -> None:
        """Works until the proof is finished or so many seconds have passed.

        Args:
            seconds: None: however long it takes.
            gap: end when the best mapping is certainly within this share of the optimum.
            after_step: called after every step.
        """
        ends = math.inf if seconds is None else time.monotonic() + seconds
        while not self.finished and not 0 < gap >= self.gap and time.monotonic() < ends:
            self.step()
            if after_step is not None:
                after_step(self)

    def halt(self) -> None:
        """Ends the step that another thread is in as soon as it can."""
        self._halted.set()

    def go_on(self) -> None:
        """Lets steps take their time again."""
        self._halted.clear()

    def _prove(self) -> Iterator[None]:
        """The proof, in pieces of some milliseconds."""
        space = self.space
        shape = build_shape(space)
        self._shape = shape
        self._leaves = Leaves(space, shape, self._rules)
        self._lattice = Lattice(space, shape)
        self._spreads = Spreads(space, self._rules)
        yield
        lists = []
        heap: list[tuple[float, float, float, int, int, bool, float, int]] = []
        for group, found in enumerate(list_assignments(space, self._spreads, self._keeps)):
            lists.append(found)
            self._counts["assignments"] += len(found.energy)
            floors = zip(found.energy.tolist(), found.cycles.tolist(), strict=True)
            heap += [(*self._order(e, c), group, a, False, e, c) for a, (e, c) in enumerate(floors)]
            yield
        heapq.heapify(heap)
        self._built = True
        yield
        limited = ports(space)
        tables: dict[int, ChainTables] = {}
        while heap:
            *_, group, a, known, energy, cycles = heapq.heappop(heap)
            found = lists[group]
            self._bound = (energy, float(cycles))
            if not self._beats(energy, cycles):
                return
            if group not in tables:
                tables.clear()
                tables[group] = ChainTables(shape, self._lattice, found.keeps)
            assignment = Assignment(found.keeps, self._spreads.spatial(found.choice[a : a + 1])[0])
            assigned = weights(space, found.keeps, assignment.spatial[None])
            if not known:
                for port in limited:
                    least = yield from self._least_cycles(tables[group], port, assignment)
                    cycles = max(cycles, least)
            if not self._beats(energy, cycles):
                continue
            yield from tables[group].fill(assignment.spatial, assigned.outer[0], assigned.weight[0])
            outside = tables[group].least
            fixed = float(assigned.fixed[0])
            if known:
                yield from self._search(tables[group], assignment, fixed, cycles)
            elif outside < math.inf:
                self._counts["chains"] += 1
                energy = max(energy, (fixed + outside) * (1 - SLACK))
                if self._beats(energy, cycles):
                    order = self._order(energy, cycles)
                    heapq.heappush(heap, (*order, group, a, True, energy, cycles))
            yield

    def _least_cycles(
        self, tables: ChainTables, port: Port, assignment: Assignment
    ) -> Generator[None, None, int]:
        """Cycles that a limited port takes at least, with latencies; 0 where no tiles fit."""
        space = self.space
        assigned = weights(space, assignment.keeps, assignment.spatial[None])
        weight, fixed = port_weights(space, port, assignment.keeps, assignment.spatial, assigned)
        yield from tables.fill(assignment.spatial, assigned.outer[0], weight)
        outside = tables.least
        if outside == math.inf:
            return 0
        self._counts["chains"] += 1
        return math.ceil((fixed + outside) * (1 - SLACK)) + int(space.tables.machine.waiting)

    def _order(self, energy: float, cycles: float) -> tuple[float, float, float]:
        """Sorts bounds: the objective, then what breaks ties, as `rank_of` does."""
        if self._kind == ENERGY:
            return energy, cycles, 0.0
        if self._kind == LATENCY:
            return cycles, energy, 0.0
        power = 1 if self.objective == "edp" else 2
        return energy * float(cycles) ** power, energy, cycles

    def _limit(self, cycles: float) -> float:
        """The energy below which a mapping of so many cycles at least can beat the best known."""
        if self._best is None:
            return math.inf
        energy, its = self._best
        if self._kind == LATENCY:
            return math.inf if cycles < its else energy * (1 - SLACK) if cycles == its else 0.0
        if self._kind == ENERGY:
            return energy * (1 - SLACK)
        power = 1 if self.objective == "edp" else 2
        return energy * (its / cycles) ** power * (1 - SLACK)

    def _beats(self, energy: float, cycles: float) -> bool:
        """Whether a mapping with such bounds could be better than the best known."""
        return energy < self._limit(cycles)

    def _search(
        self, tables: ChainTables, assignment: Assignment, fixed: float, cycles: int
    ) -> Iterator[None]:
        """Searches the tilings of an assignment that could beat the best mapping known."""
        levels = len(assignment.keeps)
        around, chain, tiles, shape = tables.around, tables.chain, tables.tiles, self._shape
        assert around is not None  # the tables have just been filled
        trips = np.zeros(shape.sizes.size)
        inside = [empty_lines() for _ in range(levels + 1)]
        crossed = [empty_lines() for _ in range(levels + 1)]
        crossed[levels].number[0] = 1
        crossed[levels].tensor[0] = -1
        chosen = np.zeros((levels, shape.sizes.size), np.int64)

        def children(level: int, step: int) -> list[tuple[float, int]]:
            """Tiles of a level outside a step, by rising bound."""
            first = int(tiles.start[level])
            bounds = np.empty(int(tiles.start[level + 1]) - first)
            bound_tiles(shape, tiles, around, chain, level, step, crossed[level + 1], bounds, trips)
            self._counts["tiles"] += bounds.size
            able = np.flatnonzero(bounds + fixed < self._limit(cycles))
            trips_here = tiles.extent[first + able] // tiles.extent[step]
            able = able[self._rules.factors(level, trips_here)]
            able = able[np.argsort(bounds[able], kind="stable")]
            return [(float(bounds[b]) + fixed, first + int(b)) for b in able]

        def descend(level: int, step: int) -> Iterator[None]:
            for bound, b in children(level, step):
                if bound >= self._limit(cycles):
                    return
                chosen[level] = tiles.extent[b]
                if level == 0:
                    self._try(assignment, chosen, cycles)
                    yield
                    continue
                enter_tile(
                    shape, tiles, around, level, step, b, crossed[level + 1], inside[level], trips
                )
                outside = cross_boundary(
                    shape, tiles, around, level, b, inside[level], crossed[level], trips
                )
                if outside >= 0:
                    yield
                    yield from descend(level - 1, outside)

        yield from descend(levels - 1, tables.first_step)

    def _try(self, assignment: Assignment, tiles: Array, cycles: int) -> None:
        """Evaluates the loop orders of a tiling that could beat the best mapping known."""
        self._counts["tilings"] += 1
        for codes in self._leaves.codes(assignment, tiles, self._limit(cycles)):
            self._counts["orders"] += len(codes)
            self._take(codes)

    def _take(self, codes: Codes) -> None:
        """Keeps the best of mappings `[B, D]` if it is better than the best known."""
        costs = LoopNestModel().evaluate(self.space, codes)
        for b in np.flatnonzero(costs.status == STATUS_OK):
            energy, cycles = float(costs.energy_pj[b]), float(costs.latency_cycles[b])
            if self._best is None or self._order(energy, cycles) < self._order(*self._best):
                self._best, self._code = (energy, cycles), codes[b].copy()

    def offer(self, codes: Codes) -> None:
        """Takes mappings `[B, D]` found elsewhere; what is infeasible or not allowed is passed."""
        allowed = (
            codes[[self.allows(code) for code in codes]] if self.keep or self.constrained else codes
        )
        if len(allowed):
            self._take(allowed)

    def _outcome(self, energy: float, cycles: float) -> Outcome:
        return min(INFINITE, round(Fraction(energy) / self.unit_pj)), int(cycles)

    @property
    def best_outcome(self) -> Outcome | None:
        """Energy in units and cycles of the best mapping found; None before the first."""
        return None if self._best is None else self._outcome(*self._best)

    @property
    def lower_outcome(self) -> Outcome:
        """What no mapping's objective undercuts, to within SLACK."""
        best = self.best_outcome
        if self.finished and best is not None:
            return best
        if not self.built:
            return 0, 0
        energy, cycles = self._bound
        certain = math.floor(Fraction(energy * (1 - SLACK)) / self.unit_pj), int(cycles)
        return certain if best is None else min(certain, best, key=self.rank_of)

    def value_of(self, outcome: Outcome) -> int:
        """The objective of an outcome, in units of energy and cycles."""
        return value(self._kind, *outcome)

    def rank_of(self, outcome: Outcome) -> tuple[int, int, int]:
        """Where an outcome stands: its objective, then what decides between equal ones."""
        return rank(self._kind, *outcome)

    @property
    def gap(self) -> float:
        """How far the best mapping can be above the optimum, as a share; inf before the first."""
        best = self.best_outcome
        if best is None:
            return math.inf
        reached, certain = self.value_of(best), self.value_of(self.lower_outcome)
        return float(Fraction(reached, max(1, certain)) - 1) if reached > certain else 0.0

    def search_below(
        self, limit: Outcome, seconds: float | None = None
    ) -> tuple[Outcome | None, float]:
        """Searches all mappings below a limit; for a second look at a proof.

        Args:
            limit: energy in units and cycles.
            seconds: the most that it may take; None: however long it takes.

        Returns:
            The outcome of the best mapping below the limit, None if none was found; and 1 if all
            was searched, else nan: which share was is not known.
        """
        again = AnyProver(
            self.space,
            objective=self.objective,
            keep=self.keep,
            constraints=self._constraints,
            build=False,
        )
        found = again.finds_below((float(limit[0] * self.unit_pj), float(limit[1])), seconds)
        self._counts = again._counts
        return again.best_outcome if found else None, 1.0 if again.finished else math.nan

    def finds_below(self, limit: tuple[float, float], seconds: float | None = None) -> bool:
        """Whether a mapping is below an energy (pJ) and cycles; it is the best one then."""
        self._best, self._code = limit, None
        self.run(seconds)
        return self._code is not None

    @property
    def counts(self) -> dict[str, int]:
        """Assignments listed, chains of tables built, tiles and tilings bounded, orders costed."""
        return dict(self._counts)

    @property
    def bounds_computed(self) -> int:
        """How many sets of mappings were bounded so far, orders tried included."""
        return sum(self._counts.values())

    def codes(self, most: int = 1) -> Codes:
        """`[0 or 1, D]` the best mapping found so far."""
        if self._code is None or most < 1:
            return np.zeros((0, self.space.cardinality.size), np.int32)
        return self._code[None].copy()

    def outcomes(self, codes: Codes) -> list[Outcome | None]:
        """Energy in units and cycles of mappings `[B, D]` by the cost model; None: infeasible."""
        costs = LoopNestModel().evaluate(self.space, codes)
        return [
            self._outcome(float(energy), float(cycles)) if status == STATUS_OK else None
            for energy, cycles, status in zip(
                costs.energy_pj, costs.latency_cycles, costs.status, strict=True
            )
        ]

    def allows(self, code: Codes) -> bool:
        """Whether a mapping `[D]` is one of those that the proof speaks of."""
        kept = self.keep is None or self._kept_by(code) in self._keeps
        return kept and self._rules.allows(code)

    def _kept_by(self, code: Codes) -> tuple[int, ...]:
        """The tensors, as bits, that a mapping keeps at every level."""
        names = self.space.workload.tensor_names
        return tuple(
            sum(1 << names.index(name) for name in level.keep)
            for level in self.space.describe(code).levels
        )

    def state_dict(self) -> dict[str, Any]:
        """The steps taken, and the best mapping."""
        best = None if self._code is None else self._code.copy()
        return {"steps": self._steps, "best": best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()`: takes the same steps again, from the best mapping on."""
        if state["best"] is not None:
            self.offer(np.array(state["best"], np.int32)[None])
        while self._steps < int(state["steps"]) and not self.finished:
            self.step()
