"""A grid of machines as boxes, and the machine that is at least as good as all of a box.

A box is a range of values per axis. Where more of a key can never make the best mapping worse, or
less of it, the box has an *ideal*: the machine that takes the best value of every axis, though no
machine of the grid may be it. No machine of the box is better than its ideal (docs/guide/design.md
has the reason for each key). Along other axes a box holds one value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.machine_units import summed_area
from orchestrator.design.orders import (
    extreme_of,
    felt_with,
    figures_of,
    has_an_order,
    takes_no_area,
)
from orchestrator.runs.limits import looked_at
from orchestrator.sweep.config import Limits, Sweep
from orchestrator.sweep.plan import changed, values_named

Box = tuple[tuple[int, int], ...]
"""Per axis the first place, and the one after the last."""
Corner = tuple[tuple[int, ...], ...]
"""Per axis and figure the place of the value that it is taken from."""
Ranks = npt.NDArray[np.int64]

# Combinations of other keys beyond which no order along a key is looked for.
MOST_CONTEXTS = 1000


@dataclass(frozen=True)
class Axis:
    """One key of the grid.

    Attributes:
        key: such as `L1.capacity_words`.
        values: what it may be, from worst to best where that is known.
        figures: `[figures, values]` ranks of what a value sets in the machine, such as the
            capacity and, where it follows, the energy per access; the higher, the better. Empty
            along an axis of which nothing is known.
    """

    key: str
    values: tuple[Any, ...]
    figures: Ranks

    @property
    def ordered(self) -> bool:
        """Whether it is known which values are better."""
        return len(self.figures) > 0


class MachineGrid:
    """The machines of a grid.

    Attributes:
        axes: its axes, in the order of the file.
        size: how many machines it has.
    """

    def __init__(self, base: Accelerator, design: Sweep, where: str) -> None:
        """Looks up every value.

        Args:
            base: what the grid changes; it has all its keys.
            design: the grid, how energies follow capacities, and what area is.
            where: what messages start with.

        Raises:
            ConfigError: values that make no machine.
        """
        grid = design.grid or {}
        self._base, self._design, self._where = base, design, where
        with values_named(design, base, where):
            self.axes = tuple(self._axis(key, values, grid) for key, values in grid.items())
        self.size = math.prod(len(axis.values) for axis in self.axes)
        self._areas: dict[tuple[int, ...], float] = {}
        self._ideals: dict[Corner, Accelerator] = {}
        self._worst: dict[Corner, Accelerator] = {}
        self._least_of: dict[tuple[Any, ...], Any] = {}

    def _axis(self, key: str, values: tuple[Any, ...], grid: Mapping[str, tuple[Any, ...]]) -> Axis:
        """An axis with its order: ranks under all values of the other keys that a figure hangs on.

        A component's figures depend on several keys, and which of two sizes costs less may differ
        from one node to the next; each combination of such keys has rows of its own.
        """
        others = felt_with(key, self._base, grid)
        contexts = math.prod(len(grid[other]) for other in others)
        ordered = has_an_order(key, self._base, grid) and contexts <= MOST_CONTEXTS
        if not ordered:
            for value in looked_at(values, self._where, f"values of {key}"):
                self._changed({key: value})
            return Axis(key, values, np.empty((0, len(values)), np.int64))
        level = key.rpartition(".")[0]
        told = np.array(
            [
                row
                for told in itertools.product(*(grid[other] for other in others))
                for row in zip(
                    *(
                        figures_of(
                            self._changed({**dict(zip(others, told, strict=True)), key: value}),
                            level,
                        )
                        for value in looked_at(values, self._where, f"values of {key}")
                    ),
                    strict=True,
                )
            ]
        )
        told = told[[len(set(row)) > 1 for row in told.tolist()]]
        if not len(told):
            return Axis(key, values, np.empty((0, len(values)), np.int64))
        # Figures that rise and fall together are one.
        ranks = np.unique([np.unique(row, return_inverse=True)[1] for row in told], axis=0)
        order = np.lexsort(told[::-1])
        return Axis(key, tuple(values[place] for place in order), ranks[:, order].astype(np.int64))

    def roots(self) -> Iterator[Box]:
        """Boxes that hold the whole grid, none of them split along an axis with an order."""
        yield from itertools.product(
            *(
                [(0, len(axis.values))]
                if axis.ordered
                else [(place, place + 1) for place in range(len(axis.values))]
                for axis in self.axes
            )
        )

    def parameters(self, places: tuple[int, ...]) -> dict[str, Any]:
        """The values at a place of each axis."""
        return {axis.key: axis.values[place] for axis, place in zip(self.axes, places, strict=True)}

    def machine(self, places: tuple[int, ...]) -> Accelerator:
        """The machine at a place of each axis."""
        return self._changed(self.parameters(places))

    def area_bits(self, box: Box) -> float:
        """The least area of a box's machines: more of anything never takes less."""
        least = tuple(
            first + int(np.argmin([_size(value) for value in axis.values[first:stop]]))
            for axis, (first, stop) in zip(self.axes, box, strict=True)
        )
        if least not in self._areas:
            self._areas[least] = self._design.proxy.bits(self.machine(least))
        return self._areas[least]

    def area_mm2(self, box: Box) -> float:
        """What no machine of a box is smaller than, mm2: of every part the least area.

        A larger memory may be the smaller component, so that all values of a box are looked at.
        """
        ranges = tuple(enumerate(box))
        owner = [axis.key.rpartition(".")[0] for axis in self.axes]
        whole = [one for one in ranges if not owner[one[0]]]
        areas, fanouts = [], []
        for level in self._base.levels:
            own = [one for one in ranges if owner[one[0]] == level.name]
            network = [one for one in own if self._field(one[0]) in ("fanout", "mesh")]
            felt = [one for one in own if one not in network]
            areas.append(self._least("area_mm2", level.name, (*whole, *felt)))
            fanouts.append(self._least("fanout", level.name, tuple(network)))
        return summed_area(areas, fanouts, self._least("mac_area_mm2", "", tuple(whole)))

    def _field(self, axis: int) -> str:
        return self.axes[axis].key.rpartition(".")[2]

    def _least(self, field: str, name: str, ranges: tuple[tuple[int, tuple[int, int]], ...]) -> Any:
        """The least of a number of a level, or of the machine, where only some axes matter."""
        asked = field, name, ranges
        if asked not in self._least_of:
            keys = [self.axes[axis].key for axis, _ in ranges]
            values = [self.axes[axis].values[first:stop] for axis, (first, stop) in ranges]
            found = []
            for given in itertools.product(*values):
                machine: Any = self._changed(dict(zip(keys, given, strict=True)))
                owner = machine.levels[machine.level_names.index(name)] if name else machine
                outside = field == "area_mm2" and owner.is_dram
                found.append(0.0 if outside else getattr(owner, field) or 0.0)
            self._least_of[asked] = min(found)
        return self._least_of[asked]

    def area(self, box: Box) -> float:
        """The least area of a box in the unit that the design is drawn over."""
        in_bits = self._design.area_column == "area_bits"
        return self.area_bits(box) if in_bits else self.area_mm2(box)

    def too_large(self, box: Box, limits: Limits) -> bool:
        """Whether every machine of a box is above a limit of the area."""
        return (limits.area_bits is not None and self.area_bits(box) > limits.area_bits) or (
            limits.area_mm2 is not None and self.area_mm2(box) > limits.area_mm2
        )

    def within(self, box: Box, limits: Limits) -> tuple[Box, list[Box]]:
        """A box without the ends of its axes that are above a limit of the area, and these.

        Args:
            box: not too large itself.
            limits: of the area.
        """
        cut: list[Box] = []
        before = None
        while before != box:
            before = box
            for axis in range(len(box)):
                while (first := box[axis][0]) + 1 < (stop := box[axis][1]):
                    parts = (stop - 1, stop), (first, first + 1)
                    left = (first, stop - 1), (first + 1, stop)
                    ends = (narrowed(box, axis, part) for part in parts)
                    place = next((i for i, x in enumerate(ends) if self.too_large(x, limits)), None)
                    if place is None:
                        break
                    cut.append(narrowed(box, axis, parts[place]))
                    box = narrowed(box, axis, left[place])
        return box, cut

    def is_free(self, axis: int) -> bool:
        """Whether an axis has a best value of all figures, and that takes no area.

        Then the machine with it is at least as good as one of another value, all else the same.
        """
        return len(self.axes[axis].figures) == 1 and takes_no_area(self._field(axis))

    def worst(self, box: Box) -> Accelerator:
        """A machine that no machine of a box is worse than, though none of the grid may be it."""
        corner = tuple(
            tuple(first + int(np.argmin(row[first:stop])) for row in axis.figures)
            if axis.ordered
            else (first,)
            for axis, (first, stop) in zip(self.axes, box, strict=True)
        )
        if corner not in self._worst:
            self._worst[corner] = self._build(corner, best=False)
        return self._worst[corner]

    def corner(self, box: Box) -> Corner:
        """Where the ideal of a box takes its figures from."""
        return tuple(
            tuple(first + int(np.argmax(row[first:stop])) for row in axis.figures)
            if axis.ordered
            else (first,)
            for axis, (first, stop) in zip(self.axes, box, strict=True)
        )

    def ranks(self, corner: Corner) -> Ranks:
        """`[figures]` of a corner: at least another's everywhere says that it is no worse."""
        parts: list[int] = []
        for axis, places in zip(self.axes, corner, strict=True):
            if axis.ordered:
                parts += [int(row[place]) for row, place in zip(axis.figures, places, strict=True)]
            else:
                # Comparable with itself only.
                parts += [places[0], -places[0]]
        return np.array(parts, np.int64)

    def ideal(self, corner: Corner) -> Accelerator:
        """The machine of a corner."""
        if corner not in self._ideals:
            self._ideals[corner] = self._build(corner)
        return self._ideals[corner]

    def _build(self, corner: Corner, *, best: bool = True) -> Accelerator:
        """Each figure from its own value, through the machines of the single values."""
        values = {
            axis.key: axis.values[places[0]]
            for axis, places in zip(self.axes, corner, strict=True)
            if places
        }
        machine = self._changed(values)
        mixed = [
            (axis, places)
            for axis, places in zip(self.axes, corner, strict=True)
            if len(set(places)) > 1
        ]
        if not mixed:
            return machine
        of_level: dict[str, dict[str, list[Any]]] = {}
        for axis, places in mixed:
            name = axis.key.rpartition(".")[0]
            chosen = [axis.values[place] for place in sorted(set(places))]
            of_level.setdefault(name, {})[axis.key] = chosen
        levels = list(machine.levels)
        for name, several in of_level.items():
            position = machine.level_names.index(name)
            given = [
                self._changed({**values, **dict(zip(several, chosen, strict=True))}).levels[
                    position
                ]
                for chosen in itertools.product(*several.values())
            ]
            levels[position] = extreme_of(given, best=best)
        return machine.model_copy(update={"levels": tuple(levels)})

    def _changed(self, parameters: Mapping[str, Any]) -> Accelerator:
        return changed(self._base, parameters, self._design.energy_scaling, self._where)


