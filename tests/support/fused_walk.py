"""All that a cascade can cost, choice by choice; plain and slow.

Every choice of shared loops and of kept pieces is listed here anew and walked through pass by pass;
all mappings of a part are counted by the program that shares no code with proofs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from counted import counted_front, every_cost, front_of

from costmodel.cascades.cascade import Cascade
from costmodel.cascades.walk import Loops, Walk, Walked
from costmodel.independent import counting
from costmodel.independent.counting import Cost, Tiling
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.resident import resident_machine
from costmodel.networks.chains import Step
from costmodel.problems.affine import Workload

Kept = tuple[tuple[int, int], ...]
"""Tensors that are kept: of which operator, and their place there."""


def cut_axes(cascade: Cascade) -> list[tuple[str, ...]]:
    """Dimensions by which all operators index the same axis, those of the tensors between."""
    found, slides = [], 0
    for place, start in enumerate(cascade.operators[0].tensors[-1].axes):
        names, slid = follow(cascade, start.terms[0][0], place)
        whole = passes_of(cascade, names) if names else 1
        if whole > 1 and not (slid and slides):
            found.append(names)
            slides += slid
    return found[:3]


def follow(cascade: Cascade, name: str, place: int) -> tuple[tuple[str, ...], bool]:
    """The names of an axis from operator to operator; none where it ends on the way."""
    names, slid = [name], False
    pairs = list(itertools.pairwise(cascade.operators))
    for number, (writer, reader) in enumerate(pairs):
        read = next(t for t in reader.tensors if reader.roles[t.name] == "input").axes
        outs = [axis.terms[0][0] for axis in writer.tensors[-1].axes]
        if {len(read), len(outs)} == {2, 3}:  # heads: (head, row, depth), or (token, column)
            to = {3: {0: 1, 1: 0}, 2: {0: 1, 1: 0}}[len(outs)].get(place)
            if to is None or (cascade.between[number] and 1 in (place, to) and len(outs) == 2):
                return (), False
            names.append(read[to].terms[0][0])
            mine = [axis.terms[0][0] for axis in reader.tensors[-1].axes]
            if names[-1] not in mine and number < len(pairs) - 1:
                return (), False
            place = mine.index(names[-1]) if names[-1] in mine else 0
            continue
        row = cascade.between[number] in ("softmax", "normalisation")
        terms = {d: c for d, c in read[place].terms if reader.dimensions[d] > 1}
        out = [axis.terms[0][0] for axis in reader.tensors[-1].axes]
        if not terms:
            return (), False
        own = next((d for d in terms if d in out), None)
        if own is None:
            whole = list(terms.values()) == [1]
            ended = number < len(pairs) - 1
            (own,) = [*terms][:1]
            row &= cascade.between[number] != "softmax"  # of its parts the last may sum
            if not whole or ended:
                return (), False
        if row and place == len(read) - 1:
            return (), False
        taps = 1 + sum(c * (reader.dimensions[d] - 1) for d, c in terms.items() if d != own)
        reach = terms[own] * (reader.dimensions[own] - 1) + taps
        size = writer.dimensions[names[-1]]
        if cascade.between[number] == "activation" and place == len(read) - 1:
            size //= 1 + (size == 2 * reader.dimensions[own] and len(terms) == 1)
        if taps < terms[own] or not size - terms[own] < reach <= size + 2 * (taps - 1):
            return (), False
        slid |= (terms[own], taps) != (1, 1)
        names.append(own)
        place = out.index(own) if own in out else 0
    return tuple(names), slid


def passes_of(cascade: Cascade, names: tuple[str, ...]) -> int:
    """What the trips of a loop over an axis divide: where there are heads, whole ones."""
    sizes = [o.dimensions[n] for o, n in zip(cascade.operators, names, strict=True)]
    read = [next(t for t in o.tensors if o.roles[t.name] == "input") for o in cascade.operators[1:]]
    ranks = [
        {len(o.tensors[-1].axes), len(t.axes)}
        for o, t in zip(cascade.operators[:-1], read, strict=True)
    ]
    gated = any(
        between == "activation" and one == 2 * other and len(tensor.axes[-1].terms) == 1
        for between, one, other, tensor in zip(
            cascade.between, sizes[:-1], sizes[1:], read, strict=True
        )
    )
    return math.gcd(*sizes) if {2, 3} in ranks or gated else sizes[-1]


class Choices:
    """All that a cascade can cost on a machine."""

    def __init__(self, cascade: Cascade, machine: Accelerator, most: int) -> None:
        self.cascade, self.machine, self.most = cascade, machine, most
        self.axes = cut_axes(cascade)
        assert tuple(self.axes) == cascade.axes
        self.fronts: dict[Any, list[Cost]] = {}
        self.walk = Walk(cascade, machine)
        self.dram, self.buffer = machine.levels[:2]

    def loops(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Every choice of shared loops: trip counts, and an order of those that cut."""
        sizes = [passes_of(self.cascade, names) for names in self.axes]
        every = [[n for n in range(1, size + 1) if size % n == 0] for size in sizes]
        for factors in itertools.product(*every):
            for order in itertools.permutations(a for a, f in enumerate(factors) if f > 1):
                yield factors, order

    def sums(self) -> Iterator[tuple[float, int]]:
        """Energy and cycles of every choice that no other of the same loops beats in both.

        Raises:
            OverflowError: a part has too many mappings.
        """
        for factors, order in self.loops():
            for kept in self.choices():
                yield from self.of(factors, order, kept)

    def choices(self) -> Iterator[Kept]:
        """Every set of tensors but those between."""
        last = len(self.cascade.operators) - 1
        others = [
            (side, place)
            for side, work in enumerate(self.cascade.operators)
            for place, tensor in enumerate(work.tensors)
            if not (side and work.roles[tensor.name] == "input")
            and (side == last or not tensor.output)
        ]
        for count in range(len(others) + 1):
            yield from itertools.combinations(others, count)

    def of(
        self, factors: tuple[int, ...], order: tuple[int, ...], kept: Kept
    ) -> Iterator[tuple[float, int]]:
        """What shared loops and kept tensors cost with every mapping of their parts."""
        found = self.walked(factors, order, kept)
        if found is None:
            return
        last = len(self.cascade.operators) - 1
        fronts = []
        for side, part in enumerate(found.parts):
            roles = {part.roles[part.tensors[t].name] for s, t in kept if s == side}
            roles |= ({"input"} if side else set()) | ({"output"} if side < last else set())
            fronts.append(self.front(part, tuple(sorted(roles)), found.words[side]))
        times, sums = math.prod(factors), [(Fraction(0), 0)]
        for front in fronts:
            sums = front_of((e + energy, c + cycles) for e, c in sums for energy, cycles in front)
        for energy, cycles in sums:
            yield float(times * energy + found.energy), times * cycles + found.cycles

    def walked(self, factors: tuple[int, ...], order: tuple[int, ...], kept: Kept) -> Walked | None:
        """What moves beside the parts; None: such tensors may not be kept, or it does not fit."""
        found = self.walk.run(Loops(factors, order, frozenset(kept)))
        last = len(self.cascade.operators) - 1
        output = (last, len(self.cascade.operators[last].tensors) - 1)
        passes = math.prod(factors)
        if max(found.words) > (self.buffer.capacity_words or 0):
            return None
        if found.adds != (output in kept):
            return None
        if any(found.fetched[one] == passes for one in kept if one != output):
            return None
        return found

    def front(self, part: Workload, roles: tuple[str, ...], words: int) -> list[Cost]:
        """The front of a part beside so many words."""
        key = (part.hash, roles, words)
        if key not in self.fronts:
            self.fronts[key] = self.count(part, roles, words)
        return self.fronts[key]

    def count(self, part: Workload, roles: tuple[str, ...], words: int) -> list[Cost]:
        """The same, each time anew."""
        machine = resident_machine(self.machine, roles, words)
        if machine is None:
            return []
        found = counted_front(part, machine, self.most)
        if found is None:
            raise OverflowError
        if self.dram.read_bandwidth is None:
            assert found == in_place(part, self.machine, roles, words), (part, roles, words)
        return found


