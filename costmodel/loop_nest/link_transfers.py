"""Compiled: words that the children of an instance hand to their neighbours.

Timeloop's rule. It visits a fan-out once for every combination of the first and the second
iteration of the temporal loops outside. A child whose new words are those that a neighbour on the
mesh got at the visit before takes them from there, and the instance delivers to the other children
only; unless that takes no delivery off it. What a visit brings depends on two things only: the
innermost loop that steps forward at it, and the one that did so at the visit before. So kinds of
visits are counted, not visits.

Letters: n dimensions, L levels, C classes of multicasts, E children, A axes of a tensor, V kinds of
visits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.feasibility import axis_extent
from costmodel.arrays.scratch import Scratch, most_children, most_classes
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import part
from costmodel.compiled.by_reference import by_reference
from costmodel.loop_nest.networks import count_classes, sort_children, spatial_index
from costmodel.space import Codes


@by_reference
class Links(NamedTuple):
    """Working memory of link transfers.

    loops: all temporal loops, innermost first, as dimension, trips, step `[n * L]` and outer
    `[n * L + 1]`, with start `[L + 1]`, the first loop outside a level's tile, or the MACs'.
    classes `[C, 4]` children per group, groups, words to deliver and hops, over the whole run;
    found `[1]` how many; words `[3]` delivered, arrived at children, and passed among them.
    offset `[E, A]` displacement of a child; move `[A]` displacement from one visit to the next;
    windows `[T]` 1 where a tensor has an axis of several dimensions, or a dimension of two axes.
    """

    dimension: Array
    trips: Array
    step: Array
    outer: Array
    start: Array
    classes: npt.NDArray[np.float64]
    found: Array
    words: Array
    offset: Array
    move: Array
    windows: Array


def most_link_classes(tables: NestTables) -> int:
    """Classes that one network may have with link transfers: those of every kind of visit."""
    loops = tables.sizes.size * tables.capacity.size
    return 2 * (loops + 1) * most_classes(most_children(tables))


def make_links(tables: NestTables) -> Links:
    """Working memory for a map space."""
    n, levels = tables.sizes.size, tables.capacity.size
    axes = max(1, int(np.diff(tables.axis_start).max(initial=0)))
    return Links(
        dimension=np.zeros(n * levels, np.int64),
        trips=np.zeros(n * levels, np.int64),
        step=np.zeros(n * levels, np.int64),
        outer=np.zeros(n * levels + 1, np.int64),
        start=np.zeros(levels + 1, np.int64),
        classes=np.zeros((most_link_classes(tables), 4)),
        found=np.zeros(1, np.int64),
        words=np.zeros(3, np.int64),
        offset=np.zeros((most_children(tables), axes), np.int64),
        move=np.zeros(axes, np.int64),
        windows=np.array([_has_windows(tables, t) for t in range(tables.sliding.size)], np.int64),
    )


def _has_windows(tables: NestTables, t: int) -> bool:
    """Whether neighbours may hand on words of a tensor that moves."""
    if tables.tangled[t]:
        return True
    sizes = tables.sizes[tables.term_dimension]
    axes = range(tables.axis_start[t], tables.axis_start[t + 1])
    starts = tables.term_start
    return any((sizes[starts[axis] : starts[axis + 1]] > 1).sum() > 1 for axis in axes)


@part
def hands_on(
    tables: NestTables,
    scratch: Scratch,
    links: Links,
    t: int,
    level: int,
) -> bool:
    """Whether children below a level may hand words of tensor t to each other.

    Of a tensor without windows they hand on what rests at MACs that share it, and no more: a loop
    over a dimension steps over all that the children hold of it.
    """
    if scratch.spread[level] == 1:
        return False
    if links.windows[t] > 0:
        return True
    if level < scratch.spread.size - 1:
        return False
    for d in range(scratch.rows.size):
        factor = tables.factors[scratch.rows[d], tables.spatial_slot[level]]
        if factor > 1 and tables.relevant[t, d] == 0:
            return True
    return False


@part
def list_all_loops(
    tables: NestTables,
    scratch: Scratch,
    links: Links,
    code: Codes,
) -> None:
    """Lists the temporal loops of all levels, see `Links`."""
    rows = scratch.rows
    levels = links.start.size - 1
    count = 0
    for level in range(levels - 1, -1, -1):
        links.start[level + 1] = count
        slot = tables.temporal_slot[level]
        order = tables.orders[tables.order_start[0, level] + code[tables.order_column[level]]]
        for position in range(rows.size - 1, -1, -1):
            d = order[position]
            trip = tables.factors[rows[d], slot]
            if trip > 1:
                links.dimension[count] = d
                links.trips[count] = trip
                links.step[count] = tables.within[rows[d], slot + 1]
                count += 1
    links.start[0] = count
    links.outer[count] = 1
    for i in range(count - 1, -1, -1):
        links.outer[i] = links.outer[i + 1] * links.trips[i]


@part
def count_links(
    tables: NestTables,
    scratch: Scratch,
    links: Links,
    code: Codes,
    t: int,
    level: int,
) -> None:
    """Counts what a level's network carries of tensor t: classes, found and words of the links."""
    place = sort_children(tables, scratch, code, t, level)
    begin, axes = tables.axis_start[t], tables.axis_start[t + 1] - tables.axis_start[t]
    for child in range(place[0]):
        spatial_index(tables, scratch, code, level, child)
        for a in range(axes):
            links.offset[child, a] = 0
            for d in range(scratch.rows.size):
                if tables.axis_coefficient[begin + a, d] != 0 and scratch.inside[d] > 0:
                    inside = tables.within[scratch.rows[d], tables.spatial_slot[level] + 1]
                    step = tables.axis_coefficient[begin + a, d] * inside
                    links.offset[child, a] += step * scratch.inside[d]
    links.found[0] = 0
    links.words[0] = links.words[1] = links.words[2] = 0
    first, last = links.start[level + 1], links.start[0]
    trips, outer = links.trips, links.outer
    whole, new = _words_of_visits(tables, scratch, links, t, level)
    # Before the first visit nobody has got anything.
    _visit(scratch, links, place, axes, 1, whole, 0)
    # The innermost loop steps forward after the loops outside it did.
    for previous in range(first, last):
        before = whole
        times = trips[first] - 1
        if previous > first:
            times *= (trips[previous] - 1) * outer[previous + 1]
            before = whole if _moves(tables, links, t, first, previous) else new
        _moves(tables, links, t, first, first)
        _visit(scratch, links, place, axes, times, new, before)
    # Another loop does after the innermost one did.
    for j in range(first + 1, last):
        times = (trips[j] - 1) * outer[j + 1]
        now = whole if _moves(tables, links, t, first, j) else new
        _visit(scratch, links, place, axes, times, now, new)


