"""Link transfers in bounds: what words cost at least where neighbours hand them to each other.

A neighbour hands on what it got at the visit before, so that the instance outside delivers less.
Where a child's words never are those that a neighbour had, everything costs what it costs without.
That is so wherever a tensor is indexed without windows (each of its axes by one dimension): loops
over a dimension step over all that the children hold of it, so that a tile that moves is nobody's.
Of tiles that rest nothing enters, but for the MACs: they take their operands in every step, and
those that share one with a neighbour get it from there as long as it rests. So the MACs of a
machine are a level of its own to bounds, whose tiles are one point: what rests in it is free. A
tensor with windows may get everything from neighbours, but for what its first visit brings, which
is not counted (lemma 19 of docs/inside/proof-any-levels.md).

Letters: B assignments, L levels, n dimensions, T tensors.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.machines.levels import Level
from costmodel.map_space.constraints import Constraints, LoopRules
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.tiles import FloatArray

Flags = npt.NDArray[np.bool_]

_operands: WeakKeyDictionary[MapSpace, bool] = WeakKeyDictionary()


def with_operands(space: MapSpace) -> MapSpace:
    """A map space for bounds: where MACs share words, they are a level of tiles of one point.

    Args:
        space: of a machine with link transfers, of one order.

    Returns:
        Its codes are none of the space's; the space itself where its MACs share nothing.
    """
    machine = space.accelerator
    if not machine.link_transfers or machine.levels[-1].fanout == 1:
        return space
    name = "operands"
    while name in machine.level_names:
        name += "'"
    innermost = Level.model_validate({"name": name, "energy_pj": 0.0, "capacity_words": 1 << 20})
    levels = (*machine.levels, innermost)
    whole = machine.model_copy(update={"levels": levels, "constraints": ()})
    rules, everything = space.constraints, (1 << space.tables.sliding.size) - 1
    if rules is not None:
        rules = _beside(rules, everything)
    found = MapSpace(space.workload, whole, rules)
    tables = found.tables
    capacity, always = tables.capacity.copy(), tables.machine.always_kept.copy()
    # What one point needs of everything, so that no other tile fits.
    capacity[-1], always[-1] = tables.machine.room[-1].sum(), everything
    found.tables = tables._replace(
        capacity=capacity, machine=tables.machine._replace(always_kept=always)
    )
    _operands[found] = True
    return found


def _beside(rules: Constraints, everything: int) -> Constraints:
    """Constraints with those of a level that keeps everything and has no loops."""
    ones = (1,) * len(rules.sizes)
    return replace(
        rules,
        temporal=(*rules.temporal, LoopRules(ones, ones)),
        spatial=(*rules.spatial, None),
        keep=(*rules.keep, everything),
        bypass=(*rules.bypass, 0),
        wide=(*rules.wide, 0) if rules.wide else (),
        tall=(*rules.tall, 0) if rules.tall else (),
    )


def has_links(space: MapSpace) -> bool:
    """Whether words of a map space's machine may be handed on at all."""
    return space.accelerator.link_transfers and bool((space.tables.fanout > 1).any())


@lru_cache(maxsize=64)
def _windowed(terms: bytes, dimensions: bytes, starts: bytes, sizes: bytes) -> tuple[bool, ...]:
    """`[T]` whether a tensor has an axis of several dimensions that have more than one place."""
    term_start, axis_start = (np.frombuffer(array, np.int64) for array in (terms, starts))
    moving = np.frombuffer(sizes, np.int64)[np.frombuffer(dimensions, np.int64)]
    several = [(moving[a:b] > 1).sum() > 1 for a, b in itertools.pairwise(term_start.tolist())]
    return tuple(any(several[a:b]) for a, b in itertools.pairwise(axis_start.tolist()))


def windowed(space: MapSpace) -> tuple[bool, ...]:
    """`[T]` whether tensors have windows: what neighbours hand on of them is not known."""
    t = space.tables
    arrays = (t.term_start, t.term_dimension, t.axis_start, t.sizes)
    return _windowed(*(array.astype(np.int64).tobytes() for array in arrays))


def handed_on(space: MapSpace, spatial: Array) -> Flags:
    """`[B, L, T]` where it is not known how much of a tensor neighbours hand on.

    Args:
        space: the map space.
        spatial: `[B, L, n]` spatial factors below every level.
    """
    found = np.zeros((*spatial.shape[:2], space.tables.sliding.size), np.bool_)
    if has_links(space):
        found[:] = (spatial > 1).any(axis=2, keepdims=True) & np.array(windowed(space))
    return found


def let_rest(space: MapSpace, spatial: Array, weight: FloatArray) -> FloatArray:
    """Makes of words that enter the MACs' level those that MACs take in every step.

    That is what tensors cost of which no two MACs share a word: they do not rest there.

    Args:
        space: the map space; others than those of `with_operands` have no such level.
        spatial: `[B, L, n]` spatial factors below every level.
        weight: `[..., B, L + 1, T]` what a word costs; changed.

    Returns:
        `[..., B, T]` what is counted per step now.
    """
    if space not in _operands:
        return np.zeros((*weight.shape[:-2], weight.shape[-1]))
    spread = spatial[:, -2] > 1
    alone = np.array(
        [
            ~(spread & (space.tables.relevant[t] == 0)).any(axis=1)
            & ~(spread.any(axis=1) & several)
            for t, several in enumerate(windowed(space))
        ]
    ).T
    moved = np.where(alone, weight[..., -2, :], 0.0)
    weight[..., -2, :] -= moved
    weight[..., -1, :] += moved
    return moved
