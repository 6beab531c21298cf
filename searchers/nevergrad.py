"""Nevergrad: an optimiser of its portfolio proposes the mappings.

Source: Rapin and Teytaud, "Nevergrad - A gradient-free optimization platform", 2018.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from searchers.base import Losses, require
from searchers.outside import OutsideSearcher, Points, missing

if TYPE_CHECKING:
    from costmodel.space import Space


class Nevergrad(OutsideSearcher):
    """An optimiser of Nevergrad on one bounded array: integers for codes, reals for features."""

    preparation: ClassVar[str] = "importing Nevergrad: some seconds"

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        optimizer: str = "NGOpt",
        encoding: str = "codes",
        batch: int = 1,
        horizon: int = 5000,
    ) -> None:
        """Prepares the search.

        Args:
            space: where to search.
            seed: decides the whole run.
            optimizer: a name in `nevergrad.optimizers.registry`, such as `DiscreteOnePlusOne`;
                `NGOpt` chooses one by the parameters and the horizon.
            encoding: an integer per attribute (`codes`) or a real per feature (`features`).
            batch: mappings proposed before any of them is told, Nevergrad's `num_workers`.
            horizon: mappings that the optimiser plans for, Nevergrad's `budget`; it goes on beyond.

        Raises:
            ConfigError: a value that is not allowed, or Nevergrad is not installed.
        """
        super().__init__(space, seed=seed, encoding=encoding)
        require(batch >= 1, "batch", batch, "at least 1")
        require(horizon >= 1, "horizon", horizon, "at least 1")
        # Here, so that a missing library is one line and the first ask pays for no import.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import nevergrad as library
        except ImportError as error:
            raise missing("nevergrad", "nevergrad") from error
        known = library.optimizers.registry
        require(optimizer in known, "optimizer", optimizer, "in nevergrad.optimizers.registry")
        self._library = library
        self.optimizer = optimizer
        self.batch = batch
        self.horizon = horizon
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
            make = self._library.optimizers.registry[self.optimizer]
            self._optimizer = make(parameters, budget=self.horizon, num_workers=self.batch)

    def _propose(self) -> Points:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._candidates = [self._optimizer.ask() for _ in range(self.batch)]
        points = np.stack([candidate.value for candidate in self._candidates])
        return points * self._scale + self._centre

    def _learn(self, logs: Losses) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for candidate, log in zip(self._candidates, logs, strict=True):
                self._optimizer.tell(candidate, float(log))
