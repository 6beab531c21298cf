"""The surrogate-guided searcher: the first batch follows the surrogate, later ones correct it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToyModel, ToyPredictor, ToySpace, toy_losses
from searchers import Evaluator, make

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
