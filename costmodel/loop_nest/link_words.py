"""Compiled: words that pass a network on which neighbours may hand words to each other.

Letters: L levels, T tensors.
"""

from __future__ import annotations

from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import NestTables
from costmodel.compiled import part
from costmodel.loop_nest.link_transfers import Links
from costmodel.loop_nest.spatial_groups import multicast_groups
from costmodel.loop_nest.temporal_reuse import box_words, words_entering


@part
def takes_part(
    scratch: Scratch,
    level: int,
    t: int,
) -> bool:
    """Whether the instances of a level, or the MACs, hand words of tensor t to each other."""
    return level == scratch.above.size or scratch.kept[level, t] > 0


@part
def words_served(
    scratch: Scratch,
    links: Links,
    level: int,
    t: int,
    through: int,
) -> int:
    """Words of tensor t that one instance of a level delivers into the network below it.

    Where the children do not keep the tensor, as many as the `through` words of each child need.
    """
    delivered: int = links.words[0]
    if takes_part(scratch, level + 1, t):
        return delivered
    return int(float(delivered) * through * scratch.spread[level] / links.words[1])


@part
def words_arrived(
    scratch: Scratch,
    links: Links,
    level: int,
    t: int,
) -> tuple[int, int]:
    """Words of tensor t that enter one instance of a level, and those that it hands on.

    Timeloop spreads what one network hands on over all instances of the level, those of other
    networks too. It cuts off the sum of what enters, class by class, and rounds what is handed on.
    """
    instances = scratch.above[level]
    children = instances // scratch.above[level - 1]
    arrived = 0.0
    for i in range(links.found[0]):
        arrived += links.classes[i, 2] * links.classes[i, 0] / children
    if not scratch.kept[level, t]:
        return int(arrived), 0
    handed = links.words[2] / instances
    return int(arrived + handed), int(handed + 0.5)


@part
def words_of_all(
    tables: NestTables,
    scratch: Scratch,
    level: int,
    t: int,
    through: int,
    delivered: int,
) -> int:
    """As `words_served` where children hand on nothing, of `delivered` words that enter a child.

    Counted in the same order: what floating-point numbers round is rounded alike.
    """
    groups = 1
    if scratch.spread[level] > 1:
        groups = multicast_groups(tables, scratch, t, level)
    words: int = delivered * groups
    if takes_part(scratch, level + 1, t):
        return words
    arrived = delivered * scratch.spread[level]
    return int(float(words) * through * scratch.spread[level] / arrived)


@part
def words_of_each(
    tables: NestTables,
    scratch: Scratch,
    level: int,
    t: int,
    loops: int,
) -> int:
    """As `words_arrived` where children hand on nothing."""
    words = scratch.tile[level, t]
    if not scratch.kept[level, t]:
        words = box_words(tables, scratch, t, tables.temporal_slot[level])
    entering = words_entering(tables, scratch, t, level, words, loops)
    children = scratch.spread[level - 1]
    groups = 1
    if children > 1:
        groups = multicast_groups(tables, scratch, t, level - 1)
    return int(float(entering * groups) * (children // groups) / children)
