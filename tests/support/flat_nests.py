"""Every mapping whose tensors have places of their own, enumerated and walked in plain Python.

A mapping is a flat nest: temporal loops, and between them per level one node for every tensor that
the level keeps, in any order. Tiles are sets of words, and words are counted as they change while
the loops outside run one after another; no code is shared with the cost model or the proof.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Problem:
    """sizes: by dimension; tensors: the dimensions of each by its name, the output last."""

    sizes: dict[str, int]
    tensors: dict[str, tuple[str, ...]]


@dataclass
class Nest:
    """loops: dimension, factor, whether spatial, outermost first; nodes: level, tensor and place.

    A node's place is the number of loops outside it.
    """

    loops: list[tuple[str, int, bool]]
    nodes: list[tuple[int, str, int]] = field(default_factory=list)


def factorisations(size: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (size,)
        return
    for first in (f for f in range(1, size + 1) if size % f == 0):
        for rest in factorisations(size // first, parts - 1):
            yield (first, *rest)


def nests(problem: Problem, levels: Sequence[dict[str, Any]]) -> Iterator[Nest]:
    """All nests; levels without the outermost say `apart`, `bypass` (bool) and `fanout`."""
    choices = []
    for level in levels[1:]:
        tensors = list(problem.tensors)
        subsets = [tensors]
        if level.get("free"):
            counts = range(len(tensors) + 1)
            subsets = [list(s) for n in counts for s in itertools.combinations(tensors, n)]
        orders = [
            [tuple([name] for name in order) for order in itertools.permutations(subset)]
            if level["apart"]
            else [(subset,)]
            for subset in subsets
        ]
        # A level that holds nothing has loops all the same.
        choices.append([order or ([],) for each in orders for order in each])
    for chosen in itertools.product(*choices):
        yield from _with_loops(problem, levels, chosen)


def _with_loops(problem: Problem, levels: Sequence[dict[str, Any]], chosen: Any) -> Iterator[Nest]:
    # Segments of temporal loops, each after the nodes that stand at its head; None: a fan-out.
    segments: list[Any] = [(0, list(problem.tensors))]
    for index, level in enumerate(levels):
        if index:
            segments += [(index, names) for names in chosen[index - 1]]
        if level.get("fanout", 1) > 1:
            segments.append(None)
    fanouts = [level["fanout"] for level in levels if level.get("fanout", 1) > 1]
    dims = list(problem.sizes)
    every = [list(factorisations(problem.sizes[d], len(segments))) for d in dims]
    for rows in itertools.product(*every):
        spread = [math.prod(row[k] for row in rows) for k, s in enumerate(segments) if s is None]
        if any(used > most for used, most in zip(spread, fanouts, strict=True)):
            continue
        parts = []
        for k, segment in enumerate(segments):
            there = [(d, row[k]) for d, row in zip(dims, rows, strict=True) if row[k] > 1]
            parts.append([there] if segment is None else list(itertools.permutations(there)))
        for orders in itertools.product(*parts):
            nest = Nest([])
            for segment, loops in zip(segments, orders, strict=True):
                if segment is not None:
                    index, names = segment
                    nest.nodes += [(index, name, len(nest.loops)) for name in names]
                nest.loops += [(d, factor, segment is None) for d, factor in loops]
            yield nest


def cost(
    problem: Problem, levels: Sequence[dict[str, Any]], nest: Nest
) -> tuple[float, float] | None:
    """Energy (pJ) and cycles; None where tiles do not fit their level together."""
    steps = math.prod(factor for _, factor, spatial in nest.loops if not spatial)
    held, moved = [0] * len(levels), [[0, 0] for _ in levels]
    energy = float(math.prod(problem.sizes.values()))
    output = list(problem.tensors)[-1]
    above = [
        math.prod(f for _, f, spatial in nest.loops[: _first(nest, index)] if spatial)
        for index in range(len(levels))
    ]
    for tensor, dims in problem.tensors.items():
        chain = [(index, place) for index, name, place in nest.nodes if name == tensor]
        entering = [_entering(nest, dims, place) for _, place in chain]
        entering.append(steps)
        for k, (index, place) in enumerate(chain):
            held[index] += _tile(nest, dims, place)
            below = chain[k + 1][1] if k + 1 < len(chain) else len(nest.loops)
            between = nest.loops[place:below]
            served = entering[k + 1] * math.prod(f for d, f, s in between if s and d in dims)
            fills = entering[k] if index else 0
            reads, updates = served, 0
            if tensor == output:
                part = _words(problem, dims) // math.prod(
                    f for d, f, s in nest.loops[:place] if s and d in dims
                )
                reads, updates = served - part, served
                fills -= part if index else 0
            moved[index][0] += reads
            moved[index][1] += fills + updates
            energy += (reads + fills + updates) * above[index] * levels[index]["energy_pj"]
    cycles = float(steps)
    for level, words, (read, written) in zip(levels, held, moved, strict=True):
        if words > level.get("capacity_words", math.inf):
            return None
        cycles = max(cycles, math.ceil((read + written) / level.get("bandwidth", math.inf)))
    return energy, cycles


def _first(nest: Nest, index: int) -> int:
    """Loops outside a level: all of its nodes stand inside the same fan-outs."""
    places = [place for level, _, place in nest.nodes if level == index]
    return min(places, default=0)


def _words(problem: Problem, dims: tuple[str, ...]) -> int:
    return math.prod(problem.sizes[d] for d in dims)


def _tile(nest: Nest, dims: tuple[str, ...], place: int) -> int:
    return math.prod(factor for d, factor, _ in nest.loops[place:] if d in dims)


def _entering(nest: Nest, dims: tuple[str, ...], place: int) -> int:
    """Words that enter one instance's tile: one visit after another, by where the tile stands."""
    outside = [(d, factor) for d, factor, spatial in nest.loops[:place] if not spatial]
    before, changes = None, 0
    for at in itertools.product(*(range(factor) for _, factor in outside)):
        here = tuple(i for i, (d, _) in zip(at, outside, strict=True) if d in dims)
        changes += here != before
        before = here
    return changes * _tile(nest, dims, place)
