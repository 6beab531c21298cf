"""A trained surrogate, corrected online: the first evaluation is already chosen well.

As `searchers.model_guided`, with a surrogate in place of the law: chains walk by its prediction
from the first batch on, and a Gaussian process on a description of the mapping learns from every
batch how far it was off. The weights stay as they are; a Bayesian regression on the network's last
layer did no better (docs/results/few-evaluations.md).

The surrogate's predictions are no iterations here, thousands of them for every batch: this searcher
is for cost models beside which they take no time. What the surrogate itself took is in its card.

Letters: M candidates, N mappings evaluated, D attributes of a code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from searchers.base import Codes
from searchers.gradient import Predictor, fitting
from searchers.model_guided import ModelGuided, Predictive, Reals, fit_process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from costmodel.space import Space


class SurrogateGuided(ModelGuided):
    """Evaluates what a surrogate, corrected by the evaluations so far, predicts to be best."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        predictor: Predictor | None = None,
        batch: int = 12,
        chains: int = 128,
        steps: int = 20,
        temperature: float = 0.003,
        restart_share: float = 0.25,
        fresh_share: float = 0.5,
        random_share: float = 0.1,
        memory: int = 300,
    ) -> None:
        """Prepares the first batch.

        Args:
            space: where to search.
            seed: decides the whole run.
            predictor: the surrogate, of EDP.
            batch: mappings evaluated between two corrections.
            chains: Markov chains side by side.
            steps: of each chain per batch.
            temperature: of the chains at first, on the predicted ln loss; it falls linearly to 0.
            restart_share: share of the chains that start at the best evaluated mappings.
            fresh_share: share of the chains that start at new mappings; the others go on from where
                they were.
            random_share: share of the evaluations that are new mappings, whatever is predicted.
            memory: best evaluated mappings that the Gaussian process is fitted to.

        Raises:
            ConfigError: no surrogate, one for another space, or a value is not allowed.
        """
        super().__init__(
            space,
            seed=seed,
            features="black-box",
            batch=batch,
            initial=batch,
            chains=chains,
            steps=steps,
            temperature=temperature,
            restart_share=restart_share,
            fresh_share=fresh_share,
            random_share=random_share,
            memory=memory,
        )
        self.predictor = fitting(predictor, space, "surrogate-guided")

    def _fit(self) -> Predictive:
        return Corrected(self)

    def expected(self, codes: Codes) -> Reals:
        """What the surrogate predicts of codes `[M, D]`: ln EDP `[M]`, up to a constant."""
        if not len(codes):
            return np.empty(0)
        values: Reals = np.nan_to_num(self.predictor.value(self.space.encode(codes)))
        return values

    def evaluated(self) -> tuple[Codes, Reals]:
        """The mappings evaluated so far `[N, D]` and their ln losses `[N]`."""
        return self._codes, self._logs


class Corrected:
    """The surrogate and, once something was evaluated, a process on how far it was off."""

    def __init__(self, searcher: SurrogateGuided) -> None:
        """Fits what the searcher has evaluated."""
        self._searcher = searcher
        codes, logs = searcher.evaluated()
        self._process = None
        if np.isfinite(logs).any():
            features, _, _ = searcher.describe(codes)
            expected = searcher.expected(codes)
            self._process = fit_process(features, logs, expected, searcher.memory)

    def predict(self, codes: Codes) -> Reals:
        """Predicted ln losses `[M]` of codes `[M, D]`, up to a constant."""
        predicted = self._searcher.expected(codes)
        if self._process is not None:
            features, _, _ = self._searcher.describe(codes)
            predicted = predicted + self._process.predict(features)
        return predicted
