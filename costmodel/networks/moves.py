"""Words that are moved where nothing is multiplied: what reading and writing them costs.

Softmax, normalisation, activations, additions, pooling and copies read and write words. Each word
costs its access, at the level where it lies, and the cycles that the level's bandwidth takes;
meanwhile nothing else runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from costmodel.machines.accelerators import Accelerator
from costmodel.machines.levels import Level
from costmodel.machines.resident import shared_buffer

READ, FILL, UPDATE = range(3)


class Moved(NamedTuple):
    """What moving words costs: pJ, and cycles in which nothing else runs."""

    energy: Fraction
    cycles: int

    def times(self, count: int) -> Moved:
        """As often as that."""
        return Moved(count * self.energy, count * self.cycles)


class Access(NamedTuple):
    """Words of a tensor read (0), filled (1) or updated (2) at a level."""

    level: Level
    action: int
    words: int
    addressed: bool = True


def moved(machine: Accelerator, accesses: Iterable[Access], through: Level) -> Moved:
    """What accesses cost that run at one time, with nothing beside them.

    Args:
        machine: where.
        accesses: what is read and written.
        through: the innermost level that is in use: it leaks meanwhile, and those outside it.
    """
    accesses = tuple(accesses)
    energy, cycles = Fraction(0), 0
    for level, action, words, addressed in accesses:
        blocks = -(-words // level.block_words)
        energy += blocks * Fraction(repr(float(level.energies[action])))
        energy += addressed * words * Fraction(repr(float(level.address_pj)))
    for level in {one.level.name: one.level for one in accesses}.values():
        mine = [one for one in accesses if one.level.name == level.name]
        reads = sum(one.words for one in mine if one.action == READ)
        writes = sum(one.words for one in mine if one.action != READ)
        for words, rate in (
            (reads, level.read_bandwidth),
            (writes, level.write_bandwidth),
            (reads + writes, level.bandwidth),
        ):
            if rate is not None:
                cycles = max(cycles, math.ceil(words / Fraction(repr(float(rate)))))
    outside = machine.levels[: machine.levels.index(through) + 1] if cycles else ()
    leaking = sum((Fraction(repr(float(level.leakage_pj))) for level in outside), Fraction(0))
    return Moved(energy + cycles * leaking, cycles)


class Words(NamedTuple):
    """Words that an operator reads and writes."""

    reads: int
    writes: int

    @property
    def both(self) -> int:
        """All of them."""
        return self.reads + self.writes

    def times(self, count: int) -> Words:
        """As often as that."""
        return Words(count * self.reads, count * self.writes)


def changed_on_chip(machine: Accelerator, reads: int, writes: int) -> Moved:
    """What an operator without multiply-accumulates costs that changes words in the buffer."""
    buffer = shared_buffer(machine)
    return moved(machine, [Access(buffer, READ, reads), Access(buffer, UPDATE, writes)], buffer)


def changed_off_chip(machine: Accelerator, reads: int, writes: int) -> Moved:
    """What an operator costs that reads and writes words outside the chip."""
    outer = machine.levels[0]
    return moved(machine, [Access(outer, READ, reads), Access(outer, UPDATE, writes)], outer)