def in_place(part: Workload, machine: Accelerator, roles: Sequence[str], words: int) -> list[Cost]:
    """The front of a part on the machine as it is, where tensors of some roles lie in the buffer.

    They are read and written there and nowhere above, and take so many words of its room whatever
    the loops are. Bandwidths are not looked at.
    """
    dram, buffer, *others = machine.levels
    bare = dram.model_copy(update={"bypass": tuple(roles)})
    roomy = buffer.model_copy(update={"capacity_words": None, "capacity_bits": None})
    found = machine.model_copy(update={"levels": (bare, roomy, *others)})
    counter = counting.Counter(part, found)
    lying = {t for t, tensor in enumerate(part.tensors) if part.roles[tensor.name] in roles}

    def fits(tiling: Tiling) -> bool:
        extent = tiling.extent(1)
        tiles = sum(math.prod(counter.box(t, extent)) for t in tiling.keep[1] - lying)
        return tiles + words <= (buffer.capacity_words or 0)

    return front_of(every_cost(part, found, math.inf, fits) or ())


Sums = list[tuple[float, int]]


def every_way(steps: Sequence[Step], fronts: dict[Any, Sums], choices: dict[Any, Sums]) -> Sums:
    """Energy and cycles of every way to run a chain: cascades, and between them what stays.

    Args:
        steps: each is read by the next alone.
        fronts: of a step by its place, the roles that lie in the buffer, and what lies there.
        choices: of cascades, by their first step and the one behind the last.
    """
    found: Sums = []
    for ends in cuts(len(steps)):
        for kinds in itertools.product((False, True), repeat=len(ends) - 1):
            parts = list(itertools.pairwise(ends))
            # What stays never ends where another part does that lets tensors stay.
            if any(not one and not other for one, other in itertools.pairwise(kinds)):
                continue
            sums = [
                choices.get(part, []) if fused else staying(part, fronts)
                for part, fused in zip(parts, kinds, strict=True)
            ]
            found += [
                (sum(e for e, _ in one), sum(c for _, c in one)) for one in itertools.product(*sums)
            ]
    return found