@part
def _words_of_visits(
    tables: NestTables,
    scratch: Scratch,
    links: Links,
    t: int,
    level: int,
) -> tuple[int, int]:
    """Words of a child's tile, and what is new of it when it moves as the innermost loop moves it.

    A MAC takes its operands anew in every step.
    """
    levels = links.start.size - 1
    if level == levels - 1:
        return 1, 1
    whole = 1
    kept = 1
    first = links.start[level + 1]
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        extent = axis_extent(tables, axis, tables.temporal_slot[level + 1], scratch.rows)
        step = 0
        if first < links.start[0]:
            step = tables.axis_coefficient[axis, links.dimension[first]] * links.step[first]
        whole *= extent
        kept *= max(0, extent - abs(step))
    return whole, whole - kept


@part
def _moves(
    tables: NestTables,
    links: Links,
    t: int,
    first: int,
    j: int,
) -> bool:
    """Whether a step of loop j, with all loops inside it set back, moves a tile anew.

    Fills move `[A]` with the displacement; it is no new one where the innermost loop's is equal.
    """
    anew = False
    begin = tables.axis_start[t]
    for a in range(tables.axis_start[t + 1] - begin):
        coefficients = tables.axis_coefficient[begin + a]
        move = coefficients[links.dimension[j]] * links.step[j]
        for i in range(first, j):
            move -= coefficients[links.dimension[i]] * links.step[i]
        links.move[a] = move
        if move != coefficients[links.dimension[first]] * links.step[first]:
            anew = True
    return anew


@part
def _visit(
    scratch: Scratch,
    links: Links,
    place: tuple[int, int, int],
    axes: int,
    times: int,
    now: int,
    before: int,
) -> None:
    """Counts visits of one kind.

    Args:
        scratch: with the sorted children.
        links: with their offsets and with the tile's displacement since the visit before.
        place: number of children, width and height of the mesh.
        axes: of the tensor.
        times: how often there is such a visit.
        now: words that are new to a child.
        before: words that were new at the visit before.
    """
    children, width, height = place
    if now == 0:
        return
    for child in range(children):
        scratch.served[child] = 0
    found = count_classes(scratch, children, width, height)
    # Words of another number are others, and those of a like number have the same form.
    passed = 0
    if now == before:
        deliveries = 0.0
        for i in range(found):
            deliveries += scratch.classes[i, 1]
        for child in range(children):
            column = child % width
            if (
                (column > 0 and _got(links, axes, child, child - 1))
                or (column + 1 < width and child + 1 < children
                    and _got(links, axes, child, child + 1))
                or (child >= width and _got(links, axes, child, child - width))
                or (child + width < children and _got(links, axes, child, child + width))
            ):  # fmt: skip
                scratch.served[child] = 1
                passed += 1
        found = count_classes(scratch, children, width, height)
        for i in range(found):
            deliveries -= scratch.classes[i, 1]
        if deliveries <= 0:
            passed = 0
            for child in range(children):
                scratch.served[child] = 0
            found = count_classes(scratch, children, width, height)
    links.words[2] += times * now * passed
    for i in range(found):
        members, groups = scratch.classes[i, 0], scratch.classes[i, 1]
        words = now * groups * times
        hops = now * scratch.classes[i, 2] * times
        links.words[0] += int(words)
        links.words[1] += int(words * members)
        links.found[0] = _add_class(links.classes, links.found[0], (members, groups), (words, hops))


@part
def _got(
    links: Links,
    axes: int,
    child: int,
    neighbour: int,
) -> bool:
    """Whether a child's words are those that a neighbour got at the visit before."""
    for a in range(axes):
        if links.offset[child, a] + links.move[a] != links.offset[neighbour, a]:
            return False
    return True


@part
def _add_class(
    classes: Any,
    found: int,
    kind: tuple[float, float],
    carried: tuple[float, float],
) -> int:
    """Adds words and hops to the class of groups of a size and number; returns how many classes."""
    place = 0
    while place < found and (
        classes[place, 0] < kind[0]
        or (classes[place, 0] == kind[0] and classes[place, 1] < kind[1])
    ):
        place += 1
    if place == found or classes[place, 0] != kind[0] or classes[place, 1] != kind[1]:
        for i in range(found, place, -1):
            for k in range(4):
                classes[i, k] = classes[i - 1, k]
        classes[place, 0], classes[place, 1] = kind
        classes[place, 2] = classes[place, 3] = 0.0
        found += 1
    classes[place, 2] += carried[0]
    classes[place, 3] += carried[1]
    return found
