"""Two operations tiled together: the second reads tile by tile what the first writes.

*Outer loops* cut axes of the intermediate tensor that both operations index by one dimension each,
of equal size. In every iteration the first operation computes a tile of the intermediate, the
second reads it; it lies in the shared buffer and nowhere else, and no multiply-accumulate is done
twice. Each operation runs on its own tile of the iteration as on a machine in which that tile
already lies (`costmodel.machines.resident`), and begins with empty buffers but for what is *kept*:
a piece of another of its tensors that some next iterations need again may stay in the shared
buffer. It is fetched whole when the loops change it, between the operations, and takes its room all
the time.

Where the outer loops cut a dimension that the second operation sums over, the piece of its output
is kept: the buffer reads a word, adds and writes it. A piece that is left unfinished goes out and
comes back.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.resident import ROLES, shared_buffer
from costmodel.networks.moves import FILL, READ, UPDATE, Access, Moved, changed_on_chip, moved
from costmodel.problems.affine import Tensor, Workload

MOST_AXES = 3
"""Of an intermediate of more axes the last ones, such as the columns of an image, stay whole."""

ROW_OPERATORS = ("softmax", "normalisation")
"""Operators between two others that look at a whole row, the intermediate's last axis, at once."""


@dataclass(frozen=True)
class Pair:
    """Two operations of which the second reads what the first writes.

    Attributes:
        producer: the first.
        consumer: the second; it reads the intermediate as its one tensor of role input.
        operator: what is done to the intermediate on the way, such as `softmax`; None: nothing.
        counted: whether the operator's reads and writes are.
    """

    producer: Workload
    consumer: Workload
    operator: str | None = None
    counted: bool = False

    @property
    def axes(self) -> tuple[tuple[str, str], ...]:
        """What outer loops may cut: the dimension of the producer and that of the consumer."""
        written = self.producer.tensors[-1].axes
        read = self._read.axes
        if len(written) != len(read):
            return ()
        last = len(read) - 1 if self.operator in ROW_OPERATORS else len(read)
        found = []
        for one, other in zip(written[:last], read[:last], strict=True):
            (name, _) = one.terms[0]
            terms = [term for term in other.terms if self.consumer.dimensions[term[0]] > 1]
            size = self.producer.dimensions[name]
            alone = len(terms) == 1 and terms[0][1] == 1
            if alone and 1 < size == self.consumer.dimensions[terms[0][0]]:
                found.append((name, terms[0][0]))
        return tuple(found[:MOST_AXES])

    @property
    def _read(self) -> Tensor:
        roles = self.consumer.roles
        return next(one for one in self.consumer.tensors if roles[one.name] == "input")

    def parts(self, factors: tuple[int, ...]) -> tuple[Workload, Workload]:
        """The operations of one iteration of outer loops with these trip counts per axis."""
        found = []
        for side, work in enumerate((self.producer, self.consumer)):
            cut = {axis[side]: factor for axis, factor in zip(self.axes, factors, strict=True)}
            sizes = {name: size // cut.get(name, 1) for name, size in work.dimensions.items()}
            found.append(work.model_copy(update={"dimensions": sizes}))
        return found[0], found[1]

    def reductions(self) -> tuple[bool, ...]:
        """Per axis whether the consumer sums over it."""
        kept = self.consumer.tensors[-1].dimensions
        return tuple(name not in kept for _, name in self.axes)


class Plan(NamedTuple):
    """Outer loops of a pair and what they keep.

    Attributes:
        factors: trip counts per axis of the pair.
        order: the axes that are cut, the outermost loop first.
        kept: roles of the tensors of both operations whose pieces are kept.
        words: words that lie in the buffer beside the tiles of the operation that runs.
        moves: what fetching and storing kept pieces, adding up and the operator between cost.
    """

    factors: tuple[int, ...]
    order: tuple[int, ...]
    kept: tuple[tuple[str, ...], tuple[str, ...]]
    words: int
    moves: Moved

    @property
    def times(self) -> int:
        """Iterations of the outer loops."""
        return math.prod(self.factors)

    def roles(self, side: int) -> tuple[str, ...]:
        """Roles that lie in the buffer while the producer (0) or the consumer (1) runs."""
        lying = {("output", "input")[side], *self.kept[side]}
        return tuple(role for role in ROLES if role in lying)


class _Piece(NamedTuple):
    """A tensor that may be kept: of which operation, its words, and the axes that change it."""

    side: int
    role: str
    words: int
    follows: tuple[bool, ...]

    def visits(self, factors: tuple[int, ...], order: tuple[int, ...]) -> int:
        """How often the loops bring another piece."""
        last = max((at for at, axis in enumerate(order) if self.follows[axis]), default=-1)
        return math.prod(factors[axis] for axis in order[: last + 1])

    def distinct(self, factors: tuple[int, ...]) -> int:
        """How many pieces there are."""
        pairs = zip(factors, self.follows, strict=True)
        return math.prod(factor for factor, follows in pairs if follows)


def plans(pair: Pair, machine: Accelerator) -> list[Plan]:
    """Every way to tile a pair together: of outer loops and what is kept, the cheapest orders.

    Args:
        pair: what is fused.
        machine: with one shared buffer.

    Raises:
        ConfigError: as `shared_buffer`.
    """
    buffer, found = shared_buffer(machine), []
    sizes = [pair.producer.dimensions[name] for name, _ in pair.axes]
    divisors = [[n for n in range(1, size + 1) if size % n == 0] for size in sizes]
    for factors in itertools.product(*divisors):
        parts = pair.parts(factors)
        if parts[0].words(-1) > (buffer.capacity_words or 0):
            continue
        best: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Plan]] = {}
        for plan in _of_factors(pair, machine, factors, parts):
            others = best.setdefault(plan.kept, [])
            if any(_is_within(one.moves, plan.moves) for one in others):
                continue
            others[:] = [one for one in others if not _is_within(plan.moves, one.moves)]
            others.append(plan)
        found += [plan for some in best.values() for plan in some]
    return found


