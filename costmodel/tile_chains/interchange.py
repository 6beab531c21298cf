"""Dimensions that may change places: a mapping and its image then cost the same.

Of a convolution whose outputs and whose filters are as high as they are wide, rows and columns are
such (lemma 16 of docs/inside/proof-any-levels.md): of two spatial spreads that are each other's
image one need be looked at.

Letters: A spreads, L levels, n dimensions, V vectors.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.map_space.map_space import MapSpace

MOST_RENAMINGS = 5_040
"""Of operations with more renamings of dimensions alike none is looked for."""


def interchanges(space: MapSpace, vectors: Sequence[Array]) -> list[Array]:
    """The renamings `[n]` of dimensions that change nothing, but for the one that leaves all.

    Dimension d takes the place of the d-th one named; they are a group.

    Args:
        space: a map space of one order.
        vectors: per level `[V, n]` the spatial factors that may be.
    """
    if space.constraints is not None:
        return []
    sizes = space.tables.sizes.tolist()
    here = list(range(len(sizes)))
    axes = _axes(space, here)
    return [
        np.array(renamed)
        for renamed in _renamings(space)
        if renamed != here and _axes(space, renamed) == axes and _same(vectors, renamed)
    ]


def first_of_alike(spatial: Array, renamings: Sequence[Array]) -> npt.NDArray[np.bool_]:
    """`[A]` which of spatial factors `[A, L, n]` are to be looked at: of images the largest."""
    flat = spatial.reshape(len(spatial), math.prod(spatial.shape[1:]))
    chosen = np.ones(len(flat), np.bool_)
    for renamed in renamings:
        more = flat - spatial[:, :, renamed].reshape(flat.shape)
        first = (more != 0).argmax(axis=1)
        chosen &= np.take_along_axis(more, first[:, None], axis=1)[:, 0] >= 0
    return chosen


def _renamings(space: MapSpace) -> Iterator[list[int]]:
    """Renamings among dimensions of one size to which the machine does the same."""
    tables, machine = space.tables, space.tables.machine
    alike: dict[Hashable, list[int]] = {}
    for d, size in enumerate(tables.sizes.tolist()):
        named = np.stack([machine.barred, machine.only_x, machine.only_y])
        moved = tuple(tables.relevant[:, d].tolist())
        key = (size, moved, ((named >> d) & 1).tobytes()) if size > 1 else d
        alike.setdefault(key, []).append(d)
    if math.prod(math.factorial(len(dims)) for dims in alike.values()) > MOST_RENAMINGS:
        return
    for chosen in itertools.product(*map(itertools.permutations, alike.values())):
        renamed = list(range(tables.sizes.size))
        for dims, images in zip(alike.values(), chosen, strict=True):
            for d, image in zip(dims, images, strict=True):
                renamed[d] = image
        yield renamed


def _axes(space: MapSpace, renamed: Sequence[int]) -> list[Counter[Hashable]]:
    """The axes of every tensor, as sums of dimensions under other names, in any order."""
    tables = space.tables
    found: list[Counter[Hashable]] = []
    for t in range(tables.sliding.size):
        axes: Counter[Hashable] = Counter()
        for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
            terms = range(tables.term_start[axis], tables.term_start[axis + 1])
            dims = [int(tables.term_dimension[k]) for k in terms]
            steps = [int(tables.term_coefficient[k]) for k in terms]
            axes[
                frozenset(
                    (renamed[d], step)
                    for d, step in zip(dims, steps, strict=True)
                    if tables.sizes[d] > 1
                )
            ] += 1
        found.append(axes)
    return found


def _same(vectors: Sequence[Array], renamed: Sequence[int]) -> bool:
    """Whether every level spreads the same under other names."""
    return all(_rows(rows) == _rows(rows[:, list(renamed)]) for rows in vectors)


def _rows(vectors: Array) -> set[bytes]:
    """The rows of vectors `[V, n]`, each as bytes."""
    rows = np.ascontiguousarray(vectors)
    return set(rows.view(f"V{rows.itemsize * rows.shape[1]}")[:, 0].tolist())
