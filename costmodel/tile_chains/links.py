"""Link transfers in bounds: what words cost at least where neighbours hand them to each other.

A neighbour hands on what it got at the visit before, so that the instance outside delivers less.
Where a child's words never are those that a neighbour had, everything costs what it costs without.
That is so wherever a tensor is indexed without windows (each of its axes by one dimension): loops
over a dimension step over all that the children hold of it, so that a tile that moves is nobody's.
Of tiles that rest nothing enters, but for the MACs: they take their operands in every step, and
those that share one with a neighbour get it from there as long as it rests. So the MACs of a
machine are a level of its own to bounds, whose tiles are one point: what rests in it is free. A
tensor with windows may have neighbours' words in every step; of them `Handed` says the least that
is delivered (lemma 19 of docs/inside/proof-any-levels.md).

Letters: B assignments, L levels, n dimensions, T tensors.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple
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


class Axis(NamedTuple):
    """An axis of a tensor: its dimensions that have more than one place."""

    dimensions: tuple[int, ...]

    @property
    def slides(self) -> bool:
        """Whether it is one of a window."""
        return len(self.dimensions) > 1


_axes: WeakKeyDictionary[MapSpace, list[list[Axis]]] = WeakKeyDictionary()


def axes_of(space: MapSpace) -> list[list[Axis]]:
    """`[T]` the axes of every tensor."""
    if space not in _axes:
        t = space.tables
        moving = [
            Axis(tuple(d for d in t.term_dimension[a:b].tolist() if t.sizes[d] > 1))
            for a, b in itertools.pairwise(t.term_start.tolist())
        ]
        _axes[space] = [moving[a:b] for a, b in itertools.pairwise(t.axis_start.tolist())]
    return _axes[space]


def windowed(space: MapSpace) -> list[bool]:
    """`[T]` whether tensors have windows: what neighbours hand on of them is not known."""
    return [any(axis.slides for axis in axes) for axes in axes_of(space)]


class Handed(NamedTuple):
    """Where neighbours may hand on words of a tensor, and what is delivered to them at least.

    may `[B, L, T]`; kept `[B, L, T]` children of an instance with tiles of their own that it
    delivers to at least, in the mean over all steps, where the children keep the tensor; passed
    `[B, L, T]` where they do not.
    """

    may: Flags
    kept: FloatArray
    passed: FloatArray

    def share(self, counts: Array, keeps: tuple[int, ...], child: int, t: int) -> FloatArray:
        """`[B]` the share that is delivered at least of the words that enter a level's tile.

        Args:
            counts: `[B, L, T]` children with tiles of their own.
            keeps: `[L]` kept tensors of every level, as bits.
            child: the level, or the MACs; it keeps the tensor.
            t: the tensor.
        """
        found = np.minimum(1, self.kept[:, child - 1, t] / counts[:, child - 1, t])
        found = np.where(self.may[:, child - 1, t], found, 1)
        return np.asarray(found * self.passing(counts, keeps, child, t))

    def passing(self, counts: Array, keeps: tuple[int, ...], child: int, t: int) -> FloatArray:
        """As `share`, of what passes by the levels on the way from the one that keeps it."""
        found = np.ones(len(counts))
        for level in range(child - 1, -1, -1):
            if keeps[level] >> t & 1:
                break
            outside = level - 1
            share = np.minimum(1, self.passed[:, outside, t] / counts[:, outside, t])
            found *= np.where(self.may[:, outside, t], share, 1)
        return found


def handed_on(space: MapSpace, spatial: Array) -> Handed | None:
    """What neighbours may hand on under assignments; None where they hand on nothing.

    Args:
        space: the map space.
        spatial: `[B, L, n]` spatial factors below every level.
    """
    slides = windowed(space)
    if not has_links(space) or not any(slides):
        return None
    shape = *spatial.shape[:2], len(slides)
    found = Handed(np.zeros(shape, np.bool_), np.ones(shape), np.ones(shape))
    spread = spatial > 1
    for t in np.flatnonzero(slides).tolist():
        axes = axes_of(space)[t]
        # Neighbours have each other's words where both hold the same, or lie along a window.
        shared = spread[..., space.tables.relevant[t] == 0].any(axis=2)
        along = [d for axis in axes if axis.slides for d in axis.dimensions]
        found.may[..., t] = shared | spread[..., along].any(axis=2)
        listed = [d for axis in axes for d in axis.dimensions]
        if len(set(listed)) < len(listed):
            continue  # a dimension of two axes
        # Along an axis children are apart by each of its loops at least.
        apart = np.array([spatial[..., axis.dimensions].max(axis=2, initial=1) for axis in axes])
        found.passed[..., t] = apart.prod(axis=0)
        others = [
            np.delete(apart, place, axis=0).prod(axis=0)
            for place, axis in enumerate(axes)
            if axis.slides
        ]
        # The loop inside all others that moves the tile takes its further steps in all rounds but
        # one, along one axis: what lies furthest along it is nobody's there.
        fewest = min(_smallest_factor(int(space.tables.sizes[d])) for d in along)
        found.kept[..., t] = np.min(others, axis=0) * (1 - 1 / fewest)
    return found if found.may.any() else None


@lru_cache(maxsize=1024)
def _smallest_factor(size: int) -> int:
    return next(factor for factor in range(2, size + 1) if size % factor == 0)


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
    spread, handed = spatial[:, -2] > 1, handed_on(space, spatial)
    alone = np.array(
        [~spread[:, relevant == 0].any(axis=1) for relevant in space.tables.relevant]
    ).T
    if handed is not None:
        alone &= ~handed.may[:, -2]
    moved = np.where(alone, weight[..., -2, :], 0.0)
    weight[..., -2, :] -= moved
    weight[..., -1, :] += moved
    return moved
