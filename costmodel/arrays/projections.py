"""The tensors of an operation as integer arrays: which words a tile of the nest touches.

Letters: n dimensions, T tensors, X axes of all tensors, one tensor's after another's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.problems.affine import Workload

Array = npt.NDArray[np.int64]

ABSENT = -1

GROUPS_PER_DIMENSION = 0
GROUPS_PER_AXIS = 1
GROUPS_OF_VECTORS = 2
GROUPS_PER_CHILD = 3

PART_OF_INPUT = 0
PART_BY_DIVISION = 1
PART_BY_SPREAD = 2


class Projection(NamedTuple):
    """A tensor as the tables need it: axes of (dimension, coefficient) pairs, of either sign."""

    name: str
    axes: tuple[tuple[tuple[str, int], ...], ...]
    output: bool

    def words(self, dimensions: Mapping[str, int]) -> int:
        """Words of the bounding box of the whole tensor."""
        return math.prod(
            1 + sum(abs(factor) * (dimensions[name] - 1) for name, factor in axis)
            for axis in self.axes
        )


def projections_of(workload: Workload) -> tuple[Projection, ...]:
    """The tensors of a workload."""
    return tuple(
        Projection(tensor.name, tuple(axis.terms for axis in tensor.axes), tensor.output)
        for tensor in workload.tensors
    )


def projection_tables(
    dimensions: Mapping[str, int], tensors: Sequence[Projection]
) -> dict[str, Any]:
    """The fields of `NestTables` that are about dimensions and tensors.

    Terms over dimensions of size 1 are dropped: they never move.

    Args:
        dimensions: sizes by name.
        tensors: in the order of every array over tensors.
    """
    names = list(dimensions)
    relevant = np.zeros((len(tensors), len(names)), dtype=np.int64)
    axis_of = np.full((len(tensors), len(names)), ABSENT, dtype=np.int64)
    coefficient_of = np.zeros((len(tensors), len(names)), dtype=np.int64)
    sliding = np.zeros(len(tensors), dtype=np.int64)
    tangled = np.zeros(len(tensors), dtype=np.int64)
    part_kind = np.full(len(tensors), PART_OF_INPUT, dtype=np.int64)
    axis_start, term_start = [0], [0]
    terms: list[tuple[int, int]] = []
    rows: list[Array] = []
    for t, tensor in enumerate(tensors):
        whole = True
        for axis in tensor.axes:
            moving = [(names.index(name), c) for name, c in axis if dimensions[name] > 1]
            if not moving:
                continue
            sliding[t] |= len(moving) > 1
            whole = whole and len(moving) == 1 and abs(moving[0][1]) == 1
            row = np.zeros(len(names), dtype=np.int64)
            for d, coefficient in moving:
                tangled[t] |= relevant[t, d]
                relevant[t, d] = 1
                axis_of[t, d] = len(term_start) - 1 - axis_start[t]
                coefficient_of[t, d] = coefficient
                row[d] = coefficient
            rows.append(row)
            terms.extend(moving)
            term_start.append(len(terms))
        axis_start.append(len(term_start) - 1)
        if tensor.output:
            # Where every axis is one dimension, a part of the loops touches that part of the words.
            part_kind[t] = PART_BY_DIVISION if whole and not tangled[t] else PART_BY_SPREAD
    return {
        "sizes": np.array(list(dimensions.values()), dtype=np.int64),
        "relevant": relevant,
        "axis_start": np.array(axis_start, dtype=np.int64),
        "term_start": np.array(term_start, dtype=np.int64),
        "term_dimension": np.array([d for d, _ in terms], dtype=np.int64),
        "term_coefficient": np.array([abs(c) for _, c in terms], dtype=np.int64),
        "axis_of": axis_of,
        "coefficient_of": coefficient_of,
        "axis_coefficient": np.array(rows, dtype=np.int64).reshape(len(rows), len(names)),
        "sliding": sliding,
        "tangled": tangled,
        "part_kind": part_kind,
        "words": np.array([tensor.words(dimensions) for tensor in tensors], dtype=np.int64),
    }


def grouping_table(projected: Mapping[str, Any], apart: Array) -> Array:
    """How the distinct tiles among the children of a level are counted, `[L, T]`.

    Args:
        projected: what `projection_tables` returned.
        apart: `[L, 2]` 1 where a level serves every child by itself, of inputs and of outputs.
    """
    kinds = np.where(projected["sliding"] > 0, GROUPS_PER_AXIS, GROUPS_PER_DIMENSION)
    kinds = np.where(projected["tangled"] > 0, GROUPS_OF_VECTORS, kinds)
    outputs = (projected["part_kind"] != PART_OF_INPUT).astype(np.int64)
    # Else it lies as its parts happen to, and another order in memory is compiled once more.
    return np.ascontiguousarray(np.where(apart[:, outputs] > 0, GROUPS_PER_CHILD, kinds))
