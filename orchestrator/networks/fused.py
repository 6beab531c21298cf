"""What is proven of two layers that are tiled together (`costmodel.fused`).

The energy and the cycles of a plan are those of its two parts, times its iterations, and of its
moves; so its least weighted sum is that of the parts' least. Over all plans the least is looked for
from the lowest bound on: of a part nothing is proven before a plan comes first whose bound could
still be the least. A plan's bound comes from larger parts too: what runs in pieces, each from empty
buffers, is no cheaper than where outer loops above one mapping make the same pieces.
"""

from __future__ import annotations

import heapq
import math
import time
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from costmodel.accelerators import Accelerator
from costmodel.exact.infeasible import why_infeasible
from costmodel.exact_any.choice import why_not_proven
from costmodel.exact_any.weighted import Line, Point
from costmodel.fused import Pair, Plan, plans
from costmodel.map_space.map_space import MapSpace
from costmodel.moves import Moved
from costmodel.resident import resident_machine
from orchestrator.networks.jointly import LayerLines, Weight

NO_CODE = np.zeros(0, np.int32)


class _Part(NamedTuple):
    """One of the two operations as a plan runs it: which, its factors, and what lies there."""

    side: int
    factors: tuple[int, ...]
    roles: tuple[str, ...]
    words: int


class FixedLines(LayerLines):
    """What costs the same whatever is chosen: there is one point, and it is proven."""

    def __init__(self, space: MapSpace, moved: Moved) -> None:
        """A cost.

        Args:
            space: of a layer that it belongs to; nothing is looked for in it.
            moved: what it costs.
        """
        super().__init__(space, 1)
        self.points = [Point(moved.energy, moved.cycles, NO_CODE)]

    def prove(self, weight: Weight, seconds: float | None) -> Line:
        """The sum of its point."""
        line = Line(weight, Fraction(0), self.points[0], True)
        self.lines[weight] = line._replace(bound=line.sum_of(self.points[0]))
        return self.lines[weight]


