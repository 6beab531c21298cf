"""The proof as an object: it works in small steps and holds, at any moment, what is certain.

Rounds: every unit whose floor is below a target is searched for mappings below the target. A round
that finds none certifies the target as a lower bound; the first one that finds some ends with the
optimum. A mapping offered from outside only makes targets beyond it unnecessary.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from costmodel.accelerator import accelerator
from costmodel.costs import Objective
from costmodel.errors import ConfigError, ContractError
from costmodel.exact.feasible import why_infeasible
from costmodel.exact.objective import ED2P, EDP, INFINITE, LATENCY, is_below, objective_kind, value
from costmodel.exact.outer import build_outer_tables
from costmodel.exact.spatial import bound_units, list_vectors
from costmodel.exact.state import make_work, nothing_found
from costmodel.exact.subtree import bounds_of_tiling
from costmodel.exact.tables import BUFFER, ELEMENT, build_proof_tables
from costmodel.exact.tiles import Vectors
from costmodel.exact.walk import Walk
from costmodel.exact.winners import Outcome, code_of, exact_outcomes
from costmodel.mapspace import MapSpace
from costmodel.nest import Array
from costmodel.space import Codes
from costmodel.workload import gemm

# A step ends after about so many bounds: some 50 ms.
STEP_BOUNDS = 200_000

# The first round looks this far above the floor; every further one doubles the distance.
FIRST_RISE = Fraction(1, 200)


@lru_cache(maxsize=1)
def load_compiled() -> None:
    """Compiles the proof, or loads it compiled, by proving something trivial."""
    prover = Prover(MapSpace(gemm(M=2, N=2, K=2), accelerator("mm256")), threads=1)
    while not prover.finished:
        prover.step()
    prover.outcomes(prover.codes())


class Prover:
    """Finds the best mappings of a map space and proves that there are none better.

    Attributes:
        space: the map space.
        objective: what is minimised.
        keep: tensors kept per level, where that is fixed; None: as the machine has it.
        unit_pj: the unit of energy, pJ.
        finished: whether the optimum is proven.
        rounds: rounds begun.
    """

    def __init__(
        self,
        space: MapSpace,
        *,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        top: int = 1,
        threads: int | None = None,
    ) -> None:
        """Builds the tables that bounds are read from: most of the memory, some of the time.

        Args:
            space: a map space that `costmodel.exact.tables.why_not` has nothing against.
            objective: `edp`, `energy`, `latency` or `ed2p`.
            keep: the tensors that a level keeps, for levels where that is not searched; only on
                machines where it could be.
            top: how many of the best tilings to find.
            threads: how many work at a time; None: one per processor, at most four. What is found
                does not depend on it.

        Raises:
            ConfigError: the space or the objective is none that can be proven, no mapping is
                feasible, or an unknown level or tensor.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, got {top}.")
        problem = why_infeasible(space, keep)
        if problem is not None:
            raise ConfigError(problem)
        self.space = space
        self.objective: Objective = objective
        self.keep = None if keep is None else {level: tuple(keep[level]) for level in keep}
        self._kind = objective_kind(objective)
        self._threads = threads
        self._tables, units = build_proof_tables(space, self.keep)
        self.unit_pj = units.unit_pj
        self._units = units
        self._outer = build_outer_tables(self._tables)
        self._vectors = list_vectors(self._tables)
        self._found = nothing_found(self._kind, self._tables.sizes.size, top)
        self._offered: tuple[Outcome, Codes] | None = None
        self._list_units()
        self._walk = Walk(
            self._tables, self._outer, self._vectors, self._unit_vector, self._unit_set, threads
        )
        self._next = 0
        self.rounds = 0
        self.finished = False
        self._lower = self._floor(0)
        self._begin_round()

    def _list_units(self) -> None:
        """Lists the units that hold any mapping by rising floor."""
        shape = (self._vectors.elements.size, self._tables.inner_sets.size)
        energy, cycles = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        bound_units(
            self._tables, self._outer, self._vectors, energy, cycles, make_work(self._tables)
        )
        vector, kept = np.nonzero(energy < INFINITE)
        energy, cycles = energy[vector, kept], cycles[vector, kept]
        power = {EDP: 1, ED2P: 2}.get(self._kind, 0)
        floors = energy * cycles.astype(np.float64) ** power
        primary, secondary = (cycles, energy) if self._kind == LATENCY else (floors, cycles)
        order = np.lexsort((secondary, primary))
        if power:
            order = _in_exact_order(self._kind, order, floors, energy, cycles)
        self._unit_energy, self._unit_cycles = energy[order], cycles[order]
        self._unit_vector = np.ascontiguousarray(vector[order])
        self._unit_set = self._tables.inner_sets[kept[order]]

    def _floor(self, unit: int) -> Outcome:
        """The floor of a unit."""
        return int(self._unit_energy[unit]), int(self._unit_cycles[unit])

    def value_of(self, outcome: Outcome) -> int:
        """The objective of an outcome, in units of energy and cycles."""
        return value(self._kind, *outcome)

    def _begin_round(self) -> None:
        """Sets the next target: a rise above what is certain, but never above what is at hand."""
        self.rounds += 1
        self._next = 0
        energy, cycles = self._lower
        rise = 1 + FIRST_RISE * 2 ** (self.rounds - 1)
        if self._kind == LATENCY:
            target = (0, int(cycles * rise) + 1)
        else:
            target = (int(energy * rise) + 1, cycles)
        worst = self._to_beat()
        if target[0] >= INFINITE or is_below(self._kind, *worst, *target):
            target = worst
        self._found.limit[:] = target

    def _to_beat(self) -> Outcome:
        """What a mapping must beat to be among the best."""
        worst = int(self._found.energy[-1]), int(self._found.cycles[-1])
        if self._offered is not None and self._found.energy.size == 1:
            offered = self._offered[0]
            return offered if is_below(self._kind, *offered, *worst) else worst
        return worst

    @property
    def _limit(self) -> Outcome:
        return int(self._found.limit[0]), int(self._found.limit[1])

    def step(self, bounds: int = STEP_BOUNDS) -> None:
        """Works for about so many bounds.

        Raises:
            ContractError: the proof is finished.
        """
        if self.finished:
            raise ContractError("The proof is finished: there is nothing left to do.")
        self._search(bounds)
        if self._next < self._first_beyond():
            return
        # Nothing below the limit is left, in any unit.
        self._lower = max(self._lower, self._limit, key=self.value_of)
        if self._limit == self._to_beat():
            self.finished = True
        else:
            self._begin_round()

    def _search(self, bounds: int) -> None:
        beyond = self._first_beyond()
        if self._next < beyond:
            self._next = self._walk.search(self._next, beyond, bounds, self._found)

    def _first_beyond(self) -> int:
        """The first unit whose floor does not beat the limit; units are sorted by floor."""
        low, high = 0, self._unit_vector.size
        while low < high:
            middle = (low + high) // 2
            if is_below(self._kind, *self._floor(middle), *self._limit):
                low = middle + 1
            else:
                high = middle
        return low

    def search_below(self, limit: Outcome) -> Outcome | None:
        """Searches all mappings below a limit; for a second look at a proof.

        What this object has found is forgotten.

        Returns:
            The outcome of the best mapping below the limit, None if there is none.
        """
        self._found.energy[:] = INFINITE
        self._found.cycles[:] = INFINITE
        self._offered = None
        self._found.limit[:] = limit
        self._next = 0
        while self._next < self._first_beyond():
            self._search(STEP_BOUNDS)
        return self.best_outcome

    @property
    def best_outcome(self) -> Outcome | None:
        """Energy and cycles of the best mapping found; None before the first."""
        best = int(self._found.energy[0]), int(self._found.cycles[0])
        if self._offered is not None and is_below(self._kind, *self._offered[0], *best):
            return self._offered[0]
        return best if best[0] < INFINITE else None

    @property
    def lower_outcome(self) -> Outcome:
        """What no mapping undercuts."""
        best = self.best_outcome
        if self.finished:
            return best or self._lower
        certain = self._lower
        if self._next < self._unit_vector.size:
            # Units before the next one hold nothing below the limit, the others nothing below
            # their floor.
            certain = max(
                certain, min(self._floor(self._next), self._limit, key=self.value_of),
                key=self.value_of,
            )  # fmt: skip
        return certain if best is None else min(certain, best, key=self.value_of)

    @property
    def gap(self) -> float:
        """How far the best mapping can be above the optimum, as a share; inf before the first."""
        best = self.best_outcome
        if best is None:
            return float("inf")
        reached, certain = self.value_of(best), self.value_of(self.lower_outcome)
        return float(Fraction(reached, max(1, certain)) - 1) if reached > certain else 0.0

    def search_vectors(self, elements: int, limit: Outcome) -> tuple[Outcome, Codes] | None:
        """Searches the mappings on exactly so many elements for the best one below a limit.

        What this object has found or certified is not touched.

        Args:
            elements: processing elements in use.
            limit: energy in units and cycles that the mapping must beat.

        Returns:
            Its outcome and code `[D]`; None if there is none.
        """
        units = np.flatnonzero(self._vectors.elements[self._unit_vector] == elements)
        walk = Walk(
            self._tables, self._outer, self._vectors, self._unit_vector[units],
            self._unit_set[units], self._threads,
        )  # fmt: skip
        found = nothing_found(self._kind, self._tables.sizes.size, 1)
        found.limit[:] = limit
        following = 0
        while following < units.size:
            following = walk.search(following, units.size, STEP_BOUNDS, found)
        self._found.counts[:] += found.counts
        if found.energy[0] >= INFINITE:
            return None
        outcome = int(found.energy[0]), int(found.cycles[0])
        return outcome, code_of(self.space, self._tables, found.rows[0])

    @property
    def element_counts(self) -> list[int]:
        """Numbers of elements that some mapping uses, ascending."""
        used = np.unique(self._vectors.elements[self._unit_vector])
        return [int(count) for count in used]

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how the proof continues: arrays, numbers and None."""
        found = self._found
        offered = None
        if self._offered is not None:
            outcome, code = self._offered
            offered = {"energy": outcome[0], "cycles": outcome[1], "code": code.copy()}
        return {
            "energy": found.energy.copy(),
            "cycles": found.cycles.copy(),
            "rows": found.rows.copy(),
            "limit": found.limit.copy(),
            "counts": found.counts.copy(),
            "offered": offered,
            "next": self._next,
            "rounds": self.rounds,
            "block": self._walk.block,
            "lower_energy": self._lower[0],
            "lower_cycles": self._lower[1],
            "finished": self.finished,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()` of a proof made with the same arguments."""
        for name in ("energy", "cycles", "rows", "limit", "counts"):
            getattr(self._found, name)[...] = state[name]
        offered = state["offered"]
        self._offered = None
        if offered is not None:
            code = np.array(offered["code"], np.int32)
            self._offered = ((int(offered["energy"]), int(offered["cycles"])), code)
        self._next = int(state["next"])
        self.rounds = int(state["rounds"])
        self._walk.block = int(state["block"])
        self._lower = int(state["lower_energy"]), int(state["lower_cycles"])
        self.finished = bool(state["finished"])

    @property
    def counts(self) -> dict[str, int]:
        """Tiles, tilings and subtrees bounded, and loop orders evaluated."""
        names = ("inner_tiles", "outer_tiles", "tilings", "orders", "subtrees")
        return {name: int(n) for name, n in zip(names, self._found.counts, strict=True)}

    @property
    def bounds_computed(self) -> int:
        """How many sets of mappings were bounded so far, orders tried included."""
        return self._unit_vector.size + int(self._found.counts.sum())

    def codes(self) -> Codes:
        """`[m, D]` the best mappings found so far, best first."""
        found = [
            code_of(self.space, self._tables, self._found.rows[i])
            for i in range(self._found.energy.size)
            if self._found.energy[i] < INFINITE
        ]
        single = self._found.energy.size == 1 or not found
        if self._offered is not None and single and self.best_outcome == self._offered[0]:
            found = [self._offered[1]]
        return np.array(found, np.int32).reshape(len(found), self.space.cardinality.size)

    def offer(self, codes: Codes) -> None:
        """Takes mappings found elsewhere, so that nothing worse is looked for.

        Args:
            codes: `[B, D]`; infeasible ones, and those that keep other tensors, are passed over.
        """
        for code, outcome in zip(codes, self.outcomes(codes), strict=True):
            best = self.best_outcome
            if outcome is None or not self._keeps_allowed(code):
                continue
            if best is None or is_below(self._kind, *outcome, *best):
                self._offered = (outcome, code.copy())
        to_beat = self._to_beat()
        if is_below(self._kind, *to_beat, *self._limit):
            self._found.limit[:] = to_beat

    def outcomes(self, codes: Codes) -> list[Outcome | None]:
        """Exact energy and cycles of mappings `[B, D]` by the cost model; None where infeasible."""
        return exact_outcomes(self.space, self._units, codes)

    def _keeps_allowed(self, code: Codes) -> bool:
        tables = self.space.tables
        return all(
            tables.keep_column[level] < 0 or code[tables.keep_column[level]] in allowed
            for level, allowed in (
                (ELEMENT, self._tables.inner_sets),
                (BUFFER, self._tables.outer_sets),
            )
        )

    def bounds(self, codes: Codes) -> tuple[Any, Any]:
        """What the bounds say of the tilings of mappings, whatever their loop orders.

        Args:
            codes: `[B, D]` feasible mappings.

        Returns:
            `[B, 4]` energy (units) and cycles: the floor of the mapping's unit, the largest bound
            of the subtrees that hold it, the bound for its element tile and that for its tiling.
        """
        tables, space = self.space.tables, self.space
        n = tables.sizes.size
        rows = codes[:, :n] + tables.row_start[:-1]
        factors = tables.factors[rows].transpose(0, 2, 1)
        extent = factors[:, tables.temporal_slot[ELEMENT]]
        slot = tables.spatial_slot[BUFFER]
        spatial = factors[:, slot] if slot >= 0 else np.ones_like(extent)
        step = extent * spatial
        middle = step * factors[:, tables.temporal_slot[BUFFER]]
        energy = np.zeros((len(codes), 4), np.int64)
        cycles = np.zeros((len(codes), 4), np.int64)
        vectors = {tuple(row): v for v, row in enumerate(self._vectors.factor.tolist())}
        units = {
            (int(v), int(kept)): unit
            for unit, (v, kept) in enumerate(zip(self._unit_vector, self._unit_set, strict=True))
        }
        everything = 2 ** len(space.workload.tensors) - 1
        kept = [
            codes[:, column] if column >= 0 else np.full(len(codes), everything)
            for column in (tables.keep_column[ELEMENT], tables.keep_column[BUFFER])
        ]
        work = make_work(self._tables)
        for b in range(len(codes)):
            v = vectors[tuple(spatial[b].tolist())]
            unit = units[v, int(kept[0][b])]
            energy[b, 0], cycles[b, 0] = self._floor(unit)
            here = Vectors(*(column[v : v + 1].copy() for column in self._vectors))
            for field, columns in (
                (here.order, tables.spatial_order_column),
                (here.axes, tables.spatial_axis_column),
            ):
                if columns[BUFFER] >= 0:
                    field[0] = codes[b, columns[BUFFER]]
            bounds_of_tiling(
                self._tables, self._outer, here, 0, int(kept[0][b]),
                int(np.flatnonzero(self._tables.outer_sets == kept[1][b])[0]),
                extent[b].astype(np.int64), self._positions(step[b]), self._positions(middle[b]),
                work, energy[b, 1:], cycles[b, 1:],
            )  # fmt: skip
        return energy, cycles

    def _positions(self, extent: Any) -> Any:
        """Positions `[n]` of extents among the divisors of their dimensions."""
        tables = self._tables
        return np.array(
            [
                np.searchsorted(tables.divisors[start:end], value)
                for start, end, value in zip(
                    tables.divisor_start[:-1], tables.divisor_start[1:], extent, strict=True
                )
            ],
            np.int64,
        )


def _in_exact_order(kind: int, order: Array, floors: Any, energy: Array, cycles: Array) -> Array:
    """Repairs an order by rounded floors where rounding may have swapped neighbours."""
    ranked = floors[order]
    close = ranked[1:] <= ranked[:-1] * (1 + 1e-14)
    differs = (energy[order][1:] != energy[order][:-1]) | (cycles[order][1:] != cycles[order][:-1])
    if not (close & differs).any():
        return order
    edges = [0, *(np.flatnonzero(~close) + 1).tolist(), len(order)]
    for begin, end in itertools.pairwise(edges):
        order[begin:end] = sorted(
            order[begin:end].tolist(),
            key=lambda unit: value(kind, int(energy[unit]), int(cycles[unit])),
        )
    return order
