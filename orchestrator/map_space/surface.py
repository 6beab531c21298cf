"""The cost surface of a map space over two attributes, as Figure 3 of Mind Mappings has it.

All other attributes stay as the best mapping has them. Along an axis stand all tilings of one
dimension, sorted by their factors from the innermost slot outwards, so that neighbours are alike.
Letters: Y and X the tilings of two dimensions, D attributes, S slots (outermost first).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.bounds import algorithmic_minimum
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes
from mapspace.errors import ArgumentError, ConfigError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Surface:
    """Costs over the tilings of two dimensions.

    Attributes:
        dimensions: the dimensions along y and x.
        factors: their factors, `[Y, S]` and `[X, S]`.
        edp: `[Y, X]` normalised EDP, inf where infeasible.
        centre: where the mapping lies that the other attributes are taken from, (y, x).
    """

    dimensions: tuple[str, str]
    factors: tuple[IntArray, IntArray]
    edp: FloatArray
    centre: tuple[int, int]

    def local_minima(self) -> int:
        """Feasible points, or plateaus of equal ones, without a lower neighbour among eight."""
        from scipy.ndimage import label, minimum_filter

        lowest = minimum_filter(self.edp, size=3, mode="nearest")
        minima = np.isfinite(self.edp) & (self.edp <= lowest)
        while True:
            # A point next to an equal one that can be left downhill can be left that way too.
            left = np.where(np.isfinite(self.edp) & ~minima, self.edp, np.inf)
            kept = minima & (minimum_filter(left, size=3, mode="nearest") > self.edp)
            if (kept == minima).all():
                break
            minima = kept
        return int(label(minima, structure=np.ones((3, 3)))[1])


def surface_around(space: MapSpace, code: Codes, dimensions: tuple[str, str]) -> Surface:
    """Evaluates every pair of tilings of two dimensions around a mapping `[D]`.

    Raises:
        ConfigError: they are not two different dimensions of the workload.
    """
    check_dimensions(space, dimensions)
    names = space.workload.dimension_names
    columns = [names.index(name) for name in dimensions]
    tilings = [_sorted_tilings(space, column) for column in columns]
    model = LoopNestModel()
    edp = np.empty((tilings[0].size, tilings[1].size))
    codes = np.repeat(code[None], tilings[1].size, axis=0)
    codes[:, columns[1]] = tilings[1]
    for y, tiling in enumerate(tilings[0]):
        codes[:, columns[0]] = tiling
        edp[y] = model.evaluate(space, codes).edp
    y, x = (
        int(np.flatnonzero(tiling == code[column])[0])
        for tiling, column in zip(tilings, columns, strict=True)
    )
    start, factors = space.tables.row_start, space.tables.factors
    return Surface(
        dimensions,
        (factors[start[columns[0]] + tilings[0]], factors[start[columns[1]] + tilings[1]]),
        edp / algorithmic_minimum(space.workload, space.accelerator).edp,
        (y, x),
    )


def check_dimensions(space: MapSpace, dimensions: tuple[str, str]) -> None:
    """Refuses what is not two different dimensions of a workload.

    Raises:
        ConfigError: they are not.
    """
    names = space.workload.dimension_names
    if len(set(dimensions)) != 2 or not set(dimensions) <= set(names):
        raise ArgumentError(
            "surface",
            f": expected two of {space.workload.name}'s dimensions ({', '.join(names)}) such as "
            f"{names[0]},{names[1]}, got {','.join(dimensions)}.",
        )


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


def _sorted_tilings(space: MapSpace, dimension: int) -> IntArray:
    """The indices of a dimension's factorisations, sorted from the innermost slot outwards."""
    start = space.tables.row_start
    factors = space.tables.factors[start[dimension] : start[dimension + 1]]
    # The last key is the first to sort by.
    order: IntArray = np.lexsort(factors.T)
    return order
