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

from costmodel.accelerators import Accelerator, Level
from costmodel.components import LevelSources
from costmodel.levels import CAPACITIES, ActionEnergies
from costmodel.machine_units import summed_area
from mapspace.errors import ConfigError
from orchestrator.sweep.config import Limits, Sweep
from orchestrator.sweep.plan import changed, require_axis

Box = tuple[tuple[int, int], ...]
"""Per axis the first place, and the one after the last."""
Corner = tuple[tuple[int, ...], ...]
"""Per axis and figure the place of the value that it is taken from."""
Ranks = npt.NDArray[np.int64]

# Of a level, and whether more is better; each is a sum's factor or a divisor in the cost model.
_LESS = frozenset(
    {
        "energy_pj", "address_pj", "leakage_pj", "hop_energy_pj", "router_pj", "ingress_pj",
        "fill_latency", "drain_latency",
    }
)  # fmt: skip
_MORE = frozenset({"read_bandwidth", "write_bandwidth", "bandwidth"})
_LESS_OF_MACHINE = frozenset({"mac_energy_pj", "cycles_per_mac"})
# Keys of a level on which its component's figures depend, or which stand for one of these.
_FELT = CAPACITIES | {
    "component", "block_words", "word_bits", "energy_pj", "leakage_pj", "area_mm2", "technology",
}  # fmt: skip
_OF_COMPONENTS = frozenset({"component", "mac_component", "mac_leakage_pj"})
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
        """Looks up every key.

        Args:
            base: what the grid changes.
            design: the grid, how energies follow capacities, and what area is.
            where: what messages start with.

        Raises:
            ConfigError: an unknown key, or a value that makes no machine.
        """
        grid = design.grid or {}
        self._base, self._design, self._where = base, design, where
        for key in grid:
            require_axis(key, base, where)
        self.axes = tuple(self._axis(key, values, grid) for key, values in grid.items())
        self.size = math.prod(len(axis.values) for axis in self.axes)
        self._areas: dict[tuple[int, ...], float] = {}
        self._ideals: dict[Corner, Accelerator] = {}
        self._least_of: dict[tuple[Any, ...], Any] = {}

    def _axis(self, key: str, values: tuple[Any, ...], grid: Mapping[str, tuple[Any, ...]]) -> Axis:
        """An axis with its order: ranks under all values of the other keys that a figure hangs on.

        A component's figures depend on several keys, and which of two sizes costs less may differ
        from one node to the next; each combination of such keys has rows of its own.
        """
        others = felt_with(key, self._base, grid)
        contexts = math.prod(len(grid[other]) for other in others)
        ordered = _has_an_order(key, self._base, grid) and contexts <= MOST_CONTEXTS
        if not ordered:
            for value in values:
                self._changed({key: value})
            return Axis(key, values, np.empty((0, len(values)), np.int64))
        level = key.rpartition(".")[0]
        told = np.array(
            [
                row
                for told in itertools.product(*(grid[other] for other in others))
                for row in zip(
                    *(
                        _figures(
                            self._changed({**dict(zip(others, told, strict=True)), key: value}),
                            level,
                        )
                        for value in values
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

    def _build(self, corner: Corner) -> Accelerator:
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
            levels[position] = _best_of(given)
        return machine.model_copy(update={"levels": tuple(levels)})

    def _changed(self, parameters: Mapping[str, Any]) -> Accelerator:
        return changed(self._base, parameters, self._design.energy_scaling, self._where)


def split(grid: MachineGrid, box: Box) -> list[Box]:
    """A box in two, along the axis whose values differ the most.

    Args:
        grid: of it.
        box: of several machines.
    """
    widths = [
        _width(axis, first, stop) if stop - first > 1 else -1.0
        for axis, (first, stop) in zip(grid.axes, box, strict=True)
    ]
    axis = int(np.argmax(widths))
    first, stop = box[axis]
    middle = (first + stop) // 2
    return [(*box[:axis], part, *box[axis + 1 :]) for part in ((first, middle), (middle, stop))]


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


def _figures(machine: Accelerator, name: str) -> list[float]:
    """What of a machine, or of one of its levels, a mapping's cost depends on; more is better."""
    if not name:
        return [-machine.mac_energy_pj, -machine.cycles_per_mac]
    level = machine.levels[machine.level_names.index(name)]
    return [
        math.inf if level.capacity_words is None else level.capacity_words,
        level.fanout,
        *(
            math.inf if value is None else value
            for value in (getattr(level, k) for k in sorted(_MORE))
        ),
        *(-energy for energy in level.energies),
        *(-getattr(level, key) for key in sorted(_LESS - {"energy_pj"})),
    ]


def _has_an_order(key: str, base: Accelerator, grid: Mapping[str, Any]) -> bool:
    """Whether it is known which values of a key are better, whatever the other axes say."""
    name, _, field = key.rpartition(".")
    if not name:
        return field in _LESS_OF_MACHINE
    if field in _LESS or field in _MORE:
        return True
    position = base.level_names.index(name)
    levels = base.levels[position:]
    swept = {other.rpartition(".")[2] for other in grid}
    # Rules on the share of elements or words in use make less of them better.
    if base.constraints or base.overflow != "invalid" or swept & {"constraints", "overflow"}:
        return False
    if field in CAPACITIES:
        fixed = not swept & {"word_bits", "banks", "min_utilisation", "multiple_buffering"}
        return fixed and levels[0].banks is None and levels[0].min_utilisation == 0
    if field != "fanout":
        return False
    network = {"mesh", "spatial", "hop_energy_pj", "router_pj", "ingress_pj", "cluster_size"}
    return (
        not swept & network
        and _silent(levels[0])
        and all(inner.cluster_size == 1 for inner in levels)
    )


def felt_with(key: str, base: Accelerator, grid: Mapping[str, Any]) -> list[str]:
    """The other keys of a grid on which a component's figures depend beside this one.

    Without components none: every figure then depends on one key alone.
    """
    made = base.mac_component is not None or base.mac_leakage_pj > 0
    made |= any(level.component is not None for level in base.levels)
    made |= any(other.rpartition(".")[2] in _OF_COMPONENTS for other in grid)
    name = key.rpartition(".")[0]
    if not made or not name:
        return []
    # The units' leakage is in the innermost level's.
    felt = _FELT | ({"fanout", "mesh"} if name == base.level_names[-1] else set())
    if key.rpartition(".")[2] not in felt:
        return []
    return [
        other
        for other in grid
        if other not in {key, *_LESS_OF_MACHINE}
        and (not (level := other.rpartition(".")[0]) or level == name)
        and (not level or other.rpartition(".")[2] in felt)
    ]


def _silent(level: Level) -> bool:
    """Whether a level's network has neither form nor price."""
    free = level.hop_energy_pj == level.router_pj == level.ingress_pj == 0
    return level.mesh is None and level.spatial is None and free


def _best_of(levels: list[Level]) -> Level:
    """A level with the best of every figure of several; none of them may have all of these."""
    if any(level.capacity_words is None for level in levels):
        raise ConfigError("a capacity without limit is no value of a grid with energies that grow.")
    read, fill, update = (
        min(column) for column in zip(*(level.energies for level in levels), strict=True)
    )
    one = read == fill == update and not isinstance(levels[0].energy_pj, ActionEnergies)
    best: dict[str, Any] = {
        key: min(getattr(level, key) for level in levels) for key in _LESS - {"energy_pj"}
    }
    for key in _MORE:
        rates = [getattr(level, key) for level in levels]
        best[key] = None if None in rates else max(rates)
    largest = max(levels, key=lambda level: level.capacity_words or 0)
    return largest.model_copy(
        update={
            **best,
            "energy_pj": read if one else ActionEnergies(read=read, fill=fill, update=update),
            "fanout": max(level.fanout for level in levels),
            # It is no component that there is.
            "component": None,
            "area_mm2": None,
            "sources": LevelSources(),
        }
    )