def cuts(steps: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut a chain into parts, by where they end."""
    for count in range(steps):
        for inner in itertools.combinations(range(1, steps), count):
            yield (0, *inner, steps)


def staying(part: tuple[int, int], fronts: dict[Any, Sums]) -> Sums:
    """Every choice of what stays whole between the steps of a part."""
    first, end = part
    sums: Sums = []
    for stay in itertools.product((False, True), repeat=end - first - 1):
        chosen = []
        for place in range(first, end):
            before = place > first and stay[place - first - 1]
            behind = place < end - 1 and stay[place - first]
            lying = [place - 1] * before + [place] * behind
            roles = ("input",) * before + ("output",) * behind
            chosen.append(fronts[place, roles, tuple(lying)])
        sums += [
            (sum(e for e, _ in one), sum(c for _, c in one)) for one in itertools.product(*chosen)
        ]
    return sums


def every_cascade(steps: Sequence[Step], machine: Accelerator, most: int) -> dict[Any, Sums]:
    """What every cascade of a chain's steps can cost, by its first step and the one behind.

    Raises:
        OverflowError: a part has too many mappings.
    """
    found = {}
    for first, end in itertools.combinations(range(len(steps) + 1), 2):
        if end - first > 1:
            some = steps[first:end]
            cascade = Cascade.of(
                *(step.workload for step in some), between=[step.operator for step in some[1:]]
            )
            if len(some) == 2 or cascade.shared:
                sums = list(Choices(cascade, machine, most).sums())
                found[first, end] = [(float(e), c) for e, c in front_of(sums)]
    return found
