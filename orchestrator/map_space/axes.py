"""The values of one attribute of a map space, in an order in which neighbours are alike.

Letters: D attributes, V values, S slots (outermost first), n dimensions, r loops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import LevelMapping
from costmodel.space import Codes
from mapspace.errors import ArgumentError

IntArray = npt.NDArray[np.int64]

TILING, ORDER, SPATIAL_ORDER = "tiling", "order", "spatial-order"


@dataclass(frozen=True)
class Axis:
    """Values of an attribute.

    Attributes:
        attribute: its name, such as `tiling.K`, `order.L2` or `keep.L1`.
        column: which of a code's.
        values: `[V]` as codes have them, in the axis's order.
        labels: `[V]` what a reader is told of each; equal neighbours share a label.
        title: what the labels are.
        whole: how many values there are; of more than are shown every so many is.
    """

    attribute: str
    column: int
    values: IntArray
    labels: tuple[str, ...]
    title: str
    whole: int


def attribute_of(space: MapSpace, name: str, argument: str = "surface") -> str:
    """The attribute of a name that an argument has: its own, or a dimension's for its tilings.

    Raises:
        ArgumentError: there is none.
    """
    for attribute in (name, f"{TILING}.{name}"):
        if attribute in space.attribute_names:
            return attribute
    attributes = (one.removeprefix(f"{TILING}.") for one in space.attribute_names)
    raise ArgumentError(
        argument,
        f": expected two attributes of the map space ({', '.join(attributes)}), got {name}.",
    )


def axis_of(space: MapSpace, code: Codes, attribute: str, *, tiled: Collection[str]) -> Axis:
    """All values of an attribute around a mapping, but for orders that cost alike.

    Args:
        space: the map space.
        code: `[D]` the mapping.
        attribute: the attribute.
        tiled: dimensions whose tilings the other axis varies: their loops count in orders, too.
    """
    kind = attribute.partition(".")[0]
    column = list(space.attribute_names).index(attribute)
    if kind == TILING:
        return _tilings(space, attribute, column)
    if kind in (ORDER, SPATIAL_ORDER):
        return _orders(space, code, attribute, column, tiled)
    return _others(space, code, attribute, column, tiled)


def thinned(axis: Axis, most: int, value: int) -> Axis:
    """Every so many values of an axis, the given one among them.

    Args:
        axis: the axis.
        most: how many there may be, at least 2.
        value: the one that stays, in place of the nearest.
    """
    if len(axis.values) <= most:
        return axis
    places = np.unique(np.linspace(0, len(axis.values) - 1, most).astype(np.int64))
    own = int(np.flatnonzero(axis.values == value)[0])
    places[np.abs(places - own).argmin()] = own
    labels = tuple(axis.labels[place] for place in places)
    return Axis(axis.attribute, axis.column, axis.values[places], labels, axis.title, axis.whole)


def _tilings(space: MapSpace, attribute: str, column: int) -> Axis:
    """A dimension's factorisations, sorted by their factors from the innermost slot outwards."""
    start = space.tables.row_start
    factors = space.tables.factors[start[column] : start[column + 1]]
    # The last key is the first to sort by.
    values: IntArray = np.lexsort(factors.T)
    labels = tuple(map(str, factors[values, -1]))
    inner, name = space.accelerator.levels[-1].name, attribute.partition(".")[2]
    title = f"tilings of {name}, by its size in {inner}"
    return Axis(attribute, column, values, labels, title, len(values))


def _orders(
    space: MapSpace, code: Codes, attribute: str, column: int, tiled: Collection[str]
) -> Axis:
    """One of all orders of a level's loops that are alike in the loops with more than one trip."""
    kind, _, of = attribute.partition(".")
    names, tables = space.workload.dimension_names, space.tables
    index = [level.name for level in space.accelerator.levels].index(of)
    start = tables.order_start[0 if kind == ORDER else 1, index]
    orders = tables.orders[start : start + space.cardinality[column]]
    level = space.describe(code).levels[index]
    trips: Mapping[str, int] = level.temporal if kind == ORDER else level.spatial
    counts = np.array([trips.get(name, 1) > 1 or name in tiled for name in names])
    rows = orders[counts[orders]].reshape(len(orders), int(counts.sum()))
    alike, values, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    # Of the mapping's own kind its own.
    values = values.astype(np.int64)
    values[int(which.reshape(-1)[code[column]])] = code[column]
    labels = tuple(" ".join(names[d] for d in row) for row in alike) if len(rows[0]) else ("any",)
    where = "loops" if kind == ORDER else "spatial loops"
    title = f"{where} of {of}, outermost first"
    return Axis(attribute, column, values, labels, title, len(values))


def _others(
    space: MapSpace, code: Codes, attribute: str, column: int, tiled: Collection[str]
) -> Axis:
    """Values by what they say of a level: one of those that say the same of spread dimensions."""
    kind, _, of = attribute.partition(".")
    codes = np.repeat(code[None], space.cardinality[column], axis=0)
    codes[:, column] = np.arange(len(codes))
    first: dict[str, int] = {}
    # The mapping's own value stands for all that say the same.
    for one in [code, *codes]:
        level = next(level for level in space.describe(one).levels if level.name == of)
        first.setdefault(_SAID.get(kind, _number)(level, int(one[column]), tiled), int(one[column]))
    labels = sorted(first, key=lambda label: first[label])
    values = np.array([first[label] for label in labels])
    title = _TITLES.get(kind, kind + " of {}").format(of)
    return Axis(attribute, column, values, tuple(labels), title, len(values))


def _number(level: LevelMapping, value: int, tiled: Collection[str]) -> str:
    return str(value)


def _kept(level: LevelMapping, value: int, tiled: Collection[str]) -> str:
    return " ".join(level.keep) or "none"


def _axes(level: LevelMapping, value: int, tiled: Collection[str]) -> str:
    spread = [name for name, factor in level.spatial.items() if factor > 1 or name in tiled]
    rows = {axis: [d for d in spread if level.spatial_axis.get(d, "X") == axis] for axis in "XY"}
    return (
        ", ".join(f"{' '.join(some)} along {axis}" for axis, some in rows.items() if some) or "any"
    )


def _banks(level: LevelMapping, value: int, tiled: Collection[str]) -> str:
    return " ".join(map(str, level.banks.values()))


_SAID: Mapping[str, Callable[[LevelMapping, int, Collection[str]], str]] = {
    "keep": _kept, "spatial-axis": _axes, "banks": _banks
}  # fmt: skip
_TITLES = {
    "keep": "tensors that {} keeps",
    "spatial-axis": "what {} spreads along its mesh",
    "banks": "banks of {} by tensor",
}
