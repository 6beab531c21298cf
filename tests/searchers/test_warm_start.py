"""A search that begins from mappings of others knows them, and pays for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel.loop_nest.model import LoopNestModel
from costmodel.machines.accelerators import accelerator
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.workloads import workload
from searchers import Evaluator, make
from searchers.shared.warm_start import begin_from

SPACE = MapSpace(workload("gemm:M=24,N=20,K=16"), accelerator("mm256"))
METHODS = {
    "annealing": {"horizon": 400},
    "genetic": {"population": 10, "offspring": 10},
    "model-guided": {"chains": 8, "steps": 3},
}


def good() -> np.ndarray:
    """The best of many draws, and two of the others."""
    codes = SPACE.sample(np.random.default_rng(0), 3000, feasible=True)
    losses = LoopNestModel().evaluate(SPACE, codes).objective("edp")
    return codes[np.argsort(losses)[[0, 100, 200]]]


@pytest.mark.parametrize("name", METHODS)
def test_what_it_begins_from_counts_and_stays(name: str) -> None:
    # Of annealing as long as its temperatures are looked for: then its chains move away.
    count = 23 if name == "annealing" else 40
    evaluator = Evaluator(LoopNestModel(), SPACE, iterations=count)
    searcher = make(name, SPACE, seed=0, **METHODS[name])
    begin_from(searcher, evaluator, good())
    assert evaluator.iterations_used == 3
    searcher.run(evaluator)
    assert evaluator.iterations_used == count
    memory = searcher.state_dict()["memory"]
    held = memory["_population" if name == "genetic" else "_codes"]
    assert good()[0].tobytes() in {code.tobytes() for code in held}


@pytest.mark.parametrize("name", METHODS)
def test_it_goes_on_exactly_from_its_state(name: str) -> None:
    whole, parts = (Evaluator(LoopNestModel(), SPACE, iterations=50) for _ in range(2))
    searcher = make(name, SPACE, seed=1, **METHODS[name])
    begin_from(searcher, whole, good())
    searcher.run(whole)
    before = make(name, SPACE, seed=1, **METHODS[name])
    begin_from(before, parts, good())
    for _ in range(2):
        before.step(parts, 7)
    after = make(name, SPACE, seed=5, **METHODS[name])
    after.load_state_dict(before.state_dict())
    after.run(parts)
    assert np.array_equal(parts.result().curve_loss, whole.result().curve_loss)


def test_a_budget_may_end_before_it_begins() -> None:
    told: list[Any] = []
    searcher = make("genetic", SPACE, seed=0)
    evaluator = Evaluator(LoopNestModel(), SPACE, iterations=2)
    searcher.take_in = lambda codes, losses: told.append(len(codes))  # type: ignore[method-assign]
    begin_from(searcher, evaluator, good())
    begin_from(searcher, evaluator, good())
    assert told == [2]
    assert evaluator.remaining == 0
