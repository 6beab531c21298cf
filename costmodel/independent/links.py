"""What neighbours hand to each other, counted visit by visit in plain Python.

Timeloop visits a fan-out for the first and the second iteration of every loop outside it, and lets
the second stand for all further ones. At a visit a child whose new words are those that a neighbour
on the mesh got at the visit before has them from there, unless that takes no delivery off the
instance. Visits of one kind are looked at once.

Letters: L levels, n dimensions.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from costmodel.machines.accelerators import Accelerator

Orders = tuple[tuple[int, ...], ...]
Loop = tuple[int, int, int]
Vector = tuple[int, ...]


class Tiling(Protocol):
    """What is read of a tiling; see `costmodel.independent.counting.Tiling`."""

    @property
    def temporal(self) -> Sequence[Vector]:
        """`[L][n]`."""

    @property
    def spatial(self) -> Sequence[Vector]:
        """`[L][n]`."""

    @property
    def keep(self) -> Sequence[frozenset[int]]:
        """`[L]`."""

    @property
    def spatial_order(self) -> Sequence[Vector]:
        """`[L][n]`."""

    @property
    def upwards(self) -> Sequence[frozenset[int]]:
        """`[L]`."""

    def extent(self, level: int, *, children: bool = False) -> Vector:
        """`[n]` of the tile of a level, or of one of its children."""


class Counter(Protocol):
    """What counts words; see `costmodel.independent.counting.Counter`."""

    accelerator: Accelerator
    axes: list[list[list[tuple[int, int]]]]
    ways: list[tuple[int, int, int]]

    def box(self, t: int, extent: Sequence[int]) -> list[int]:
        """Lengths of a tensor's tile along its axes."""

    def loops(self, tiling: Any, orders: Orders, level: int) -> Iterator[Loop]:
        """The temporal loops above a level's tile, innermost first."""

    def first_words(self, tiling: Any, index: int) -> int:
        """Words of the output that an instance is the first to see."""


@dataclass
class Carried:
    """What the network below one instance of a level carries of a tensor over the whole run.

    Attributes:
        words: by children per delivery and deliveries of so many: words to deliver.
        halves: likewise, twice the hops of these.
        handed: words that neighbours hand on.
    """

    words: dict[tuple[int, int], int] = field(default_factory=dict)
    halves: dict[tuple[int, int], int] = field(default_factory=dict)
    handed: int = 0

    @property
    def delivered(self) -> int:
        """Words that the instance delivers."""
        return sum(self.words.values())

    @property
    def arrived(self) -> int:
        """Words that so arrive at its children."""
        return sum(members * words for (members, _), words in self.words.items())


