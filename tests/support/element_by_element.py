"""What a mapping with remainders does, walked through pass by pass and element by element.

Plain Python, slow: every instance of every level visits its tiles one after another, cut off where
a dimension ends; what lies beyond it waits. For machines without networks, blocks and clusters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from costmodel import Accelerator, Workload
from costmodel.map_space.mapping import Mapping

Index = dict[str, int]
Path = tuple[tuple[tuple[str, int], ...], ...]


class Counts(NamedTuple):
    """Words of all instances and of the first one: `[L][T][reads, fills, updates]`."""

    every: list[list[list[int]]]
    first: list[list[list[int]]]
    steps: int
    macs: int


class Elements:
    """The instances of a mapping, and what each of them does."""

    def __init__(self, work: Workload, mapping: Mapping, *, literal: bool = False) -> None:
        self.work, self.levels, self.literal = work, mapping.levels, literal
        self.sizes = work.dimensions
        self.kept = [set(level.keep) for level in self.levels]

    def block(self, name: str, level: int, *, spatial: bool = False) -> int:
        """Iterations of a dimension in a full tile of a level, or in one child's."""
        inside = math.prod(
            part.get(name, 1)
            for inner in self.levels[level + 1 :]
            for part in (inner.temporal, inner.spatial)
        )
        return inside if spatial else inside * self.levels[level].spatial.get(name, 1)

    def paths(self, level: int) -> Iterator[Path]:
        """All instances of a level, with work or without: the child at every fan-out outside."""
        choices = [
            [tuple(zip(outer.spatial, at, strict=True)) for at in itertools.product(
                *(range(f) for f in outer.spatial.values())
            )]
            for outer in self.levels[:level]
        ]  # fmt: skip
        return itertools.product(*choices)

    def visits(self, level: int, path: Path) -> Iterator[tuple[tuple[int, ...], Index, Index]]:
        """Visits in order: where the loops outside stand, the tile's corner and its extents."""
        loops = [
            (name, outer.temporal[name], position)
            for position, outer in enumerate(self.levels[:level])
            for name in outer.order
        ]
        base = {
            name: sum(
                dict(path[outer]).get(name, 0) * self.block(name, outer, spatial=True)
                for outer in range(level)
            )
            for name in self.sizes
        }
        tile = {
            name: self.block(name, level - 1, spatial=True) if level else size
            for name, size in self.sizes.items()
        }
        for at in itertools.product(*(range(trips) for _, trips, _ in loops)):
            corner = dict(base)
            for (name, _, outer), index in zip(loops, at, strict=True):
                corner[name] += index * self.block(name, outer)
            extent = {n: min(tile[n], self.sizes[n] - corner[n]) for n in corner}
            if min(extent.values()) > 0:
                yield at, corner, extent

    def box(self, t: int, corner: Index, extent: Index) -> list[tuple[int, int]]:
        """Where a tile begins and ends along each axis of a tensor."""
        ends = []
        for axis in self.work.tensors[t].axes:
            low = sum(c * corner[d] for d, c in axis.terms)
            ends.append((low, low + 1 + sum(c * (extent[d] - 1) for d, c in axis.terms)))
        return ends

    def entering(self, t: int, level: int, path: Path) -> int:
        """Words that enter an instance's tile over the run: what was not in it at the visit before.

        That, where its corner moves as it moved before or it is where it was; else all its words.
        Where nothing is cut off, passes after the second are as the second, as Timeloop has them.
        Literally: what was not in it at the visit before, at every visit, and nothing else.
        """
        visits = list(self.visits(level, path))
        trips = [outer.temporal[d] for outer in self.levels[:level] for d in outer.order]
        tile = {name: self.block(name, level - 1, spatial=True) for name in self.sizes}
        even = (
            not self.literal
            and len(visits) == math.prod(trips)
            and all(e == tile for _, _, e in visits)
        )
        words = 0
        before: list[tuple[int, int]] | None = None
        moved: list[int] | None = None
        for at, corner, extent in visits:
            if even and max(at, default=0) > 1:
                continue
            times = math.prod(k - 1 for k, i in zip(trips, at, strict=True) if i) if even else 1
            box = self.box(t, corner, extent)
            size = math.prod(b - a for a, b in box)
            if before is None:
                new, move = size, None
            else:
                pairs = list(zip(box, before, strict=True))
                move = [a - c for (a, _), (c, _) in pairs]
                old = math.prod(max(0, min(b, d) - max(a, c)) for (a, b), (c, d) in pairs)
                new = size - old
                if moved is not None and move != moved and not self.literal:
                    new, move = size if even or box != before else 0, None
            before, moved = box, move
            words += times * new
        return words

    def moves_alike(self) -> bool:
        """Whether every tile of every instance moves by one and the same step at every visit."""
        for t, level in itertools.product(range(len(self.work.tensors)), range(len(self.levels))):
            for path in self.paths(level):
                corners = [
                    [low for low, _ in self.box(t, corner, extent)]
                    for _, corner, extent in self.visits(level, path)
                ]
                steps = {
                    tuple(a - b for a, b in zip(new, old, strict=True))
                    for old, new in itertools.pairwise(corners)
                }
                if len(steps) > 1:
                    return False
        return True

    def kind(self, name: str, level: int, path: Path) -> tuple[tuple[int, int], ...]:
        """How an instance runs through one dimension: the extents of its tile, pass by pass."""
        seen = {(corner[name], extent[name]) for _, corner, extent in self.visits(level, path)}
        first = min((corner for corner, _ in seen), default=0)
        return tuple(sorted((corner - first, extent) for corner, extent in seen))

    def count(self) -> Counts:
        """Walks through everything."""
        n, tensors = len(self.levels), range(len(self.work.tensors))
        every = [[[0, 0, 0] for _ in tensors] for _ in range(n)]
        first = [[[0, 0, 0] for _ in tensors] for _ in range(n)]
        for t in tensors:
            tensor = self.work.tensors[t]
            levels = [i for i in range(n) if tensor.name in self.kept[i]]
            for above, level in zip(levels, [*levels[1:], n], strict=True):
                shared = set()
                for path in self.paths(level):
                    visits = list(self.visits(level, path))
                    if not visits:
                        continue
                    words = len(visits) if level == n else self.entering(t, level, path)
                    leads = all(i == 0 for at in path for _, i in at)
                    if level < n:
                        every[level][t][1] += words
                        first[level][t][1] += words * leads
                    key = self._shared(t, above, level, path)
                    if key is None or key in shared:
                        continue
                    shared.add(key)
                    every[above][t][0] += words
                    first[above][t][0] += words * all(i == 0 for at in path[:above] for _, i in at)
            for level in levels if tensor.output else ():
                every[level][t][2], first[level][t][2] = every[level][t][0], first[level][t][0]
                for path in self.paths(level):
                    seen = set()
                    for _, corner, extent in self.visits(level, path):
                        axes = [range(a, b) for a, b in self.box(t, corner, extent)]
                        seen.update(itertools.product(*axes))
                    leads = all(i == 0 for at in path for _, i in at)
                    for action in (0, 1) if level > levels[0] else (0,):
                        every[level][t][action] -= len(seen)
                        first[level][t][action] -= len(seen) * leads
        active = [{at for at, _, _ in self.visits(n, path)} for path in self.paths(n)]
        return Counts(every, first, len(set().union(*active)), sum(map(len, active)))

    def _shared(self, t: int, above: int, level: int, path: Path) -> object:
        """What names the read that serves an instance; None: a sibling's read does."""
        tensor = self.work.tensors[t]
        moving = {d for axis in tensor.axes for d, _ in axis.terms}
        if any(i and d not in moving for at in path[above:] for d, i in at):
            return None
        places = tuple(
            tuple(
                sum(c * self.block(d, outer, spatial=True) * dict(path[outer]).get(d, 0)
                    for d, c in axis.terms)
                for axis in tensor.axes
            )
            for outer in range(above, level)
        )  # fmt: skip
        kinds = tuple(self.kind(name, level, path) for name in self.sizes)
        return path[:above], places, kinds


def cost(
    work: Workload, machine: Accelerator, mapping: Mapping, *, literal: bool = False
) -> tuple[float, int]:
    """Energy, pJ, and cycles."""
    counts = Elements(work, mapping, literal=literal).count()
    assert counts.macs == work.macs
    energy = counts.macs * machine.mac_energy_pj
    cycles = counts.steps
    for level, described in enumerate(machine.levels):
        energy += sum(map(sum, counts.every[level])) * described.word_energy_pj
        # In the order in which Timeloop divides.
        reads = sum(tensor[0] / counts.steps for tensor in counts.first[level])
        writes = sum(sum(tensor[1:]) / counts.steps for tensor in counts.first[level])
        for words, most in (reads, described.read_bandwidth), (writes, described.write_bandwidth):
            if most is not None and words > most:
                cycles = max(cycles, math.ceil(counts.steps / (most / words)))
    return energy, cycles