def _is_within(one: Moved, other: Moved) -> bool:
    return one.energy <= other.energy and one.cycles <= other.cycles


def _of_factors(
    pair: Pair, machine: Accelerator, factors: tuple[int, ...], parts: tuple[Workload, Workload]
) -> Iterator[Plan]:
    buffer = shared_buffer(machine)
    tile, times = parts[0].words(-1), math.prod(factors)
    pieces = list(_pieces(pair, machine, parts))
    sums = any(
        factor > 1 and reduced for factor, reduced in zip(factors, pair.reductions(), strict=True)
    )
    output = next((one for one in pieces if one.role == "output"), None)
    if sums and output is None:
        return
    between = Moved(Fraction(0), 0)
    if pair.counted and pair.operator is not None:
        between = changed_on_chip(machine, tile).times(times)
    for order in itertools.permutations(axis for axis, f in enumerate(factors) if f > 1):
        may = [
            one
            for one in pieces
            if one.visits(factors, order) < times and not (sums and one is output)
        ]
        for count in range(len(may) + 1):
            for chosen in itertools.combinations(may, count):
                kept = (*chosen, output) if sums and output is not None else chosen
                words = tile + sum(one.words for one in kept)
                if words > (buffer.capacity_words or 0):
                    continue
                energy, cycles = between
                for one in kept:
                    more = _moves_of(one, machine, factors, order)
                    energy, cycles = energy + more.energy, cycles + more.cycles
                roles = [
                    tuple(
                        r for r in ROLES if any((one.side, one.role) == (side, r) for one in kept)
                    )
                    for side in range(2)
                ]
                moves = Moved(energy, cycles)
                yield Plan(factors, order, (roles[0], roles[1]), words, moves)


def _pieces(pair: Pair, machine: Accelerator, parts: tuple[Workload, Workload]) -> Iterator[_Piece]:
    """Tensors that may be kept: alone of their role, where the buffer is next to the outermost."""
    buffer = shared_buffer(machine)
    if machine.levels[1] is not buffer:
        return
    for side, part in enumerate(parts):
        roles = list(part.roles.values())
        for index, tensor in enumerate(part.tensors):
            role = roles[index]
            if role == ("output", "input")[side] or roles.count(role) > 1:
                continue
            if {role, tensor.name} & {*buffer.bypass, *machine.levels[0].bypass}:
                continue
            follows = tuple(axis[side] in tensor.dimensions for axis in pair.axes)
            yield _Piece(side, role, part.words(index), follows)


def _moves_of(
    piece: _Piece, machine: Accelerator, factors: tuple[int, ...], order: tuple[int, ...]
) -> Moved:
    """What keeping a piece costs over all iterations."""
    outer, buffer, words = machine.levels[0], shared_buffer(machine), piece.words
    visits = piece.visits(factors, order)
    if piece.role != "output":
        fetch = moved(machine, [Access(outer, READ, words), Access(buffer, FILL, words)], buffer)
        return fetch.times(visits)
    distinct = piece.distinct(factors)
    back = [Access(outer, READ, words, addressed=False), Access(buffer, FILL, words)]
    several = (
        moved(machine, [Access(outer, UPDATE, words)], buffer).times(visits),
        moved(machine, back, buffer).times(visits - distinct),
        moved(machine, [Access(buffer, READ, words, addressed=False)], buffer).times(
            math.prod(factors) - distinct
        ),
    )
    return Moved(
        sum((one.energy for one in several), Fraction(0)), sum(one.cycles for one in several)
    )
