"""Projected descent through a surrogate: phase 2 of Mind Mappings (ASPLOS 2021, section 4.2).

A mapping is encoded as a real vector, moved against the gradient of the predicted EDP in the
whitened space (learning rate 1), and projected to the nearest valid mapping. Every ten steps a
random mapping is injected and accepted by Metropolis' rule (temperature 50, x 0.75 after every 50
injections).

Different from the paper's text by default (preset `paper` undoes it): many chains descend at once,
and a step goes from the mapping itself, in the logarithms of its factors, by a random length along
the gradient over a random half of the dimensions; it is kept if the surrogate expects no worse.
With the paper's steps nearly every value runs into its bound (presets `paper` and `released`
side by side: docs/results/table1.md).
Where the whitened step is used, the point stays inside the box of valid values and steps are
bounded, since a surrogate's gradient far from its data points anywhere. The best of all that was
visited is scored by the true cost model.

Letters: C chains, D attributes of a code, F features of an encoded mapping, m rows of a proposal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from mapspace.errors import ConfigError
from searchers.base import Searcher, metropolis
from searchers.context import Context
from searchers.options import Count, Flag, Options, Positive
from searchers.shared.predictors import fitting

if TYPE_CHECKING:
    from costmodel.space import Space

Points = npt.NDArray[np.float64]

# How many visited mappings wait for a true score at most; the worst predicted are forgotten.
LARGEST_POOL = 1024

# How many true scores are remembered, so as not to be asked for again.
LARGEST_MEMORY = 16384

# Injections between two coolings, and the factor (section 4.2).
INJECTIONS_PER_COOLING = 50
COOLING = 0.75

# Bounds of a random step: of a factor's logarithm, and of a rank.
LONGEST_FACTOR_STEP = 1.2
LONGEST_RANK_STEP = 5.0

# Groups of features that are no factors of a dimension: the problem's sizes, and all others.
FIXED = -1
UNGROUPED = -2


class DescentOptions(Options):
    """Hyperparameters of projected descent."""

    chains: Count = 16
    """Descents side by side; one is the paper's."""
    learning_rate: Positive = 1.0
    """Step along the gradient in the whitened space (`whitened`)."""
    inject_every: Count = 10
    """Steps of a chain between two injections."""
    temperature: Positive = 50.0
    """Of the first injections, in units of normalised EDP."""
    accounting: Literal["deployable", "visited"] = "deployable"
    """`deployable`: the best predicted mappings get a true score, which counts; `visited`: every
    visited one does, off the clock and outside the budget."""
    rescored: Count = 4
    """Mappings that get a true score after a round (`deployable`)."""
    round_steps: Count = 5
    """Steps of every chain in a round (`deployable`)."""
    gradient_of: Literal["objective", "sum"] = "objective"
    """What is descended on: the objective, or `sum`, the sum of all outputs, which the released
    code follows; for predictors that offer `value_and_sum_gradient`."""
    step: Literal["relative", "whitened"] = "relative"
    """`relative` for random bounded steps in logarithms, kept if no worse; `whitened` for the
    paper's, which the parameters below concern."""
    relaxed: Flag = True
    """Ask the surrogate at the unprojected point and step on from there."""
    double_on_stall: Flag = False
    """Double a chain's rate when the projection did not change, until an injection, as the released
    code does."""
    always_inject: Flag = False
    """Take every injection without looking at its predicted cost."""
    largest_step: Positive = 4.0
    """Bound of a step per value, in standard deviations."""


