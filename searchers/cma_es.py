"""CMA-ES: a normal distribution over features adapts its covariance, restarts with twice as many.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", 2016; restarts after Auger and Hansen,
"A Restart CMA Evolution Strategy With Increasing Population Size", CEC 2005; the library is cmaes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from costmodel.space import Codes, Losses
from mapspace.errors import ConfigError
from searchers.base import Library, log_losses
from searchers.options import Count, Positive
from searchers.shared.asynchronous import Asynchronous, Notes
from searchers.shared.external_optimizers import (
    INSTALL,
    LARGEST_LOG,
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


class CMAES(Asynchronous, OutsideSearcher):
    """CMA-ES on real points that are projected to mappings; a batch is a generation.

    Where queries are asynchronous points are drawn from the distribution as it is when they are
    asked for, and a generation is whatever comes back first.
    """

    OPTIONS = CMAESOptions
    options: CMAESOptions
    LIBRARY = Library("cmaes", INSTALL)
    preparation: ClassVar[str] = "importing cmaes"
    STATE_OUT: ClassVar[tuple[str, ...]] = ("_events", "_event_logs", "_at_once")

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
        # Where queries are asynchronous: what happened, a draw (-1) or the number of the draw whose
        # loss came, those losses, and how many were asked for first; all below is made again of
        # these after a restore.
        self._events: list[int] = []
        self._event_logs: list[float] = []
        self._at_once = 0
        self._drawn: list[tuple[Any, int]] = []
        self._strategies = 0
        self._back: list[tuple[Any, float]] = []

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Searcher`."""
        super().load_state_dict(state)
        self._strategy = None

    def _ask_more(self, n: int) -> tuple[Codes, Notes]:
        self._at_once = self._at_once or n
        self._catch_up()
        numbers = np.arange(len(self._drawn), len(self._drawn) + n)
        self._events += [-1] * n
        points = np.stack([self._draw() for _ in range(n)])
        return self.relaxation.codes(self._whole(points)), numbers

    def _tell_more(self, codes: Codes, notes: Notes, losses: Losses) -> None:
        self._catch_up()
        logs = np.minimum(log_losses(losses), LARGEST_LOG)
        for number, log in zip(notes.tolist(), logs.tolist(), strict=True):
            self._events.append(number)
            self._event_logs.append(log)
            self._take(number, log)

    def _catch_up(self) -> None:
        """Makes the strategy, and after a restore lets everything happen again."""
        if self._strategy is not None:
            return
        self._drawn, self._back, self._strategies = [], [], 0
        self._start(self._optimiser_seed)
        logs = iter(self._event_logs)
        for event in self._events:
            if event < 0:
                self._draw()
            else:
                self._take(event, next(logs))

    def _draw(self) -> Points:
        point: Points = self._strategy.ask()
        self._drawn.append((point, self._strategies))
        return point

    def _take(self, number: int, log: float) -> None:
        """A loss comes back; a whole generation of them moves the distribution."""
        point, strategy = self._drawn[number]
        self._drawn[number] = (None, strategy)  # its memory
        if strategy != self._strategies:
            return  # of before a restart
        self._back.append((point, log))
        if len(self._back) < self._strategy.population_size:
            return
        self._strategy.tell([(self._near(point), log) for point, log in self._back])
        self._back = []
        if self._strategy.should_stop():
            self._restart()
            self._strategies += 1

    def _start(self, seed: int) -> None:
        self._restarts = np.random.default_rng(seed)
        mean = np.zeros(len(self.relaxation.low))
        self._strategy = self._make(mean, self.options.population)
        # Points of many generations ago say where the distribution was.
        needed = min(self._at_once, LARGEST_POPULATION)
        if self.options.population is None and self._strategy.population_size < needed:
            self._strategy = self._make(mean, needed)

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
            self._restart()
        self._points = [self._strategy.ask() for _ in range(self._strategy.population_size)]
        return self._whole(np.stack(self._points))

    def _near(self, point: Points) -> Points:
        """A point as the distribution of now could have drawn it: clipped to a usual distance.

        Source: Hansen, "Injecting External Solutions Into CMA-ES", 2011, equation 4.
        """
        mean, sigma = self._strategy._mean, self._strategy._sigma
        step = (point - mean) / sigma
        dimensions = len(step)
        values, vectors = np.linalg.eigh(self._strategy._C)
        length = float(np.linalg.norm((vectors.T @ step) / np.sqrt(np.maximum(values, 1e-16))))
        longest = np.sqrt(dimensions) + 2.0 * dimensions / (dimensions + 2.0)
        near: Points = mean + sigma * step * min(1.0, longest / max(length, 1e-300))
        return near

    def _restart(self) -> None:
        low, high = self._bounds().T
        larger = min(2 * self._strategy.population_size, LARGEST_POPULATION)
        self._strategy = self._make(self._restarts.uniform(low, high), larger)

    def _whole(self, points: Points) -> Points:
        """Points `[m, K]` of the box, out of points in standard deviations."""
        whole: Points = points * self.relaxation.deviation + self.relaxation.mean
        return whole

    def _learn(self, logs: Losses) -> None:
        self._strategy.tell(list(zip(self._points, logs.tolist(), strict=True)))
