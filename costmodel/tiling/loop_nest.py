"""The loop nest of a tiled matrix product: which loop stands where.

The one place that fixes it: what measures a tiling and what counts its traffic both read it here.
"""

from __future__ import annotations

from dataclasses import dataclass

DIMENSIONS = ("M", "K", "N")
"""In the order of the paper's states, `[s_m, s_k, s_n]`."""
SPLITS = (4, 2, 4)
"""Nested loops per dimension in the paper (section 5)."""


@dataclass(frozen=True)
class Loop:
    """One loop of the nest.

    Attributes:
        dimension: 0 M, 1 K, 2 N.
        depth: which of the dimension's loops, 0 the outermost.
        column: where its trip count stands in a row of factors m0 m1 .. k0 k1 .. n0 n1 ..
    """

    dimension: int
    depth: int
    column: int

    @property
    def name(self) -> str:
        """Such as `m0`."""
        return f"{DIMENSIONS[self.dimension].lower()}{self.depth}"


def loops(splits: tuple[int, int, int] = SPLITS) -> tuple[Loop, ...]:
    """All loops by column: m0 m1 .. k0 k1 .. n0 n1 ..

    Args:
        splits: nested loops of M, K and N.
    """
    found: list[Loop] = []
    for dimension, count in enumerate(splits):
        found += [Loop(dimension, depth, len(found) + depth) for depth in range(count)]
    return tuple(found)


def nest(splits: tuple[int, int, int] = SPLITS) -> tuple[Loop, ...]:
    """All loops, outermost first: m0 n0 m1 n1 k0 m2 n2 k1 m3 n3 for splits 4, 2, 4.

    Counted from the innermost, the i-th loops of the dimensions stand together, K outside M
    outside N. So the two innermost loops are an outer product whose results can stay in registers
    while the innermost K loop runs, and the last one, of N, walks along the rows of B and Z: it is
    the one to vectorise.

    Args:
        splits: nested loops of M, K and N.
    """
    outside_in = {"K": 0, "M": 1, "N": 2}
    return tuple(
        sorted(
            loops(splits),
            key=lambda loop: (
                loop.depth - splits[loop.dimension],
                outside_in[DIMENSIONS[loop.dimension]],
            ),
        )
    )