@dataclass(frozen=True)
class _Mesh:
    """The children of an instance: tile and place of each, and the mesh's width and height."""

    tiles: list[object]
    offsets: list[Vector]
    width: int
    height: int

    def served_by(self, move: Vector) -> set[int]:
        """Children whose tile is, after a move, that of a neighbour before it."""
        found = set()
        for child, offset in enumerate(self.offsets):
            wanted = tuple(o + m for o, m in zip(offset, move, strict=True))
            beside = [child - self.width, child + self.width]
            if child % self.width:
                beside.append(child - 1)
            if (child + 1) % self.width:
                beside.append(child + 1)
            if any(0 <= b < len(self.offsets) and self.offsets[b] == wanted for b in beside):
                found.add(child)
        return found

    def groups(self, served: set[int]) -> list[tuple[int, int]]:
        """Per tile the children that wait for it, and twice the hops to them."""
        waiting: dict[object, list[int]] = {}
        for child, tile in enumerate(self.tiles):
            if child not in served:
                waiting.setdefault(tile, []).append(child)
        found = []
        for children in waiting.values():
            columns: dict[int, list[int]] = {}
            for child in children:
                columns.setdefault(child % self.width, []).append(child // self.width)
            halves = 2 * max(columns) + sum(
                max(0, self.height - 1 - 2 * min(ys)) + max(0, 2 * max(ys) - (self.height - 1))
                for ys in columns.values()
            )
            found.append((len(children), halves if len(self.tiles) > 1 else 0))
        return found


def _mesh(counter: Counter, tiling: Tiling, t: int, index: int) -> _Mesh:
    level, factors = counter.accelerator.levels[index], tiling.spatial[index]
    rules, output = level.spatial, t == len(counter.axes) - 1
    apart = rules is not None and not (rules.reduction if output else rules.multicast)
    up = tiling.upwards[index]
    order = sorted(tiling.spatial_order[index], key=lambda d: d not in up)
    extent = tiling.extent(index, children=True)
    offsets = []
    for at in itertools.product(*(range(factors[d]) for d in order)):
        where = dict(zip(order, at, strict=True))
        offsets.append(
            tuple(sum(c * extent[d] * where[d] for d, c in terms) for terms in counter.axes[t])
        )
    rows = math.prod(factors[d] for d in up)
    width, height = level.mesh or (level.fanout, 1)
    width, height = max(width, math.prod(factors) // rows), max(height, rows)
    tiles: list[object] = list(range(len(offsets))) if apart else list(offsets)
    return _Mesh(tiles, offsets, width, height)


def _visits(
    counter: Counter, t: int, loops: Sequence[Loop], box: Sequence[int] | None
) -> Tally[tuple[int, int, Vector]]:
    """How often which words are new, how many were at the visit before, and how far it moved.

    Args:
        counter: knows the tensors' axes.
        t: the tensor.
        loops: outside the fan-out, innermost first.
        box: lengths of a child's tile; None: a MAC takes its word anew.
    """
    still = (0,) * len(counter.axes[t])
    steps = [
        tuple(sum(c for e, c in terms if e == d) * step for terms in counter.axes[t])
        for d, _, step in loops
    ]
    whole = 1 if box is None else math.prod(box)
    new = whole
    if box is not None:
        first = steps[0] if steps else still
        new -= math.prod(max(0, b - abs(m)) for b, m in zip(box, first, strict=True))
    found: Tally[tuple[int, int, Vector]] = Tally({(whole, 0, still): 1})
    before, place = whole, still
    # The innermost loop turns fastest.
    for second in itertools.islice(itertools.product((0, 1), repeat=len(loops)), 1, None):
        here = still
        times = 1
        for turned, step, (_, trips, _) in zip(second[::-1], steps, loops, strict=True):
            if turned:
                here = tuple(a + b for a, b in zip(here, step, strict=True))
                times *= trips - 1
        move = tuple(a - b for a, b in zip(here, place, strict=True))
        now = new if move == steps[0] else whole
        found[now, before, move] += times
        before, place = now, here
    return found


def _carried(counter: Counter, tiling: Tiling, orders: Orders, t: int, index: int) -> Carried:
    """What the network below a level carries of a tensor."""
    last = index == len(tiling.keep) - 1
    box = None if last else counter.box(t, tiling.extent(index + 1))
    mesh = _mesh(counter, tiling, t, index)
    found, everybody = Carried(), mesh.groups(set())
    loops = list(counter.loops(tiling, orders, index + 1))
    for (now, before, move), times in _visits(counter, t, loops, box).items():
        if not now:
            continue
        served = mesh.served_by(move) if now == before else set()
        groups = mesh.groups(served)
        if len(groups) == len(everybody):
            served, groups = set(), everybody
        found.handed += times * now * len(served)
        for members, those in itertools.groupby(sorted(groups), key=lambda group: group[0]):
            listed = list(those)
            kind = members, len(listed)
            words = now * len(listed) * times
            halves = now * times * sum(hops for _, hops in listed)
            found.words[kind] = found.words.get(kind, 0) + words
            found.halves[kind] = found.halves.get(kind, 0) + halves
    return found


def count_linked(
    counter: Counter,
    tiling: Tiling,
    orders: Orders,
    t: int,
    instances: Sequence[int],
) -> tuple[Fraction, list[tuple[int, int, int, int]]]:
    """Energy of a tensor's networks, in the counter's parts; and its accesses.

    Args:
        counter: of the problem.
        tiling: factors and kept tensors.
        orders: of the temporal loops.
        t: the tensor.
        instances: `[L + 1]` in use.

    Returns:
        The energy; level, reads, fills and updates per instance of the levels that keep it.
    """
    levels, output = len(tiling.keep), t == len(counter.axes) - 1
    # Where no two MACs can hand words to each other the order of the innermost loops is left open.
    inside = tuple(d for d, trips in enumerate(tiling.temporal[-1]) if trips > 1)
    orders = (*orders[:-1], orders[-1] or inside)
    outermost = min(level for level in range(levels) if t in tiling.keep[level])
    through = math.prod(itertools.chain(*tiling.temporal))
    energy, accesses = Fraction(0), []
    carried = [_carried(counter, tiling, orders, t, index) for index in range(levels)]
    for index in range(levels - 1, outermost - 1, -1):
        below = carried[index]
        takes = index == levels - 1 or t in tiling.keep[index + 1]
        energy += _network(counter, tiling, (t, index), below, None if takes else through)
        served = below.delivered
        if not takes:
            spread = math.prod(tiling.spatial[index])
            served = int(float(served) * through * spread / below.arrived)
        through = served
        share = handed = 0
        if index > outermost:
            above, siblings = carried[index - 1], instances[index] // instances[index - 1]
            arrived = sum(
                words * members / siblings for (members, _), words in sorted(above.words.items())
            )
            passed = above.handed / instances[index] if t in tiling.keep[index] else 0.0
            share, handed = int(arrived + passed), int(passed + 0.5)
        if t not in tiling.keep[index]:
            continue
        through = share if index > outermost else through
        if output:
            first = counter.first_words(tiling, index)
            elided = 0 if counter.accelerator.output_fills == "charged" else first
            fills = share - elided if index > outermost else 0
            accesses.append((index, served - first + handed, fills, served))
        else:
            accesses.append((index, served + handed, share, 0))
    return energy, accesses


def _network(
    counter: Counter, tiling: Tiling, at: tuple[int, int], carried: Carried, through: int | None
) -> Fraction:
    """Energy of what the networks below a level carry; `through` words of children without it."""
    t, index = at
    level = counter.accelerator.levels[index]
    hop, router, ingress = counter.ways[index]
    output = t == len(counter.axes) - 1
    children = math.prod(tiling.spatial[index])
    scale = 1.0 if through is None else through * float(children) / carried.arrived
    energy, routed = Fraction(0), 0.0
    for kind in sorted(carried.words):
        accesses, hops = carried.words[kind] * scale, carried.halves[kind] / 2
        if output and level.is_dram:
            first = counter.first_words(tiling, index) if t in tiling.keep[index] else 0
            accesses = 2 * accesses - first
        # What needs no access is all new, and takes no hops.
        energy += ingress * Fraction(accesses)
        if accesses > 0:
            energy += hop * Fraction(carried.halves[kind], 2)
            routed = math.floor(routed + (1 + math.floor(hops / accesses)) * accesses)
    energy += router * Fraction(routed)
    if through is None:
        energy += carried.handed * (hop + 2 * router)
    instances = math.prod(itertools.chain(*tiling.spatial[:index]))
    return energy * instances
