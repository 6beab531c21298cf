"""The proof as an object: it works in small steps and holds, at any moment, what is certain.

Rounds: every unit whose floor is below a target is searched for mappings below the target. A round
that finds none certifies the target as a lower bound; the first one that finds some ends with the
optimum. A mapping offered from outside only makes targets beyond it unnecessary.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from costmodel.costs import Objective
from costmodel.exact.decode import Outcome, code_of, exact_outcomes, readable_rows
from costmodel.exact.dram_bounds import empty_outer_tables, fill_outer_tables
from costmodel.exact.infeasible import why_infeasible
from costmodel.exact.objective import (
    ED2P,
    EDP,
    ENERGY,
    INFINITE,
    LATENCY,
    SCALE,
    WEIGHTED,
    in_exact_order,
    is_below,
    objective_kind,
    weighted_kind,
)
from costmodel.exact.parallel_search import LANES, Walk, merge, thread_count
from costmodel.exact.problem import BUFFER, ELEMENT, build_proof_tables
from costmodel.exact.progress import MOST_TOP, BestTilings, Earlier, ThreeLevelProgress
from costmodel.exact.proof_run import ProofRun
from costmodel.exact.restriction import restriction
from costmodel.exact.spatial_factors import bound_units, list_vectors
from costmodel.exact.structures import OuterTables, Problem
from costmodel.exact.workspace import make_work, nothing_found
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ConfigError, ContractError

# A step ends after about so many bounds: some 50 ms.
STEP_BOUNDS = 200_000
# A step builds tables for about so many pieces of five milliseconds.
STEP_PIECES = 6.0
# Pairs of keep sets that the floors of one such piece look at.
FLOOR_PAIRS = 10_000
# The first round looks this far above the floor; every further one doubles the distance.
FIRST_RISE = Fraction(1, 200)


class Prover(ProofRun):
    """Finds the best mappings of a map space and proves that there are none better.

    Attributes:
        space: the map space.
        objective: what is minimised.
        keep: the restriction: tensors kept per level, where that is fixed and the machine leaves
            it open; None: all mappings of the machine count.
        unit_pj: the unit of energy, pJ.
        finished: whether the optimum is proven.
        rounds: rounds begun.
        ties: that a finished proof also says which of equal mappings is the better one.
        earlier_seconds: what another proof took, where this one goes on from there.
    """

    ties = True

    def __init__(
        self,
        space: MapSpace,
        *,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        top: int = 1,
        threads: int | None = None,
        build: bool = True,
        weight: int | None = None,
    ) -> None:
        """Builds the tables that bounds are read from: most of the memory, some of the time.

        Args:
            space: a map space that `costmodel.exact.problem.why_not` has nothing against.
            objective: `edp`, `energy`, `latency` or `ed2p`.
            keep: the tensors that a level keeps, for levels where that is not searched; only on
                machines where it could be.
            top: how many of the best tilings to find, at most MOST_TOP.
            threads: how many work at a time; None: one per processor, at most four. What is found
                does not depend on it.
            build: False to leave the tables to the first steps, each of which then takes some ten
                milliseconds; mappings can be offered at once.
            weight: minimise energy + weight x cycles instead, the weight in 2^-16 of a unit of
                energy, at least 0 and below 2^60; None: the objective. No certificate says it.

        Raises:
            ConfigError: the space or the objective is none that can be proven, no mapping is
                feasible, or an unknown level or tensor.
        """
        if not 1 <= top <= MOST_TOP:
            raise ConfigError(f"top must be 1 to {MOST_TOP}, got {top}.")
        problem = why_infeasible(space, keep)
        if problem is not None:
            raise ConfigError(problem)
        self.space = space
        self.objective: Objective = objective
        self._kind = objective_kind(objective) if weight is None else weighted_kind(weight)
        self._threads = threads
        self._tables, units = build_proof_tables(space, keep)
        self.keep = restriction(space.workload, space.accelerator, keep)
        self.unit_pj = units.unit_pj
        self._units = units
        self._found = nothing_found(self._kind, self._tables.sizes.size, top)
        self._offered: tuple[Outcome, Codes] | None = None
        self._next = 0
        self.rounds = 0
        self.finished = False
        self.earlier_seconds = 0.0
        self._earlier: Earlier | None = None
        self._building: Iterator[float] | None = self._build()
        self._builds = 0
        while build and not self.built:
            self.build_on()

    @property
    def built(self) -> bool:
        """Whether the tables stand; before that there is no lower bound."""
        return self._building is None

    @property
    def threads(self) -> int:
        """How many threads work at a time; what is found does not depend on it."""
        return thread_count(self._threads)

    @threads.setter
    def threads(self, threads: int) -> None:
        self._threads = threads
        if self.built:
            self._walk.threads = threads

    def build_on(self) -> None:
        """Does the next pieces of the tables, some ten milliseconds of them."""
        assert self._building is not None  # the caller has looked
        self._builds += 1
        done = 0.0
        while done < STEP_PIECES:
            piece = next(self._building, None)
            if piece is None:
                self._building = None
                return
            done += piece

    def _build(self) -> Iterator[float]:
        """Builds the tables, and begins the first round; yields how large every piece was."""
        outer = empty_outer_tables(self._tables)
        yield from self._fill(outer)
        self._problem = Problem(self._tables, outer, list_vectors(self._tables))
        yield self._problem.vectors.elements.size / FLOOR_PAIRS
        yield from self._list_units()
        self._walk = self._make_walk()
        self._lower = self._floor(0)
        self._begin_round()
        if self._earlier is not None:
            self._go_on_from(self._earlier)

    def _fill(self, outer: OuterTables) -> Iterator[float]:
        """Fills the tables of least outer cost; yields as `_build` does."""
        return fill_outer_tables(self._tables, outer)

    def _make_walk(self) -> Walk:
        return Walk(self._problem, self._unit_vector, self._unit_set, self._threads)

    def _list_units(self) -> Iterator[float]:
        """Lists the units that hold any mapping by rising floor; yields as `_build` does."""
        shape = (self._problem.vectors.elements.size, self._tables.inner_sets.size)
        energy, cycles = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        work = make_work(self._tables)
        pairs = shape[1] * self._tables.outer_sets.size
        piece = max(1, FLOOR_PAIRS // pairs)
        for first in range(0, shape[0], piece):
            bound_units(self._problem, energy, cycles, work, first, min(shape[0], first + piece))
            yield piece * pairs / FLOOR_PAIRS
        vector, kept = np.nonzero(energy < INFINITE)
        energy, cycles = energy[vector, kept], cycles[vector, kept]
        power = {EDP: 1, ED2P: 2}.get(self._kind, 0)
        floors = energy * cycles.astype(np.float64) ** power
        if self._kind >= WEIGHTED:
            floors += (self._kind - WEIGHTED) / SCALE * cycles
        primary = cycles if self._kind == LATENCY else floors
        order = np.lexsort((cycles if self._kind == ENERGY else energy, primary))
        if power or self._kind >= WEIGHTED:
            order = in_exact_order(self._kind, order, floors, energy, cycles)
        self._unit_energy, self._unit_cycles = energy[order], cycles[order]
        self._unit_vector = np.ascontiguousarray(vector[order])
        self._unit_set = self._tables.inner_sets[kept[order]]

    def _floor(self, unit: int) -> Outcome:
        """The floor of a unit."""
        return int(self._unit_energy[unit]), int(self._unit_cycles[unit])

    def _begin_round(self) -> None:
        """Sets the next target: a rise above what is certain, but never above what is at hand."""
        self.rounds += 1
        self._next = 0
        self._walk.forget()
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

    def step(self, bounds: int = STEP_BOUNDS, *, parts: int | None = None) -> None:
        """Works for about so many bounds; `parts` say nothing, since steps never go by time.

        Raises:
            ContractError: the proof is finished.
        """
        if self.finished:
            raise ContractError("The proof is finished: there is nothing left to do.")
        if not self.built:
            self.build_on()
            return
        self._search(bounds)
        if self._next < self._first_beyond():
            return
        # Nothing below the limit is left, in any unit.
        self._lower = max(self._lower, self._limit, key=self.rank_of)
        if self._limit == self._to_beat():
            self.finished = True
            self._walk.forget()
        else:
            self._begin_round()

    @contextlib.contextmanager
    def _until(self, seconds: float | None) -> Iterator[float]:
        """When so many seconds have passed, by the monotonic clock; halts what runs then."""
        # A step is short on a processor of its own, not on one that is shared.
        timer = (
            None
            if seconds is None
            else threading.Timer(min(seconds, threading.TIMEOUT_MAX), self.halt)
        )
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield math.inf if seconds is None else time.monotonic() + seconds
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()
            self.go_on()

    def halt(self) -> None:
        """Ends the step that another thread is in as soon as it can; the next one goes on from it.

        Until `go_on()` every step ends at once, but for those that build tables.
        """
        if self.built:
            self._walk.halt()

    def go_on(self) -> None:
        """Lets steps take their time again."""
        if self.built:
            self._walk.go_on()

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

    def search_below(
        self, limit: Outcome, seconds: float | None = None
    ) -> tuple[Outcome | None, float]:
        """Searches all mappings below a limit; for a second look at a proof.

        What this object has found is forgotten.

        Args:
            limit: energy in units and cycles.
            seconds: the most that it may take, the tables included; None: however long it takes.

        Returns:
            The outcome of the best mapping below the limit, None if none was found; and the share
            of the pieces that could hold one that were searched: 1 if all were, 0 where the tables
            do not stand yet.
        """
        with self._until(seconds) as ends:
            while not self.built and time.monotonic() < ends:
                self.build_on()
            if not self.built:
                return None, 0.0
            self._found.energy[:] = INFINITE
            self._found.cycles[:] = INFINITE
            self._offered = None
            self._found.limit[:] = limit
            self._walk.forget()
            self._next = 0
            while self._next < self._first_beyond() and time.monotonic() < ends:
                self._search(STEP_BOUNDS)
        beyond = self._first_beyond()
        return self.best_outcome, 1.0 if self._next >= beyond else self._next / beyond

    @property
    def best_outcome(self) -> Outcome | None:
        """Energy and cycles of the best mapping found; None before the first."""
        best = int(self._found.energy[0]), int(self._found.cycles[0])
        if self._offered is not None and is_below(self._kind, *self._offered[0], *best):
            return self._offered[0]
        return best if best[0] < INFINITE else None

    @property
    def lower_outcome(self) -> Outcome:
        """What no mapping undercuts, its energy or cycles included where objectives are equal.

        Zeros while the tables are built.
        """
        best = self.best_outcome
        if self.finished:
            return best or self._lower
        if not self.built:
            return 0, 0
        certain = self._lower
        if self._next < self._unit_vector.size:
            # Units before the next one hold nothing below the limit, the others nothing below
            # their floor.
            certain = max(
                certain, min(self._floor(self._next), self._limit, key=self.rank_of),
                key=self.rank_of,
            )  # fmt: skip
        return certain if best is None else min(certain, best, key=self.rank_of)

    def search_vectors(
        self, elements: int, limit: Outcome, ends: float = math.inf
    ) -> tuple[Outcome, Codes] | None:
        """Searches the mappings on exactly so many elements for the best one below a limit.

        What this object has found or certified is not touched. The limit is energy in units and
        cycles that the mapping must beat; at `ends`, by the monotonic clock, it stops.

        Returns:
            Its outcome and code `[D]`; None if there is none.

        Raises:
            TimeoutError: the time was over before that was certain.
        """
        units = np.flatnonzero(self._problem.vectors.elements[self._unit_vector] == elements)
        walk = Walk(self._problem, self._unit_vector[units], self._unit_set[units], self._threads)
        found = nothing_found(self._kind, self._tables.sizes.size, 1)
        found.limit[:] = limit
        following = 0
        while following < units.size:
            if time.monotonic() >= ends:
                raise TimeoutError
            following = walk.search(following, units.size, STEP_BOUNDS, found)
        self._found.counts[:] += found.counts
        if found.energy[0] >= INFINITE:
            return None
        outcome = int(found.energy[0]), int(found.cycles[0])
        return outcome, code_of(self.space, self._tables, found.rows[0])

    @property
    def element_counts(self) -> list[int]:
        """Numbers of elements that some mapping uses, ascending."""
        used = np.unique(self._problem.vectors.elements[self._unit_vector])
        return [int(count) for count in used]

    @property
    def _numbering(self) -> Literal["three-levels-1", "three-levels-2"]:
        """How the pieces are numbered: where hops cost energy otherwise than once."""
        return "three-levels-2" if self._tables.half_hop else "three-levels-1"

    def progress(self) -> ThreeLevelProgress | None:
        """What is settled, so that another proof can go on; None where nothing is recorded."""
        if not self.built or self.finished:
            return None
        if max(self._limit[0], self._lower[0]) >= INFINITE:
            return None
        return ThreeLevelProgress(
            prover=self._numbering,
            rounds=self.rounds,
            lower_energy=str(self._lower[0]),
            lower_cycles=self._lower[1],
            limit_energy=str(self._limit[0]),
            limit_cycles=self._limit[1],
            units=self._unit_vector.size,
            next_unit=self._next,
            blocks=self._walk.places,
            best=self._best_tilings(),
        )

    def _best_tilings(self) -> BestTilings | None:
        """The rows found so far; None where it is one that is asked for."""
        if self._found.energy.size == 1:
            return None
        rows = self._found.rows[self._found.energy < INFINITE]
        return BestTilings(top=self._found.energy.size, found=tuple(map(tuple, rows.tolist())))

    def resume(self, earlier: Earlier) -> None:
        """Goes on from another proof, whose mapping is offered beside.

        Raises:
            ConfigError: what it has settled is that of another prover.
            ContractError: this proof has begun.
        """
        if self.built:
            raise ContractError("A proof goes on from another one before it begins.")
        if not isinstance(earlier.progress, ThreeLevelProgress):
            raise ConfigError("progress: it is that of the proof on any hierarchy.")
        self._take_rows(earlier.best(self._found.energy.size))
        self._earlier, self.earlier_seconds = earlier, earlier.seconds
        for place, name in enumerate(self.counts):
            self._found.counts[place] = earlier.counts.get(name, 0)

    def _take_rows(self, found: Sequence[Sequence[int]]) -> None:
        """Takes over the best tilings of another proof, with what they cost by the model.

        Raises:
            ConfigError: they are no mappings of this problem.
        """
        if not found:
            return
        rows = readable_rows(self.space, found)
        codes = np.array([code_of(self.space, self._tables, row) for row in rows], np.int32)
        if (codes >= self.space.cardinality).any():
            raise ConfigError("progress.best: expected mappings of the problem.")
        held = nothing_found(self._kind, self._tables.sizes.size, self._found.energy.size)
        for code, row, outcome in zip(codes, rows, self.outcomes(codes), strict=True):
            if outcome is None or not self.allows(code):
                raise ConfigError("progress.best: expected feasible mappings of the problem.")
            one = nothing_found(self._kind, self._tables.sizes.size, 1)
            one.energy[0], one.cycles[0] = outcome
            one.rows[0] = row
            merge(held, one)
        self._found.energy[:], self._found.cycles[:] = held.energy, held.cycles
        self._found.rows[:] = held.rows

    def _go_on_from(self, earlier: Earlier) -> None:
        progress = earlier.progress
        assert isinstance(progress, ThreeLevelProgress)  # `resume` has looked
        units = self._unit_vector.size
        blocks = progress.blocks
        if (
            progress.prover != self._numbering
            or progress.units != units
            or progress.next_unit > units
            or len(blocks) > LANES
            or any(unit > end or end > units for unit, _, end in blocks)
        ):
            raise ConfigError("progress: it is that of other pieces than these.")
        self.rounds, self._next = progress.rounds, progress.next_unit
        self._lower = int(progress.lower_energy), progress.lower_cycles
        limit = int(progress.limit_energy), progress.limit_cycles
        # What was below the limit then is the mapping that is offered.
        to_beat = self._to_beat()
        below = is_below(self._kind, *to_beat, *limit)
        self._found.limit[:] = to_beat if below else limit
        self._walk.begin_at(blocks, self._found)

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how the proof continues: arrays, numbers and None."""
        found = self._found
        if not self.built:
            return {"builds": self._builds, "offered": self._offered_state()}
        return {
            "energy": found.energy.copy(),
            "cycles": found.cycles.copy(),
            "rows": found.rows.copy(),
            "limit": found.limit.copy(),
            "counts": found.counts.copy(),
            "offered": self._offered_state(),
            "next": self._next,
            "rounds": self.rounds,
            "block": self._walk.block,
            "lanes": self._walk.state(),
            "spent": self._walk.spent,
            "lower_energy": self._lower[0],
            "lower_cycles": self._lower[1],
            "finished": self.finished,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()` of a proof made with the same arguments."""
        self._load_offered(state["offered"])
        if "builds" in state:
            while self._builds < int(state["builds"]):
                self.build_on()
            return
        while not self.built:
            self.build_on()
        for name in ("energy", "cycles", "rows", "limit", "counts"):
            getattr(self._found, name)[...] = state[name]
        self._next = int(state["next"])
        self.rounds = int(state["rounds"])
        self._walk.block = int(state["block"])
        # States of before turns could pause hold no blocks in flight.
        self._walk.load(state.get("lanes", ()), int(state.get("spent", 0)), self._found)
        self._lower = int(state["lower_energy"]), int(state["lower_cycles"])
        self.finished = bool(state["finished"])

    def _offered_state(self) -> dict[str, Any] | None:
        if self._offered is None:
            return None
        outcome, code = self._offered
        return {"energy": outcome[0], "cycles": outcome[1], "code": code.copy()}

    def _load_offered(self, state: Mapping[str, Any] | None) -> None:
        self._offered = None
        if state is not None:
            outcome = int(state["energy"]), int(state["cycles"])
            self._offered = outcome, np.array(state["code"], np.int32)

    @property
    def counts(self) -> dict[str, int]:
        """Tiles, tilings and subtrees bounded, and loop orders evaluated."""
        names = ("inner_tiles", "outer_tiles", "tilings", "orders", "subtrees")
        return {name: int(n) for name, n in zip(names, self._found.counts, strict=True)}

    @property
    def bounds_computed(self) -> int:
        """How many sets of mappings were bounded so far, orders tried included."""
        units = self._unit_vector.size if self.built else 0
        return units + int(self._found.counts.sum())

    def codes(self, most: int = MOST_TOP) -> Codes:
        """`[m, D]` the best mappings found so far, best first, at most so many."""
        found = [
            code_of(self.space, self._tables, self._found.rows[i])
            for i in range(min(most, self._found.energy.size))
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
            if outcome is None or not self.allows(code):
                continue
            if best is None or is_below(self._kind, *outcome, *best):
                self._offered = (outcome, code.copy())
        to_beat = self._to_beat()
        if self.built and is_below(self._kind, *to_beat, *self._limit):
            self._found.limit[:] = to_beat

    def outcomes(self, codes: Codes) -> list[Outcome | None]:
        """Exact energy and cycles of mappings `[B, D]` by the cost model; None where infeasible."""
        return exact_outcomes(self.space, self._units, codes)

    def allows(self, code: Codes) -> bool:
        """Whether a mapping `[D]` keeps what the restriction says, if there is one."""
        tables = self.space.tables
        return all(
            tables.keep_column[level] < 0 or code[tables.keep_column[level]] in allowed
            for level, allowed in (
                (ELEMENT, self._tables.inner_sets),
                (BUFFER, self._tables.outer_sets),
            )
        )
