"""A cascade run pass by pass in plain Python, every word counted as it moves.

It shares no formula with `costmodel.cascades.plans`: what is kept is what lay there in the pass
before, what comes back is what was begun, and the rows of a pass are followed from the last
operator to the first.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from costmodel.cascades.cascade import Cascade
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.levels import Level
from costmodel.machines.resident import shared_buffer
from costmodel.networks.links import read_tensor
from costmodel.problems.affine import Workload

READ, FILL, UPDATE = "read", "fill", "update"

Place = tuple[int, int]
"""An operator and a tensor of it, both by their place."""

Piece = tuple[int, ...]
"""Which pass of every loop that changes a tensor a piece of it is of."""


class Loops(NamedTuple):
    """What is run: trip counts per shared axis, the outermost loop first, and what is kept."""

    factors: tuple[int, ...]
    order: tuple[int, ...]
    kept: frozenset[Place]


@dataclass
class Walked:
    """What came of it.

    Attributes:
        counts: words read, filled and updated per level, beside what mappings of the parts move.
        fetched: how often another piece of each kept tensor came.
        words: per operator, the most that lay in the buffer beside its own tiles.
        parts: the operators as a pass runs them.
        energy: of these words, pJ, leakage included.
        cycles: in which nothing else runs.
        adds: whether passes added to what others had begun.
        rows: words of the running maxima and sums of rows that are cut.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    fetched: Counter[Place] = field(default_factory=Counter)
    words: list[int] = field(default_factory=list)
    parts: tuple[Workload, ...] = ()
    energy: Fraction = Fraction(0)
    cycles: int = 0
    adds: bool = False
    rows: int = 0


