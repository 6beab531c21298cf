"""Assignments searched below less than the best first (lemma 14), against complete enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel
from costmodel.exact_any import prover as any_prover
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.tilings import Tilings


def _lost(seed: int, most: int) -> tuple[bool, int]:
    """Whether a random problem is proven wrongly, and how many searches were of a part."""
    rng = np.random.default_rng(seed)
    space, codes, objective = random_hierarchy(rng, most)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    prover = AnyProver(space, objective=objective)
    parts = 0
    first = prover._first_below

    def noted(energy: float, cycles: float) -> float:
        nonlocal parts
        below = first(energy, cycles)
        parts += below < np.inf
        return below

    prover._first_below = noted  # type: ignore[method-assign]
    prover.offer(codes[[int(np.argmax(values))]])
    high = False
    unit = 1.0 if objective == "latency" else float(prover.unit_pj)
    while next(prover._work, prover) is not prover:
        certain = float(prover.value_of(prover.lower_outcome)) * unit
        high = high or certain > values.min() * (1 + 1e-9)
    reached = LoopNestModel().evaluate(space, prover.codes(1)).objective(objective)[0]
    return high or bool(reached > values.min() * (1 + 2e-12)), parts


def _check(seeds: range, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    monkeypatch.setattr(any_prover, "MANY", 0)
    # Else a first tiling, tried early, leaves nothing to be searched twice.
    monkeypatch.setattr(any_prover, "DIVE", 0)
    found = [_lost(seed, 400) for seed in seeds]
    return sum(lost for lost, _ in found), sum(parts for _, parts in found)


def test_equals_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, parts = _check(range(90_000, 90_015), monkeypatch)
    assert lost == 0
    assert parts >= 5


def test_a_bound_of_nothing_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a machine's energies are nothing, so is every bound at first."""
    assert _check(range(91_080, 91_081), monkeypatch)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_equal_enumeration(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first = 91_000 + 50 * block
    assert _check(range(first, first + 50), monkeypatch)[0] == 0


def test_a_bound_above_what_was_searched_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Tilings.take_up

    def short(self: Any, begun: Any, below: float = np.inf) -> None:
        honest(self, begun, below / 4)

    monkeypatch.setattr(Tilings, "take_up", short)
    assert _check(range(90_000, 90_015), monkeypatch)[0] > 0
