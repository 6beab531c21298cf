"""A mapping as one list of loops, and the tiles that they make: what its texts are written from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from costmodel.loop_nest.nest_record_models import (
    HasNestArch,
    HasNestMapping,
    HasNestProblem,
    NestArch,
    NestProblem,
    is_imperfect,
)
from costmodel.loop_nest.nest_tables import check_nest
from mapspace.strict_yaml import validate


class Loop(NamedTuple):
    """One loop of a nest.

    Attributes:
        dimension: which index it counts.
        factor: how often it runs.
        rest: how often in the last pass over its dimension.
        axis: X or Y of the mesh that it runs across; empty: in time.
        step: by how much a pass moves the index: what the loops inside it cover.
    """

    dimension: str
    factor: int
    rest: int
    axis: str
    step: int


class NestLevelLoops(NamedTuple):
    """What a level holds, and its loops.

    Attributes:
        name: the level.
        keep: tensors that it holds, in the problem's order.
        tiles: words of each of these in one instance, at most.
        temporal: its loops in time, outermost first.
        spatial: its loops across children, outermost first: those along the height, then the width.
    """

    name: str
    keep: tuple[str, ...]
    tiles: tuple[int, ...]
    temporal: tuple[Loop, ...]
    spatial: tuple[Loop, ...]


class Nest(NamedTuple):
    """A mapping of a problem.

    Attributes:
        problem: the operation.
        arch: the machine.
        levels: outermost first.
        imperfect: whether a loop's last pass is shorter than the others.
    """

    problem: NestProblem
    arch: NestArch
    levels: tuple[NestLevelLoops, ...]
    imperfect: bool


def nest_of(record: Mapping[str, Any]) -> Nest:
    """The loops of a record of a whole nest; those of one iteration are left out.

    Raises:
        ConfigError: the record cannot be read, or is no mapping of its problem.
    """
    problem = validate(HasNestProblem, record, "").problem
    arch = validate(HasNestArch, record, "").arch
    mapping = validate(HasNestMapping, record, "").mapping
    check_nest(problem, arch, mapping)
    block = dict.fromkeys(problem.dims, 1)
    levels = []
    for loops in reversed(mapping):
        temporal, across = loops.listed
        axes = [axis for _, _, axis in loops.spatial]
        spatial = [(*loop, axis) for loop, axis in zip(across, axes, strict=True) if loop[1] > 1]
        spatial.sort(key=lambda loop: loop[3] == "X")
        parts: list[tuple[Loop, ...]] = []
        for listed in (spatial, [(*loop, "") for loop in temporal if loop[1] > 1]):
            found = []
            for name, factor, rest, axis in reversed(listed):
                found.append(Loop(name, factor, rest, axis, block[name]))
                block[name] *= factor
            parts.append(tuple(reversed(found)))
        kept = tuple(tensor for tensor in problem.tensors if tensor.name in loops.keep)
        # Of a dimension that is covered not even a whole block is there.
        extents = {name: min(block[name], size) for name, size in problem.dims.items()}
        tiles = []
        for tensor in kept:
            words = 1
            for axis_terms in tensor.axes:
                words *= 1 + sum(abs(c) * (extents[name] - 1) for name, c in axis_terms)
            tiles.append(words)
        names = tuple(tensor.name for tensor in kept)
        levels.append(NestLevelLoops(loops.level, names, tuple(tiles), parts[1], parts[0]))
    return Nest(problem, arch, tuple(reversed(levels)), is_imperfect(mapping))
