"""Every way to run a cascade in passes: shared loops, what is kept, and what that moves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from costmodel.cascades.cascade import STATISTICS, Cascade, every_factors
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.resident import ROLES, shared_buffer
from costmodel.networks.links import changed_words
from costmodel.networks.moves import (
    FILL,
    READ,
    UPDATE,
    Access,
    Moved,
    Words,
    changed_on_chip,
    moved,
)
from costmodel.problems.affine import Workload

Kept = tuple[tuple[str, ...], ...]
"""Per operator the roles of its tensors whose pieces are kept."""


class Plan(NamedTuple):
    """Shared loops of a cascade and what they keep.

    Attributes:
        factors: trip counts per shared axis.
        order: the axes that are cut, the outermost loop first.
        kept: roles of the tensors of every operator whose pieces are kept.
        words: per operator, words that lie in the buffer beside its own tiles while it runs.
        moves: what fetching and storing kept pieces, adding up and the operators between cost.
    """

    factors: tuple[int, ...]
    order: tuple[int, ...]
    kept: Kept
    words: tuple[int, ...]
    moves: Moved

    @property
    def times(self) -> int:
        """Passes."""
        return math.prod(self.factors)

    def roles(self, side: int) -> tuple[str, ...]:
        """Roles that lie in the buffer while an operator runs."""
        between = (("input", side > 0), ("output", side < len(self.kept) - 1))
        lying = {*(role for role, has in between if has), *self.kept[side]}
        return tuple(role for role in ROLES if role in lying)


class _Piece(NamedTuple):
    """A tensor that may be kept: of which operator, its words, and the axes that change it."""

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


class _Loops(NamedTuple):
    """Shared loops before their order: what a pass does, what may be kept, what must."""

    cascade: Cascade
    machine: Accelerator
    prices: _Prices
    factors: tuple[int, ...]
    between: tuple[int, ...]
    pieces: tuple[_Piece, ...]
    sums: bool
    room: int
    statistics: _Piece | None
    changed: tuple[Words, ...]

    @property
    def tiles(self) -> tuple[int, ...]:
        """Per operator, words of the tiles between that lie there while it runs."""
        return _beside(self.between)


def plans(cascade: Cascade, machine: Accelerator) -> list[Plan]:
    """Every way to run a cascade: of shared loops and what is kept, the cheapest orders.

    Args:
        cascade: what is tiled together.
        machine: with one shared buffer.

    Raises:
        ConfigError: as `shared_buffer`.
    """
    found, prices = [], _Prices(machine)
    room = shared_buffer(machine).capacity_words or 0
    for factors in every_factors(cascade):
        parts = cascade.parts(factors)
        between = tuple(part.words(-1) for part in parts[:-1])
        if max(_beside(between)) > room:
            continue
        sums = any(f > 1 and sums for f, sums in zip(factors, cascade.reductions(), strict=True))
        pieces = tuple(_pieces(cascade, machine, parts))
        rows = _statistics(cascade, factors, between[-1])
        changed = tuple(
            changed_words(operator, *pair)
            for operator, pair in zip(cascade.between, itertools.pairwise(parts), strict=True)
        )
        loops = _Loops(
            cascade, machine, prices, factors, between, pieces, sums, room, rows, changed
        )
        best: dict[Kept, list[Plan]] = {}
        for plan in _of_loops(loops):
            others = best.setdefault(plan.kept, [])
            if any(_is_within(one.moves, plan.moves) for one in others):
                continue
            others[:] = [one for one in others if not _is_within(plan.moves, one.moves)]
            others.append(plan)
        found += [plan for some in best.values() for plan in some]
    return found


def _beside(between: Sequence[int]) -> tuple[int, ...]:
    """Per operator, words of the tensors between that it reads and writes."""
    return tuple(before + behind for before, behind in itertools.pairwise((0, *between, 0)))


def _is_within(one: Moved, other: Moved) -> bool:
    return one.energy <= other.energy and one.cycles <= other.cycles


def _of_loops(loops: _Loops) -> Iterator[Plan]:
    """The plans of shared loops in every order."""
    factors, times = loops.factors, math.prod(loops.factors)
    output = next((one for one in loops.pieces if one.role == "output"), None)
    if loops.sums and output is None:
        return
    between = _operators_between(loops)
    cut = [axis for axis, factor in enumerate(factors) if factor > 1]
    tiles = loops.tiles
    rows = loops.statistics
    running = 0 if rows is None else rows.words
    most = loops.room - max(tiles) - running
    for order in itertools.permutations(cut):
        may = [
            one
            for one in loops.pieces
            if one.visits(factors, order) < times and not (loops.sums and one is output)
        ]
        costs = {one: _moves_of(one, loops.prices, factors, order) for one in loops.pieces}
        always = [between]
        if rows is not None and output is not None:
            always.append(_moves_of_rows((rows, output), loops.prices, factors, order))
        for chosen in _subsets(may):
            kept = (*chosen, output) if loops.sums and output is not None else chosen
            beside = sum(one.words for one in kept)
            if beside > most:
                continue
            moves = _sum_of([*always, *(costs[one] for one in kept)])
            words = tuple(tile + beside + running for tile in tiles)
            yield Plan(factors, order, _roles_of(kept, len(tiles)), words, moves)


def _operators_between(loops: _Loops) -> Moved:
    """What softmax and its like cost, at the buffer."""
    energy, cycles = Fraction(0), 0
    if loops.cascade.counted:
        for operator, words in zip(loops.cascade.between, loops.changed, strict=True):
            if operator is not None:
                more = changed_on_chip(loops.machine, *words).times(math.prod(loops.factors))
                energy, cycles = energy + more.energy, cycles + more.cycles
    return Moved(energy, cycles)


def _subsets(pieces: Sequence[_Piece]) -> Iterator[tuple[_Piece, ...]]:
    for count in range(len(pieces) + 1):
        yield from itertools.combinations(pieces, count)


def _roles_of(kept: Sequence[_Piece], operators: int) -> Kept:
    named = {(one.side, one.role) for one in kept}
    return tuple(
        tuple(role for role in ROLES if (side, role) in named) for side in range(operators)
    )


def _pieces(cascade: Cascade, machine: Accelerator, parts: Sequence[Workload]) -> Iterator[_Piece]:
    """Tensors that may be kept: alone of their role, where the buffer is next to the outermost."""
    buffer = shared_buffer(machine)
    if machine.levels[1] is not buffer:
        return
    for side, part in enumerate(parts):
        roles = list(part.roles.values())
        for index, tensor in enumerate(part.tensors):
            role = roles[index]
            if role in cascade.roles[side] or roles.count(role) > 1:
                continue
            if {role, tensor.name} & {*buffer.bypass, *machine.levels[0].bypass}:
                continue
            follows = tuple(axis[side] in tensor.dimensions for axis in cascade.axes)
            yield _Piece(side, role, part.words(index), follows)


class _Prices:
    """What moving so many words costs, each asked for once."""

    def __init__(self, machine: Accelerator) -> None:
        self._machine, self._known = machine, dict[tuple[str, int], Moved]()
        self._outer, self._buffer = machine.levels[0], shared_buffer(machine)

    def of(self, way: str, words: int) -> Moved:
        """Of words that are fetched, written, come back, are added to, are set or renewed."""
        if (way, words) not in self._known:
            outer, buffer = self._outer, self._buffer
            accesses = {
                "fetched": (Access(outer, READ, words), Access(buffer, FILL, words)),
                "written": (Access(outer, UPDATE, words),),
                "back": (Access(outer, READ, words, False), Access(buffer, FILL, words)),
                "added to": (Access(buffer, READ, words, False),),
                "set": (Access(buffer, UPDATE, words),),
                "renewed": (Access(buffer, READ, words, False), Access(buffer, UPDATE, words)),
            }[way]
            self._known[way, words] = moved(self._machine, accesses, buffer)
        return self._known[way, words]

    def scaled(self, words: int) -> Moved:
        """Of words that are multiplied as they are read: a multiply-accumulate each."""
        price = Fraction(repr(float(self._machine.mac_energy_pj)))
        return Moved(words * price, -(-words // self._machine.processing_elements))


def _moves_of(
    piece: _Piece, prices: _Prices, factors: tuple[int, ...], order: tuple[int, ...]
) -> Moved:
    """What keeping a piece costs over all passes."""
    visits, words = piece.visits(factors, order), piece.words
    if piece.role != "output":
        return prices.of("fetched", words).times(visits)
    distinct = piece.distinct(factors)
    several = (
        prices.of("written", words).times(visits),
        prices.of("back", words).times(visits - distinct),
        prices.of("added to", words).times(math.prod(factors) - distinct),
    )
    return _sum_of(several)


def _statistics(cascade: Cascade, factors: tuple[int, ...], words: int) -> _Piece | None:
    """The running maxima and sums of rows that are cut; None: none are.

    Args:
        cascade: of which.
        factors: trip counts per axis.
        words: of a tile of the last tensor between.
    """
    cut = [
        axis
        for axis, factor in zip(cascade.shared, factors, strict=True)
        if axis.of_rows and factor > 1
    ]
    if not cut:
        return None
    ((at, axis),) = [(at, axis) for at, axis in enumerate(cascade.shared) if axis is cut[0]]
    rows = words // axis.tiles(factors[at])[-2]
    follows = tuple(not one.of_rows for one in cascade.shared)
    return _Piece(len(cascade.operators) - 1, "output", STATISTICS * rows, follows)


def _moves_of_rows(
    pieces: tuple[_Piece, _Piece], prices: _Prices, factors: tuple[int, ...], order: tuple[int, ...]
) -> Moved:
    """What a running maximum and sum cost, and scaling what was added up with the ones before.

    Args:
        pieces: they, and the output's.
        prices: of words.
        factors: trip counts per axis.
        order: the axes that are cut, the outermost loop first.
    """
    rows, output = pieces
    times, words = math.prod(factors), rows.words
    distinct, visits = rows.distinct(factors), rows.visits(factors, order)
    return _sum_of(
        (
            prices.of("set", words).times(distinct),
            prices.of("renewed", words).times(times - distinct),
            prices.of("written", words).times(visits - distinct),
            prices.of("back", words).times(visits - distinct),
            prices.scaled(output.words).times(times - output.distinct(factors)),
        )
    )


def _sum_of(several: Sequence[Moved]) -> Moved:
    return Moved(
        sum((one.energy for one in several), Fraction(0)), sum(one.cycles for one in several)
    )
