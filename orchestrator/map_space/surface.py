"""A slice of a map space over two attributes, as Figure 3 of Mind Mappings has its cost surface.

All other attributes stay as the best mapping has them. Letters: Y and X the values of two
attributes, D attributes.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.costs import Objective
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ArgumentError, ConfigError
from orchestrator.map_space.axes import TILING, Axis, attribute_of, axis_of, thinned

FloatArray = npt.NDArray[np.float64]

# Most values of an axis: more are not told apart, and not evaluated.
MOST = 2500
# A slice is worth looking at where so much of it is feasible, and it has so many points; of each
# axis so many values are asked.
ENOUGH, FEWEST, SAMPLED = 0.5, 100, 20


@dataclass(frozen=True)
class Surface:
    """Costs over two attributes.

    Attributes:
        axes: the attributes along y and x.
        costs: `[Y, X]` what is minimised, inf where infeasible.
        centre: where the mapping lies that the other attributes are taken from, (y, x).
    """

    axes: tuple[Axis, Axis]
    costs: FloatArray
    centre: tuple[int, int]

    def local_minima(self) -> int:
        """Feasible points, or plateaus of equal ones, without a lower neighbour among eight."""
        minima = np.isfinite(self.costs) & (self.costs <= _least_around(self.costs))
        while True:
            # A point next to an equal one that can be left downhill can be left that way too.
            left = np.where(np.isfinite(self.costs) & ~minima, self.costs, np.inf)
            kept = minima & (_least_around(left) > self.costs)
            if (kept == minima).all():
                break
            minima = kept
        return _parts(minima)


def surface_around(
    space: MapSpace,
    code: Codes,
    attributes: tuple[str, str],
    *,
    objective: Objective = "edp",
    most: int = MOST,
) -> Surface:
    """Evaluates every pair of values of two attributes around a mapping `[D]`.

    Of buffers side by side the order stays that of the mapping.

    Args:
        space: the map space.
        code: `[D]` the mapping.
        attributes: two names of `attribute_names`, or of dimensions for their tilings.
        objective: what a cost is: in pJ, cycles, or their products.
        most: values of an axis; of more every so many is taken.

    Raises:
        ConfigError: they are not two different attributes of the space.
    """
    space, code = space.in_order(code)
    names = check_attributes(space, attributes)
    tiled = {name.removeprefix(f"{TILING}.") for name in names if name.startswith(f"{TILING}.")}
    all_of = [axis_of(space, code, name, tiled=tiled) for name in names]
    y, x = (thinned(axis, most, int(code[axis.column])) for axis in all_of)
    model = LoopNestModel()
    costs = np.empty((len(y.values), len(x.values)))
    codes = np.repeat(code[None], len(x.values), axis=0)
    codes[:, x.column] = x.values
    for row, value in enumerate(y.values):
        codes[:, y.column] = value
        found = model.evaluate(space, codes)
        costs[row] = found.objective(objective)
    at = [int(np.flatnonzero(axis.values == code[axis.column])[0]) for axis in (y, x)]
    return Surface((y, x), costs, (at[0], at[1]))


def check_attributes(
    space: MapSpace, attributes: tuple[str, str], argument: str = "surface"
) -> tuple[str, str]:
    """The attributes of two names that an argument has.

    Raises:
        ConfigError: they are not two different attributes of a space.
    """
    first, second = (attribute_of(space, name, argument) for name in attributes)
    if first == second:
        raise ArgumentError(argument, f": expected two attributes, got {first} twice.")
    return first, second


def two_dimensions(space: MapSpace) -> tuple[str, str]:
    """A dimension of each of the first two inputs that the other lacks, with the most tilings.

    Tile sizes of two inputs are what Figure 3 varies. Where there are no such dimensions: the two
    with the most tilings.

    Raises:
        ConfigError: the workload has only one dimension.
    """
    names = space.workload.dimension_names
    if len(names) < 2:
        raise ConfigError(f"{space.workload.name} has one dimension; a surface needs two.")
    count = dict(zip(names, space.cardinality.tolist(), strict=False))
    inputs = [
        {name for axis in tensor.axes for name, _ in axis.terms}
        for tensor in space.workload.tensors[:-1]
    ]
    if len(inputs) >= 2 and inputs[0] - inputs[1] and inputs[1] - inputs[0]:
        own = (inputs[0] - inputs[1], inputs[1] - inputs[0])
        first, second = (max(sorted(some), key=lambda name: count[name]) for some in own)
        return first, second
    ranked = sorted(names, key=lambda name: -count[name])
    return ranked[0], ranked[1]


def feasible_attributes(space: MapSpace, code: Codes) -> tuple[str, str]:
    """Two attributes around a mapping `[D]` most of whose points are feasible.

    `two_dimensions` where half of theirs are. Else tilings of two dimensions, or a tiling and an
    order, or any two, whichever first have a pair of that kind: the one with the most points. A
    mapping that fills its buffers leaves no room for other tilings.

    Raises:
        ConfigError: the workload has only one dimension.
    """
    first = two_dimensions(space)
    space, code = space.in_order(code)
    known: dict[tuple[str, str], tuple[float, int]] = {}

    def look(pair: tuple[str, str]) -> tuple[float, int]:
        if pair not in known:
            known[pair] = _sampled(space, code, check_attributes(space, pair))
        return known[pair]

    if look(first)[0] >= ENOUGH:
        return first
    counts = dict(zip(space.attribute_names, space.cardinality.tolist(), strict=True))
    varied = [name for name, count in counts.items() if count > 1]
    tilings = [name for name in varied if name.startswith(f"{TILING}.")]
    orders = [name for name in varied if name.startswith("order.")]
    for pairs in (
        itertools.combinations(tilings, 2),
        itertools.product(tilings, orders),
        itertools.combinations(varied, 2),
    ):
        enough = [pair for pair in pairs if look(pair)[0] >= ENOUGH and look(pair)[1] >= FEWEST]
        if enough:
            return max(enough, key=lambda pair: look(pair)[1])
    return max(known, key=lambda pair: look(pair)[0])


def _sampled(space: MapSpace, code: Codes, names: tuple[str, str]) -> tuple[float, int]:
    """The share of feasible points of a slice, of some of them, and how many points it has."""
    tiled = {name.removeprefix(f"{TILING}.") for name in names if name.startswith(f"{TILING}.")}
    whole = [axis_of(space, code, name, tiled=tiled) for name in names]
    y, x = (thinned(axis, SAMPLED, int(code[axis.column])) for axis in whole)
    codes = np.repeat(code[None], len(y.values) * len(x.values), axis=0)
    codes[:, y.column] = np.repeat(y.values, len(x.values))
    codes[:, x.column] = np.tile(x.values, len(y.values))
    return float(space.feasible(codes).mean()), len(whole[0].values) * len(whole[1].values)


def _least_around(values: FloatArray) -> FloatArray:
    """`[Y, X]` the least of every value and its eight neighbours."""
    rows, columns = values.shape
    wide = np.pad(values, 1, constant_values=np.inf)
    shifted = (wide[y : y + rows, x : x + columns] for y in range(3) for x in range(3))
    return functools.reduce(np.minimum, shifted)


def _parts(marked: npt.NDArray[np.bool_]) -> int:
    """How many parts marks `[Y, X]` have that touch each other nowhere, corners included."""
    size = marked.size
    numbers = np.where(marked, np.arange(size).reshape(marked.shape), size)
    while True:
        # Every part takes the least number around it, and those that have that number too.
        around = _least_around(numbers.astype(np.float64)).astype(np.int64)
        least = np.arange(size + 1)
        np.minimum.at(least, numbers[marked], around[marked])
        while (least[least] != least).any():
            least = least[least]
        if (least[numbers] == numbers).all():
            return len(np.unique(numbers[marked]))
        numbers = least[numbers]
