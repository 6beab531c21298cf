"""Which sets of kept tensors are bounded in a row, so that they share the outermost tables.

Tables of levels outside all fan-outs do not depend on spatial factors. Where there is room for the
tables of one set of kept tensors alone, sets that keep the same at these levels are bounded one
after another, though others need less by a little: what is left to be bounded stays the same.

Letters: A assignments, L levels, V vectors of a level, n dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.exact_any.assignment_queue import AssignmentQueue
from costmodel.exact_any.assignments import Assignments
from costmodel.exact_any.known import Known
from costmodel.exact_any.layout import OneOrder

NEAR = 1.02
"""Sets are bounded in a row whose bounds are no further above the least."""

MOST_IN_A_ROW = 16
"""So many sets of kept tensors and outer factors at most."""


def levels_outside(one: OneOrder) -> int:
    """How many levels stand outside all fan-outs, whatever is spread."""
    spread = [bool((rows > 1).any()) for rows in one.spreads.vectors]
    return 1 + (spread.index(True) if True in spread else len(spread) - 1)


class Near:
    """What is left to be bounded near an assignment, of sets that keep the same further out."""

    def __init__(self, queue: AssignmentQueue, known: Known, one: OneOrder) -> None:
        """Notes of what.

        Args:
            queue: what waits.
            known: the best mappings.
            one: the order of buffers.
        """
        self._queue, self._known, self._one = queue, known, one
        self._outside = levels_outside(one)

    def groups(self, group: int, a: int) -> list[tuple[int, Array]]:
        """The sets of kept tensors that have any, with the assignments, the nearest first.

        Args:
            group: that of the assignment.
            a: the assignment.
        """
        keeps = self._queue.groups[group][1].keeps[: self._outside]
        most = NEAR * self._primary(self._queue.groups[group][1])[a]
        found: list[tuple[float, int, Array]] = []
        for other, (number, its) in enumerate(self._queue.groups):
            if number != self._one.number or its.keeps[: self._outside] != keeps:
                continue
            primary = self._primary(its)
            near = np.flatnonzero(self._queue.left(other) & (primary <= most))
            if len(near):
                found.append((float(primary[near].min()), other, near))
        found.sort(key=lambda each: each[:2])
        return [(other, near) for _, other, near in found]

    def leaders(self, group: int, a: int) -> Iterator[tuple[int, int]]:
        """An assignment first, then the nearest one of every set of outer factors that has any."""
        last = max(
            (v for v, rows in enumerate(self._one.spreads.vectors) if len(rows) > 1), default=0
        )
        seen = {(group, self._outer(group, a, last))}
        yield group, a
        listed: list[tuple[float, int, int]] = []
        for other, near in self.groups(group, a):
            primary = self._primary(self._queue.groups[other][1])[near]
            listed += [
                (value, other, one)
                for value, one in zip(primary.tolist(), near.tolist(), strict=True)
            ]
        for _, other, one in sorted(listed):
            key = other, self._outer(other, one, last)
            if key not in seen:
                seen.add(key)
                yield other, one

    def _outer(self, group: int, a: int, last: int) -> bytes:
        return self._queue.groups[group][1].choice[a, :last].tobytes()

    def _primary(self, found: Assignments) -> npt.NDArray[np.float64]:
        return self._known.primary(found.energy, found.cycles)
