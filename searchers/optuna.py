"""Optuna: a tree-structured Parzen estimator proposes the mappings.

Source: Akiba et al., "Optuna", KDD 2019; Bergstra et al., "Algorithms for Hyper-Parameter
Optimization", NeurIPS 2011.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from costmodel.space import Losses
from searchers.base import Library
from searchers.options import Count
from searchers.shared.external_optimizers import (
    INSTALL,
    OutsideOptions,
    OutsideSearcher,
    Points,
)

if TYPE_CHECKING:
    from costmodel.space import Space


class OptunaOptions(OutsideOptions):
    """Hyperparameters of the search with Optuna."""

    batch: Count = 1
    """Mappings proposed before any of them is told."""
    startup: Count = 10
    """Random mappings at first."""
    candidates: Count = 24
    """That the estimator chooses among, per mapping."""


class Optuna(OutsideSearcher):
    """Optuna's TPE with one trial per mapping; settings not named below are the library's."""

    OPTIONS = OptunaOptions
    options: OptunaOptions
    LIBRARY = Library("optuna", INSTALL)
    QUICK: ClassVar[Mapping[str, Any]] = {"candidates": 2}
    preparation: ClassVar[str] = "importing Optuna"

    def __init__(self, space: Space, options: OptunaOptions, *, seed: int) -> None:
        """Prepares the search; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        import optuna

        # It reports every study on stderr otherwise.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._library = optuna
        # Reals, which are rounded: with `suggest_int` TPE finds as much in three times the time.
        self._parameters = {
            f"x{k}": optuna.distributions.FloatDistribution(float(low), float(high))
            for k, (low, high) in enumerate(
                zip(self.relaxation.low, self.relaxation.high, strict=True)
            )
        }
        self._study: Any = None
        self._trials: list[Any] = []

    def _start(self, seed: int) -> None:
        with warnings.catch_warnings():
            # It warns that parts of its interface are experimental.
            warnings.simplefilter("ignore")
            sampler = self._library.samplers.TPESampler(
                seed=seed,
                n_startup_trials=self.options.startup,
                n_ei_candidates=self.options.candidates,
                constant_liar=self.options.batch > 1,
            )
            self._study = self._library.create_study(sampler=sampler)

    def _propose(self) -> Points:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._trials = [self._study.ask(self._parameters) for _ in range(self.options.batch)]
        return np.array(
            [[trial.params[name] for name in self._parameters] for trial in self._trials]
        )

    def _learn(self, logs: Losses) -> None:
        for trial, log in zip(self._trials, logs, strict=True):
            self._study.tell(trial, float(log))