class ProjectedDescent(Searcher):
    """Projected gradient descent on predicted EDP, with injections.

    An iteration is one surrogate query. `accounting` says what else is spent:

    * `deployable`: after every round the best predicted mappings that have no true score get one;
      these true queries are iterations and search time like any other searcher's.
    * `visited`: every visited mapping is scored, off the clock and outside the budget, as the
      paper draws its curves. The search never learns these scores, and could not return the best
      mapping without them.
    """

    OPTIONS = DescentOptions
    options: DescentOptions
    STATE: ClassVar[tuple[str, ...]] = (
        "_points",
        "_codes",
        "_values",
        "_gradients",
        "_rates",
        "_steps",
        "_injections",
        "_turn",
        "_pool_codes",
        "_pool_values",
        "_scored",
        "_unreported",
    )

    def __init__(
        self, space: Space, options: DescentOptions, *, seed: int, context: Context | None = None
    ) -> None:
        """Prepares the chains.

        Raises:
            ConfigError: no surrogate, or one that does not fit the space or the objective.
        """
        super().__init__(space, options, seed=seed, context=context)
        self.predictor = fitting(self.context, space, "gradient")
        if options.gradient_of == "sum" and not hasattr(self.predictor, "value_and_sum_gradient"):
            raise ConfigError("Hyperparameter gradient_of 'sum' needs a surrogate that offers it.")
        self.learns = options.accounting == "deployable"
        self._relative = options.step == "relative"
        chains, width = options.chains, len(space.feature_names)
        attributes = len(space.cardinality)
        self._codes: Codes = np.zeros((chains, attributes), np.int32)
        self._points: Points = np.zeros((chains, width))
        self._values: Losses = np.full(chains, np.inf)
        self._gradients: Points = np.zeros((chains, width))
        self._rates = np.full(chains, options.learning_rate)
        self._steps = np.zeros(chains, dtype=np.int64)
        self._injections = np.zeros(chains, dtype=np.int64)
        self._turn = 0
        self._pool_codes: Codes = np.empty((0, attributes), np.int32)
        self._pool_values: Losses = np.empty(0)
        self._scored: Codes = np.empty((0, attributes), np.int32)
        self._unreported: Codes = np.empty((0, attributes), np.int32)
        self._lowest, self._highest, self._group = _box(space)
        self._fixed = self._group == FIXED
        self._is_factor = self._group >= 0

    def _ask(self, n: int) -> Codes:
        return self._round(n) if self.learns else self._visit(n)

    def _visit(self, n: int) -> Codes:
        """One step of as many chains as n allows with their visits; a visit may wait for room."""
        visited, _ = self._step(min(self.options.chains, max(1, n // 2)))
        waiting = np.concatenate([self._unreported, visited])
        room = n - len(visited)
        self._unreported = waiting[room:]
        return waiting[:room]

    def _round(self, n: int) -> Codes:
        """A round of surrogate queries, then the best predicted mappings without a true score."""
        rescored = min(self.options.rescored, max(1, n // 2))
        steps = min(self.options.round_steps * self.options.chains, n - rescored)
        visits = []
        while steps > 0:
            visits.append(self._step(min(steps, self.options.chains)))
            steps -= len(visits[-1][0])
        if visits:
            codes, values = (np.concatenate(parts) for parts in zip(*visits, strict=True))
            self._remember(codes, values)
        elif not len(self._pool_codes):
            # Too little budget for a query and a score: any mapping is better than none.
            return self.space.sample(self.rng, 1, feasible=True)
        best, self._pool_codes = self._pool_codes[:rescored], self._pool_codes[rescored:]
        self._pool_values = self._pool_values[rescored:]
        self._scored = np.concatenate([self._scored, best])[-LARGEST_MEMORY:]
        return best

    def _tell(self, codes: Codes, losses: Losses) -> None:
        """True scores decide what is returned, not where the surrogate leads."""

    def _step(self, count: int) -> tuple[Codes, Losses]:
        """Advances `count` chains by one surrogate query each.

        Returns:
            The mappings visited `[count, D]` and their predicted ln EDP `[count]`.
        """
        rows = (self._turn + np.arange(count)) % self.options.chains
        self._turn = int(self._turn + count) % self.options.chains
        injected = self._steps[rows] % self.options.inject_every == 0
        moved = self._step_relative(rows) if self._relative else self._step_whitened(rows)
        visited = np.empty((count, self._codes.shape[1]), np.int32)
        visited[~injected] = self.space.project(moved[~injected])
        visited[injected] = self.space.sample(self.rng, int(injected.sum()), feasible=True)
        points = self.space.encode(visited)
        if self.options.relaxed and not self._relative:
            points[~injected] = moved[~injected]
        values, gradients = self._query(points)
        self.surrogate_queries += count
        self._steps[rows] += 1

        stalled = (visited == self._codes[rows]).all(axis=1) & ~injected
        descends = ~injected & ((values <= self._values[rows]) | (not self._relative))
        taken = descends | (injected & self._accepts(rows, values))
        self._injections[rows] += injected
        if self.options.double_on_stall:
            self._rates[rows[stalled]] *= 2
            self._rates[rows[injected]] = self.options.learning_rate
        self._points[rows[taken]] = points[taken]
        self._codes[rows[taken]] = visited[taken]
        self._values[rows[taken]] = values[taken]
        self._gradients[rows[taken]] = gradients[taken]
        return visited, values

    def _step_relative(self, rows: npt.NDArray[np.int64]) -> Points:
        """Points `[m, F]` after a random bounded step along the gradient of ln EDP.

        Factors move in logarithms, the one with the steepest slope by up to LONGEST_FACTOR_STEP;
        ranks and the rest by up to LONGEST_RANK_STEP. Half of the dimensions move.
        """
        points, factor = self._points[rows], self._is_factor
        slope = self._gradients[rows] * np.where(factor, points, 1.0)
        groups = self._group.max(initial=0) + 1
        moves = self.rng.random((len(rows), groups)) < 0.5
        slope[:, factor] *= moves[:, self._group[factor]]
        slope[:, ~factor] *= self.rng.random((len(rows), 1)) < 0.5
        slope[:, self._fixed] = 0.0
        lengths = self.rng.random((len(rows), 2)) * (LONGEST_FACTOR_STEP, LONGEST_RANK_STEP)
        for part, length in ((factor, lengths[:, :1]), (~factor, lengths[:, 1:])):
            steepest = np.abs(slope[:, part]).max(axis=1, initial=1e-300, keepdims=True)
            slope[:, part] *= length / steepest
        moved: Points = np.where(factor, points * np.exp(-slope), points - slope)
        return np.clip(moved, self._lowest, self._highest)

    def _step_whitened(self, rows: npt.NDArray[np.int64]) -> Points:
        """Points `[m, F]` after the paper's step, inside the box of valid values."""
        scale = self.predictor.scale
        whitened = -self._rates[rows, None] * scale * self._gradients[rows]
        whitened = np.clip(whitened, -self.options.largest_step, self.options.largest_step)
        whitened[:, self._fixed] = 0.0
        moved: Points = np.clip(self._points[rows] + scale * whitened, self._lowest, self._highest)
        return moved

    def _query(self, points: npt.NDArray[np.float32]) -> tuple[Losses, Points]:
        """Predicted ln EDP and the gradient to follow; what is not finite leads nowhere.

        One query per point, whatever the objective is.
        """
        if self.options.gradient_of == "sum":
            values, gradients = self.predictor.value_and_sum_gradient(points)  # type: ignore[attr-defined]
        else:
            values, gradients = self.predictor.value_and_gradient(points)
        values = np.where(np.isfinite(values), values, np.inf)
        return values, np.nan_to_num(gradients, nan=0.0, posinf=0.0, neginf=0.0)

    def _accepts(self, rows: npt.NDArray[np.int64], values: Losses) -> npt.NDArray[np.bool_]:
        """Whether the chains take an injected mapping of these predicted ln EDP `[m]`."""
        if self.options.always_inject:
            return np.ones(len(rows), dtype=bool)
        coolings = self._injections[rows] // INJECTIONS_PER_COOLING
        cooled: Losses = self.options.temperature * np.power(COOLING, coolings, dtype=np.float64)
        # EDP itself, bounded so that a wild prediction stays a number.
        current = np.exp(np.minimum(self._values[rows], 700.0))
        current[np.isinf(self._values[rows])] = math.inf
        return metropolis(self.rng, current, np.exp(np.minimum(values, 700.0)), cooled)

    def _remember(self, visited: Codes, values: Losses) -> None:
        """Puts visited mappings into the pool, best predicted first, each once, unless scored."""
        codes = np.concatenate([self._scored, self._pool_codes, visited])
        known = np.concatenate([np.full(len(self._scored), -np.inf), self._pool_values, values])
        _, first = np.unique(codes, axis=0, return_index=True)
        first = first[first >= len(self._scored)]
        first = first[np.argsort(known[first], kind="stable")][:LARGEST_POOL]
        self._pool_codes, self._pool_values = codes[first], known[first]


def _box(space: Space) -> tuple[Points, Points, npt.NDArray[np.int64]]:
    """Lowest and highest valid value of each feature `[F]`, and its group.

    Factors have the index of their dimension as group. Read off the names that `MapSpace.encode`
    gives; features of other names have no bounds and no group.
    """
    # A level's name, which stands between, may have dots in it.
    names = [(n.split(".")[0], n.rpartition(".")[0], n.split(".")[-1]) for n in space.feature_names]
    lowest, highest = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    group = np.full(len(names), UNGROUPED)
    example = space.encode(np.zeros((1, len(space.cardinality)), np.int32))[0].astype(np.float64)
    sizes = {
        name[2]: value for name, value in zip(names, example, strict=True) if name[0] == "problem"
    }
    for column, name in enumerate(names):
        if name[0] == "problem":
            group[column] = FIXED
        elif name[0] in ("temporal", "spatial"):
            lowest[column], highest[column] = 1, sizes[name[2]]
            group[column] = list(sizes).index(name[2])
        elif name[0] in ("rank", "spatial-rank"):
            lowest[column], highest[column] = 0, len(sizes) - 1
        elif name[0] in ("keep", "spatial-axis"):
            lowest[column], highest[column] = 0, 1
        elif name[0] == "banks":
            banks = sum(v for n, v in zip(names, example, strict=True) if n[:2] == name[:2])
            lowest[column], highest[column] = 1, banks
    return lowest, highest, group