class PairLines(LayerLines):
    """What is proven of two layers tiled together; a point's code is a plan and two mappings."""

    def __init__(self, pair: Pair, machine: Accelerator) -> None:
        """Lists the plans.

        Args:
            pair: the layers.
            machine: what they run on.

        Raises:
            ConfigError: the machine has no shared buffer.
        """
        self.pair, self._machine = pair, machine
        self.plans = plans(pair, machine)
        self._parts: dict[_Part, LayerLines | None] = {}
        self._least_words: dict[tuple[int, tuple[int, ...], tuple[str, ...]], int] = {}
        for plan in self.plans:
            for side in range(2):
                key = (side, self._joined(side, plan.factors), plan.roles(side))
                self._least_words[key] = min(plan.words, self._least_words.get(key, plan.words))
        limits = ("read_bandwidth", "write_bandwidth", "bandwidth")
        self._limited = any(getattr(one, key) for one in machine.levels for key in limits)
        super().__init__(MapSpace(pair.producer, machine), 1)

    def _joined(self, side: int, factors: tuple[int, ...]) -> tuple[int, ...]:
        """The factors that are left where cuts are undone that only make pieces.

        Not of what is summed over, nor of a dimension that slides with another: the steps of two
        loops may share words by luck.
        """
        work = (self.pair.producer, self.pair.consumer)[side]
        found = []
        for axis, factor in zip(self.pair.axes, factors, strict=True):
            plain = axis[side] in work.tensors[-1].dimensions and all(
                len([name for name, _ in one.terms if work.dimensions[name] > 1]) <= 1
                for tensor in work.tensors
                for one in tensor.axes
                if axis[side] in [name for name, _ in one.terms]
            )
            found.append(1 if plain else factor)
        return tuple(found)

    def part(self, side: int, plan: Plan) -> LayerLines | None:
        """What is proven of one of the two operations as a plan runs it; None: it cannot."""
        return self._lines_of(_Part(side, plan.factors, plan.roles(side), plan.words))

    def _lines_of(self, part: _Part) -> LayerLines | None:
        if part not in self._parts:
            machine = resident_machine(self._machine, part.roles, part.words)
            work = self.pair.parts(part.factors)[part.side]
            space = None if machine is None else MapSpace(work, machine)
            fits = space is not None and not (why_infeasible(space) or why_not_proven(space))
            self._parts[part] = LayerLines(space, 1) if fits and space is not None else None
        return self._parts[part]

    def _relaxed(self, side: int, plan: Plan) -> tuple[int, LayerLines | None]:
        """Larger parts that bound a part from below, and how often they run."""
        factors = self._joined(side, plan.factors)
        words = self._least_words[side, factors, plan.roles(side)]
        return math.prod(factors), self._lines_of(_Part(side, factors, plan.roles(side), words))

    @property
    def _first(self) -> int | None:
        """A plan that can run, from the one that leaves the most room on; None: there is none."""
        for index in sorted(range(len(self.plans)), key=lambda one: self.plans[one].words):
            if all(self.part(side, self.plans[index]) is not None for side in range(2)):
                return index
        return None

    @property
    def runs(self) -> bool:
        """Whether there is a plan that can run."""
        return self._first is not None

    def begin(self, seconds: float | None = None) -> None:
        """Looks for mappings of the parts of a first plan; there is one, as `runs` says.

        Raises:
            DataError: none was found in time.
        """
        index = self._first
        assert index is not None  # who asks has looked whether it runs
        for side in range(2):
            part = self.part(side, self.plans[index])
            assert part is not None  # the plan can run
            if not part.points:
                part.begin(seconds)
        self._offer_plan(index, None)

    def unpacked(self, point: Point) -> tuple[Plan, tuple[MapSpace, MapSpace], list[Point]]:
        """The plan of a point, its parts' map spaces and their mappings."""
        index, length = int(point.code[0]), int(point.code[1])
        plan, codes = self.plans[index], (point.code[2 : 2 + length], point.code[2 + length :])
        spaces, points = [], []
        for side, code in enumerate(codes):
            part = self.part(side, plan)
            assert part is not None  # points are of plans that can run
            spaces.append(part.space)
            points.append(next(one for one in part.points if np.array_equal(one.code, code)))
        return plan, (spaces[0], spaces[1]), points

    def _offer_plan(self, index: int, weight: Weight) -> None:
        """Takes the best mappings known of a plan's parts."""
        plan = self.plans[index]
        chosen = []
        for side in range(2):
            part = self.part(side, plan)
            point = None if part is None else part.least(weight)
            if point is None:
                return
            chosen.append(point)
        one, other = chosen
        code = np.concatenate([np.array([index, one.code.size]), one.code, other.code])
        self._add(
            Point(
                plan.times * (one.energy + other.energy) + plan.moves.energy,
                plan.times * (one.cycles + other.cycles) + plan.moves.cycles,
                code,
            )
        )

    def _look(self, weight: Weight, seconds: float | None) -> Line:
        """Proves the least weighted sum over all plans, or gets as far as the time allows."""
        ends = math.inf if seconds is None else time.monotonic() + seconds
        line = Line(weight, Fraction(0), None, False)
        heap = [(self._bound(plan, weight), index) for index, plan in enumerate(self.plans)]
        heapq.heapify(heap)
        bound = Fraction(0)
        while heap:
            bound, index = heap[0]
            best = self.least(weight)
            if best is not None and line.sum_of(best) <= bound:
                return Line(weight, line.sum_of(best), best, True)
            if time.monotonic() >= ends:
                break
            if not self._go_on(index, weight, ends):
                heapq.heappop(heap)  # it cannot run
                continue
            heapq.heapreplace(heap, (self._bound(self.plans[index], weight), index))
        best = self.least(weight)
        if best is not None:
            bound = min(bound, line.sum_of(best)) if heap else line.sum_of(best)
        return Line(weight, bound, best, not heap and best is not None)

    def _go_on(self, index: int, weight: Weight, ends: float) -> bool:
        """Proves the next that is not known of a plan; whether it can run."""
        plan = self.plans[index]
        for relaxed in (True, False):
            for side in range(2):
                part = self._relaxed(side, plan)[1] if relaxed else self.part(side, plan)
                if part is None and not relaxed:
                    return False
                if part is None:
                    continue
                line = part.lines.get(weight)
                if line is None or (not line.proven and not relaxed):
                    left = None if ends == math.inf else max(0.05, ends - time.monotonic())
                    part.prove(weight, left)
                    if not relaxed:
                        self._offer_plan(index, weight)
                    return True
        self._offer_plan(index, weight)
        return True

    def _bound(self, plan: Plan, weight: Weight) -> Fraction:
        """What is certain of a plan's weighted sum."""
        line = Line(weight, Fraction(0), None, False)
        found = line.sum_of(Point(*plan.moves, NO_CODE))
        for side in range(2):
            times, larger = self._relaxed(side, plan)
            part = self._parts.get(_Part(side, plan.factors, plan.roles(side), plan.words))
            bounds = [Fraction(0)]
            if part is not None and weight in part.lines:
                bounds.append(plan.times * part.lines[weight].bound)
            if larger is not None and weight in larger.lines:
                # Rates are rounded to whole cycles by floating-point numbers.
                slack = (1 if weight is None else weight) if self._limited else 0
                bounds.append(times * (larger.lines[weight].bound - slack))
            found += max(bounds)
        return found