def widths(grid: MachineGrid, box: Box) -> list[float]:
    """How much the values of each axis of a box differ; less than 0 along one of a single value."""
    return [
        _width(axis, first, stop) if stop - first > 1 else -1.0
        for axis, (first, stop) in zip(grid.axes, box, strict=True)
    ]


def split(grid: MachineGrid, box: Box, axis: int | None = None) -> list[Box]:
    """A box in two.

    Args:
        grid: of it.
        box: of several machines.
        axis: along which; None: the one whose values differ the most.
    """
    axis = int(np.argmax(widths(grid, box))) if axis is None else axis
    first, stop = box[axis]
    middle = (first + stop) // 2
    return [narrowed(box, axis, part) for part in ((first, middle), (middle, stop))]


def narrowed(box: Box, axis: int, part: tuple[int, int]) -> Box:
    """A box with another range along one axis."""
    return (*box[:axis], part, *box[axis + 1 :])


def machines_in(box: Box) -> int:
    """How many machines a box holds."""
    return math.prod(stop - first for first, stop in box)


def _width(axis: Axis, first: int, stop: int) -> float:
    sizes = [_size(value) for value in axis.values[first:stop]]
    least, most = min(sizes), max(sizes)
    return math.log(most / least) if least > 0 and math.isfinite(most) else 1.0


def _size(value: Any) -> float:
    """What orders values by the area that they take: what is no number takes none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 1.0
    return float(value)
