"""Every mapping of a constrained space on any machine, evaluated: what proofs are held against.

A point of the space is what Timeloop's mapper counts: a factorisation, an order and a split per
level, a set of kept tensors. Points of the same loops are one mapping here, which counts as often.
Letters: B mappings, n dimensions, L levels, S slots, D attributes of a code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.feasibility import check_mappings
from costmodel.arrays.machine_tables import machine_tables
from costmodel.arrays.scratch import make_scratch
from costmodel.arrays.tables import Array
from costmodel.costs import STATUS_OK, TIE_BREAKERS, Costs, Objective
from costmodel.loop_nest.added_cycles import adds_cycles
from costmodel.loop_nest.cost_kernel import evaluate_mappings, make_costs, make_details
from costmodel.loop_nest.link_transfers import make_links
from costmodel.loop_nest.nest_record_models import NestLoops, NestProblem
from costmodel.loop_nest.nest_tables import NestMapping, tables_of
from costmodel.loop_nest.nest_writing import problem_record
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space.constraints import Constraints, LoopRules, machine_constraints
from costmodel.map_space.impossible import all_constraints
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.moves import order_index
from costmodel.problems.affine import Workload
from costmodel.space import Codes
from mapspace.errors import ConfigError

# Mappings that are evaluated at a time.
_BATCH = 1 << 14

# Arrangements of loops that are looked through at a time: orders times splits.
_MOST_DIMENSIONS = 8

# Different mappings of a space that is enumerated at once: a second or two.
MOST_MAPPINGS = 200_000


class Batch(NamedTuple):
    """Valid mappings that differ in more than the orders of their temporal loops, or also in that.

    Attributes:
        codes: `[B, D]` of the tables of a `WholeSpace`.
        points: `[B]` points of the space that are such a mapping, over all its orders.
        costs: of the mappings with their orders; None where they have none yet.
    """

    codes: Codes
    points: Array
    costs: Costs | None = None


class Enumerated(NamedTuple):
    """What an enumeration found.

    Attributes:
        valid: valid points, as Timeloop's mapper counts them.
        evaluated: different mappings that were evaluated.
        best: the best of them; None where there is none.
        energy_pj: its energy, pJ.
        cycles: its latency, cycles.
    """

    valid: int
    evaluated: int
    best: NestMapping | None
    energy_pj: float
    cycles: float


class _Arrangements(NamedTuple):
    """Distinct spatial loops of a level: order and height per row, and points of each."""

    orders: Array
    heights: Array
    points: Array


class WholeSpace:
    """All mappings that constraints leave of a problem on a machine.

    Attributes:
        problem: the operation.
        machine: its machine; a mapping must fit each fan-out by itself.
        rules: what is left.
        tables: of all factorisations and orders that are left.
    """

    def __init__(self, problem: NestProblem, machine: Accelerator, rules: Constraints) -> None:
        """Lays the space out.

        Raises:
            ConfigError: more dimensions than can be enumerated, banks, or tiles that bypass.
        """
        n, levels = len(problem.dims), len(machine.levels)
        if n > _MOST_DIMENSIONS:
            raise ConfigError(f"Expected at most {_MOST_DIMENSIONS} dimensions, got {n}.")
        if machine.overflow == "bypass" or any(level.banks for level in machine.levels):
            raise ConfigError(f"{machine.name} has banks or bypasses what overflows.")
        if any(map(machine.takes_both_axes, machine.levels)):
            raise ConfigError(f"{machine.name} runs dimensions along both axes of a mesh.")
        self.problem, self.machine, self.rules = problem, machine, rules
        slots = [2 * level for level in range(levels)]
        slots += [2 * level + 1 for level, loops in enumerate(rules.spatial) if loops is not None]
        rows = []
        for d in range(n):
            found = rules.rows(d)
            rows.append(np.ones((len(found), 2 * levels), dtype=np.int64))
            rows[-1][:, sorted(slots)] = found
        orders = np.array(list(itertools.permutations(range(n))), dtype=np.int8)
        self._rows = rows
        starts = np.concatenate([[0], np.cumsum([len(found) for found in rows])])
        self.tables = tables_of(problem, machine, np.concatenate(rows), starts, orders)
        self._scratch = make_scratch(self.tables)
        self._links = make_links(self.tables) if machine.link_transfers else None
        self._placed = {level: self._all_placed(loops) for level, loops in enumerate(rules.spatial)}

    @classmethod
    def of(
        cls, workload: Workload, machine: Accelerator, rules: Constraints | None = None
    ) -> WholeSpace:
        """The space that a machine's own file leaves, and what else is left of it.

        Raises:
            ConfigError: as of the constructor, or rules of the machine that the workload breaks.
        """
        if rules is None and machine.constraints:
            rules = all_constraints(workload, machine, None)
        own = machine_constraints(workload, machine, outermost=rules is None)
        problem = NestProblem.model_validate(problem_record(workload))
        space = cls(problem, machine, own if rules is None else own.and_also(rules))
        ours = machine_tables(machine, workload.roles, workload.dimension_names)
        arrays = space.tables.machine._replace(network=ours.network, classed=ours.classed)
        space.tables = space.tables._replace(machine=arrays)
        return space

    def size(self, most: int = 1 << 62) -> int:
        """Different mappings, valid or not; anything above `most` where there are more."""
        levels = range(len(self.rules.keep))
        keeps = math.prod(len(self.rules.keeps(level)) for level in levels)
        tilings = math.prod(len(rows) for rows in self._rows)
        total = 0
        if keeps * tilings > most:
            return keeps * tilings
        for members, active in self._groups():
            rows = math.prod(len(rows) for rows in members)
            spread = math.prod(len(a.orders) for a in self._arrangements(active))
            orders = math.prod(len(found) for found in self._orders(active))
            total += rows * spread * keeps * orders
            if total > most:
                break
        return total

    def mappings(self) -> Iterator[Batch]:
        """All valid mappings with their costs, each once, in batches."""
        for found, active in self._valid():
            orders = self._orders(active)
            choices = np.array(list(itertools.product(*orders)), dtype=np.int64)
            columns = self.tables.order_column
            step = max(1, _BATCH // len(choices))
            for first in range(0, len(found.codes), step):
                codes = np.repeat(found.codes[first : first + step], len(choices), axis=0)
                codes[:, columns] = np.tile(choices, (len(codes) // len(choices), 1))
                points = np.repeat(found.points[first : first + step], len(choices))
                yield Batch(codes, points, self._evaluate(codes))

    def search(self, objective: Objective = "energy") -> Enumerated:
        """The best of all mappings; of equal ones that which ties are broken for."""
        valid = evaluated = 0
        best: tuple[float, float] = (math.inf, math.inf)
        found: tuple[Codes, float, float] | None = None
        for batch in self.mappings():
            costs = batch.costs
            assert costs is not None
            values = costs.objective(objective)
            ties = costs.objective(TIE_BREAKERS[objective])
            evaluated += len(values)
            first = np.lexsort((ties, values))[0]
            if (values[first], ties[first]) < best:
                best = (values[first], ties[first])
                energy, cycles = costs.energy_pj[first], costs.latency_cycles[first]
                found = batch.codes[first].copy(), float(energy), float(cycles)
        valid = sum(int(batch.points.sum()) for batch, _ in self._valid())
        if found is None:
            return Enumerated(valid, evaluated, None, math.inf, math.inf)
        return Enumerated(valid, evaluated, self.describe(found[0]), *found[1:])

    def count(self) -> int:
        """Valid points of the space, as Timeloop's mapper counts them."""
        return sum(int(batch.points.sum()) for batch, _ in self._valid())

    def any_valid(self) -> bool:
        """Whether a point of the space is valid."""
        return next(self._valid(), None) is not None

    def describe(self, code: npt.NDArray[np.int32]) -> NestMapping:
        """The mapping of a code `[D]`."""
        t, names = self.tables, list(self.problem.dims)
        factors = t.factors[t.row_start[:-1] + code[: len(names)]]
        listed = []
        for place, level in enumerate(self.machine.levels):
            order = t.orders[code[t.order_column[place]]].tolist()
            across = t.orders[code[t.spatial_order_column[place]]].tolist()
            height, held = code[t.spatial_axis_column[place]], code[t.keep_column[place]]
            spread = [(d, int(factors[d, 2 * place + 1]), "XY"[(height >> d) & 1]) for d in across]
            listed.append(
                NestLoops(
                    level=level.name,
                    keep=tuple(
                        tensor.name
                        for i, tensor in enumerate(self.problem.tensors)
                        if (held >> i) & 1
                    ),
                    temporal=tuple(
                        (names[d], int(factors[d, 2 * place]))
                        for d in order
                        if factors[d, 2 * place] > 1
                    ),
                    # The loops along the height stand outside those along the width.
                    spatial=tuple(
                        (names[d], factor, axis)
                        for d, factor, axis in sorted(spread, key=lambda loop: loop[2] == "X")
                        if factor > 1
                    ),
                )
            )
        return tuple(listed)

    def _evaluate(self, codes: Codes) -> Costs:
        costs = make_costs(len(codes))
        details = make_details(self.tables, 0)
        added = adds_cycles(self.tables)
        evaluate_mappings(self.tables, self._scratch, codes, costs, details, self._links, added)
        return Costs(*costs)

    def _groups(self) -> Iterator[tuple[tuple[Array, ...], Array]]:
        """Factorisations with loops in the same slots: rows per dimension, and `[2 L]` bits."""
        split = []
        for rows in self._rows:
            loops = rows > 1
            kinds, which = np.unique(loops, axis=0, return_inverse=True)
            which = which.ravel()
            split.append([(kind, np.flatnonzero(which == k)) for k, kind in enumerate(kinds)])
        for chosen in itertools.product(*split):
            active = sum((kind.astype(np.int64) << d) for d, (kind, _) in enumerate(chosen))
            yield tuple(members for _, members in chosen), np.asarray(active)

    def _all_placed(self, loops: LoopRules | None) -> tuple[Array, Array] | None:
        """Every order `[P, n]` and, per split, the dimensions along the height `[P, splits]`."""
        if loops is None:
            return None
        orders = np.array(loops.orders(), dtype=np.int64)
        n = orders.shape[1]
        # Of an order, which starts outermost, all but the last `split` run along the height.
        outside = np.cumsum(np.pad(1 << orders, ((0, 0), (1, 0)))[:, :-1], axis=1)
        outside = np.concatenate([outside, np.full((len(orders), 1), (1 << n) - 1)], axis=1)
        return orders, outside[:, [n - split for split in loops.splits()]]

    def _arrangements(self, active: Array) -> list[_Arrangements]:
        """Per level the distinct spatial loops of the dimensions that have some."""
        found = []
        for level, placed in self._placed.items():
            if placed is None:
                one = np.ones(1, dtype=np.int64)
                found.append(_Arrangements(one * 0, one * 0, one))
                continue
            orders, heights = placed
            n, here = orders.shape[1], int(active[2 * level + 1])
            key = heights & here
            wrong = (key & self.rules.wide[level]) | (here & ~key & self.rules.tall[level])
            hops = self.tables.hop_energy[level] > 0 or self.tables.machine.router[level] > 0
            if hops or self._links is not None:
                # Where hops cost something, or neighbours hand words on, it matters in which order
                # children are numbered.
                sequence = np.zeros(len(orders), dtype=np.int64)
                for position in range(n):
                    d = orders[:, position]
                    stands = (here >> d) & 1
                    sequence = np.where(stands, sequence * (n + 1) + d + 1, sequence)
                key = key + (sequence << n)[:, None]
            allowed = np.flatnonzero(wrong.ravel() == 0)
            _, first, points = np.unique(
                key.ravel()[allowed], return_index=True, return_counts=True
            )
            first = allowed[first]
            chosen = orders[first // heights.shape[1]]
            indices = np.array([order_index(order) for order in chosen])
            found.append(_Arrangements(indices, heights.ravel()[first] & here, points))
        return found

    def _orders(self, active: Array) -> list[list[int]]:
        """Per level the orders that differ in loops above 1 and matter."""
        found = []
        for level, rules in enumerate(self.rules.temporal):
            here = int(active[2 * level])
            free = [d for d in rules.free if (here >> d) & 1]
            last = level == len(self.rules.temporal) - 1
            if last and (self._links is None or self.machine.levels[-1].fanout == 1):
                # Below the innermost level nothing is kept.
                middles: list[tuple[int, ...]] = [tuple(free)]
            else:
                middles = list(itertools.permutations(free))
            still = tuple(d for d in rules.free if not (here >> d) & 1)
            head, tail = rules.outer[::-1], rules.inner[::-1]
            found.append([int(order_index(np.array([*head, *still, *m, *tail]))) for m in middles])
        return found

    def _valid(self) -> Iterator[tuple[Batch, Array]]:
        """Valid mappings without their temporal orders, and which slots have loops."""
        t = self.tables
        orders = math.prod(math.factorial(len(rules.free)) for rules in self.rules.temporal)
        levels = len(self.machine.levels)
        keeps = list(itertools.product(*(self.rules.keeps(level) for level in range(levels))))
        kept = np.array(keeps, dtype=np.int32).reshape(-1, levels)
        for members, active in self._groups():
            spread = self._arrangements(active)
            tilings = np.stack([g.ravel() for g in np.meshgrid(*members, indexing="ij")], axis=1)
            tilings = tilings[self._works_enough(tilings)]
            for chosen in itertools.product(*(range(len(a.orders)) for a in spread)):
                heights = np.array([a.heights[i] for a, i in zip(spread, chosen, strict=True)])
                fit = tilings[self._fits(tilings, heights)]
                points = math.prod(int(a.points[i]) for a, i in zip(spread, chosen, strict=True))
                step = max(1, _BATCH // max(1, len(kept)))
                for first in range(0, len(fit), step):
                    part = fit[first : first + step]
                    size = len(part) * len(kept)
                    codes = np.zeros((size, int(t.keep_column[-1]) + 1), np.int32)
                    codes[:, : part.shape[1]] = np.repeat(part, len(kept), axis=0)
                    codes[:, t.keep_column] = np.tile(kept, (len(part), 1))
                    codes[:, t.spatial_axis_column] = heights
                    codes[:, t.spatial_order_column] = [
                        a.orders[i] for a, i in zip(spread, chosen, strict=True)
                    ]
                    status, excess = np.empty(size, np.int32), np.empty(size, np.int64)
                    check_mappings(t, self._scratch, codes, status, excess)
                    codes = codes[status == STATUS_OK]
                    if len(codes):
                        yield Batch(codes, np.full(len(codes), points * orders)), active

    def _spatial_factors(self, tilings: Array) -> Array:
        """`[B, n, L]`."""
        t = self.tables
        factors: Array = t.factors[t.row_start[:-1] + tilings][:, :, 1::2]
        return factors

    def _works_enough(self, tilings: Array) -> npt.NDArray[np.bool_]:
        used = self._spatial_factors(tilings).prod(axis=(1, 2))
        return np.asarray(used / self.rules.units >= self.rules.parallelism)

    def _fits(self, tilings: Array, heights: Array) -> npt.NDArray[np.bool_]:
        """Whether tilings fit each fan-out, with the dimensions along each height as bits `[L]`."""
        factors = self._spatial_factors(tilings)
        across = (heights[None, :] >> np.arange(factors.shape[1])[:, None]) & 1
        tall = np.where(across, factors, 1).prod(axis=1)
        wide = np.where(across, 1, factors).prod(axis=1)
        limits = np.array([level.width_height for level in self.machine.levels])
        return np.asarray(((wide <= limits[:, 0]) & (tall <= limits[:, 1])).all(axis=1))


def whole_space(space: MapSpace) -> WholeSpace | None:
    """All mappings of a space; None where these are too many to be enumerated at once."""
    if space.orders is not None or space.tables.imperfect:
        return None  # every order has mappings of its own
    rules = space.constraints
    tilings = math.prod(np.diff(space.tables.row_start).tolist())
    if tilings > MOST_MAPPINGS:
        return None
    try:
        whole = WholeSpace.of(space.workload, space.accelerator, rules)
    except ConfigError:
        return None  # banks, or more dimensions than can be enumerated
    return whole if whole.size(MOST_MAPPINGS) <= MOST_MAPPINGS else None
