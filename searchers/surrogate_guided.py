"""A trained surrogate, corrected online: the first evaluation is already chosen well.

As `searchers.model_guided`, with a surrogate in place of the law: chains walk by its prediction
from the first batch on, and a Gaussian process on a description of the mapping learns from every
batch how far it was off. The weights stay as they are; a Bayesian regression on the network's last
layer did no better.

The surrogate's predictions are no iterations here, thousands of them for every batch: this searcher
is for cost models beside which they take no time. What the surrogate itself took is in its card.

Letters: M candidates, N mappings evaluated, D attributes of a code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from costmodel.space import Codes
from searchers.context import Context
from searchers.model_guided import GuidedOptions, GuidedSearcher, Predictive, Reals, fit_process
from searchers.options import Presets, Sources
from searchers.shared.predictors import fitting

if TYPE_CHECKING:
    from costmodel.space import Space


class SurrogateGuidedOptions(GuidedOptions):
    """Hyperparameters of the search by a surrogate that is corrected on the way."""

    PRESETS: ClassVar[Presets] = {
        # Where a true query takes seconds: longer walks, and more of them for as many queries.
        "patient": {"steps": 300, "batch": 4}
    }
    SOURCES: ClassVar[Sources] = {
        "patient": "mapspace: for queries that take seconds; its walks take some 0.4 s each",
    }


class SurrogateGuided(GuidedSearcher):
    """Evaluates what a surrogate, corrected by the evaluations so far, predicts to be best."""

    OPTIONS = SurrogateGuidedOptions
    USES = frozenset({"objective", "predictor"})
    options: SurrogateGuidedOptions

    def __init__(
        self,
        space: Space,
        options: SurrogateGuidedOptions,
        *,
        seed: int,
        context: Context | None = None,
    ) -> None:
        """Prepares the first batch.

        Raises:
            ConfigError: no surrogate, or one for another space.
        """
        super().__init__(space, options, seed=seed, context=context)
        self.predictor = fitting(self.context, space, "surrogate-guided")

    def _fit(self) -> Predictive:
        return Corrected(self)

    def expected(self, codes: Codes) -> Reals:
        """What the surrogate predicts of codes `[M, D]`: ln losses `[M]`, up to a constant."""
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
            self._process = fit_process(features, logs, expected, searcher.options.memory)

    def predict(self, codes: Codes) -> Reals:
        """Predicted ln losses `[M]` of codes `[M, D]`, up to a constant."""
        predicted = self._searcher.expected(codes)
        if self._process is not None:
            features, _, _ = self._searcher.describe(codes)
            predicted = predicted + self._process.predict(features)
        return predicted