class Walk:
    """A cascade on a machine."""

    def __init__(self, cascade: Cascade, machine: Accelerator) -> None:
        """Begins nothing yet.

        Args:
            cascade: what is run.
            machine: with one shared buffer.

        Raises:
            ConfigError: it has none.
        """
        self.cascade, self.machine = cascade, machine
        self.outer, self.buffer = machine.levels[0], shared_buffer(machine)

    def run(self, loops: Loops) -> Walked:
        """Runs all passes.

        Args:
            loops: of them.
        """
        found, last = Walked(), len(self.cascade.operators) - 1
        output = (last, len(self.cascade.operators[last].tensors) - 1)
        there: dict[Place, Piece] = {}
        begun: set[Piece] = set()
        found.words = [0] * (last + 1)
        running: list[Piece] = []
        for indices in itertools.product(*(range(loops.factors[axis]) for axis in loops.order)):
            at = dict(zip(loops.order, indices, strict=True))
            parts = tuple(self._parts(loops.factors, at))
            assert not found.parts or parts == found.parts, "passes do alike"
            found.parts = parts
            mine = self._piece(output, at)
            found.adds |= mine in begun
            for one in sorted(loops.kept):
                self._bring(found, one, (self._piece(one, at), there, begun, one == output))
            self._scale(found, loops, at, (running, mine in begun))
            begun.add(mine)
            self._between(found)
        if output in there:
            self._transfer(found, [(self.outer, UPDATE, self._words(found, output), True)])
        beside = found.rows + sum(self._words(found, one) for one in loops.kept)
        for side in range(last + 1):
            lying = [found.parts[one].words(-1) for one in (side - 1, side) if 0 <= one < last]
            found.words[side] = beside + sum(lying)
        return found

    def _scale(
        self, found: Walked, loops: Loops, at: Mapping[int, int], state: tuple[list[Piece], bool]
    ) -> None:
        """Where rows of a softmax are cut: renews their maxima and sums, scales what was added."""
        side = len(self.cascade.operators) - 1
        axes = self.cascade.operators[side - 1].tensors[-1].axes
        row = next(
            (
                axis
                for axis, names in enumerate(self.cascade.axes)
                if names[side - 1] == axes[-1].terms[0][0]
                and self.cascade.between[-1] == "softmax"
                and loops.factors[axis] > 1
            ),
            None,
        )
        if row is None:
            return
        sizes = found.parts[side - 1].dimensions
        found.rows = 2 * math.prod(sizes[axis.terms[0][0]] for axis in axes[:-1])
        seen, has_begun = state
        mine = tuple(i for axis, i in sorted(at.items()) if axis != row)
        if mine in seen and seen[-1] != mine:  # others came between
            back = (self.outer, READ, found.rows, False), (self.buffer, FILL, found.rows, True)
            self._transfer(found, [(self.outer, UPDATE, found.rows, True)])
            self._transfer(found, back)
        renewed = [(self.buffer, UPDATE, found.rows, True)]
        if mine in seen:
            renewed.insert(0, (self.buffer, READ, found.rows, False))
        self._transfer(found, renewed)
        seen.append(mine)
        if has_begun:  # a multiply-accumulate for each word of the output's piece
            words = found.parts[side].words(-1)
            found.energy += words * _exact(self.machine.mac_energy_pj)
            found.cycles += math.ceil(Fraction(words, self.machine.processing_elements))

    def _words(self, found: Walked, one: Place) -> int:
        return found.parts[one[0]].words(one[1])

    def _parts(self, factors: Sequence[int], at: Mapping[int, int]) -> Iterator[Workload]:
        """The operators of a pass: rows followed from the last to the first."""
        sizes = [dict(operator.dimensions) for operator in self.cascade.operators]
        for axis, names in enumerate(self.cascade.axes):
            if factors[axis] == 1:
                continue
            last = len(names) - 1
            trips = self.cascade.operators[last].dimensions[names[last]] // factors[axis]
            rows = range(at[axis] * trips, (at[axis] + 1) * trips)
            sizes[last][names[last]] = len(rows)
            for side in range(last, 0, -1):
                rows = self._needed(side, names[side - 1 : side + 1], rows)
                sizes[side - 1][names[side - 1]] = len(rows)
        for operator, own in zip(self.cascade.operators, sizes, strict=True):
            yield operator.model_copy(update={"dimensions": own})

    def _needed(self, side: int, names: Sequence[str], rows: range) -> range:
        """The rows of the tensor before an operator that so many of its own need."""
        writer, reader = self.cascade.operators[side - 1 : side + 1]
        whole, axes = writer.dimensions[names[0]], read_tensor(reader).axes
        between = writer.tensors[-1].axes
        if {len(axes), len(between)} == {2, 3}:
            first, last = (_told_apart(writer, reader, names, row) for row in (rows[0], rows[-1]))
            return range(first[0], last[1] + 1)
        if self._gates(side) and names[0] == between[-1].terms[0][0]:
            return range(2 * rows[0], 2 * rows[-1] + 2)  # a column of the gate, and its own
        terms = next(one.terms for one in axes if names[1] in [name for name, _ in one.terms])
        needed = {
            sum(by * (row if name == names[1] else tap[name]) for name, by in terms)
            for row in (rows[0], rows[-1])
            for tap in _taps(reader, [name for name, _ in terms if name != names[1]])
        }
        found = range(min(needed), max(needed) + 1)
        return found[: min(whole, len(found))]

    def _gates(self, side: int) -> bool:
        """Whether an activation makes one column of two before an operator reads them."""
        writer, reader = self.cascade.operators[side - 1 : side + 1]
        if self.cascade.between[side - 1] != "activation":
            return False
        columns = [
            work.dimensions[tensor.axes[-1].terms[0][0]]
            for work, tensor in ((writer, writer.tensors[-1]), (reader, read_tensor(reader)))
        ]
        return columns[0] == 2 * columns[1] and len(read_tensor(reader).axes[-1].terms) == 1

    def _piece(self, one: Place, at: Mapping[int, int]) -> Piece:
        named = self.cascade.operators[one[0]].tensors[one[1]].dimensions
        axes = self.cascade.axes
        return tuple(i if axes[axis][one[0]] in named else 0 for axis, i in sorted(at.items()))

    def _bring(
        self, found: Walked, one: Place, state: tuple[Piece, dict[Place, Piece], set[Piece], bool]
    ) -> None:
        """Brings the piece of a kept tensor that a pass needs, and stores the one before it."""
        wanted, there, begun, is_output = state
        words = self._words(found, one)
        if there.get(one) != wanted:
            found.fetched[one] += 1
            if is_output and one in there:
                self._transfer(found, [(self.outer, UPDATE, words, True)])
            if not is_output or wanted in begun:
                comes = (self.outer, READ, words, not is_output), (self.buffer, FILL, words, True)
                self._transfer(found, comes)
            there[one] = wanted
        if is_output and wanted in begun:  # what is new is added to what lies there
            self._transfer(found, [(self.buffer, READ, words, False)])

    def _between(self, found: Walked) -> None:
        """What is done to the tensors between, where they lie."""
        if not self.cascade.counted:
            return
        for side, (operator, part) in enumerate(
            zip(self.cascade.between, found.parts, strict=False), 1
        ):
            if operator is not None:
                words = part.words(-1)
                left = words // 2 if self._gates(side) else words
                both = (self.buffer, READ, words, True), (self.buffer, UPDATE, left, True)
                self._transfer(found, both)

    def _transfer(self, found: Walked, accesses: Sequence[tuple[Level, str, int, bool]]) -> None:
        """Words that move at one time."""
        cycles = 0
        for level, way, words, addressed in accesses:
            found.counts[level.name, way] += words
            price = level.energies[(READ, FILL, UPDATE).index(way)]
            found.energy += math.ceil(Fraction(words, level.block_words)) * _exact(price)
            found.energy += addressed * words * _exact(level.address_pj)
            there = [(w, n) for other, w, n, _ in accesses if other is level]
            for rate, ways in (
                (level.read_bandwidth, (READ,)),
                (level.write_bandwidth, (FILL, UPDATE)),
                (level.bandwidth, (READ, FILL, UPDATE)),
            ):
                if rate is not None:
                    passing = sum(n for w, n in there if w in ways)
                    cycles = max(cycles, math.ceil(passing / _exact(rate)))
        found.cycles += cycles
        for level in self.machine.levels:
            found.energy += cycles * _exact(level.leakage_pj)
            if level is self.buffer:
                break


