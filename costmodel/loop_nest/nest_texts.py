"""Mappings as text: Timeloop's map, and pseudo-code for people."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from costmodel.loop_nest.nest_loops import Loop, Nest, NestLevelLoops
from mapspace.errors import ConfigError


def map_text(nest: Nest) -> str:
    """A mapping as Timeloop v3.0.3 prints it into `timeloop-model.map.txt`.

    A level without a loop in time has one of a single iteration there: over the dimension that
    stands outermost in its permutation, which in files written from a record is the last one that
    the level does not loop over.
    """
    lines = [""]
    depth = 0

    def loop_line(name: str, trips: str, note: str = "") -> None:
        nonlocal depth
        lines.append(f"| {'  ' * depth}for {name} in [0:{trips}){note}")
        depth += 1

    for level in nest.levels:
        held = "".join(
            f" {name}:{words} ({words})"
            for name, words in zip(level.keep, level.tiles, strict=True)
        )
        heading = f"{level.name} [{held} ]"
        lines += [heading + " ", "-" * len(heading)]
        if not level.temporal:
            loop_line(list(nest.problem.dims)[-1], "1")
        for loop in (*level.temporal, *level.spatial):
            note = f" (Spatial-{loop.axis})" if loop.axis else ""
            loop_line(loop.dimension, _trips(loop), note)
        lines.append("")
    return "\n".join(lines) + "\n"


def _trips(loop: Loop) -> str:
    return str(loop.factor) if loop.rest == loop.factor else f"{loop.factor},{loop.rest}"


def pseudo_text(nest: Nest) -> str:
    """A mapping as pseudo-code: what every level holds, and the loops between the levels.

    An index with a number is where a tile begins; the bare one is a point of the operation.
    """
    sizes = ", ".join(f"{name} = {size}" for name, size in nest.problem.dims.items())
    lines = [f"{nest.problem.name} on {nest.arch.name}: {sizes}", ""]
    depth, point = 0, dict.fromkeys(nest.problem.dims, "0")
    for part in parts(nest, variables(nest, ())):
        if isinstance(part, NestLevelLoops):
            lines.append("    " * depth + f"# {holding(part)}")
            continue
        end = str(part.span)
        if part.begin != "0":
            end = f"{part.begin} + {end}"
        end = f"min({end}, {part.size})" if part.clipped else end
        step = f" step {part.loop.step}" if part.loop.step > 1 else ""
        head = "parallel for" if part.loop.axis else "for"
        across = f" across {part.loop.axis}" if part.loop.axis else ""
        lines.append(
            "    " * depth + f"{head} {part.variable} = {part.begin} to {end}{step}{across}:"
        )
        point[part.loop.dimension] = part.variable
        depth += 1
    lines.append("    " * depth + statement(nest, point))
    return "\n".join(lines) + "\n"


class Pass(NamedTuple):
    """A loop as it is written.

    Attributes:
        loop: the loop.
        variable: where its passes begin.
        begin: the index at which it begins: a variable of a loop outside, or 0.
        span: how far it runs from there.
        size: of its dimension.
        clipped: whether it ends at the size where that comes first.
    """

    loop: Loop
    variable: str
    begin: str
    span: int
    size: int
    clipped: bool


def parts(nest: Nest, named: Mapping[str, list[str]]) -> Iterator[NestLevelLoops | Pass]:
    """Levels, each before its loops, the outermost first."""
    left = {name: list(names) for name, names in named.items()}
    begin = dict.fromkeys(nest.problem.dims, "0")
    for level in nest.levels:
        yield level
        for loop in (*level.temporal, *level.spatial):
            name, size = loop.dimension, nest.problem.dims[loop.dimension]
            span, variable = loop.factor * loop.step, left[name].pop(0)
            first = begin[name] == "0"
            clipped = loop.rest != loop.factor
            yield Pass(
                loop, variable, begin[name], min(span, size) if first else span, size, clipped
            )
            begin[name] = variable


def variables(nest: Nest, taken: Collection[str]) -> dict[str, list[str]]:
    """What the loops of each dimension are called, outermost first; the innermost bare.

    Small letters where they differ from all else.
    """
    counts = dict.fromkeys(nest.problem.dims, 0)
    for level in nest.levels:
        for loop in (*level.temporal, *level.spatial):
            counts[loop.dimension] += 1
    tensors = {tensor.name for tensor in nest.problem.tensors}
    for small, sign in itertools.product((True, False), ("", "_", "__")):
        found = {}
        for name, count in counts.items():
            bare = name.lower() if small else name
            found[name] = [f"{bare}{sign}{k}" if k else bare for k in reversed(range(count))]
        listed = [name for names in found.values() for name in names]
        if len(set(listed)) == len(listed) and not {*taken, *tensors} & set(listed):
            return found
    raise ConfigError(
        f"{nest.problem.name}: dimensions and tensors have names that are too much alike."
    )


def holding(level: NestLevelLoops) -> str:
    """What a level holds, with the words of each tile."""
    held = ", ".join(
        f"{name} ({words:,})" for name, words in zip(level.keep, level.tiles, strict=True)
    )
    return f"{level.name} holds {held or 'nothing'}"


def statement(nest: Nest, point: Mapping[str, str], alone: str = "") -> str:
    """What the innermost loop does, such as `Z[m][n] += A[m][k] * B[k][n]`.

    Args:
        nest: the mapping.
        point: what the index of each dimension is called.
        alone: what follows the name of a tensor without axes.
    """
    elements = [
        tensor.name + ("".join(f"[{_index(nest, axis, point)}]" for axis in tensor.axes) or alone)
        for tensor in nest.problem.tensors
    ]
    pairs = list(zip(nest.problem.tensors, elements, strict=True))
    written = ", ".join(text for tensor, text in pairs if tensor.output)
    read = " * ".join(text for tensor, text in pairs if not tensor.output)
    return f"{written} += {read or '1'}"


def _index(nest: Nest, terms: tuple[tuple[str, int], ...], point: Mapping[str, str]) -> str:
    """The index of an axis; an axis that runs downwards starts at its end."""
    least = sum(min(0, c) * (nest.problem.dims[name] - 1) for name, c in terms)
    text = "" if least == 0 else str(-least)
    for name, c in terms:
        if point[name] == "0":
            continue
        times = point[name] if abs(c) == 1 else f"{abs(c)}*{point[name]}"
        sign = (" - " if text else "-") if c < 0 else " + " if text else ""
        text += sign + times
    return text or "0"
