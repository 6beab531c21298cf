"""Named tuples laid out beforehand are to compiled code what they are without."""

from typing import NamedTuple

import numpy as np
import pytest

from costmodel.arrays.tables import Array
from costmodel.compiled import compiled, lean
from costmodel.compiled.by_reference import by_reference
from costmodel.compiled.laid_out import laid_out
from costmodel.tile_chains.tiles import FloatArray


@by_reference
class Inner(NamedTuple):
    """Arrays and numbers."""

    numbers: Array
    count: int
    share: float
    table: FloatArray


@by_reference
class Outer(NamedTuple):
    """One that holds another."""

    inner: Inner
    scratch: FloatArray


@lean
def total(outer: Outer, factor: float) -> float:
    """A sum that reads every field, and writes to one."""
    found = outer.inner.share + outer.inner.count
    for number in outer.inner.numbers:
        found += number
    rows, columns = outer.inner.table.shape
    for row in range(rows):
        for column in range(columns):
            found += outer.inner.table[row, column] * (1 + row) * factor**column
    outer.scratch[0] += 1
    return found


@compiled
def counted(outer: Outer) -> float:
    """A sum of code that counts references to arrays."""
    table = outer.inner.table + 1
    return float(table.sum() + outer.inner.numbers.sum())


def an_inner(kind: type = np.int64, count: int = -3) -> Inner:
    """Some of it; the table is no block of memory."""
    table = np.arange(24.0).reshape(4, 6)[::-1, ::2]
    return Inner(np.arange(5).astype(kind), count, 0.25, table)


@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_compiled_code_reads_the_same(kind: type) -> None:
    inner, scratch = an_inner(kind), np.zeros(1)
    plain = Outer(inner, scratch)
    ways = [plain, Outer(laid_out(inner), scratch), laid_out(plain)]
    ways.append(laid_out(ways[1]))
    assert {total(way, 3.0) for way in ways} == {total(plain, 3.0)}
    assert {counted(way) for way in ways} == {counted(plain)}
    assert scratch[0] == len(ways) + 1


def test_no_type_is_taken_for_another() -> None:
    # Called with integers of 32 bits after those of 64, and with other numbers in the same fields.
    found = [
        total(laid_out(Outer(an_inner(kind, count), np.zeros(1))), 2.0)
        for kind in (np.int64, np.int32, np.int64)
        for count in (-3, 2**40)
    ]
    assert found[:2] == found[2:4] == found[4:]
    assert found[1] - found[0] == 2**40 + 3


def test_fields_are_there_and_stay() -> None:
    inner = an_inner()
    made = laid_out(inner)
    assert laid_out(made) is made
    assert made.numbers is inner.numbers
    assert (made.count, made.share) == (-3, 0.25)
    wanted = total(Outer(inner, np.zeros(1)), 2.0)
    del inner
    rest = [an_inner() for _ in range(100)]
    assert total(laid_out(Outer(made, np.zeros(1))), 2.0) == wanted
    assert len(rest) == 100


def test_what_is_written_later_is_read() -> None:
    inner = an_inner()
    made = laid_out(Outer(inner, np.zeros(1)))
    before = total(made, 1.0)
    inner.numbers[2] += 10
    assert total(made, 1.0) == before + 10
