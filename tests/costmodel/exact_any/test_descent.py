"""The outermost levels of a search in compiled code: the same proofs however little it holds."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from small_hierarchies import random_hierarchy

from costmodel import LoopNestModel
from costmodel.exact_any import tilings
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains.descent import make_descent


@pytest.mark.parametrize("room", [0, 1, 2, 5, 40])
def test_a_search_without_room_ends_elsewhere(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tilings, "make_descent", partial(make_descent, room=room))
    _all_are_best()


def test_where_nothing_is_compiled_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tilings, "OUTERMOST", 0)
    _all_are_best()


@pytest.mark.parametrize("quota", [1, 3])
def test_it_goes_on_where_it_was(quota: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tilings, "QUOTA", quota)
    _all_are_best()


def _all_are_best() -> None:
    for seed in range(12):
        space, codes, objective = random_hierarchy(np.random.default_rng(seed), 3000)
        least = LoopNestModel().evaluate(space, codes).objective(objective).min()
        prover = AnyProver(space, objective=objective)
        prover.run()
        found = LoopNestModel().evaluate(space, prover.codes()).objective(objective)
        assert found[0] == pytest.approx(least, rel=1e-11), seed
