"""CMA-ES: a normal distribution over features adapts its covariance, restarts with twice as many.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", 2016; restarts after Auger and Hansen,
"A Restart CMA Evolution Strategy With Increasing Population Size", CEC 2005; the library is cmaes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from costmodel.space import Losses
from mapspace.errors import ConfigError
from searchers.base import Library
from searchers.options import Count, Positive
from searchers.shared.external_optimizers import (
    INSTALL,
    OutsideOptions,
    OutsideSearcher,
    Points,
)

if TYPE_CHECKING:
    from costmodel.space import Space

# A population stops doubling here: no budget sees more than a few generations of it.
LARGEST_POPULATION = 1024

# Draws until one lies in the box, which hardly any does in so many dimensions; then it is clipped.
DRAWS = 10


class CMAESOptions(OutsideOptions):
    """Hyperparameters of CMA-ES."""

    encoding: Literal["codes", "features"] = "features"
    sigma: Positive = 1.0
    """Step size at first, in standard deviations of random feasible mappings."""
    population: Annotated[Count, Field(ge=3)] | None = None
    """Mappings of a generation; null: 4 + 3 ln K for K coordinates."""


class CMAES(OutsideSearcher):
    """CMA-ES on real points that are projected to mappings; a batch is a generation."""

    OPTIONS = CMAESOptions
    options: CMAESOptions
    LIBRARY = Library("cmaes", INSTALL)
    preparation: ClassVar[str] = "importing cmaes"

    def __init__(self, space: Space, options: CMAESOptions, *, seed: int) -> None:
        """Prepares the search.

        Raises:
            ConfigError: a space with fewer than two coordinates.
        """
        super().__init__(space, options, seed=seed)
        if len(self.relaxation.low) < 2:
            raise ConfigError(
                "Hyperparameter encoding must be one with two coordinates or more in this space, "
                f"got {options.encoding!r}."
            )
        import cmaes

        self._library = cmaes
        self._restarts: np.random.Generator
        self._strategy: Any = None
        self._points: list[Any] = []

    def _start(self, seed: int) -> None:
        self._restarts = np.random.default_rng(seed)
        self._strategy = self._make(np.zeros(len(self.relaxation.low)), self.options.population)

    def _make(self, mean: Points, population: int | None) -> Any:
        return self._library.CMA(
            mean=mean,
            sigma=self.options.sigma,
            bounds=self._bounds(),
            seed=int(self._restarts.integers(2**31)),
            population_size=population,
            n_max_resampling=DRAWS,
        )

    def _bounds(self) -> Points:
        """`[K, 2]` of the box, in standard deviations from the mean."""
        box = self.relaxation
        ends = np.stack([box.low, box.high], axis=1)
        bounds: Points = (ends - box.mean[:, None]) / box.deviation[:, None]
        return bounds

    def _propose(self) -> Points:
        if self._strategy.should_stop():
            low, high = self._bounds().T
            larger = min(2 * self._strategy.population_size, LARGEST_POPULATION)
            self._strategy = self._make(self._restarts.uniform(low, high), larger)
        self._points = [self._strategy.ask() for _ in range(self._strategy.population_size)]
        return np.stack(self._points) * self.relaxation.deviation + self.relaxation.mean

    def _learn(self, logs: Losses) -> None:
        self._strategy.tell(list(zip(self._points, logs.tolist(), strict=True)))
