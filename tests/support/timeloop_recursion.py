"""Timeloop's own recursion over a nest with remainders, in plain Python, one mapping at a time.

It runs iterations 0, 1, n - 2 and n - 1 of every temporal loop (0 and 1 where nothing has a
remainder) and the first child of every fan-out, and keeps at every level the box of the last visit.
For machines that keep every tensor everywhere, without networks.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from costmodel import Accelerator, Workload
from costmodel.map_space.mapping import Mapping

Loop = tuple[str, int, int]


def rounded(value: float) -> int:
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


class Recursion:
    """Counts of one mapping: `asked` and `entering` `[L][T]`."""

    def __init__(self, work: Workload, mapping: Mapping) -> None:
        self.work = work
        self.levels: list[tuple[list[Loop], list[Loop]]] = []
        for level in mapping.levels:
            temporal = [(d, level.temporal[d], level.temporal_rests[d]) for d in level.order]
            spatial = [(d, f, level.spatial_rests[d]) for d, f in level.spatial.items()]
            temporal = [loop for loop in temporal if loop[1] > 1]
            self.levels.append((temporal or [(level.order[0], 1, 1)], spatial))
        self.even = all(f == r for part in self.levels for _, f, r in itertools.chain(*part))
        self.macs = 0  # of one instance of the innermost level
        tensors = range(len(work.tensors))
        self.asked = [[0 for _ in tensors] for _ in self.levels]
        self.entering = [[0 for _ in tensors] for _ in self.levels]
        self.seen: list[list[Any]] = [[(None, None) for _ in tensors] for _ in self.levels]
        self.largest = [[0 for _ in tensors] for _ in self.levels]
        self.spread = [[0 for _ in tensors] for _ in self.levels]
        start = dict.fromkeys(work.dimensions, 0)
        self.enter(0, start, dict.fromkeys(start, True), 1)

    def extent(self, first: int, name: str, last: bool, *, spatial: bool = False) -> int:
        """Of a block from a level inwards, or from its spatial loops."""
        whole = size = 1
        for position in range(len(self.levels) - 1, first - 1, -1):
            for part in (1, 0) if position > first or not spatial else (1,):
                for d, factor, rest in self.levels[position][part]:
                    if d == name:
                        size += whole * (rest - 1)
                        whole *= factor
        return size if last else whole

    def box(
        self, level: int, t: int, at: dict[str, int], last: dict[str, bool], spatial: bool = False
    ) -> Any:
        low, high = [], []
        for axis in self.work.tensors[t].axes:
            low.append(sum(c * at[d] for d, c in axis.terms))
            high.append(low[-1] + 1)
            for d, c in axis.terms:
                high[-1] += c * (self.extent(level, d, last[d], spatial=spatial) - 1)
        return low, high

    def enter(
        self, level: int, at: dict[str, int], last: dict[str, bool], epochs: int
    ) -> list[int]:
        self.loop(level, 0, at, last, epochs)
        fresh = []
        for t in range(len(self.work.tensors)):
            low, high = self.box(level, t, at, last)
            size = math.prod(b - a for a, b in zip(low, high, strict=True))
            self.largest[level][t] = max(self.largest[level][t], size)
            before, moved = self.seen[level][t]
            move = None
            if before is not None:
                ends = zip(low, high, *before, strict=True)
                move = [rounded((a + b - c - d) / 2) for a, b, c, d in ends]
            if moved is None or moved == move:
                kept = 0
                if before is not None:
                    ends = zip(low, high, *before, strict=True)
                    kept = math.prod(max(0, min(b, d) - max(a, c)) for a, b, c, d in ends)
                self.seen[level][t] = ((low, high), move)
                fresh.append(size - kept)
            else:
                self.seen[level][t] = ((low, high), None)
                fresh.append(size)
        return fresh

    def iterations(self, end: int) -> list[tuple[int, int, int]]:
        """Index, how often its inside counts, and how often what enters there does."""
        if self.even:
            return [(0, 1, 1), (1, end - 1, end - 1)][: min(end, 2)]
        first, last = [(0, 1, 1)], [(end - 1, 1, 1)]
        if end >= 4:
            return [*first, (1, end - 3, end - 2), (end - 2, 1, 0), *last]
        return [*first, *([(1, 1, 1)] if end == 3 else []), *(last if end > 1 else [])]

    def loop(
        self, level: int, i: int, at: dict[str, int], last: dict[str, bool], epochs: int
    ) -> None:
        temporal, spatial = self.levels[level]
        name, factor, rest = temporal[i]
        step = self.extent(level, name, False, spatial=True)
        for index, inside, entering in self.iterations(rest if last[name] else factor):
            here = {**at, name: at[name] + index * step}
            ends = {**last, name: last[name] and index + 1 >= rest}
            if i + 1 < len(temporal):
                self.loop(level, i + 1, here, ends, epochs * inside)
                continue
            fans = any(f > 1 for _, f, _ in spatial)
            weight = epochs * (inside if fans else entering)
            children = {d: r if ends[d] else f for d, f, r in spatial}
            for t in range(len(self.work.tensors)):
                low, high = self.box(level, t, here, ends, spatial=True)
                words = math.prod(b - a for a, b in zip(low, high, strict=True))
                self.spread[level][t] = max(self.spread[level][t], words)
            ends = {
                **ends,
                **{d: ends[d] and r <= 1 for d, _, r in spatial},
            }
            fresh = [1 for _ in self.work.tensors]
            if level + 1 == len(self.levels):
                self.macs += weight * math.prod(children.values())
            if level + 1 < len(self.levels):
                fresh = self.enter(level + 1, here, ends, epochs * inside)
            for t, words in enumerate(fresh):
                self.asked[level][t] += words * weight * self.groups(t, children, level)
                if level + 1 < len(self.levels):
                    self.entering[level + 1][t] += words * weight

    def groups(self, t: int, children: dict[str, int], level: int) -> int:
        steps = {d: self.extent(level + 1, d, False) for d in children}
        return len(
            {
                tuple(
                    sum(c * steps[d] * index.get(d, 0) for d, c in axis.terms if d in steps)
                    for axis in self.work.tensors[t].axes
                )
                for index in (
                    dict(zip(children, at, strict=True))
                    for at in itertools.product(*(range(k) for k in children.values()))
                )
            }
        )


def cost(work: Workload, machine: Accelerator, mapping: Mapping) -> tuple[float, int]:
    """Energy, pJ, and cycles; fan-outs above buffers have no remainders."""
    counted = Recursion(work, mapping)
    output = len(work.tensors) - 1
    energy, used, part = 0.0, 1, counted.largest[0][output]
    cycles = math.prod(f for temporal, _ in counted.levels for _, f, _ in temporal)
    for level, described in enumerate(machine.levels):
        accesses = sum(counted.asked[level]) + sum(counted.entering[level])
        if level > 0:
            part = part * counted.largest[level][output] // counted.spread[level - 1][output]
        accesses += counted.asked[level][output] - part - (part if level > 0 else 0)
        energy += accesses * used * described.word_energy_pj
        instances = used
        used *= math.prod(f for _, f, _ in counted.levels[level][1])
    return energy + counted.macs * instances * machine.mac_energy_pj, cycles
