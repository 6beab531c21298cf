"""The surrogate-guided searcher: the first batch follows the surrogate, later ones correct it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costmodel import LoopNestModel, MapSpace
from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToyModel, ToyPredictor, ToySpace, toy_losses
from searchers import Evaluator, make
from surrogate.machine_surrogate import shipped_for
from surrogate.machines import case

SPACE = ToySpace()


class TruePredictor(ToyPredictor):
    """Predicts the true ln losses times a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__(len(SPACE.feature_names))
        self.factor = factor

    def value(self, points: np.ndarray) -> np.ndarray:
        values: np.ndarray = self.factor * np.log(toy_losses(SPACE.project(points)))
        return values


def best(name: str, iterations: int, seed: int, **parameters: Any) -> float:
    evaluator = Evaluator(ToyModel(), SPACE, iterations=iterations)
    make(name, SPACE, seed=seed, **parameters).run(evaluator)
    assert evaluator.surrogate_queries == 0
    return float(np.log(evaluator.best_loss))


def test_a_good_surrogate_decides_the_first_batch() -> None:
    guided = [best("surrogate-guided", 12, s, predictor=TruePredictor(1.0)) for s in range(3)]
    unguided = [best("model-guided", 12, s) for s in range(3)]
    assert np.mean(guided) < np.mean(unguided) - 0.2


def test_a_wrong_surrogate_is_corrected() -> None:
    """One that prefers the worst mappings is overruled by what was evaluated."""
    first = [best("surrogate-guided", 12, s, predictor=TruePredictor(-0.3)) for s in range(3)]
    later = [best("surrogate-guided", 120, s, predictor=TruePredictor(-0.3)) for s in range(3)]
    sampled = [best("random", 120, s) for s in range(3)]
    assert np.mean(later) < np.mean(first) - 0.2
    assert np.mean(later) <= np.mean(sampled)


def test_a_surrogate_of_the_space_is_needed() -> None:
    with pytest.raises(ConfigError, match="surrogate-guided searcher needs a surrogate"):
        make("surrogate-guided", SPACE, seed=0)
    with pytest.raises(ConfigError, match="reads 3 values per mapping"):
        make("surrogate-guided", SPACE, seed=0, predictor=ToyPredictor(3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_patient_walks_leave_a_basin_that_cold_ones_do_not(seed: int) -> None:
    """A layer neither trained on nor held out; its proven optimum is 9.3 % below that basin."""
    found = case(51_058)
    space = MapSpace(found.workload, found.accelerator)
    predictor = shipped_for(space)

    def first(**parameters: Any) -> float:
        searcher = make("surrogate-guided", space, seed=seed, predictor=predictor, **parameters)
        return float(LoopNestModel().evaluate(space, searcher.ask(4)).edp[0])

    assert first(preset="patient") == pytest.approx(798_400_333.44, rel=1e-9)
    cold = first(preset="patient", chains=128, temperature=0.003)
    assert cold == pytest.approx(1.0926 * 798_400_333.44, rel=1e-3)
