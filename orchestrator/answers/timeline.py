"""When the first tiles of every level are loaded, worked on and drained.

Tiles follow from the loops: a step of the loops outside a level moves its tile, and only the words
that the tile before had not are loaded. What one step of these loops takes follows from the
bandwidths. Assumed is what the cost model counts: transfers and work overlap, as if the next tile
had room beside the one that is worked on (double buffering). The model's latency is that of the
slowest of them over the whole nest; that the first tile has to be there before work can begin,
which a timeline shows, is not counted in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from costmodel.machines.levels import Level
    from costmodel.map_space.mapping import Mapping
    from costmodel.problems.affine import Tensor, Workload
    from orchestrator.answers.mapping_figure import DrawnMapping

# Tiles that are shown.
FIRST = 6

Box = tuple[tuple[int, int], ...]
"""From and to of every axis of a tensor."""


class Span(NamedTuple):
    """From a cycle to another one."""

    begin: float
    end: float


@dataclass(frozen=True)
class Tile:
    """A tile of a level.

    Attributes:
        loaded: words of every tensor that enter for it; 0 where they are there.
        drained: words of outputs that leave when it is done.
        load: when they enter, from when the level can begin.
        work: when the level's inside works on it.
        drain: when they leave.
    """

    loaded: dict[str, int]
    drained: dict[str, int]
    load: Span
    work: Span
    drain: Span


@dataclass(frozen=True)
class LevelTimeline:
    """The first tiles of one instance of a level.

    Attributes:
        name: the level.
        start: when it can begin: its first words are in the level outside, cycles.
        tiles: how many there are in all.
        first: the first of them.
    """

    name: str
    start: float
    tiles: int
    first: tuple[Tile, ...]


def timelines(drawn: DrawnMapping, first: int = FIRST) -> tuple[LevelTimeline, ...]:
    """The first tiles of every level but the outermost, outermost level first.

    Args:
        drawn: the mapping.
        first: tiles at most.

    Returns:
        None of a mapping whose loops have shorter last passes: their tiles differ.
    """
    mapping = drawn.mapping
    if any(level.temporal_rests or level.spatial_rests for level in mapping.levels):
        return ()
    found: list[LevelTimeline] = []
    ready = [0.0]
    for index in range(1, len(mapping.levels)):
        count = math.prod(math.prod(level.temporal.values()) for level in mapping.levels[:index])
        work = _work(drawn, index) / count
        steps = list(itertools.islice(moves(drawn.workload, mapping, index), first))
        rates = _cycles_per_word(drawn, index, _drained_by_a_child(drawn, index))
        tiles = tuple(_scheduled(steps, work, rates))
        kept = mapping.levels[index].keep
        start = max((ready[_outside(mapping, index, name)] for name in kept), default=0.0)
        ready.append(start + tiles[0].load.end)
        found.append(LevelTimeline(mapping.levels[index].name, start, count, tiles))
    return tuple(found)


def moves(
    workload: Workload, mapping: Mapping, index: int
) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Words that enter one instance of a level, and that leave it, tile by tile.

    Args:
        workload: the operation.
        mapping: its mapping, without shorter last passes.
        index: the level, which is not the outermost.

    Yields:
        Words by tensor that the level keeps: those of inputs, and of partial sums that come back,
        that the tile before had not; those of outputs that the next tile has no more.
    """
    kept = [tensor for tensor in workload.tensors if tensor.name in mapping.levels[index].keep]
    inside = dict.fromkeys(workload.dimensions, 1)
    for level in mapping.levels[index:]:
        for name in inside:
            inside[name] *= level.temporal[name] * level.spatial.get(name, 1)
    loops = _loops(workload, mapping, index)
    seen: dict[str, set[Box]] = {tensor.name: set() for tensor in kept}
    before: dict[str, Box] = {}
    entered: dict[str, int] = {}
    last: tuple[int, ...] = ()
    for counts in itertools.product(*(range(loop.factor) for loop in loops)):
        boxes = {tensor.name: _box(tensor, loops, counts, inside) for tensor in kept}
        # The outermost loop that has another count goes on.
        pairs = enumerate(zip(counts, last, strict=False))
        advanced = next((place for place, (now, was) in pairs if now != was), 0)
        common = {
            tensor.name: _stays(tensor, loops, boxes[tensor.name], advanced) if before else 0
            for tensor in kept
        }
        if before:
            yield entered, _left(kept, before, common)
        entered = {}
        for tensor in kept:
            name, box = tensor.name, boxes[tensor.name]
            # Sums that nobody has begun have no words yet.
            fresh = tensor.output and box not in seen[name]
            entered[name] = 0 if fresh else _size(box) - common[name]
            seen[name].add(box)
        before, last = boxes, counts
    yield entered, _left(kept, before, {})


def _left(kept: list[Tensor], before: dict[str, Box], common: dict[str, int]) -> dict[str, int]:
    """Words of outputs that the tile has and the next one has not."""
    return {
        tensor.name: _size(before[tensor.name]) - common.get(tensor.name, 0)
        for tensor in kept
        if tensor.output
    }


class _Loop(NamedTuple):
    dimension: str
    factor: int
    step: int


def _loops(workload: Workload, mapping: Mapping, index: int) -> list[_Loop]:
    """The loops in time outside of a level, outermost first."""
    loops: list[_Loop] = []
    block = dict.fromkeys(workload.dimensions, 1)
    for number, level in reversed(list(enumerate(mapping.levels))):
        for name, factor in level.spatial.items():
            block[name] *= factor
        for name in reversed(level.order):
            if number < index and level.temporal[name] > 1:
                loops.append(_Loop(name, level.temporal[name], block[name]))
            block[name] *= level.temporal[name]
    return loops[::-1]


