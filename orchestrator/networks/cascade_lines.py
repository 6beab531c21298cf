"""What is proven of layers that run in passes together (`costmodel.cascades`).

The energy and the cycles of a plan are those of its parts, a layer each, times its passes, and of
its moves; so its least weighted sum is that of the parts' least. Over all plans the least is looked
for from the lowest bound on: of a part nothing is proven before a plan comes first whose bound
could still be the least. A plan's bound comes from larger parts too: what runs in pieces, each from
empty buffers, is no cheaper than where outer loops above one mapping make the same pieces.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from costmodel.cascades.cascade import Cascade
from costmodel.cascades.plans import Plan, plans
from costmodel.exact.infeasible import why_infeasible
from costmodel.exact_any.choice import why_not_proven
from costmodel.exact_any.known import SLACK
from costmodel.exact_any.weighted import Line, Point, point_of
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.resident import resident_machine
from costmodel.map_space.map_space import MapSpace
from costmodel.networks.moves import Moved
from costmodel.space import Codes
from orchestrator.networks.layer_lines import NO_CODE, SLICE, LayerLines, Weight
from orchestrator.networks.plan_floors import DOWN, PlanFloors

MOST_OPEN = 32
"""Proofs of parts that can go on; of others what they found stays."""


class _Part(NamedTuple):
    """One of the operators as a plan runs it: which, its factors, and what lies there."""

    side: int
    factors: tuple[int, ...]
    roles: tuple[str, ...]
    words: int
    outside: bool = True
    """Whether accesses of the outermost level cost energy."""


class CascadeLines(LayerLines):
    """What is proven of a cascade; a point's code is a plan and a mapping per operator."""

    def __init__(self, cascade: Cascade, machine: Accelerator) -> None:
        """Lists the plans.

        Args:
            cascade: the layers.
            machine: what they run on.

        Raises:
            ConfigError: the machine has no shared buffer.
        """
        self.cascade, self._machine = cascade, machine
        self.sides = range(len(cascade.operators))
        self.plans = plans(cascade, machine)
        self._parts: dict[_Part, LayerLines | None] = {}
        self._floors = PlanFloors(cascade, machine, self.plans)
        self._alike: dict[tuple[int, tuple[int, ...], tuple[str, ...]], list[_Part]] = {}
        self._joins: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
        self._least_words: dict[tuple[int, tuple[int, ...], tuple[str, ...]], int] = {}
        for plan in self.plans:
            for side in self.sides:
                key = (side, self._joined(side, plan.factors), plan.roles(side))
                words = plan.words[side]
                self._least_words[key] = min(words, self._least_words.get(key, words))
        limits = ("read_bandwidth", "write_bandwidth", "bandwidth")
        self._whole: set[int] = set()
        self._heaps: dict[Weight, list[tuple[Fraction, int]]] = {}
        self._open: OrderedDict[tuple[_Part, Weight], None] = OrderedDict()
        self._limited = any(getattr(one, key) for one in machine.levels for key in limits)
        super().__init__(MapSpace(cascade.operators[0], machine), 1)

    def _joined(self, side: int, factors: tuple[int, ...]) -> tuple[int, ...]:
        """The factors that are left where cuts are undone that only make pieces.

        Not of what is summed over, nor of a dimension that slides with another: the steps of two
        loops may share words by luck. Nor where passes compute rows again.
        """
        if (side, factors) in self._joins:
            return self._joins[side, factors]
        work = self.cascade.operators[side]
        found = []
        for axis, factor in zip(self.cascade.shared, factors, strict=True):
            name = axis.names[side]
            plain = name in work.tensors[-1].dimensions and all(
                len([term for term, _ in one.terms if work.dimensions[term] > 1]) <= 1
                for tensor in work.tensors
                for one in tensor.axes
                if name in [term for term, _ in one.terms]
            )
            pieces = axis.tiles(factor)[side] * factor == axis.sizes[side]
            found.append(1 if plain and pieces else factor)
        self._joins[side, factors] = tuple(found)
        return self._joins[side, factors]

    def part(self, side: int, plan: Plan) -> LayerLines | None:
        """What is proven of one of the operators as a plan runs it; None: it cannot."""
        return self._lines_of(_Part(side, plan.factors, plan.roles(side), plan.words[side]))

    def _lines_of(self, part: _Part) -> LayerLines | None:
        if part not in self._parts:
            machine = resident_machine(self._machine, part.roles, part.words)
            work = self.cascade.parts(part.factors)[part.side]
            if machine is not None and not part.outside:
                machine = _free_outside(machine, self._machine.levels[0].name)
            space = None if machine is None else MapSpace(work, machine)
            fits = space is not None and not (why_infeasible(space) or why_not_proven(space))
            self._parts[part] = LayerLines(space, 1) if fits and space is not None else None
            if part.outside:
                self._alike.setdefault((part.side, part.factors, part.roles), []).append(part)
        return self._parts[part]

    def _relaxed(self, side: int, plan: Plan) -> list[tuple[int, Fraction, LayerLines]]:
        """Larger parts that bound a part from below.

        Each with how often it runs and the energy beside it: the outermost level is accessed once
        per iteration and word at least, so this can be counted apart from what is inside.
        """
        factors, roles = self._joined(side, plan.factors), plan.roles(side)
        words = self._least_words[side, factors, roles]
        outside = plan.times * Fraction(self._floors.once(side, plan.factors, roles) * DOWN)
        found = []
        larger = [(Fraction(0), _Part(side, factors, roles, words))]
        if factors != plan.factors:  # else the first says more
            larger.append((outside, _Part(side, factors, roles, words, outside=False)))
        for beside, part in larger:
            lines = self._lines_of(part)
            if lines is not None:
                found.append((math.prod(factors), beside, lines))
        return found

    @property
    def _first(self) -> int | None:
        """A plan that can run, from the least floor on; None: there is none."""
        order: list[int] = np.argsort(self._floors.energies, kind="stable").tolist()
        for index in order:
            if all(self.part(side, self.plans[index]) is not None for side in self.sides):
                return index
        return None

    @property
    def runs(self) -> bool:
        """Whether there is a plan that can run."""
        return self._first is not None

    @cached_property
    def floor(self) -> Moved:
        """What every plan takes: the work of all operators."""
        elements = self._machine.processing_elements
        found = []
        for factors in {plan.factors for plan in self.plans}:
            times = math.prod(factors)
            macs = [part.macs for part in self.cascade.parts(factors)]
            found.append((times * sum(macs), times * sum(one // elements for one in macs)))
        energy = min(macs for macs, _ in found) * self._machine.mac_energy_pj * (1 - SLACK)
        return Moved(Fraction(energy), min(cycles for _, cycles in found))

    def bound_at(self, weight: Weight, fewest: Fraction = Fraction(0)) -> Fraction:
        """As of one layer; no less than the least floor of all plans."""
        return max(super().bound_at(weight, fewest), self._floors.least(weight))

    def begin(self, seconds: float | None = None) -> None:
        """Nothing: a first plan is looked for when a cascade could be the best."""

    def looseness(self, weight: Weight) -> Fraction:
        """As of one layer; where no plan is known, all that is certain."""
        return super().looseness(weight) if self.points else self.bound_at(weight)

    def settle(self, weight: Weight, seconds: float) -> None:
        """As of one layer; of plans that are equal the first that was found stays."""
        if self.go_on(weight, seconds).proven:
            self._settled.add(weight)

    def unpacked(self, point: Point) -> tuple[Plan, list[MapSpace], list[Point]]:
        """The plan of a point, its parts' map spaces and their mappings."""
        lengths = point.code[1 : 1 + len(self.sides)]
        plan = self.plans[int(point.code[0])]
        ends = np.cumsum([1 + len(self.sides), *lengths])
        codes = [point.code[start:end] for start, end in itertools.pairwise(ends)]
        spaces, points = [], []
        for side, code in enumerate(codes):
            part = self.part(side, plan)
            assert part is not None  # points are of plans that can run
            spaces.append(part.space)
            points.append(point_of(part.space, code))
        return plan, spaces, points

    def planned(self, wanted: Plan, codes: Sequence[Codes]) -> Point:
        """The point of a plan that can run with a mapping `[D]` of each of its parts."""
        points = []
        for side, code in enumerate(codes):
            part = self.part(side, wanted)
            assert part is not None  # the plan can run
            points.append(point_of(part.space, code))
        return self._together(self.plans.index(wanted), points)

    def _offer_plan(self, index: int, weight: Weight) -> None:
        """Takes the best mappings known of a plan's parts."""
        plan = self.plans[index]
        chosen = []
        for side in self.sides:
            part = self.part(side, plan)
            point = None if part is None else part.least(weight)
            if point is None:
                return
            chosen.append(point)
        self._add(self._together(index, chosen))

    def _together(self, index: int, points: Sequence[Point]) -> Point:
        """What a plan takes with a mapping of each of its parts."""
        plan = self.plans[index]
        energy = sum((one.energy for one in points), Fraction(0))
        heading = np.array([index, *(one.code.size for one in points)])
        return Point(
            plan.times * energy + plan.moves.energy,
            plan.times * sum(one.cycles for one in points) + plan.moves.cycles,
            np.concatenate([heading, *(one.code for one in points)]),
        )

    def add_fronts(
        self, weight: Weight, slack: Fraction | None, pause: Callable[[str], None], ends: float
    ) -> None:
        """Takes all that no other choice of a plan beats in energy and cycles at once.

        Args:
            weight: of a line.
            slack: how far above the line a plan may be at least; None: however far.
            pause: called now and then; it may raise to end this, and does when the time is out.
            ends: when that is, by the monotonic clock.
        """
        most = None if slack is None else self.bound_at(weight) + slack
        for index, plan in enumerate(self.plans):
            bound = self._bound(plan, weight)
            while most is None or bound <= most:
                pause("")
                if not self._go_on(index, weight, ends):
                    break
                bound = self._bound(plan, weight)
                parts = [self.part(side, plan) for side in self.sides]
                if all(part is not None and part.is_proven(weight) for part in parts):
                    break
            else:
                continue
            self._add_front(index, pause)

    def _add_front(self, index: int, pause: Callable[[str], None]) -> None:
        """Takes the front of one plan."""
        fronts = []
        for side in self.sides:
            part = self.part(side, self.plans[index])
            if part is None:
                return
            if id(part) not in self._whole:
                part.add_front(pause)
                self._whole.add(id(part))
            fronts.append(part.points)
        chosen: list[list[Point]] = [[]]
        for front in fronts:
            # Of sums that another beats in both nothing more can be made.
            chosen = _undominated([*some, point] for some in chosen for point in front)
        for some in chosen:
            self._add(self._together(index, some))

    def _look(self, weight: Weight, seconds: float | None) -> Line:
        """Proves the least weighted sum over all plans, or gets as far as the time allows."""
        ends = math.inf if seconds is None else time.monotonic() + seconds
        line = Line(weight, Fraction(0), None, False)
        if weight not in self._heaps:
            floors = self._floors.values(weight).tolist()
            heap = [(Fraction(floor), index) for index, floor in enumerate(floors)]
            heapq.heapify(heap)
            self._heaps[weight] = heap
        heap = self._heaps[weight]
        bound = Fraction(0)
        while heap:
            bound, index = heap[0]
            best = self.least(weight)
            if best is not None and line.sum_of(best) <= bound:
                return Line(weight, line.sum_of(best), best, True)
            now = max(bound, self._bound(self.plans[index], weight))
            if now > bound:  # of the floor, or larger parts were proven meanwhile
                heapq.heapreplace(heap, (now, index))
                continue
            if not self._go_on(index, weight, ends):
                heapq.heappop(heap)  # it cannot run
                continue
            heapq.heapreplace(heap, (max(now, self._bound(self.plans[index], weight)), index))
            if time.monotonic() >= ends:
                bound = heap[0][0]
                break
        best = self.least(weight)
        if best is not None:
            bound = min(bound, line.sum_of(best)) if heap else line.sum_of(best)
        return Line(weight, bound, best, not heap and best is not None)

    def _go_on(self, index: int, weight: Weight, ends: float) -> bool:
        """Proves the next that is not known of a plan; whether it can run."""
        plan = self.plans[index]
        left = math.inf if ends == math.inf else max(SLICE, ends - time.monotonic())
        for side in self.sides:
            for _, beside, larger in self._relaxed(side, plan):
                if weight not in larger.lines and not (beside and weight is None):
                    larger.go_on(weight, left)
                    larger.stop(weight)
                    return True
        parts: list[tuple[_Part, LayerLines]] = []
        for side in self.sides:
            part = self.part(side, plan)
            if part is None:
                return False
            if not part.is_proven(weight):
                parts.append((_Part(side, plan.factors, plan.roles(side), plan.words[side]), part))
        # What was not looked at yet comes first, then what leaves most open.
        parts = [(key, part) for key, part in parts if not self._takes_over(key, part, weight)]
        parts.sort(key=lambda one: (weight in one[1].lines, -one[1].looseness(weight)))
        if parts:
            key, part = parts[0]
            part.go_on(weight, left)
            self._open.pop((key, weight), None)
            self._open[key, weight] = None
            if len(self._open) > MOST_OPEN:
                (other, its), _ = self._open.popitem(last=False)
                lines = self._parts[other]
                assert lines is not None  # it had a proof
                lines.stop(its)
        self._offer_plan(index, weight)
        return True

    def _takes_over(self, key: _Part, part: LayerLines, weight: Weight) -> bool:
        """Whether what was proven in more room is in this: its best mapping fits here, too."""
        for other in self._alike.get((key.side, key.factors, key.roles), ()):
            lines = self._parts[other]
            line = None if lines is None or other == key else lines.lines.get(weight)
            if line is None or not line.proven or line.point is None or other.words > key.words:
                continue
            if bool(part.space.feasible(line.point.code[None])[0]):
                part.offer(line.point.code)
                part.lines[weight] = line
                return True
        return False

    def _bound(self, plan: Plan, weight: Weight) -> Fraction:
        """What is certain of a plan's weighted sum."""
        line = Line(weight, Fraction(0), None, False)
        found = line.sum_of(Point(*plan.moves, NO_CODE))
        for side in self.sides:
            part = self._parts.get(_Part(side, plan.factors, plan.roles(side), plan.words[side]))
            fewest = Fraction(self._floors.fewest(side, plan.factors, plan.roles(side)))
            bounds = [Fraction(0)]
            if part is not None:
                bounds.append(plan.times * part.bound_at(weight, fewest))
            # Rates are rounded to whole cycles by floating-point numbers.
            slack = (1 if weight is None else weight) if self._limited else 0
            for times, beside, larger in self._relaxed(side, plan):
                # All that its pieces take, of which the outermost bandwidth says how long at least.
                least = larger.bound_at(weight, plan.times * fewest / times)
                bounds.append(times * (least - slack) + (0 if weight is None else beside))
            found += max(bounds)
        return found


def _undominated(several: Iterable[list[Point]]) -> list[list[Point]]:
    """Those whose energy and cycles in all no other's are within."""

    def sums(points: list[Point]) -> tuple[int, Fraction]:
        return sum(one.cycles for one in points), sum((p.energy for p in points), Fraction(0))

    found: list[list[Point]] = []
    least: Fraction | None = None
    for (_, energy), points in sorted(((sums(one), one) for one in several), key=lambda o: o[0]):
        if least is None or energy < least:
            least = energy
            found.append(points)
    return found


def _free_outside(machine: Accelerator, name: str) -> Accelerator:
    """A machine where a level's accesses cost nothing."""
    free = {"energy_pj": 0.0, "address_pj": 0.0}
    levels = tuple(
        level.model_copy(update=free) if level.name == name else level for level in machine.levels
    )
    return machine.model_copy(update={"levels": levels})
