"""How values of so many bits lie in a level's words: the accesses, room and bandwidth they take.

A tensor of which no width is said has values of one word, whatever the level's words are. Letters:
L levels, T tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.machines.machine import Machine

Array = npt.NDArray[np.int64]


class Packing(NamedTuple):
    """What values take of the words of every level.

    parts over block `[L, T]` accesses of a value, rounded up over a run; room `[L, T]` what a value
    takes of a capacity, in the same units as unit `[L]`, one word: bits or parts of one where any
    width is said, else words.
    """

    parts: Array
    block: Array
    room: Array
    unit: Array

    @property
    def is_of_words(self) -> bool:
        """Whether every value is one word."""
        return bool((self.unit == 1).all() and (self.room == 1).all())

    def words(self, tiles: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Words of every level `[..., L, T]` that tiles of so many values take."""
        return np.asarray(tiles * (self.room / self.unit[:, None]))


def pack(machine: Machine, bits: Sequence[int | None]) -> Packing:
    """How the values of tensors lie in a machine's levels.

    `whole` values are not split where an access holds one: floor(W / b) of them in an access of W
    bits, or ceil(b / W) accesses of one; `dense` ones lie one after another. Of `word` ones a word
    of w bits holds floor(w / b) whole, or each lies in ceil(b / w) words: so much room they take.

    Args:
        machine: the machine.
        bits: `[T]` of a value of each tensor; None: one word.
    """
    shape = len(machine.levels), len(bits)
    parts, block, room = np.ones((3, *shape), np.int64)
    unit = np.ones(shape[0], np.int64)
    for index, level in enumerate(machine.levels):
        word = level.word_bits or machine.word_bits
        access = word * level.block_words
        if any(bits):
            unit[index] = word
        by_word = any(bits) and (level.packing or machine.packing) == "word"
        if by_word:
            # So that what a value takes of a word is a whole number.
            unit[index] = math.lcm(*(word // width for width in bits if width and width <= word))
        for t, width in enumerate(bits):
            block[index, t] = level.block_words
            room[index, t] = width or unit[index]
            if width is None:
                continue
            if by_word:
                words = -(-width // word)
                values = word // width if width <= word else 1
                parts[index, t], block[index, t] = words, level.block_words * values
                room[index, t] = unit[index] * words // values
            elif (level.packing or machine.packing) == "dense":
                common = math.gcd(width, access)
                parts[index, t], block[index, t] = width // common, access // common
            elif width <= access:
                block[index, t] = access // width
            else:
                parts[index, t], block[index, t] = -(-width // access), 1
    return Packing(parts, block, room, unit)
