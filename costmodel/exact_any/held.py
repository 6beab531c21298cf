"""The tables of the groups of assignments that were bounded last."""

from __future__ import annotations

from costmodel.exact_any.layout import OneOrder
from costmodel.exact_any.runs import levels_outside
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tables import ChainTables, turn_all_to

MOST_HELD = 30_000
"""Tables of several groups are held if they have no more cells in all."""


def is_large(shape: Shape) -> bool:
    """Whether there is room for the tables of one group alone, which may serve others as well."""
    return shape.cells > MOST_HELD and not shape.pair_one.size


class HeldTables:
    """Tables by group; those used longest ago make room for new ones."""

    def __init__(self) -> None:
        """Holds none."""
        self._held: dict[int, list[ChainTables]] = {}

    def of(
        self, one: OneOrder, group: int, keeps: tuple[int, ...], *, alone: bool
    ) -> list[ChainTables]:
        """The tables of a group of assignments.

        Args:
            one: the order of buffers.
            group: the number of the group.
            keeps: `[L]` its kept tensors, as bits.
            alone: whether its order has no other group.
        """
        if group in self._held:
            self._held[group] = self._held.pop(group)
            return self._held[group]
        held: list[ChainTables] = []
        while len(self._held) >= max(1, MOST_HELD // one.shape.cells):
            held = self._held.pop(next(iter(self._held)))
        if held and held[0].may_serve(one.shape):
            turn_all_to(held, one.lattice, keeps)
        else:
            held.clear()  # make room first
            outside = levels_outside(one) if is_large(one.shape) and not alone else 0
            tiles = one.lattice.tiles(keeps)
            held = [ChainTables(one.shape, tiles, keeps, one.credits, outside=outside)]
        self._held[group] = held
        return held
