"""Objectives are compared as Python compares whole numbers, also where rounding would decide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.exact.objective import (
    ED2P,
    EDP,
    ENERGY,
    INFINITE,
    KINDS,
    LATENCY,
    energy_threshold,
    is_below,
    rank,
    value,
)

Outcome = tuple[int, int]
# As Python has it: only compiled code calls the compiled function.
_threshold = getattr(energy_threshold, "py_func", energy_threshold)
COSTS = st.one_of(st.integers(0, 8), st.integers(2**20, 2**31), st.integers(2**61, 2**62 - 1))


def better(kind: int, ours: Outcome, its: Outcome) -> bool:
    """What `is_below` promises."""
    energy, cycles = ours
    values = {
        EDP: lambda e, c: e * c,
        ENERGY: lambda e, c: e,
        LATENCY: lambda e, c: c,
        ED2P: lambda e, c: e * c * c,
    }
    tied = (cycles, its[1]) if kind == ENERGY else (energy, its[0])
    last = (energy, its[0]) if kind == ENERGY else (cycles, its[1])
    mine, theirs = values[kind](*ours), values[kind](*its)
    return (mine, tied[0], last[0]) < (theirs, tied[1], last[1])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=200)
@given(energy=COSTS, cycles=COSTS, other=COSTS, more=COSTS, near=st.integers(-2, 2))
def test_outcomes_are_compared_exactly(
    kind: int, energy: int, cycles: int, other: int, more: int, near: int
) -> None:
    ours = (energy, cycles)
    close = min(max(energy + near, 0), INFINITE - 1)
    for its in ((other, more), (close, cycles), (cycles, energy), ours, (other, cycles)):
        assert is_below(kind, *ours, *its) == better(kind, ours, its)
        assert is_below(kind, *its, *ours) == better(kind, its, ours)
        assert (rank(kind, *ours) < rank(kind, *its)) == better(kind, ours, its)


@pytest.mark.parametrize("kind", [EDP, ED2P])
def test_what_differs_in_the_last_digit_is_told_apart(kind: int) -> None:
    """(a + 1) (a - 1) = a^2 - 1: sixty digits, of which only the last differs."""
    a = 2**60 + 12345
    assert is_below(EDP, a + 1, a - 1, a, a)
    assert not is_below(EDP, a, a, a + 1, a - 1)
    assert not is_below(kind, a, a, a, a)
    # Of equal products that of less energy.
    assert is_below(kind, 2**20, 2**30, 2**30 if kind == EDP else 2**40, 2**20)
    assert not is_below(kind, 2**30 if kind == EDP else 2**40, 2**20, 2**20, 2**30)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=60)
@given(cycles=st.integers(1, 2**40), energy=st.integers(0, 2**61), others=st.integers(1, 2**40))
def test_the_threshold_is_the_least_energy_that_does_not_beat(
    kind: int, cycles: int, energy: int, others: int
) -> None:
    found = _threshold(kind, cycles, energy, others)
    assert found == INFINITE or not better(kind, (found, cycles), (energy, others))
    assert found == 0 or better(kind, (found - 1, cycles), (energy, others))


def test_values_by_hand() -> None:
    assert [value(kind, 3, 5) for kind in (EDP, ENERGY, LATENCY, ED2P)] == [15, 3, 5, 75]
