"""Operators in a row, the axes that they share, and what each does in one pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from costmodel.networks.links import is_gated, read_tensor
from costmodel.problems.affine import Axis, Workload

MOST_OPERATORS = 5
"""Of a cascade."""

MOST_AXES = 3
"""Axes that are cut; of a first output of more the last ones, such as an image's columns, are
whole."""

ROW_OPERATORS = ("softmax", "normalisation")
"""Operators between two others that look at a whole row, the last axis between them, at once."""

RUNNING = "softmax"
"""The one of them whose rows the last operator may sum over part by part, with a running maximum
and a running sum, as flash attention does."""

STATISTICS = 2
"""Words of them per row."""


class _Window(NamedTuple):
    """What an operator reads along an axis for so many of its own rows.

    Attributes:
        step: rows from one of its own to the next.
        taps: rows that one of its own needs.
        per: rows of the tensor between per row of it: not 1 where heads are told apart, or
            columns gate others.
    """

    step: int = 1
    taps: int = 1
    per: Fraction = Fraction(1)

    @property
    def overlaps(self) -> bool:
        """Whether rows of its own share some, or skip some."""
        return (self.step, self.taps) != (1, 1)

    def rows(self, own: int) -> int:
        """Rows that it reads; whole where whole heads or tokens are read."""
        return int((self.step * (own - 1) + self.taps) * self.per)


class SharedAxis(NamedTuple):
    """An axis that runs through a cascade.

    Attributes:
        names: its dimension in each operator.
        sizes: that dimension's size.
        windows: per tensor between, what the operator behind it reads.
        of_rows: whether it cuts the rows of a softmax.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    windows: tuple[_Window, ...]
    of_rows: bool = False

    @property
    def overlaps(self) -> bool:
        """Whether an operator reads rows that another pass reads, too, or may."""
        return any(window.overlaps for window in self.windows)

    @property
    def length(self) -> int:
        """What divides evenly into passes: rows of the last operator, whole heads, whole tokens."""
        apart = any(window.per != 1 for window in self.windows)
        return math.gcd(*self.sizes) if apart else self.sizes[-1]

    def tiles(self, factor: int) -> tuple[int, ...]:
        """Rows of each operator in a pass of a loop with so many trips."""
        if factor == 1:
            return self.sizes
        rows = [self.sizes[-1] // factor]
        for size, window in zip(self.sizes[-2::-1], self.windows[::-1], strict=True):
            rows.append(min(size, window.rows(rows[-1])))
        return tuple(rows[::-1])


@dataclass(frozen=True)
class Cascade:
    """Operators of which each but the first reads what the one before it writes.

    Attributes:
        operators: in their order; but the first each reads the tensor between as its one tensor of
            role input.
        between: what is done to each tensor between on the way, such as `softmax`; None: nothing.
        counted: whether the reads and writes of that are.
    """

    operators: tuple[Workload, ...]
    between: tuple[str | None, ...]
    counted: bool = False

    @classmethod
    def of(
        cls, *operators: Workload, between: Sequence[str | None] = (), counted: bool = False
    ) -> Cascade:
        """A cascade with nothing between its operators but what is said."""
        rest = (None,) * (len(operators) - 1 - len(between))
        return cls(operators, (*between, *rest), counted)

    @cached_property
    def shared(self) -> tuple[SharedAxis, ...]:
        """The axes that shared loops may cut; of those that overlap the first alone."""
        found: list[SharedAxis] = []
        for axis in self.operators[0].tensors[-1].axes:
            one = self._through(axis.terms[0][0])
            if one is not None and not (one.overlaps and any(other.overlaps for other in found)):
                found.append(one)
        return tuple(found[:MOST_AXES])

    @property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """Per shared axis its dimension in each operator."""
        return tuple(axis.names for axis in self.shared)

    def _through(self, name: str) -> SharedAxis | None:
        """The axis that begins with a dimension of the first operator; None: it does not go on."""
        names, sizes = [name], [self.operators[0].dimensions[name]]
        windows: list[_Window] = []
        last, of_rows = len(self.operators) - 1, False
        for place, operator in enumerate(self.operators[1:], 1):
            found = _read_along(self.operators[place - 1], operator, names[-1])
            if found is None:
                return None
            name, window, is_last_axis = found
            writer = self.operators[place - 1]
            if is_last_axis and is_gated(self.between[place - 1], writer, operator):
                window = window._replace(per=2 * window.per)
            written = name in operator.tensors[-1].dimensions
            if is_last_axis and self.between[place - 1] in ROW_OPERATORS:
                of_rows = self.between[place - 1] == RUNNING and place == last and not written
                if not of_rows:
                    return None
            if not _match(sizes[-1], operator.dimensions[name], window):
                return None
            if not written and (place < last or window.overlaps):
                return None
            names.append(name)
            sizes.append(operator.dimensions[name])
            windows.append(window)
        axis = SharedAxis(tuple(names), tuple(sizes), tuple(windows), of_rows)
        return axis if axis.length > 1 else None

    def parts(self, factors: Sequence[int]) -> tuple[Workload, ...]:
        """The operators of one pass of shared loops with these trip counts per axis."""
        sizes = [dict(operator.dimensions) for operator in self.operators]
        for axis, factor in zip(self.shared, factors, strict=True):
            tiles = axis.tiles(factor)
            for own, name, rows in zip(sizes, axis.names, tiles, strict=True):
                own[name] = rows
        return tuple(
            operator.model_copy(update={"dimensions": own})
            for operator, own in zip(self.operators, sizes, strict=True)
        )

    def reductions(self) -> tuple[bool, ...]:
        """Per axis whether the last operator sums over it."""
        kept = self.operators[-1].tensors[-1].dimensions
        return tuple(axis.names[-1] not in kept for axis in self.shared)

    @property
    def roles(self) -> tuple[tuple[str, ...], ...]:
        """Per operator the roles of its tensors between."""
        last = len(self.operators) - 1
        return tuple(
            tuple(role for role, has in (("input", side > 0), ("output", side < last)) if has)
            for side in range(last + 1)
        )


def _read_along(writer: Workload, reader: Workload, name: str) -> tuple[str, _Window, bool] | None:
    """How an operator reads what another writes along a dimension.

    Returns:
        Its own dimension, the window, and whether it is the last axis; None: by no one dimension.
    """
    heads = _of_heads(writer, reader)
    if heads is not None:
        return heads.get(name)
    written, read = writer.tensors[-1].axes, read_tensor(reader).axes
    if len(written) != len(read):  # such as of groups: what is one long is no axis
        written = tuple(a for a in written if _length(a, writer) > 1)
        read = tuple(a for a in read if _length(a, reader) > 1)
    if len(written) != len(read):
        return None
    place = next((at for at, one in enumerate(written) if one.terms[0][0] == name), None)
    if place is None:
        return None
    moving = [term for term in read[place].terms if reader.dimensions[term[0]] > 1]
    if len(moving) > 1:
        # Of a window the dimension that is written moves it, the others are its taps.
        moving = [term for term in moving if term[0] in reader.tensors[-1].dimensions]
    if len(moving) != 1:
        return None
    (own, step), axis = moving[0], read[place]
    taps = 1 + sum(by * (reader.dimensions[one] - 1) for one, by in axis.terms if one != own)
    return own, _Window(step, taps), place == len(read) - 1


def _of_heads(writer: Workload, reader: Workload) -> dict[str, tuple[str, _Window, bool]] | None:
    """How heads are read side by side as the columns of tokens, or columns as heads.

    A tensor of heads, rows and depth is one of tokens and columns, head after head; of rows that
    share a head those of a token follow each other.

    Returns:
        By the writer's dimension, what `_read_along` does; None: it is no such tensor.
    """
    both = []
    for axes in (writer.tensors[-1].axes, read_tensor(reader).axes):
        if any(len(axis.terms) > 1 or axis.terms[0][1] > 1 for axis in axes):
            return None
        both.append([axis.terms[0][0] for axis in axes])
    sizes = [
        [work.dimensions[name] for name in names]
        for work, names in zip((writer, reader), both, strict=True)
    ]
    if sorted(map(len, both)) != [2, 3]:
        return None
    (heads, rows, depth), (tokens, columns) = sorted(sizes, key=len, reverse=True)
    if rows % tokens or columns != heads * (rows // tokens) * depth:
        return None
    written, read = both
    pairs = ((1, 0), (0, 1)) if len(written) == 3 else ((0, 1), (1, 0))
    return {
        written[of]: (
            read[to],
            _Window(per=Fraction(sizes[0][of], sizes[1][to])),
            to == len(read) - 1 or of == len(written) - 1,
        )
        for of, to in pairs
    }


def _length(axis: Axis, work: Workload) -> int:
    return 1 + sum(by * (work.dimensions[name] - 1) for name, by in axis.terms)


def _match(written: int, own: int, window: _Window) -> bool:
    """Whether so many rows that are written are those that so many of a reader's need.

    A window may hang over by what it is padded with at either end, and leave out what its last step
    does not reach. What skips rows between would leave out work that a layer by itself does.
    """
    over = window.rows(own) - written
    return window.step <= window.taps and -window.step < over <= 2 * (window.taps - 1)


def divisors(axis: SharedAxis) -> list[int]:
    """Trip counts of a loop over an axis."""
    size = axis.length
    small = [n for n in range(1, math.isqrt(size) + 1) if size % n == 0]
    return sorted({*small, *(size // n for n in small)})


def every_factors(cascade: Cascade) -> itertools.product[tuple[int, ...]]:
    """Trip counts of all shared loops."""
    return itertools.product(*(divisors(axis) for axis in cascade.shared))
