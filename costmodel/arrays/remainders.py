"""Loops whose last pass is shorter: Timeloop's remainders, as tables and as working memory.

A loop of factor f and remainder r runs f times, and r times in the globally last iteration of its
dimension (`shared/reference`, section 3; Ruby). A dimension is *in its last pass* where all loops
over it further out are in their last iteration; that is all that a loop further in must know.

Letters: n dimensions, S slots, L levels, T tensors, K temporal loops, F sets of dimensions in their
last pass, A axes of a tensor, C classes of multicasts, Q kinds of instances.
"""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple

import numpy as np

from costmodel.arrays.imperfect_tilings import block_extents, last_passes
from costmodel.arrays.projections import PART_BY_SPREAD
from costmodel.arrays.scratch import most_children, most_classes
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled.by_reference import by_reference, read_by_reference
from costmodel.costs import FloatArray
from mapspace.errors import ConfigError

_latest = threading.local()


@read_by_reference
class Remainders(NamedTuple):
    """What imperfect factorisations have beyond `NestTables`.

    There `within` is the extent of a slot's block where it is largest; here rests `[rows, S]` is
    how often a loop runs in the last pass, and last `[rows, S + 1]` the extent of the block then.
    """

    rests: Array
    last: Array


def fold_remainders(factors: Array, rests: Array) -> tuple[Array, Remainders]:
    """Extents of the blocks of factors `[rows, S]` with remainders `[rows, S]`.

    Returns:
        within `[rows, S + 1]`, the largest extent that a block is seen with; and the remainders.
    """
    within, last = block_extents(factors, rests)
    return within, Remainders(rests, last)


def remainders_of(tables: NestTables) -> Remainders:
    """The remainders of the factorisations of a space: the digits of what they factorise."""
    rests = [
        last_passes(int(size), tables.factors[first:end])
        for size, (first, end) in zip(
            tables.sizes, itertools.pairwise(tables.row_start), strict=True
        )
    ]
    return fold_remainders(tables.factors, np.concatenate(rests))[1]


def check_true_counting(tables: NestTables) -> None:
    """Refuses tables whose mappings with remainders nobody knows how to count element by element.

    Raises:
        ConfigError: a network costs energy, or an output has an axis that is no plain dimension.
    """
    machine = tables.machine
    if tables.hop_energy.any() or machine.router.any() or machine.ingress.any():
        raise ConfigError(
            "counting: true is for machines whose networks cost no energy: which children share a "
            "word, and how far they lie apart, changes from pass to pass; expected hop_energy_pj, "
            "router_pj and ingress_pj of 0, or counting: timeloop."
        )
    if (tables.part_kind == PART_BY_SPREAD).any():
        raise ConfigError(
            "counting: true is for outputs whose axes are one dimension each; expected such, or "
            "counting: timeloop."
        )


def check_no_array(tables: NestTables) -> None:
    """Refuses machines whose arrays or tiles take cycles: remainders are not counted there.

    Raises:
        ConfigError: there are such cycles.
    """
    if tables.machine.turning or tables.machine.asking:
        said = "array: passes" if tables.machine.turning else "startup, buffering: tiles"
        raise ConfigError(
            f"{said} are counted with perfect factors, not with remainders; expected factors: "
            "perfect, or a machine without them."
        )


