"""Why words of a tensor are fetched more than once: the loops that ask for them again.

Timeloop's rule of temporal reuse (`costmodel.loop_nest.temporal_reuse`), read the other way round:
a tile stays where it is while only loops that its tensor does not depend on go on, unless a loop
inside of these moves the tile. Such a loop asks for every word again. A multiply-accumulate unit
holds nothing, so that there every loop that the tensor does not depend on asks again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from costmodel.loop_nest.nest_loops import Loop, Nest


class Cause(NamedTuple):
    """A loop that asks for words again.

    Attributes:
        level: where it stands.
        loop: the loop.
    """

    level: str
    loop: Loop


class Refetching(NamedTuple):
    """How often the words of a tensor leave a level that holds it.

    Attributes:
        level: the level.
        tensor: the tensor.
        into: the next level inwards that holds it; `MAC` of the innermost.
        words: of the whole tensor.
        again: loops in time that ask for every word again, outermost first.
        copies: loops across children that want the same words at once, outermost first.
    """

    level: str
    tensor: str
    into: str
    words: int
    again: tuple[Cause, ...]
    copies: tuple[Cause, ...]

    @property
    def times(self) -> int:
        """How often every word is asked for, copies counted once; overlaps of windows are extra."""
        return math.prod(cause.loop.factor for cause in self.again)


def refetching(nest: Nest) -> Iterator[Refetching]:
    """What every level sends inwards, tensor by tensor, outermost level first.

    Args:
        nest: the mapping.
    """
    whole = {
        tensor.name: math.prod(
            1 + sum(abs(c) * (nest.problem.dims[name] - 1) for name, c in axis)
            for axis in tensor.axes
        )
        for tensor in nest.problem.tensors
    }
    names = {tensor.name: _dimensions(tensor.axes) for tensor in nest.problem.tensors}
    for index, level in enumerate(nest.levels):
        for tensor in level.keep:
            inner = next(
                (j for j, other in enumerate(nest.levels) if j > index and tensor in other.keep),
                len(nest.levels),
            )
            outside = nest.levels[:inner]
            temporal = [Cause(one.name, loop) for one in outside for loop in one.temporal]
            moving = [loop.dimension in names[tensor] for _, loop in temporal]
            last = max((i for i, moves in enumerate(moving) if moves), default=-1)
            last = last if inner < len(nest.levels) else len(moving)
            yield Refetching(
                level=level.name,
                tensor=tensor,
                into=nest.levels[inner].name if inner < len(nest.levels) else nest.arch.mac.name,
                words=whole[tensor],
                again=tuple(temporal[i] for i in range(last) if not moving[i]),
                copies=tuple(
                    Cause(one.name, loop)
                    for one in nest.levels[index:inner]
                    for loop in one.spatial
                    if loop.dimension not in names[tensor]
                ),
            )


def _dimensions(axes: tuple[tuple[tuple[str, int], ...], ...]) -> frozenset[str]:
    return frozenset(name for axis in axes for name, coefficient in axis if coefficient)
