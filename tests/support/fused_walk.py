"""Pairs of operations tiled together, walked through iteration by iteration; plain and slow.

Every choice of outer loops and of kept pieces is listed here anew; all mappings of a part are
counted by the program that shares no code with proofs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from counted import counted_front, every_cost, front_of

from costmodel.independent import counting
from costmodel.independent.counting import Cost, Tiling
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.resident import resident_machine
from costmodel.problems.affine import Workload

Kept = tuple[tuple[int, int], ...]
"""Tensors that are kept: of the producer (0) or the consumer (1), and their place there."""


def cut_axes(pair: tuple[Workload, Workload], rows: bool) -> list[tuple[str, str]]:
    """Dimensions of equal size that alone index the same axis of the intermediate."""
    producer, consumer = pair
    read = next(t for t in consumer.tensors if consumer.roles[t.name] == "input")
    found = []
    for place, (out, into) in enumerate(zip(producer.tensors[-1].axes, read.axes, strict=True)):
        name = out.terms[0][0]
        moving = [(d, c) for d, c in into.terms if consumer.dimensions[d] > 1]
        if rows and place == len(read.axes) - 1:
            continue
        alone = len(moving) == 1 and moving[0][1] == 1
        if alone and 1 < producer.dimensions[name] == consumer.dimensions[moving[0][0]]:
            found.append((name, moving[0][0]))
    return found[:3]


def smaller(work: Workload, cuts: dict[str, int]) -> Workload:
    """The part of an operation that one iteration does."""
    sizes = {name: size // cuts.get(name, 1) for name, size in work.dimensions.items()}
    return work.model_copy(update={"dimensions": sizes})


class Walk:
    """All that a pair can cost on a machine when it is tiled together."""

    def __init__(
        self, pair: tuple[Workload, Workload], machine: Accelerator, most: int, rows: bool = False
    ) -> None:
        self.pair, self.machine, self.most = pair, machine, most
        self.axes = cut_axes(pair, rows)
        self.fronts: dict[Any, list[Cost]] = {}
        self.dram, self.buffer = machine.levels[:2]

    def sums(self) -> Iterator[tuple[float, int]]:
        """Energy and cycles of every choice that no other of the same outer loops beats in both.

        Raises:
            OverflowError: a part has too many mappings.
        """
        sizes = [self.pair[0].dimensions[name] for name, _ in self.axes]
        every = [[n for n in range(1, size + 1) if size % n == 0] for size in sizes]
        for factors in itertools.product(*every):
            for order in itertools.permutations(a for a, f in enumerate(factors) if f > 1):
                for kept in self.choices():
                    yield from self.of(factors, order, kept)

    def choices(self) -> Iterator[Kept]:
        """Every set of tensors but the intermediate."""
        consumer = self.pair[1]
        others = [(0, i) for i in range(len(self.pair[0].tensors) - 1)]
        others += [
            (1, i)
            for i, tensor in enumerate(consumer.tensors)
            if consumer.roles[tensor.name] != "input"
        ]
        for count in range(len(others) + 1):
            yield from itertools.combinations(others, count)

    def of(
        self, factors: tuple[int, ...], order: tuple[int, ...], kept: Kept
    ) -> Iterator[tuple[float, int]]:
        """What outer loops and kept tensors cost with every mapping of their parts."""
        cuts = [{a[s]: f for a, f in zip(self.axes, factors, strict=True)} for s in range(2)]
        parts = [smaller(work, cut) for work, cut in zip(self.pair, cuts, strict=True)]
        words = parts[0].words(-1) + sum(parts[side].words(t) for side, t in kept)
        if words > (self.buffer.capacity_words or 0):
            return
        moves = self.walk(factors, order, kept, parts)
        if moves is None:
            return
        fronts = []
        for side, part in enumerate(parts):
            roles = [part.roles[part.tensors[t].name] for s, t in kept if s == side]
            fronts.append(self.front(part, (*roles, ("output", "input")[side]), words))
        times = math.prod(factors)
        for (e0, c0), (e1, c1) in itertools.product(*fronts):
            yield float(times * (e0 + e1) + moves[0]), times * (c0 + c1) + moves[1]

    def front(self, part: Workload, roles: tuple[str, ...], words: int) -> list[Cost]:
        """The front of a part beside so many words."""
        key = (part.hash, tuple(sorted(roles)), words)
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

    def walk(
        self,
        factors: tuple[int, ...],
        order: tuple[int, ...],
        kept: Kept,
        parts: list[Workload],
    ) -> tuple[Fraction, int] | None:
        """What is moved between parts: energy and cycles; None: such tensors may not be kept."""
        output = (1, len(parts[1].tensors) - 1)
        there: dict[tuple[int, int], tuple[int, ...]] = {}
        begun: set[tuple[int, ...]] = set()
        fetched: Counter[tuple[int, int]] = Counter()
        energy, cycles, again = Fraction(0), 0, False
        iterations = list(itertools.product(*(range(factors[axis]) for axis in order)))

        def piece(side: int, t: int, at: dict[int, int]) -> tuple[int, ...]:
            named = self.pair[side].tensors[t].dimensions
            return tuple(i if self.axes[a][side] in named else 0 for a, i in sorted(at.items()))

        for indices in iterations:
            at = dict(zip(order, indices, strict=True))
            mine = piece(*output, at)
            again |= mine in begun
            for one in kept:
                words = parts[one[0]].words(one[1])
                wanted = piece(*one, at)
                if there.get(one) != wanted:
                    fetched[one] += 1
                    if one != output or wanted in begun:
                        energy += words * Fraction(str(self.dram.word_energy_pj))
                        energy += words * Fraction(str(self.buffer.word_energy_pj))
                        cycles += self.waiting(words, words, self.dram, "read")
                    if one == output and one in there:
                        energy += words * Fraction(str(self.dram.word_energy_pj))
                        cycles += self.waiting(words, 0, self.dram, "write")
                    there[one] = wanted
                if one == output and mine in begun:  # what is new is added to what lies there
                    energy += words * Fraction(str(self.buffer.word_energy_pj))
                    rate = self.buffer.read_bandwidth
                    cycles += math.ceil(words / Fraction(str(rate))) if rate else 0
            begun.add(mine)
        if output in there:
            words = parts[1].words(output[1])
            energy += words * Fraction(str(self.dram.word_energy_pj))
            cycles += self.waiting(words, 0, self.dram, "write")
        if again != (output in kept):
            return None
        if any(fetched[one] == len(iterations) for one in kept if one != output):
            return None
        leaking = self.dram.leakage_pj + self.buffer.leakage_pj
        return energy + cycles * Fraction(str(leaking)), cycles

    def waiting(self, words: int, filled: int, level: Any, way: str) -> int:
        """Cycles of one transfer between the outermost level and the buffer."""
        rates = [(words, getattr(level, f"{way}_bandwidth")), (filled, self.buffer.write_bandwidth)]
        return max((math.ceil(n / Fraction(str(rate))) for n, rate in rates if rate), default=0)


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
