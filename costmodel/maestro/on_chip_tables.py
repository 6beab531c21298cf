"""Tables behind the on-chip space (pairs and moves), and its mappings as text.

Letters: N pairs of one dimension, E edits of one attribute.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.maestro.mappings import NONE, TILED, ClusterMappings, IntArray

MoveTable = npt.NDArray[np.int32]

PERMUTATIONS: IntArray = np.array(list(itertools.permutations(range(len(TILED)))), np.int64)
"""`[24, 4]` permutations of the tiled dimensions in lexicographic order."""
RANKS: IntArray = np.argsort(PERMUTATIONS, axis=1)
"""`[24, 4]` the place of every dimension in them."""


def tile_pairs(bound: int, remainders: bool) -> IntArray:
    """`[N, 2]` (level-1 tile, parallel factor), ascending.

    Args:
        bound: of the dimension.
        remainders: also pairs whose product does not divide the bound, as long as every
            processing element has work.
    """
    pairs = [
        (tile, factor)
        for tile in range(1, bound + 1)
        for factor in range(1, -(-bound // tile) + 1)
        if remainders or bound % (tile * factor) == 0
    ]
    return np.array(pairs, np.int64)


def move_tables(pairs: Sequence[IntArray]) -> tuple[MoveTable, ...]:
    """Per attribute `[N, E]`: the value that an edit leads to, -1 where there is none."""
    swaps = _swap_table()
    return (*(_pair_table(rows) for rows in pairs), swaps, swaps)


def _pair_table(pairs: IntArray) -> MoveTable:
    """Edits of a pair: next smaller or larger tile, factor; tile to factor, factor to tile."""
    table = np.full((len(pairs), 7), -1, np.int32)
    table[:, 0] = np.arange(len(pairs))
    product = pairs[:, 0] * pairs[:, 1]
    # Along a line of equal `fixed`, sorted by `along`: the one before and the one behind.
    lines = (
        (pairs[:, 1], pairs[:, 0], 1),
        (pairs[:, 0], pairs[:, 1], 3),
        (product, pairs[:, 0], 5),
    )
    for fixed, along, edit in lines:
        ranked = np.lexsort((along, fixed))
        joined = fixed[ranked[1:]] == fixed[ranked[:-1]]
        before, behind = ranked[:-1][joined], ranked[1:][joined]
        table[behind, edit] = before
        table[before, edit + 1] = behind
    return table


def _swap_table() -> MoveTable:
    """`[24, 7]` edits of a permutation: per pair of dimensions, swap their places."""
    number = {tuple(row): index for index, row in enumerate(PERMUTATIONS.tolist())}
    table = np.full((len(PERMUTATIONS), 7), -1, np.int32)
    table[:, 0] = np.arange(len(PERMUTATIONS))
    for row, order in enumerate(PERMUTATIONS.tolist()):
        for edit, (a, b) in enumerate(itertools.combinations(range(len(TILED)), 2), start=1):
            swapped = {a: b, b: a}
            table[row, edit] = number[tuple(swapped.get(d, d) for d in order)]
    return table


@dataclass(frozen=True)
class OnChipMapping:
    """A mapping of a level-3 tile for people.

    Attributes:
        order: the loops over level-1 tiles, outermost first.
        tile: level-1 tile by dimension.
        trips: array tiles by dimension.
        parallel: (dimension, factor), outermost cluster first.
        row_stationary: whether every cluster holds one processing element per filter row.
    """

    order: tuple[str, ...]
    tile: dict[str, int]
    trips: dict[str, int]
    parallel: tuple[tuple[str, int], ...]
    row_stationary: bool = False

    @property
    def family(self) -> str:
        """The parallel dimensions in the order of `TILED`, such as `KC`; `none` if there are none.

        A row-stationary mapping is `QR`.
        """
        if self.row_stationary:
            return "QR"
        return family_of({name for name, _ in self.parallel})

    def __str__(self) -> str:
        indent, lines = "", []
        for name in self.order:
            if self.trips[name] > 1:
                lines.append(f"{indent}for {name} in {self.trips[name]}")
                indent += "  "
        for name, factor in self.parallel:
            lines.append(f"{indent}parallel {name} over {factor}")
            indent += "  "
        if self.row_stationary:
            lines.append(f"{indent}parallel R, one row each")
            indent += "  "
        sizes = ", ".join(f"{name}={size}" for name, size in self.tile.items())
        return "\n".join([*lines, f"{indent}level-1 tile {sizes}"])


def family_of(names: set[str]) -> str:
    """What mappings with these parallel dimensions are called."""
    return "".join(name for name in TILED if name in names) or "none"


def describe_row(mappings: ClusterMappings, row: int) -> OnChipMapping:
    """One mapping of a batch for people; clusters of a single sub-cluster are left out."""
    m, row = mappings.rows(slice(row, row + 1)), 0
    array_tile = (m.tile * m.spread)[row]
    return OnChipMapping(
        order=tuple(TILED[d] for d in m.order[row].tolist()),
        tile=dict(zip(TILED, m.tile[row].tolist(), strict=True)),
        trips={
            name: -(-int(bound) // int(size))
            for name, bound, size in zip(TILED, m.tiled_bounds[row], array_tile, strict=True)
        },
        parallel=tuple(
            (TILED[d], factor)
            for d, factor in zip(
                m.parallel_dims[row].tolist(), m.parallel_factors[row].tolist(), strict=True
            )
            if d != NONE and factor > 1
        ),
        row_stationary=bool(m.row_stationary[row]),
    )
