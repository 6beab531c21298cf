"""What the compiled proof passes from function to function, besides its working memory.

Letters: n dimensions, K outer keep sets, V spatial vectors, X axes of all tensors.
"""

from __future__ import annotations

from typing import NamedTuple

from costmodel.arrays.tables import Array
from costmodel.compiled.by_reference import by_reference
from costmodel.exact.problem import ProofTables


@by_reference
class OuterTables(NamedTuple):
    """Least cost of everything above the shared buffer, by what the tile must be a multiple of."""

    loose: Array
    """`[cells of all axes]` credit tables over every split of the loops
    (`costmodel.exact.traffic_bounds`): products of trip counts."""
    outer: Array
    """`[cells of all axes]` credit tables of DRAM's loops alone."""
    energy: Array
    """`[K, cells]` least energy (units) of the words that enter any tile of the shared buffer that
    is a multiple of the cell's; INFINITE where none fits."""
    words: Array
    """`[K, cells]` likewise the least words; `[K, 0]` without bandwidth limits."""


@by_reference
class Vectors(NamedTuple):
    """Spatial vectors, each with a place on the mesh where that matters."""

    factor: Array
    """`[V, n]` spatial factors."""
    at: Array
    """`[V, n]` their positions among the divisors."""
    elements: Array
    """`[V]` elements in use."""
    reduction: Array
    """`[V]` elements that add to one output word."""
    order: Array
    """`[V]` index of the order of the spatial loops."""
    axes: Array
    """`[V]` dimensions along the mesh's height, as bits."""


@by_reference
class Problem(NamedTuple):
    """All that a proof reads."""

    tables: ProofTables
    """The map space."""
    outer: OuterTables
    """The least cost above the shared buffer."""
    vectors: Vectors
    """The ways to spread the dimensions over the elements."""


class Unit(NamedTuple):
    """A unit of work: a spatial vector, with the tensors that the element buffers keep."""

    vector: int
    """Index among the spatial vectors."""
    inner_set: int
    """The tensors that the element buffers keep, as bits."""
    cycles: int
    """Compute cycles: the MACs of one element."""
    elements: int
    """Elements in use."""
    reduction: int
    """Elements that add to one output word."""
    first_time: int
    """Output words that an element produces, which it need not read the first time."""