@by_reference
class WalkScratch(NamedTuple):
    """Working memory of the pass over imperfect mappings.

    Temporal loops, outermost first, as dimension, full, rest, step and level `[K]`; upto `[L + 1]`
    the number of loops outside a level; steady `[L]` 1 where all of these run twice and more. Sets
    of dimensions are bits of those with remainders: bit `[n]` a dimension's, 0 if it has none;
    spread `[L]` 1 where a level fans out; cleared `[L]` those that a level's first child never has
    in their last pass; idle `[L]` those of which the level has fewer children in the last pass;
    even `[1]` 1 where there are none;
    forced and matters `[K + 1]`, per loop those in their last pass in any case, and those that
    make a difference further in.

    Of the visits of a tile: low and width `[F, A]`, volume `[F]` of the box; many `[K + 1, F]` 1
    where a nest of loops visits it more than once; first and end `[K + 1, F]` the sets at the first
    and last visit; shift `[K + 1, F, A]` of the last; second `[K + 1, F, A]` the first
    displacement; words, leaves `[K + 1, F, 3]` and moved `[K + 1, F, 3, A]`: words entering after
    the first visit and how the nest is left, for three ways to enter it; state, move, here and
    there `[A]`.

    Per level and tensor: found `[L]` and classes `[L, C, 4]` children of a group, groups, accesses,
    hops; children and place `[n]`; runs and
    counted `[n, 2]`; share `[L]` and total `[L]`.

    Where elements are counted one by one (`loop_nest.true_counting`): kinds `[n]` of instances per
    dimension, with passes and short `[n, Q]`, how often their tile moves along it and whether it
    ends shorter, and length and leads `[n, Q, L]`, how many children of every fan-out are of the
    kind and whether the first is; chosen `[n]` kinds; working `[L]` instances with work; busiest
    `[3, L, T]` counts of the first instance; came `[A]`.
    """

    dimension: Array
    full: Array
    rest: Array
    step: Array
    level: Array
    upto: Array
    even: Array
    steady: Array
    bit: Array
    spread: Array
    cleared: Array
    idle: Array
    forced: Array
    matters: Array
    low: Array
    width: Array
    volume: Array
    many: Array
    first: Array
    end: Array
    shift: Array
    second: Array
    words: Array
    leaves: Array
    moved: Array
    state: Array
    move: Array
    here: Array
    there: Array
    found: Array
    classes: FloatArray
    children: Array
    place: Array
    runs: Array
    counted: Array
    share: FloatArray
    total: FloatArray
    kinds: Array
    passes: Array
    short: Array
    length: Array
    leads: Array
    chosen: Array
    working: Array
    busiest: Array
    came: Array


def make_walk(tables: NestTables, remainders: Remainders) -> WalkScratch:
    """Working memory for the mappings of some tables."""
    n, levels = tables.sizes.size, tables.capacity.size
    uneven = (remainders.rests != tables.factors).any(axis=1)
    starts = tables.row_start
    imperfect = sum(bool(uneven[a:b].any()) for a, b in itertools.pairwise(starts))
    loops, sets = n * levels, 1 << imperfect
    axes = max(1, int(np.diff(tables.axis_start).max()))
    children = most_classes(most_children(tables))

    def integers(*shape: int) -> Array:
        return np.zeros(shape, np.int64)

    return WalkScratch(
        dimension=integers(loops),
        full=integers(loops),
        rest=integers(loops),
        step=integers(loops),
        level=integers(loops),
        upto=integers(levels + 1),
        even=integers(1),
        steady=integers(levels),
        bit=integers(n),
        spread=integers(levels),
        cleared=integers(levels),
        idle=integers(levels),
        forced=integers(loops + 1),
        matters=integers(loops + 1),
        low=integers(sets, axes),
        width=integers(sets, axes),
        volume=integers(sets),
        many=integers(loops + 1, sets),
        first=integers(loops + 1, sets),
        end=integers(loops + 1, sets),
        shift=integers(loops + 1, sets, axes),
        second=integers(loops + 1, sets, axes),
        words=integers(loops + 1, sets, 3),
        leaves=integers(loops + 1, sets, 3),
        moved=integers(loops + 1, sets, 3, axes),
        state=integers(axes),
        move=integers(axes),
        here=integers(axes),
        there=integers(axes),
        found=integers(levels),
        classes=np.zeros((levels, children * sets, 4)),
        children=integers(n),
        place=integers(n),
        runs=integers(n, 2),
        counted=integers(n, 2),
        share=np.zeros(levels),
        total=np.zeros(levels),
        kinds=integers(n),
        passes=integers(n, 2 * levels + 2),
        short=integers(n, 2 * levels + 2),
        length=integers(n, 2 * levels + 2, levels),
        leads=integers(n, 2 * levels + 2, levels),
        chosen=integers(n),
        working=integers(levels),
        busiest=integers(3, levels, tables.sliding.size),
        came=integers(axes),
    )


def walk_of(tables: NestTables, remainders: Remainders) -> WalkScratch:
    """This thread's working memory for a space; what it held before is overwritten.

    Raises:
        ConfigError: as `check_no_array`.
    """
    check_no_array(tables)
    made: tuple[NestTables, WalkScratch] | None = getattr(_latest, "made", None)
    if made is None or made[0] is not tables:
        made = _latest.made = (tables, make_walk(tables, remainders))
    return made[1]
