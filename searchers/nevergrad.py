"""Nevergrad: an optimiser of its portfolio proposes the mappings.

Source: Rapin and Teytaud, "Nevergrad - A gradient-free optimization platform", 2018.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from costmodel.space import Losses
from mapspace.errors import ConfigError
from searchers.base import Library
from searchers.options import Count, Text
from searchers.shared.external_optimizers import (
    INSTALL,
    OutsideOptions,
    OutsideSearcher,
    Points,
)

if TYPE_CHECKING:
    from costmodel.space import Space


class NevergradOptions(OutsideOptions):
    """Hyperparameters of the search with Nevergrad."""

    optimizer: Text = "NGOpt"
    """A name in `nevergrad.optimizers.registry`, such as `DiscreteOnePlusOne`; `NGOpt` chooses one
    by the parameters and the horizon."""
    batch: Count = 1
    """Mappings proposed before any of them is told, Nevergrad's `num_workers`."""
    horizon: Count = 5000
    """Mappings that the optimiser plans for, Nevergrad's `budget`; it goes on beyond."""


class Nevergrad(OutsideSearcher):
    """An optimiser of Nevergrad on one bounded array: integers for codes, reals for features."""

    OPTIONS = NevergradOptions
    options: NevergradOptions
    LIBRARY = Library("nevergrad", INSTALL)
    preparation: ClassVar[str] = "importing Nevergrad: some seconds"

    def __init__(self, space: Space, options: NevergradOptions, *, seed: int) -> None:
        """Prepares the search.

        Raises:
            ConfigError: Nevergrad has no such optimiser.
        """
        super().__init__(space, options, seed=seed)
        import nevergrad

        if options.optimizer not in nevergrad.optimizers.registry:
            raise ConfigError(
                "Hyperparameter optimizer must be in nevergrad.optimizers.registry, got "
                f"{options.optimizer!r}."
            )
        self._library = nevergrad
        self._optimizer: Any = None
        self._candidates: list[Any] = []

    def _start(self, seed: int) -> None:
        box = self.relaxation
        # Features in units of their deviation, so that one step size suits them all.
        scale, centre = (1.0, 0.0) if box.integer else (box.deviation, box.mean)
        low, high = (box.low - centre) / scale, (box.high - centre) / scale
        if box.integer:
            low, high = np.ceil(low), np.floor(high)
        middle = (low + high) / 2 if box.integer else np.zeros(len(low))
        parameters = self._library.p.Array(init=middle, lower=low, upper=high)
        if box.integer:
            parameters.set_integer_casting()
        parameters.random_state = np.random.RandomState(seed)
        self._scale, self._centre = scale, centre
        with warnings.catch_warnings():
            # It warns of bounds that its Gaussian steps find narrow.
            warnings.simplefilter("ignore")
            make = self._library.optimizers.registry[self.options.optimizer]
            self._optimizer = make(
                parameters, budget=self.options.horizon, num_workers=self.options.batch
            )

    def _propose(self) -> Points:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._candidates = [self._optimizer.ask() for _ in range(self.options.batch)]
        points = np.stack([candidate.value for candidate in self._candidates])
        return points * self._scale + self._centre

    def _learn(self, logs: Losses) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for candidate, log in zip(self._candidates, logs, strict=True):
                self._optimizer.tell(candidate, float(log))
