"""Optuna: a tree-structured Parzen estimator proposes the mappings.

Source: Akiba et al., "Optuna", KDD 2019; Bergstra et al., "Algorithms for Hyper-Parameter
Optimization", NeurIPS 2011.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from searchers.base import Losses, require
from searchers.outside import OutsideSearcher, Points, missing

if TYPE_CHECKING:
    from costmodel.space import Space


class Optuna(OutsideSearcher):
    """Optuna's TPE with one trial per mapping; settings not named below are the library's."""

    preparation: ClassVar[str] = "importing Optuna"

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        encoding: str = "codes",
        batch: int = 1,
        startup: int = 10,
        candidates: int = 24,
    ) -> None:
        """Prepares the search.

        Args:
            space: where to search.
            seed: decides the whole run.
            encoding: a parameter per attribute (`codes`) or per feature (`features`).
            batch: mappings proposed before any of them is told.
            startup: random mappings at first.
            candidates: that the estimator chooses among, per mapping.

        Raises:
            ConfigError: a value that is not allowed, or Optuna is not installed.
        """
        super().__init__(space, seed=seed, encoding=encoding)
        require(batch >= 1, "batch", batch, "at least 1")
        require(startup >= 1, "startup", startup, "at least 1")
        require(candidates >= 1, "candidates", candidates, "at least 1")
        # Here, so that a missing library is one line and the first ask pays for no import.
        try:
            import optuna as library
        except ImportError as error:
            raise missing("optuna", "optuna") from error
        # It reports every study on stderr otherwise.
        library.logging.set_verbosity(library.logging.WARNING)
        self._library = library
        self.batch = batch
        self.startup = startup
        self.candidates = candidates
        # Reals, which are rounded: with `suggest_int` TPE finds as much in three times the time.
        self._parameters = {
            f"x{k}": library.distributions.FloatDistribution(float(low), float(high))
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
                n_startup_trials=self.startup,
                n_ei_candidates=self.candidates,
                constant_liar=self.batch > 1,
            )
            self._study = self._library.create_study(sampler=sampler)

    def _propose(self) -> Points:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._trials = [self._study.ask(self._parameters) for _ in range(self.batch)]
        return np.array(
            [[trial.params[name] for name in self._parameters] for trial in self._trials]
        )

    def _learn(self, logs: Losses) -> None:
        for trial, log in zip(self._trials, logs, strict=True):
            self._study.tell(trial, float(log))
