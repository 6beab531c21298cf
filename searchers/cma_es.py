"""CMA-ES: a normal distribution over features adapts its covariance, restarts with twice as many.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", 2016; restarts after Auger and Hansen,
"A Restart CMA Evolution Strategy With Increasing Population Size", CEC 2005; the library is cmaes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from searchers.base import Losses, require
from searchers.outside import OutsideSearcher, Points, missing

if TYPE_CHECKING:
    from costmodel.space import Space

# A population stops doubling here: no budget sees more than a few generations of it.
LARGEST_POPULATION = 1024

# Draws until one lies in the box, which hardly any does in so many dimensions; then it is clipped.
DRAWS = 10


class CMAES(OutsideSearcher):
    """CMA-ES on real points that are projected to mappings; a batch is a generation."""

    preparation: ClassVar[str] = "importing cmaes"

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        encoding: str = "features",
        sigma: float = 1.0,
        population: int | None = None,
    ) -> None:
        """Prepares the search.

        Args:
            space: where to search.
            seed: decides the whole run.
            encoding: a coordinate per feature (`features`) or per attribute (`codes`).
            sigma: step size at first, in standard deviations of random feasible mappings.
            population: mappings of a generation; None: 4 + 3 ln K for K coordinates.

        Raises:
            ConfigError: a value that is not allowed, a space with fewer than two coordinates, or
                cmaes is not installed.
        """
        super().__init__(space, seed=seed, encoding=encoding)
        require(sigma > 0, "sigma", sigma, "above 0")
        require(population is None or population >= 3, "population", population, "at least 3")
        count = len(self.relaxation.low)
        require(count >= 2, "encoding", encoding, "one with two coordinates or more in this space")
        # Here, so that a missing library is one line and the first ask pays for no import.
        try:
            import cmaes as library
        except ImportError as error:
            raise missing("cma-es", "cmaes") from error
        self._library = library
        self.sigma = sigma
        self.population = population
        self._restarts: np.random.Generator
        self._strategy: Any = None
        self._points: list[Any] = []

    def _start(self, seed: int) -> None:
        self._restarts = np.random.default_rng(seed)
        self._strategy = self._make(np.zeros(len(self.relaxation.low)), self.population)

    def _make(self, mean: Points, population: int | None) -> Any:
        return self._library.CMA(
            mean=mean,
            sigma=self.sigma,
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
