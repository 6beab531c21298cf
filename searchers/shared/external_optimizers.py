"""What the baselines on other libraries share: how those see a space, and exact states by replay.

A library's optimiser proposes points of its own, is told their losses, and keeps its memory and
generator to itself. A state therefore holds what was proposed and told; a restored searcher lets a
new optimiser with the same seed propose it all again.

Letters: m mappings of a batch, D attributes of a code, F features, K coordinates of a point, N
mappings told so far.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from mapspace.errors import ConfigError, ContractError
from mapspace.extras import install
from searchers.base import Searcher, log_losses
from searchers.context import Context
from searchers.options import Options
from searchers.scales import scale_sample

if TYPE_CHECKING:
    from costmodel.space import Space

Points = npt.NDArray[np.float64]

# ln of what a refused mapping counts as: libraries differ in what they make of infinity.
LARGEST_LOG = math.log(np.finfo(np.float64).max)

# Mappings that scale the box.
SCALE_SAMPLE = 2000


INSTALL = install("baselines")


class OutsideOptions(Options):
    """What all of these searchers are told."""

    encoding: Literal["codes", "features"] = "codes"
    """How the optimiser sees the space: a coordinate per attribute, or per feature."""


class Relaxation:
    """A space as a box of real points.

    `codes`: a coordinate per attribute that has a choice, rounded. `features`: a coordinate per
    feature that varies, its logarithm where it is always positive; `Space.project` makes a
    feasible mapping of it.

    Attributes:
        low: `[K]` lower bounds.
        high: `[K]` upper bounds.
        mean: `[K]` over feasible mappings drawn uniformly.
        deviation: `[K]` standard deviations of the same, above 0.
        integer: whether only integers matter.
    """

    def __init__(self, space: Space, encoding: str) -> None:
        """Lays the box out.

        Args:
            space: what it stands for.
            encoding: `codes` or `features`.

        Raises:
            ConfigError: a space without any choice.
        """
        self._space = space
        self.integer = encoding == "codes"
        codes = scale_sample(space, SCALE_SAMPLE)
        values = (codes if self.integer else space.encode(codes)).astype(np.float64)
        self._fixed = values[0]
        if self.integer:
            self._varying = np.flatnonzero(space.cardinality > 1)
            self._logarithmic = np.zeros(self._varying.size, dtype=bool)
        else:
            self._varying = np.flatnonzero(np.ptp(values, axis=0) > 0)
            self._logarithmic = values[:, self._varying].min(axis=0, initial=np.inf) > 0
        if not self._varying.size:
            raise ConfigError("A space without any choice needs no search.")
        values = values[:, self._varying]
        values[:, self._logarithmic] = np.log(values[:, self._logarithmic])
        self.low = values.min(axis=0)
        self.high = values.max(axis=0)
        if self.integer:
            # Half a step beyond the ends, so that every value has the same share of the box.
            self.low = np.full(self._varying.size, -0.5)
            self.high = space.cardinality[self._varying] - 0.5
        self.mean: Points = values.mean(axis=0)
        self.deviation: Points = values.std(axis=0)
        self.deviation[self.deviation == 0] = 1.0

    def codes(self, points: npt.NDArray[Any]) -> Codes:
        """`[m, D]` the feasible mappings that points `[m, K]` stand for.

        What a rounded code lacks in feasibility `Space.project` repairs.
        """
        values = points.astype(np.float64)
        values[:, self._logarithmic] = np.exp(values[:, self._logarithmic])
        whole = np.repeat(self._fixed[None], len(points), axis=0)
        whole[:, self._varying] = values
        if not self.integer:
            return self._space.project(whole)
        codes: Codes = np.clip(np.rint(whole), 0, self._space.cardinality - 1).astype(np.int32)
        refused = ~self._space.feasible(codes)
        if refused.any():
            codes[refused] = self._space.project(self._space.encode(codes[refused]))
        return codes


class OutsideSearcher(Searcher):
    """A searcher whose proposals come from another library's optimiser, batch by batch.

    A batch passes small budgets in pieces, and the optimiser learns of it when all of it is told. A
    mapping that is proposed again is a query again. Restoring takes the time that the optimiser
    took for everything it has proposed so far.
    """

    preparation: ClassVar[str] = "importing the library: a few seconds"
    STATE: ClassVar[tuple[str, ...]] = ("_optimiser_seed", "_codes", "_losses")

    options: OutsideOptions

    def __init__(
        self, space: Space, options: OutsideOptions, *, seed: int, context: Context | None = None
    ) -> None:
        """Prepares the search; the optimiser is made with the first `ask`.

        Raises:
            ConfigError: a space without any choice.
        """
        super().__init__(space, options, seed=seed, context=context)
        self.relaxation = Relaxation(space, options.encoding)
        self._optimiser_seed = int(self.rng.integers(2**31))
        # What was told `[N, D]`, `[N]`; of it the optimiser has learned so many.
        self._codes: Codes = np.empty((0, len(space.cardinality)), np.int32)
        self._losses: Losses = np.empty(0)
        self._learned = 0
        self._batch: Codes | None = None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Searcher`; the optimiser is made anew with the next `ask`."""
        super().load_state_dict(state)
        self._batch = None

    def _ask(self, n: int) -> Codes:
        if self._batch is None:
            self._learned = 0
            self._start(self._optimiser_seed)
            self._batch = self._next()
        while self._learned + len(self._batch) <= len(self._losses):
            told = self._losses[self._learned : self._learned + len(self._batch)]
            self._learn(np.minimum(log_losses(told), LARGEST_LOG))
            self._learned += len(self._batch)
            self._batch = self._next()
        return self._batch[len(self._losses) - self._learned :][:n]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._codes = np.concatenate([self._codes, codes])
        self._losses = np.append(self._losses, losses)

    def _next(self) -> Codes:
        """The optimiser's next batch `[m, D]`, which a replay must find as it was."""
        batch = self.relaxation.codes(self._propose())
        before = self._codes[self._learned : self._learned + len(batch)]
        if (batch[: len(before)] != before).any():
            raise ContractError(
                f"{type(self).__name__} cannot continue this state: mapping {self._learned} or "
                "later is proposed differently now. Were the library or the arguments others?"
            )
        return batch

    @abstractmethod
    def _start(self, seed: int) -> None:
        """Makes the optimiser, knowing nothing."""

    @abstractmethod
    def _propose(self) -> Points:
        """The optimiser's next points `[m, K]`, m at least 1."""

    @abstractmethod
    def _learn(self, logs: Losses) -> None:
        """Tells the optimiser the finite ln losses `[m]` of what it proposed last."""