def _told_apart(
    writer: Workload, reader: Workload, names: Sequence[str], row: int
) -> tuple[int, int]:
    """The first and the last row of a writer that a reader's row needs, where one has heads.

    Every word of the tensor between is looked at from both sides, in the order of its heads.
    """
    written = [axis.terms[0][0] for axis in writer.tensors[-1].axes]
    read = [axis.terms[0][0] for axis in read_tensor(reader).axes]
    three, two = (written, read) if len(written) == 3 else (read, written)
    of = {**writer.dimensions} if len(written) == 3 else {**reader.dimensions}
    tokens = (reader if len(written) == 3 else writer).dimensions[two[0]]
    shared = of[three[1]] // tokens
    found = set()
    for head in range(of[three[0]]):
        for line in range(of[three[1]]):
            for deep in (0, of[three[2]] - 1):
                place = {three[0]: head, three[1]: line, three[2]: deep}
                column = (head * shared + line % shared) * of[three[2]] + deep
                flat = {two[0]: line // shared, two[1]: column}
                here, there = (place, flat) if len(written) == 3 else (flat, place)
                if there[names[1]] == row:
                    found.add(here[names[0]])
    return min(found), max(found)


def _taps(reader: Workload, names: Sequence[str]) -> Iterator[dict[str, int]]:
    """The first and the last tap of a window."""
    yield dict.fromkeys(names, 0)
    yield {name: reader.dimensions[name] - 1 for name in names}


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
