"""The cycles that a pass through an array of elements takes beside its multiply-accumulates."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from mapspace.strict_yaml import Name, StrictModel, plain_integer, shown

MOST_CYCLES = 2**31
_TERM = re.compile(r"\s*([+-]?)\s*(?:(\d{1,9})\s*\*?\s*)?(rows|columns)?\s*")


def _read(value: object) -> object:
    value = plain_integer(value)
    if type(value) is int:
        value = str(value)
    return value


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _check(text: str) -> str:
    try:
        cycles_of(text, 1, 1)
    except ValueError:
        raise ValueError(
            "expected a whole number of cycles or a sum such as rows + columns - 2, got "
            f"{shown(text)}."
        ) from None
    return text


def cycles_of(text: str, rows: int, columns: int) -> int:
    """The value of a sum of numbers, rows and columns, each perhaps several times.

    Args:
        text: such as `2 * rows + columns - 2`.
        rows: of the array: the height of the mesh.
        columns: its width.

    Raises:
        ValueError: it is no such sum.
    """
    total, place, sides = 0, 0, {"rows": rows, "columns": columns, None: 1}
    while place < len(text) or not place:
        found = _TERM.match(text, place)
        if found is None or found.end() == place or not (found[2] or found[3]):
            raise ValueError(text)
        if place and not found[1]:
            raise ValueError(text)
        sign = -1 if found[1] == "-" else 1
        total += sign * int(found[2] or 1) * sides[found[3]]
        place = found.end()
    return total


CycleSum = Annotated[
    str, BeforeValidator(_read), Field(max_length=80, strict=True), AfterValidator(_check)
]
"""Cycles: a number, or a sum of numbers, rows and columns."""


class ArrayPasses(StrictModel):
    """What a pass takes: the time in which every element holds one word of what is stationary.

    All passes of a mapping come one after another, and nothing of one overlaps with the next.
    """

    stationary: Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)]
    """Role (input, weight, output) or tensor of which elements hold a word while others stream."""
    load: CycleSum = "0"
    """Cycles until all elements hold theirs; 0 where a second register hides it."""
    fill: CycleSum = "0"
    """Cycles until the first streaming word has reached the last element."""
    drain: CycleSum = "0"
    """Cycles until the last result has left the array."""

    def parts(self, rows: int, columns: int) -> tuple[int, int, int]:
        """Cycles of loading, filling and draining in an array of so many rows and columns."""
        load, fill, drain = (
            cycles_of(text, rows, columns) for text in (self.load, self.fill, self.drain)
        )
        return load, fill, drain

    def problem(self, rows: int, columns: int) -> str | None:
        """What is wrong with it on such an array, in one line, or None."""
        for key, cycles in zip(("load", "fill", "drain"), self.parts(rows, columns), strict=True):
            if not 0 <= cycles < MOST_CYCLES:
                return (
                    f"array.{key}: expected at least 0 cycles, got {getattr(self, key)} = "
                    f"{cycles:,} of {rows} rows and {columns} columns."
                )
        return None
