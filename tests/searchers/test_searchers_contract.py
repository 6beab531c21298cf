"""What every searcher promises, held over the registry: a new one is covered by its line there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from mapspace.testing import SearcherContract
from mapspace.testing.toy_space import ToyPredictor, ToySpace
from searchers import SEARCHERS, Evaluator, make, searcher_class

# Those that RLlib hosts would start a Ray.
pytestmark = pytest.mark.usefixtures("ray_runtime")

NAMES = sorted(SEARCHERS)
# Every searcher but those that a slow test trains.
QUICK = [name for name in NAMES if not searcher_class(name).SLOW]
PROBLEM = "cnn:N=1,K=32,C=16,P=14,Q=14,R=3,S=3,stride=1"
REAL = {
    name: MapSpace(workload(PROBLEM), accelerator(name)) for name in ("eyeriss", "simba", "tpu-v1")
}
# The order of its scratchpads in the nest is searched, too.
ANY_ORDER = accelerator({"extends": "eyeriss", "name": "any-order", "orders": "searched"})
REAL["any-order"] = MapSpace(workload(PROBLEM), ANY_ORDER)
# Its proof takes more than four seconds.
LONG = ("exact", "any-order")
# Why those that do not work on these machines do not.
REFUSALS = {"marvel": "bypasses Weights"}


class TestSearchers(SearcherContract):
    names = NAMES


def found_by_structured(space: MapSpace) -> float:
    evaluator = Evaluator(LoopNestModel(), space, iterations=2000)
    make("structured", space, seed=0).run(evaluator)
    return evaluator.best_loss


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        pytest.param(name, machine, marks=[pytest.mark.slow] * ((name, machine) == LONG))
        for name in QUICK
        for machine in sorted(REAL)
    ],
)
def test_it_works_on_real_machines_or_says_why_not(name: str, machine: str) -> None:
    """Feasible proposals, better than what is drawn, and the same ones from a saved state."""
    space, model = REAL[machine], LoopNestModel()
    extra = dict(searcher_class(name).QUICK)
    if "predictor" in searcher_class(name).USES:
        extra["predictor"] = ToyPredictor(len(space.feature_names))

    def build(seed: int) -> Any:
        return make(name, space, seed=seed, **extra)

    if name in REFUSALS:
        with pytest.raises(ConfigError, match=REFUSALS[name]) as refused:
            build(0)
        assert "\n" not in str(refused.value)
        return
    searcher, resumed, asked = build(0), build(1), []
    if name == "exact":
        evaluator = Evaluator(model, space, iterations=1000)
        searcher.run(evaluator)
        assert searcher.gap_left == 0
        assert evaluator.best_loss <= found_by_structured(space)
        return
    for step in range(8):
        if step == 4:
            resumed.load_state_dict(searcher.state_dict())
        codes = searcher.ask(25)
        assert space.feasible(codes).all()
        asked.append(model.evaluate(space, codes).edp)
        assert np.isfinite(asked[-1]).all()
        searcher.tell(asked[-1])
        if step >= 4:
            np.testing.assert_array_equal(resumed.ask(25), codes)
            resumed.tell(asked[-1])
    evaluator = Evaluator(model, space, iterations=200)
    searcher.run(evaluator)
    drawn = space.sample(np.random.default_rng(9), 25, feasible=True)
    # What follows a predictor improves what that predicts.
    assert evaluator.best_loss < np.median(model.evaluate(space, drawn).edp) or "predictor" in extra


def test_unknown_searchers_are_refused() -> None:
    known = f"'anealing'; did you mean annealing. Known: {', '.join(NAMES)}"
    with pytest.raises(ConfigError, match=known):
        make("anealing", ToySpace(), seed=0)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_seeds_must_be_non_negative_integers(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed"):
        make("random", ToySpace(), seed=seed)


def test_facts_of_searchers() -> None:
    """What else is decided by them: a search that reads the machine is no black box."""
    classes = {name: searcher_class(name) for name in NAMES}
    knowing = {name for name, cls in classes.items() if not cls.BLACK_BOX}
    assert knowing == {
        "exact", "factorflow", "loma", "marvel", "model-guided", "multi-fidelity", "salsa",
        "structured",
    }  # fmt: skip
    assert {name for name, cls in classes.items() if cls.SLOW} == {"ddpg", "ppo"}
    assert {name for name, cls in classes.items() if cls.EXHAUSTIBLE} == {
        "exact",
        "marvel",
        "timeloop",
    }
    libraries = {n: cls.LIBRARY.module for n, cls in classes.items() if cls.LIBRARY is not None}
    assert libraries == {
        "cma-es": "cmaes",
        "ddpg": "ray",
        "model-guided": "scipy",
        "multi-fidelity": "scipy",
        "nevergrad": "nevergrad",
        "optuna": "optuna",
        "ppo": "ray",
        "surrogate-guided": "scipy",
        "xgboost": "xgboost",
    }
