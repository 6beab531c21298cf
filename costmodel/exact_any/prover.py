"""The proof on any hierarchy as an object: it works in small steps, and can be stopped at any time.

Assignments (kept tensors and spatial factors of all levels) are taken up by rising lower bound: a
floor first, then what the chain of tables says, then the tilings below the best mapping known.
What is left when no assignment can hold a better mapping is the optimum.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.costs import Objective
from costmodel.exact.objective import LATENCY, Outcome, objective_kind
from costmodel.exact.progress import MOST_TOP, AnyLevelsProgress, BestTilings, Earlier
from costmodel.exact.restriction import restriction
from costmodel.exact_any.apart import Apart
from costmodel.exact_any.assignment_queue import AssignmentQueue
from costmodel.exact_any.assignments import Assignments, Listed, list_assignments, write_floors
from costmodel.exact_any.chain_bounds import FEW_CELLS, ChainBounds
from costmodel.exact_any.held import HeldTables, is_large
from costmodel.exact_any.intensity import Intensity, undominated
from costmodel.exact_any.known import SLACK, Known
from costmodel.exact_any.layout import OneOrder, lay_out
from costmodel.exact_any.problem import energy_unit, floor_outcome, why_not_any
from costmodel.exact_any.runs import MOST_IN_A_ROW, Near
from costmodel.exact_any.scored_run import ScoredRun
from costmodel.exact_any.tilings import Tilings
from costmodel.exact_any.weighing import Weighed
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workload_families import cnn
from costmodel.space import Codes
from costmodel.tile_chains.links import with_operands
from costmodel.tile_chains.rules import Decision, Rules
from costmodel.tile_chains.spatial import keep_choices
from costmodel.tile_chains.tables import ChainTables
from costmodel.tile_chains.tiles import FloatArray
from mapspace.errors import ConfigError, ContractError

STEP_SECONDS = 0.05

MANY = 10_000
"""Of so many assignments none is searched for all that could win while others wait further back."""

AT_ONCE = 4096
"""Of so many assignments floors are raised in a row."""

MOST_MATES = 16
"""So many assignments that share outer tables are bounded in a row."""

DIVE = 8
"""Of so many tiles per level a first tiling is sought among."""

LEAST = 1e-6
"""The least bound, of the best, that such a search takes for one."""

LONE = 8
"""So many assignments are searched so at most, each bounded alone before: of a large lattice, and
of smaller ones where there are many others."""

NEAR = 1.02
"""Where bound and best are so near, all that could win is searched at once."""

FUNCTIONS = 209
"""How many `load_compiled` compiles where nothing is compiled yet and nobody else compiles."""


@lru_cache(maxsize=1)
def load_compiled() -> None:
    """Compiles the proof, or loads it compiled, by proving something trivial."""
    machine = accelerator(
        {
            "name": "two-fan-outs",
            "mac_energy_pj": 1.0,
            "bypass": "searched",
            "levels": [
                {"name": "DRAM", "energy_pj": 200},
                {"name": "L2", "energy_pj": 6, "capacity_words": 64, "fanout": 2},
                {"name": "L1", "energy_pj": 1, "capacity_words": 16, "fanout": 2},
            ],
        }
    )
    # Below a limit, or so small a proof would not come to what limits are made of.
    AnyProver(MapSpace(cnn(N=1, K=2, C=2, P=2, Q=1, R=2, S=1), machine)).finds_below((1e9, 1e9))
    # And one set of kept tensors to more than a few.
    undominated(np.ones((1, 1)), np.zeros(1, np.int64))


_Apart = tuple[Apart, Listed, set[int]]
"""Of an order: what levels need apart, its assignments, the spatial factors with raised floors."""


def _entering(
    apart_of: Mapping[int, _Apart], keeps_of: Sequence[Sequence[tuple[int, ...]]],
    one: OneOrder, found: Assignments, a: int,
) -> FloatArray | None:  # fmt: skip
    """`[L]` what entering the tiles of each level needs by itself, pJ; None: not known."""
    if one.number not in apart_of:
        return None
    apart, _, raised = apart_of[one.number]
    return apart.by_level(a, keeps_of[one.number].index(found.keeps)) if a in raised else None


class AnyProver(ScoredRun):
    """Finds the best mapping of a map space on any hierarchy, and proves that there is none better.

    Attributes:
        space: the map space.
        objective: what is minimised.
        keep: the restriction: tensors kept per level, where that is fixed and the machine leaves
            it open; None: all mappings of the machine count.
        unit_pj: the unit of energy, pJ.
        finished: whether the optimum is proven, to within SLACK.
        rounds: always 1.
        earlier_seconds: what another proof took, where this one goes on from there.
    """

    ties = True
    # Whether nothing can be better than the best known once the least bound cannot.
    _settles = True
    # Whether assignments are taken up here, by rising bound.
    _takes_up = True

    def __init__(
        self,
        space: MapSpace,
        *,
        objective: Objective = "edp",
        keep: Mapping[str, Sequence[str]] | None = None,
        top: int = 1,
        build: bool = True,
        without: Decision | None = None,
    ) -> None:
        """Notes what is to be proven; the first step lists the assignments.

        Args:
            space: a map space that `why_not_any` has nothing against.
            objective: `edp`, `energy`, `latency` or `ed2p`.
            keep: the tensors that a level keeps, for levels where that is not searched.
            top: how many of the best tilings to find, at most MOST_TOP.
            build: False to leave listing the assignments to the first steps.
            without: leaves out the mappings that decide so; None: none is.

        Raises:
            ConfigError: the space or the objective is none that can be proven, or a wrong `top`.
        """
        problem = why_not_any(space)
        if problem is not None:
            raise ConfigError(problem)
        if not 1 <= top <= MOST_TOP:
            raise ConfigError(f"top must be 1 to {MOST_TOP}, got {top}.")
        self.space = space
        self.objective: Objective = objective
        self.keep = restriction(space.workload, space.accelerator, keep)
        self._reals = (space,) if space.orders is None else space.orders.spaces
        self._spaces = tuple(map(with_operands, self._reals))
        self._without = without
        self._keeps = [Rules(one, without).keeps(keep_choices(one, keep)) for one in self._spaces]
        self.rounds = 1
        self.unit_pj = energy_unit(space)
        self._kind = objective_kind(objective)
        self._top = top
        counts = dict.fromkeys(("assignments", "chains", "tiles", "tilings", "orders"), 0)
        super().__init__(self._nothing_known(), counts, floor_outcome(space, self.unit_pj))
        self._resumed: AnyLevelsProgress | None = None
        self.earlier_seconds = 0.0
        self._unit = float(self.unit_pj)
        self._bound: tuple[float, float] = (0.0, 0.0)
        self._tilings = Tilings(space, self._known, self._counts, each_order=top > 1)
        self._bounds = ChainBounds(self._known, self._counts)
        self._apart: dict[int, _Apart] = {}
        if self._takes_up:
            # A piece must not depend on which floors a worker has raised. A method would hold the
            # proof, and its tables, until garbage is collected.
            self._bounds.entering = partial(_entering, self._apart, self._keeps)
        self._floors_raised: set[int] = set()
        self._dived: tuple[float, float, float] = (math.inf,) * 3
        self._lone = self._cold = LONE
        self._built = False
        self._work = self._prove()
        self._closed = False
        while build and not self._built:
            next(self._work)

    def _nothing_known(self) -> Known:
        return Known(self.space, self.objective, self._top)

    @property
    def built(self) -> bool:
        """Whether the assignments are listed; before that what is certain is a floor of all."""
        return self._built

    def step(self, *, parts: int | None = None) -> None:
        """Works for some STEP_SECONDS.

        Args:
            parts: for so many parts of its work in place of that, however long they take.

        Raises:
            ContractError: the proof is finished, or closed.
        """
        if self.finished or self._closed:
            raise ContractError("The proof is finished: there is nothing left to do.")
        ends = time.monotonic() + STEP_SECONDS if parts is None else math.inf
        last = math.inf if parts is None else self._steps + parts
        while not self.finished and self._steps < last and not self._halted.is_set():
            if time.monotonic() >= ends:
                return
            self._steps += 1
            if next(self._work, self) is self:
                self.finished = True

    def close(self) -> None:
        """Lets go of its tables: no step can be taken any more."""
        # Its work holds the proof, which holds its work.
        self._closed = True
        self._work.close()

    def _prove(self) -> Generator[None, None, None]:
        """The proof, in pieces of some milliseconds."""
        self._orders: list[OneOrder] = []
        self._queue = AssignmentQueue()
        for number, space in enumerate(self._spaces):
            real, several = self._reals[number], self._top > 1
            self._orders.append(lay_out(number, space, self._without, each=several, real=real))
            yield
            one, limited = self._orders[-1], self._bounds.limited(space)
            listing = list_assignments(
                space, one.spreads, self._keeps[number], limited, floors=self._lists_all(number)
            )
            for listed in listing:
                if listed is not None:
                    self._queue.add(number, listed)
                    self._counts["assignments"] += listed.energy.size
                yield
        if self._resumed is not None:
            self._note_resumed(self._resumed)
            self._queue.resume(self._resumed)
        if self._takes_up:
            self._queue.begin(self._known)
        self._built = True
        yield
        queue, tables = self._queue, HeldTables()
        while (taken := queue.take()) is not None:
            group, a, known, energy, cycles = taken
            number, found = queue.groups[group]
            one, alone = self._orders[number], len(self._keeps[number]) == 1
            self._bound = (energy, float(cycles))
            if not self._known.beats(energy, cycles, float(found.plain[a])):
                if self._settles and self._known.settles(energy, cycles):
                    return
                continue
            if not known:
                yield from self._raise_floors(one, np.array([a]))
                if found.energy[a] > energy:
                    queue.again(group, a)
                    continue
            if known:
                held = tables.of(one, group, found.keeps, alone=alone)
                yield from self._take_up(one, held, group, a)
                continue
            run = yield from self._run(one, group, a)
            for each, of in run:
                found = queue.groups[each][1]
                mates = self._could_win(found, of.mates)
                if not mates.size:
                    continue  # their floors, or what others found meanwhile, ended them
                held = tables.of(one, each, found.keeps, alone=alone)
                queue.bounding(each, mates)
                yield from self._bounds.bound(one, held, found, of)
                mates = self._could_win(found, mates)
                yield from self._dive(one, held, found, mates)
                for mate in self._could_win(found, mates).tolist():
                    queue.wait(each, mate)

    def _lists_all(self, number: int) -> bool:
        """Whether floors of all assignments of an order are written down when they are listed."""
        return self._takes_up or len(self._keeps[number]) == 1

    def _note_floors(self, number: int, some: Array) -> None:
        """Writes down the floors of an order's spatial factors, under all kept tensors."""
        one, listed = self._orders[number], self._queue.listed(number)
        spatial = one.spreads.spatial(listed.groups[0].choice[some])
        write_floors(one.space, self._bounds.limited(one.space), spatial, listed, some)

    def _note_resumed(self, progress: AnyLevelsProgress) -> None:
        """Writes down the floors of assignments that another proof has bounded."""
        for number in range(len(self._orders)):
            parts = [part for part in progress.groups if part.order == number]
            some = {a for part in parts for a, *_ in (*part.bounded, *part.begun)}
            if some and self._keeps[number] and not self._lists_all(number):
                most = len(self._queue.listed(number).groups[0].choice)
                self._note_floors(number, np.array(sorted(a for a in some if a < most), np.int64))

    def _run(
        self, one: OneOrder, group: int, a: int
    ) -> Generator[None, None, list[tuple[int, Weighed]]]:
        """What chains are to bound in a row: of each group assignments that share outer tables."""
        if self._is_cold(one, self._queue.groups[group][1], a):
            self._cold -= one.shape.cells <= FEW_CELLS
            yield from self._raise_floors(one, np.array([a]))
            found = self._queue.groups[group][1]
            return [(group, self._bounds.weigh(one, found, np.array([a]), shared=True))]
        alone = not is_large(one.shape) or not self._known.full
        near, leaders = Near(self._queue, self._known, one), [(group, a)]
        if not alone:
            for _, chosen in near.groups(group, a):
                yield from self._raise_floors(one, chosen)
            leaders = list(itertools.islice(near.leaders(group, a), MOST_IN_A_ROW))
        run: list[tuple[int, Weighed]] = []
        for each, leader in leaders:
            found = self._queue.groups[each][1]
            mates = self._mates(one, found, leader, self._queue.left(each))
            yield from self._raise_floors(one, mates)
            mates = self._could_win(found, mates)
            if mates.size:
                run.append((each, self._bounds.weigh(one, found, mates, shared=True)))
        return run

    def _dive(
        self, one: OneOrder, tables: list[ChainTables], found: Assignments, mates: Array
    ) -> Iterator[None]:
        """Tries the first tiling of the least of assignments, if the best mapping is far above it.

        Chains are often exact, so that a good mapping is known before many assignments are bounded.
        """
        orders = [self._known.order(found.energy[a], int(found.cycles[a])) for a in mates]
        if not orders or min(orders) >= self._dived or not self._settles:
            return
        a = int(mates[orders.index(min(orders))])
        large = one.shape.cells > FEW_CELLS
        if (large and not self._lone) or not self._is_far(found, a):
            return
        self._lone -= large
        self._dived = min(orders)
        self._tilings.take_up(())
        opened = yield from self._bounds.open(one, tables, found, a)
        before = self._counts["tilings"]
        search = self._tilings.search(one, *opened, tables[0], int(found.cycles[a]))
        for _ in itertools.islice(search, DIVE * len(found.keeps)):
            if self._counts["tilings"] > before:
                return
            yield

    def _is_far(self, found: Assignments, a: int) -> bool:
        """Whether the best mapping known is far above what an assignment needs."""
        return self._known.beats(NEAR * float(found.energy[a]), int(found.cycles[a]))

    def _is_cold(self, one: OneOrder, found: Assignments, a: int) -> bool:
        """Whether an assignment of many, or of a large lattice, is bounded alone, and then tried.

        Nothing good is known: bounding all others that could win would take long.
        """
        tried = self._known.order(float(found.energy[a]), int(found.cycles[a])) >= self._dived
        if tried or not self._lone or not self._settles:
            return False
        many = self._cold > 0 and found.energy.size > MOST_MATES
        return (many or one.shape.cells > FEW_CELLS) and self._is_far(found, a)

    def _take_up(
        self, one: OneOrder, tables: list[ChainTables], group: int, a: int
    ) -> Iterator[None]:
        """Searches an assignment, unless another one that waits needs less."""
        queue, found = self._queue, self._queue.groups[group][1]
        begun, cycles = queue.begun(group, a), int(found.cycles[a])
        self._tilings.take_up(begun)
        if found.rate[a] > 0:
            yield from self._bounds.mix(one, tables, found, a)
        if found.slowest[a] >= 0 and self._known.needs_cycles(cycles):
            yield from self._bounds.mix(one, tables, found, a, plain=True)
            cycles = int(found.cycles[a])
        energy = float(found.energy[a])
        if not self._known.beats(energy, cycles, float(found.plain[a])):
            return
        if queue.stands_behind(group, a):
            queue.wait(group, a)
            return
        self._bound = energy, float(cycles)
        below = math.inf if begun else self._first_below(energy, cycles)
        self._tilings.take_up(begun, below)
        opened = yield from self._bounds.open(one, tables, found, a)
        yield from self._tilings.search(one, *opened, tables[0], cycles)
        if opened[1] and self._known.beats(below, cycles):
            found.energy[a] = below * (1 - SLACK)
            queue.wait(group, a)

    def _first_below(self, energy: float, cycles: float) -> float:
        """What to search an assignment below first (lemma 14); inf: all that could win.

        Args:
            energy: that all its mappings need, pJ.
            cycles: that all its mappings take.
        """
        few = self._counts["assignments"] < MANY
        if few or self._kind == LATENCY or not self._settles:
            return math.inf
        limit = self._known.limit(cycles)
        far = NEAR * energy < limit < math.inf
        # A bound of nothing would stay there.
        return math.sqrt(max(energy, LEAST * limit) * limit) if far else math.inf

    def _mates(
        self, one: OneOrder, found: Assignments, a: int, left: npt.NDArray[np.bool_]
    ) -> Array:
        """An assignment and the others, of those left, that could win and share outer tables."""
        if not self._known.full:
            return np.array([a])
        # They differ in what the innermost fan-out spreads alone.
        last = max((v for v, rows in enumerate(one.spreads.vectors) if len(rows) > 1), default=0)
        same = left & (found.choice[:, :last] == found.choice[a, :last]).all(axis=1)
        mates = self._could_win(found, np.flatnonzero(same))
        if not self._is_plain(one):
            return mates
        # What they share serves all others, too; those that need more may never have to be bounded.
        primary = self._known.primary(found.energy[mates], found.cycles[mates])
        nearest = mates[np.argsort(primary, kind="stable")[:MOST_MATES]]
        return np.union1d(nearest, mates[mates == a])

    def _is_plain(self, one: OneOrder) -> bool:
        """Whether an order's assignments differ in what one fan-out spreads alone."""
        fans_out = sum(len(rows) > 1 for rows in one.spreads.vectors)
        return fans_out <= 1 and len(self._keeps[one.number]) == 1

    def _could_win(self, found: Assignments, chosen: Array) -> Array:
        """Those of assignments that could win."""
        of = found.energy[chosen], found.cycles[chosen], found.plain[chosen]
        return chosen[self._known.could_beat(*of)]

    def _raise_floors(self, one: OneOrder, chosen: Array) -> Iterator[None]:
        """Raises the floors of spatial factors, under all kept tensors, to what levels apart need.

        Args:
            one: the order of buffers.
            chosen: assignments with these factors, of any kept tensors.
        """
        if len(self._keeps[one.number]) == 1:
            if chosen.size:  # what others found meanwhile may have ended all of them
                yield from self._raise_all(one, int(chosen[0]))
            return
        apart, listed, raised = self._levels_apart(one)
        for a in chosen.tolist():
            if a in raised:
                continue
            # What cannot win now never can.
            of = listed.energy[:, a], listed.cycles[:, a], listed.plain[:, a]
            could = self._known.could_beat(*of)
            for floors in apart.floors(a, could):
                if floors is None:
                    yield
                    continue
                least = (listed.fixed[:, a] + floors) * (1 - SLACK)
                for its in (listed.plain, listed.energy):
                    its[:, a] = np.maximum(its[:, a], least)
            raised.add(a)

    def _raise_all(self, one: OneOrder, a: int) -> Iterator[None]:
        """Raises the floors of all that could win, with one set of kept tensors, once it is known.

        Args:
            one: the order of buffers.
            a: the assignment that is next.
        """
        group = self._queue.first_group(one.number)
        found = self._queue.groups[group][1]
        if one.number in self._floors_raised or (
            not self._counts["chains"] and self._is_cold(one, found, a)
        ):
            return
        self._floors_raised.add(one.number)
        left = self._could_win(found, np.flatnonzero(self._queue.left(group)))
        if len(left) <= MOST_MATES:
            return  # to look at all tiles takes longer than so few chains
        intensity = Intensity(one, found.keeps)
        limited = self._bounds.limited(one.space)
        for begin in range(0, len(left), AT_ONCE):
            some = left[begin : begin + AT_ONCE]
            spatial = one.spreads.spatial(found.choice[some])
            least = intensity.floors(spatial) * (1 - SLACK)
            for floors in (found.plain, found.energy):
                floors[some] = np.maximum(floors[some], least)
            yield
            if limited:
                self._bounds.raise_busy(one, found, some, intensity.cycles(spatial, limited))
                yield

    def _levels_apart(self, one: OneOrder) -> _Apart:
        """The levels of an order apart, its assignments, and those whose floors are raised."""
        if one.number not in self._apart:
            listed = self._queue.listed(one.number)
            apart = Apart(one, self._keeps[one.number], listed.groups[0].choice)
            self._apart[one.number] = apart, listed, set()
        return self._apart[one.number]

    @property
    def lower_outcome(self) -> Outcome:
        """What no mapping's objective undercuts, to within SLACK."""
        best = self.best_outcome
        if self.finished and best is not None:
            return best
        return self._lower(*self._bound)

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
            build=False,
            without=self._without,
        )
        found = again.finds_below((float(limit[0] * self.unit_pj), float(limit[1])), seconds)
        self._counts = again._counts
        return again.best_outcome if found else None, 1.0 if again.finished else math.nan

    def finds_below(self, limit: tuple[float, float], seconds: float | None = None) -> bool:
        """Whether a mapping is below an energy (pJ) and cycles; it is the best one then."""
        self._known.start_below(limit)
        self.run(seconds)
        return self._known.best is not None

    def allows(self, code: Codes) -> bool:
        """Whether a mapping `[D]` is one of those that the proof speaks of."""
        without = self._without
        if without is not None and without.dimension >= 0:
            dimension = self.space.workload.dimension_names[without.dimension]
            if self.space.describe(code).levels[without.level].spatial[dimension] > 1:
                return False
        return not self._is_narrow() or self._could_keep(self._kept_by(code), self._order_of(code))

    def _could_keep(self, kept: tuple[int, ...], order: int) -> bool:
        """Whether tensors `[L]`, as bits, are kept so by a choice; the MACs' level aside."""
        return any(kept == keeps[: len(kept)] for keeps in self._keeps[order])

    def _is_narrow(self) -> bool:
        return self.keep is not None or self._without is not None

    def progress(self) -> AnyLevelsProgress | None:
        """What is settled, so that another proof can go on; None where nothing is recorded."""
        partly = self._without is not None or not self._settles
        if partly or not self._built or self.finished:
            return None
        best = None
        if self._top > 1:
            best = BestTilings(top=self._top, found=tuple(map(tuple, self.codes().tolist())))
        progress = self._recorded()
        if progress is None:
            return None
        return progress.model_copy(update={"best": best, "ties": self.ties})

    def _recorded(self) -> AnyLevelsProgress | None:
        """What is settled, the best tilings left aside."""
        return self._queue.progress(self._tilings.way)

    def resume(self, earlier: Earlier) -> None:
        """Goes on from another proof, whose mapping is offered beside.

        Raises:
            ConfigError: what it has settled is that of another prover.
            ContractError: this proof has begun.
        """
        if self._built:
            raise ContractError("A proof goes on from another one before it begins.")
        self._take_codes(earlier.best(self._top))
        self._resumed, self.ties = earlier.progress, earlier.progress.ties
        self._certain, self.earlier_seconds = earlier.bound, earlier.seconds
        self._counts.update({name: earlier.counts.get(name, 0) for name in self._counts})
        self._counts["assignments"] = 0

    def _take_codes(self, found: Sequence[Sequence[int]]) -> None:
        """Takes over the best tilings of another proof.

        Raises:
            ConfigError: they are no mappings of this space.
        """
        most = self.space.cardinality
        if any(len(code) != most.size or (np.array(code) >= most).any() for code in found):
            raise ConfigError("progress.best: expected mappings of the problem.")
        if found:
            self.offer(np.array(found, np.int32))