def _stays(tensor: Tensor, loops: list[_Loop], box: Box, advanced: int) -> int:
    """Words that a tile keeps when a loop goes on and those inside it begin anew.

    As the model counts: if the tile moves as its innermost loop moves it, those that such a
    step leaves; else none.

    Args:
        tensor: what is tiled.
        loops: outermost first.
        box: the tile.
        advanced: the place of the loop that goes on.
    """
    steps = _shift(tensor, loops[-1])
    moved = _shift(tensor, loops[advanced])
    for loop in loops[advanced + 1 :]:
        moved = tuple(far - back for far, back in zip(moved, _shift(tensor, loop), strict=True))
    if moved != steps:
        return 0
    lengths = (end - begin for begin, end in box)
    return math.prod(max(0, long - step) for long, step in zip(lengths, steps, strict=True))


def _shift(tensor: Tensor, loop: _Loop) -> tuple[int, ...]:
    """How far a step of a loop moves a tile, per axis."""
    return tuple(
        sum(scale * loop.step for name, scale in axis.terms if name == loop.dimension)
        for axis in tensor.axes
    )


def _box(
    tensor: Tensor, loops: list[_Loop], counts: tuple[int, ...], inside: dict[str, int]
) -> Box:
    """What of a tensor the first instance of a level has at a step of the loops outside."""
    place = dict.fromkeys(inside, 0)
    for loop, count in zip(loops, counts, strict=True):
        place[loop.dimension] += count * loop.step
    found = []
    for axis in tensor.axes:
        begin = sum(scale * place[name] for name, scale in axis.terms)
        end = begin + sum(scale * (inside[name] - 1) for name, scale in axis.terms) + 1
        found.append((begin, end))
    return tuple(found)


def _size(box: Box) -> int:
    return math.prod(end - begin for begin, end in box)


def _work(drawn: DrawnMapping, index: int) -> float:
    """Cycles that a level's inside takes over the whole nest: the units, or what holds them up."""
    inner = {level.name for level in drawn.mapping.levels[index + 1 :]}
    mine = drawn.mapping.levels[index].name
    turning = sum(limit.cycles for limit in drawn.limits if limit.kind in ("array", "waiting"))
    return max(
        limit.cycles + (turning if limit.kind == "compute" else 0)
        for limit in drawn.limits
        if limit.kind == "compute"
        or (limit.kind == "bandwidth" and limit.name.rpartition(" ")[0] in inner)
        or limit.name == f"{mine} reads"
    )


def _outside(mapping: Mapping, index: int, tensor: str) -> int:
    """The next level outwards that holds a tensor."""
    return max((i for i in range(index) if tensor in mapping.levels[i].keep), default=index - 1)


def _drained_by_a_child(drawn: DrawnMapping, index: int) -> dict[str, int]:
    """Words of every output that leave an instance over the whole nest."""
    loops, found = _loops(drawn.workload, drawn.mapping, index), {}
    for t, tensor in enumerate(drawn.workload.tensors):
        of_it = [i for i, loop in enumerate(loops) if loop.dimension in tensor.dimensions]
        times = math.prod(loop.factor for loop in loops[: max(of_it, default=-1) + 1])
        found[tensor.name] = int(drawn.detail.tile[0, index, t]) * times
    return found


class _Rates(NamedTuple):
    """Cycles that a word of a tensor takes into a level, and out of it."""

    into: dict[str, float]
    out: dict[str, float]


def _cycles_per_word(drawn: DrawnMapping, index: int, drained: dict[str, int]) -> _Rates:
    """The slower of a level's own port and that of the level outside, which serves every child."""
    rates = _Rates({}, {})
    inner, detail = drawn.machine.levels[index], drawn.detail
    for t, name in enumerate(drawn.mapping.tensors):
        outer = _outside(drawn.mapping, index, name)
        outside = drawn.machine.levels[outer]
        sent = _ratio(detail.reads[0, outer, t], detail.fills[0, index, t])
        taken = _ratio(detail.updates[0, outer, t], drained[name])
        rates.into[name] = max(_port(inner, "write"), _port(outside, "read") * sent)
        rates.out[name] = max(_port(inner, "read"), _port(outside, "write") * taken)
    return rates


def _ratio(outside: float, inside: float) -> float:
    """Words that the level outside moves for one at each child."""
    return float(outside) / float(inside) if inside else 1.0


def _port(level: Level, what: str) -> float:
    """Cycles per word."""
    rates = (level.write_bandwidth if what == "write" else level.read_bandwidth, level.bandwidth)
    return max((1 / rate for rate in rates if rate), default=0.0)


def _scheduled(
    moved: list[tuple[dict[str, int], dict[str, int]]], work: float, rates: _Rates
) -> Iterator[Tile]:
    """Tiles in time, with room for two."""
    port = done = drained = 0.0
    ends: list[float] = []
    for number, (loaded, left) in enumerate(moved):
        begin = max(port, ends[number - 2] if number >= 2 else 0.0)
        port = begin + sum(words * rates.into[name] for name, words in loaded.items())
        start = max(port, done)
        done = start + work
        ends.append(done)
        leave = max(done, drained)
        drained = leave + sum(words * rates.out[name] for name, words in left.items())
        yield Tile(loaded, left, Span(begin, port), Span(start, done), Span(leave, drained))
