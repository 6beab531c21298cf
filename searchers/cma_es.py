"""CMA-ES: a normal distribution over features adapts its covariance, restarts with twice as many.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", 2016; restarts after Auger and Hansen,
"A Restart CMA Evolution Strategy With Increasing Population Size", CEC 2005; the library is cmaes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from costmodel.space import Codes, Losses
from mapspace.errors import ConfigError
from searchers.base import Library, log_losses
from searchers.options import Integer, Positive
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

# Where queries are asynchronous: a generation is this share of what is out at once, so that the
# distribution moves while slow queries are out, and a search whose best has stood still for so many
# generations begins anew elsewhere.
SHARE_OUT = 4
STILL_GENERATIONS = 20

# Draws until one lies in the box, which hardly any does in so many dimensions; then it is clipped.
DRAWS = 10


class CMAESOptions(OutsideOptions):
    """Hyperparameters of CMA-ES."""

    encoding: Literal["codes", "features"] = "features"
    sigma: Positive = 1.0
    """Step size at first, in standard deviations of random feasible mappings."""
    population: Annotated[Integer, Field(ge=3)] | None = None
    """Mappings of a generation; null: 4 + 3 ln K for K coordinates."""


class CMAES(Asynchronous, OutsideSearcher):
    """CMA-ES on real points that are projected to mappings; a batch is a generation.

    Where queries are asynchronous points are drawn from the distribution as it is when they are
    asked for, and a generation is whatever comes back first. By then the distribution has moved:
    what counts of a point is its step from the mean that it was drawn around, in the step size of
    that time. The point itself would pull the mean back to where it was, and shorten its path.
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
        self._least, self._least_at = math.inf, 0

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
        self._least, self._least_at = math.inf, 0
        self._start(self._optimiser_seed)
        logs = iter(self._event_logs)
        for event in self._events:
            if event < 0:
                self._draw()
            else:
                self._take(event, next(logs))

    def _draw(self) -> Points:
        strategy = self._strategy
        point: Points = strategy.ask()
        self._drawn.append(((point - strategy._mean) / strategy._sigma, self._strategies))
        return point

    def _take(self, number: int, log: float) -> None:
        """A loss comes back; a whole generation of them moves the distribution."""
        step, number_of_strategy = self._drawn[number]
        self._drawn[number] = (None, number_of_strategy)  # its memory
        if number_of_strategy != self._strategies:
            return  # of before a restart
        strategy = self._strategy
        if log < self._least:
            self._least, self._least_at = log, strategy.generation
        self._back.append((step, log))
        if len(self._back) < strategy.population_size:
            return
        strategy.tell([(self._stepped(step), log) for step, log in self._back])
        self._back = []
        if strategy.should_stop() or strategy.generation - self._least_at >= STILL_GENERATIONS:
            # No larger one: it would wait longer for its generations.
            self._restart(strategy.population_size)
            self._strategies += 1
            self._least, self._least_at = math.inf, 0

    def _start(self, seed: int) -> None:
        self._restarts = np.random.default_rng(seed)
        mean = np.zeros(len(self.relaxation.low))
        self._strategy = self._make(mean, self.options.population)
        needed = min(self._at_once // SHARE_OUT, LARGEST_POPULATION)
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
            self._restart(min(2 * self._strategy.population_size, LARGEST_POPULATION))
        self._points = [self._strategy.ask() for _ in range(self._strategy.population_size)]
        return self._whole(np.stack(self._points))

    def _stepped(self, step: Points) -> Points:
        """A step from the mean of now, clipped to a length that is usual now.

        Source: Hansen, "Injecting External Solutions Into CMA-ES", 2011, equation 4.
        """
        mean, sigma = self._strategy._mean, self._strategy._sigma
        dimensions = len(step)
        values, vectors = np.linalg.eigh(self._strategy._C)
        length = float(np.linalg.norm((vectors.T @ step) / np.sqrt(np.maximum(values, 1e-16))))
        longest = np.sqrt(dimensions) + 2.0 * dimensions / (dimensions + 2.0)
        near: Points = mean + sigma * step * min(1.0, longest / max(length, 1e-300))
        return near

    def _restart(self, population: int) -> None:
        low, high = self._bounds().T
        self._strategy = self._make(self._restarts.uniform(low, high), population)

    def _whole(self, points: Points) -> Points:
        """Points `[m, K]` of the box, out of points in standard deviations."""
        whole: Points = points * self.relaxation.deviation + self.relaxation.mean
        return whole

    def _learn(self, logs: Losses) -> None:
        self._strategy.tell(list(zip(self._points, logs.tolist(), strict=True)))
