"""What the proof needs of one order of buffers side by side; of the map space where none is."""

from __future__ import annotations

from typing import NamedTuple

from costmodel.compiled.laid_out import laid_out
from costmodel.exact_any.assignments import Spreads
from costmodel.exact_any.leaves import Leaves
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.credits import Credits
from costmodel.tile_chains.rules import Decision, Rules
from costmodel.tile_chains.shape import Shape, build_shape
from costmodel.tile_chains.tiles import Lattice


class OneOrder(NamedTuple):
    """An order: its number, its map space, and what bounds and searches read of it.

    With link transfers the MACs may be a level of that space (`tile_chains.links`); codes are
    without.
    """

    number: int
    space: MapSpace
    rules: Rules
    shape: Shape
    leaves: Leaves
    lattice: Lattice
    spreads: Spreads
    credits: Credits


def lay_out(
    number: int, space: MapSpace, without: Decision | None, *, each: bool = False,
    real: MapSpace | None = None,
) -> OneOrder:  # fmt: skip
    """Lays out the map space of an order.

    Args:
        number: of the order.
        space: its map space.
        without: what no mapping may decide; None: all are left.
        each: whether tilings that cost the same as another one are looked at.
        real: the space that codes are of; None: the same.
    """
    rules, shape = Rules(space, without), build_shape(space)
    if each:
        shape = shape._replace(exchanges=0)
    shape = laid_out(shape)
    leaves, lattice = Leaves(space, shape, rules, real), Lattice(space, shape, rules)
    spreads = Spreads(space, rules, each=each)
    return OneOrder(number, space, rules, shape, leaves, lattice, spreads, Credits(shape))
