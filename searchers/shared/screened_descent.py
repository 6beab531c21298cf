"""Evolution that is screened by a surrogate's gradient: the default of the gradient search.

Many children of the mappings visited so far are made at no cost and ranked by a first-order
estimate: the value of the nearest visited mapping plus its gradient times the way. Only the few
that promise most are asked of the surrogate (an iteration each), so that a query's gradient is used
a hundred times. Distances and gradients are those of the surrogate's own description of a mapping,
in logarithms, where a step of a factor is nearly linear. A true score (an iteration, too) is asked
for the best predicted mappings after every cycle, and a Gaussian process on how far the predictions
were off corrects all that was visited.

An epoch of some hundred queries starts from random mappings, since one alone ends in the basin that
it fell into; from the third on every second one starts from the best of all before. The idea of
ranking a discrete neighbourhood by first-order differences is that of Grathwohl et al., "Oops I
Took A Gradient" (ICML 2021), section 3; here it screens what a genetic algorithm proposes.

Letters: N visited mappings, D attributes of a code, G values of a description, m children.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from searchers.base import Searcher, log_losses
from searchers.context import Context
from searchers.options import Count, Options, Share
from searchers.shared.gaussian_process import GaussianProcess
from searchers.shared.one_thread import one_thread
from searchers.shared.predictors import fitting

if TYPE_CHECKING:
    from costmodel.space import Space

Descriptions = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

# Surrogate queries and true scores of the first cycles: short ones, so that little is spent before
# the first true score; then those of every further one.
OPENING = ((12, 1), (8, 1), (8, 1), (16, 2), (16, 2), (32, 4), (32, 6))
CYCLE = (80, 16)

# Queries of one round in the first cycles, while each moves the estimates of all others most.
OPENING_ROUND = 4
OPENING_CYCLES = 3

# The first epochs are fresh and of half the length, so that few queries see two basins; from then
# on every second one merges what so many of each earlier one give.
SHORT_EPOCHS = 2
MERGE_EVERY = 2
GIVEN = 8

# Parents drawn per tournament, and moves of a child at most.
TOURNAMENT = 3
MOVES = 5

# Best mappings of the epoch from which children are estimated.
ANCHORS = 400

# Best scored mappings that correct the surrogate, and how many there must be.
CORRECTING = 200
LEAST_CORRECTING = 8

# What a closed epoch leaves behind, and all of them: bounds of memory.
KEPT_OF_EPOCH = 64
LARGEST_ARCHIVE = 16_384
LARGEST_MEMORY = 2**20

# Two descriptions that are the same to this fraction are one mapping in other words: loops of one
# iteration have an order that costs nothing.
RESOLUTION = 1000.0


class ScreenedOptions(Options):
    """Hyperparameters of the screened descent."""

    accounting: Literal["deployable", "visited"] = "deployable"
    """`deployable`: the best predicted mappings get a true score, which counts; `visited`: every
    visited one does, off the clock and outside the budget."""
    epoch: Count = 400
    """Surrogate queries of an epoch; the first two are half as long."""
    population: Count = 64
    """Best mappings of the epoch that have children."""
    candidates: Count = 1024
    """Children that are estimated for a round."""
    batch: Count = 16
    """Children of a round that the surrogate is asked for."""
    per_anchor: Count = 2
    """Children at most that are chosen by the gradient of one mapping while there are others."""
    crossover: Share = 0.5
    """Probability that a child has two parents; each attribute then comes from either."""
    immigrants: Share = 0.5
    """Share of the children that have a mapping drawn anew for a parent."""
    guide: Literal["gradient", "value", "nothing"] = "gradient"
    """What ranks children: first-order estimates, the nearest mapping's value alone, or nothing:
    what the gradient is worth."""


class ScreenedDescent(Searcher):
    """Children of the best, of which the surrogate sees those with the best first-order estimates.

    An iteration is one surrogate query or one true score; estimates are none, their time counts.
    """

    OPTIONS = ScreenedOptions
    options: ScreenedOptions
    STATE: ClassVar[tuple[str, ...]] = (
        "_codes",
        "_values",
        "_points",
        "_slopes",
        "_scores",
        "_epochs",
        "_seen",
        "_pending",
        "_unreported",
        "_epoch",
        "_spent",
        "_cycle",
    )

    def __init__(
        self, space: Space, options: ScreenedOptions, *, seed: int, context: Context | None = None
    ) -> None:
        """Prepares the first epoch.

        Raises:
            ConfigError: no surrogate, or one that does not fit the space.
        """
        super().__init__(space, options, seed=seed, context=context)
        self.predictor = fitting(self.context, space, "gradient")
        self.learns = options.accounting == "deployable"
        example = self._describe(np.zeros((1, len(space.cardinality)), np.int32))
        attributes, width = len(space.cardinality), example.shape[1]
        # Visited mappings: predicted ln EDP, description, gradient, true ln loss or nan, epoch.
        self._codes: Codes = np.empty((0, attributes), np.int32)
        self._values: Losses = np.empty(0)
        self._points: Descriptions = np.empty((0, width), np.float32)
        self._slopes: Descriptions = np.empty((0, width), np.float32)
        self._scores: Losses = np.empty(0)
        self._epochs: Rows = np.empty(0, np.int64)
        self._seen: Rows = np.empty(0, np.int64)
        self._pending: Rows = np.empty(0, np.int64)
        self._unreported: Codes = np.empty((0, attributes), np.int32)
        self._epoch, self._spent, self._cycle = 0, 0, 0
        # Not drawn from the search's generator: what is the same mapping depends on no seed.
        multipliers = np.random.default_rng(0).integers(1, 2**62, size=width, dtype=np.int64)
        self._multipliers = multipliers | 1
        self._correction: GaussianProcess | None = None
        self._shift = 0.0

    def _ask(self, n: int) -> Codes:
        return self._cycle_of(n) if self.learns else self._visits(n)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        if self.learns and len(self._pending) == len(codes):
            self._scores[self._pending] = log_losses(losses)

    def _visits(self, n: int) -> Codes:
        """A round of surrogate queries with their visits; a visit may wait for room."""
        codes = self._round(min(self.options.batch, max(1, n // 2)))
        self._visit(codes)
        waiting = np.concatenate([self._unreported, codes])
        room = n - len(codes)
        self._unreported = waiting[room:]
        return waiting[:room]

    def _cycle_of(self, n: int) -> Codes:
        """Rounds of surrogate queries, then the best predicted mappings without a true score."""
        queries, scored = OPENING[self._cycle] if self._cycle < len(OPENING) else CYCLE
        scored = min(scored, max(1, n // 2))
        queries = min(queries, n - scored)
        size = OPENING_ROUND if 0 < self._cycle < OPENING_CYCLES else self.options.batch
        self._cycle += 1
        self._correct()
        while queries > 0:
            codes = self._round(min(queries, size))
            self._visit(codes)
            queries -= len(codes)
        open_rows = np.flatnonzero(np.isnan(self._scores))
        order = np.argsort(self._corrected()[open_rows], kind="stable")
        self._pending = open_rows[order[:scored]]
        if not len(self._pending):
            # Too little budget for a query and a score: any mapping is better than none.
            return self.space.sample(self.rng, 1, feasible=True)
        return self._codes[self._pending]

    def _visit(self, codes: Codes) -> None:
        """Asks the surrogate and remembers what it says."""
        points = self.space.encode(codes)
        values, described, slopes = self.predictor.value_and_slope(points)
        self.surrogate_queries += len(codes)
        self._spent += len(codes)
        # What is not finite leads nowhere.
        values = np.where(np.isfinite(values), values, np.inf)
        self._codes = np.concatenate([self._codes, codes])
        self._values = np.append(self._values, values)
        self._points = np.concatenate([self._points, np.nan_to_num(described)])
        self._slopes = np.concatenate([self._slopes, np.nan_to_num(slopes, posinf=0, neginf=0)])
        self._scores = np.append(self._scores, np.full(len(codes), np.nan))
        self._epochs = np.append(self._epochs, np.full(len(codes), self._epoch))
        self._seen = np.append(self._seen, self._names(described))[-LARGEST_MEMORY:]

    @one_thread()
    def _correct(self) -> None:
        """Learns from the true scores so far how far the surrogate is off."""
        scored = np.flatnonzero(np.isfinite(self._scores) & np.isfinite(self._values))
        self._correction = None
        if not len(scored):
            return
        best = scored[np.argsort(self._scores[scored], kind="stable")][:CORRECTING]
        residuals = self._scores[best] - self._values[best]
        # Values are of EDP over a minimum that only the surrogate knows: the scores' scale differs.
        self._shift = float(np.median(residuals))
        if len(best) >= LEAST_CORRECTING:
            self._correction = GaussianProcess(self._points[best].astype(float), residuals)

    def _corrected(self) -> Losses:
        """`[N]` expected ln losses: true ones where they are known."""
        expected = self._values + self._shift
        if self._correction is not None:
            expected = self._values + self._correction.predict(self._points.astype(float))
        return np.where(np.isnan(self._scores), expected, self._scores)

    def _round(self, n: int) -> Codes:
        """At most n mappings to ask the surrogate for; an epoch starts with random ones."""
        if self._spent >= self._length:
            self._next_epoch()
        here = np.flatnonzero(self._epochs == self._epoch)
        if not len(here):
            return self.space.sample(self.rng, n, feasible=True)
        expected = self._corrected()
        order = here[np.argsort(expected[here], kind="stable")]
        children = self._children(order[: self.options.population])
        described = self._describe(children)
        names = self._names(described)
        _, first = np.unique(names, return_index=True)
        new = np.sort(first)[~np.isin(names[np.sort(first)], self._seen)]
        if not len(new):
            # Nothing new beside what this epoch has found.
            self._spent = self._length
            return self.space.sample(self.rng, n, feasible=True)
        chosen = self._screen(described[new], order[:ANCHORS], expected, n)
        return children[new[chosen]]

    def _children(self, parents: Rows) -> Codes:
        """`[m, D]` feasible children of visited mappings, best first; some are made twice."""
        m = self.options.candidates
        mother, father = (
            self._codes[parents[self.rng.integers(len(parents), size=(m, TOURNAMENT)).min(axis=1)]]
            for _ in range(2)
        )
        crossed = self.rng.random((m, 1)) < self.options.crossover
        # Of few tilings that fill an array most are far from what was visited: no move leads there.
        drawn = self.space.sample(self.rng, int(m * self.options.immigrants), feasible=False)
        father[: len(drawn)], crossed[: len(drawn)] = drawn, True
        children = np.where(crossed & (self.rng.random(mother.shape) < 0.5), father, mother)
        moves = self.rng.integers(np.where(crossed[:, 0], 0, 1), MOVES + 1)
        for step in range(MOVES):
            rows = np.flatnonzero(moves > step)
            children[rows] = self.space.mutate(self.rng, children[rows])
        feasible: Codes = children[self.space.feasible(children)]
        return feasible

    def _screen(self, described: Descriptions, anchors: Rows, expected: Losses, n: int) -> Rows:
        """`[n]` rows of the children that promise most, few by the gradient of one anchor."""
        if self.options.guide == "nothing":
            return np.arange(len(described))[:n]
        slopes = self._slopes[anchors]
        scale = np.sqrt((slopes**2).mean(axis=0))
        theirs, ours = self._points[anchors] * scale, described * scale
        distances = (theirs**2).sum(axis=1) - 2.0 * ours @ theirs.T
        near = distances.argmin(axis=1)
        estimates = expected[anchors[near]]
        if self.options.guide == "gradient":
            way = described - self._points[anchors[near]]
            estimates = estimates + np.einsum("mg,mg->m", way, slopes[near])
        order = np.argsort(estimates, kind="stable")
        # The how-manieth of its anchor each is, in the order of estimates.
        by_anchor = np.argsort(near[order], kind="stable")
        starts = np.searchsorted(near[order][by_anchor], near[order][by_anchor])
        turn = np.empty(len(order), np.int64)
        turn[by_anchor] = np.arange(len(order)) - starts
        late = turn >= self.options.per_anchor
        rows: Rows = order[np.argsort(late, kind="stable")][:n]
        return rows

    @property
    def _length(self) -> int:
        """Surrogate queries of the epoch."""
        whole = self.options.epoch
        return -(-whole // 2) if self._epoch < SHORT_EPOCHS else whole

    def _next_epoch(self) -> None:
        """Closes the epoch; a merging one starts from the best of all before."""
        expected = self._corrected()
        order = np.lexsort((expected, self._epochs))
        in_order = self._epochs[order]
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order)) - np.searchsorted(in_order, in_order)
        self._epoch, self._spent = self._epoch + 1, 0
        if self._epoch >= SHORT_EPOCHS and (self._epoch - SHORT_EPOCHS) % MERGE_EVERY == 0:
            self._epochs[rank < GIVEN] = self._epoch
        kept = (rank < KEPT_OF_EPOCH) | ~np.isnan(self._scores)
        if kept.sum() > LARGEST_ARCHIVE:
            kept &= expected <= np.partition(expected[kept], LARGEST_ARCHIVE)[LARGEST_ARCHIVE]
        for name in ("_codes", "_values", "_points", "_slopes", "_scores", "_epochs"):
            setattr(self, name, getattr(self, name)[kept])

    def _describe(self, codes: Codes) -> Descriptions:
        return np.nan_to_num(self.predictor.describe(self.space.encode(codes)))

    def _names(self, described: Descriptions) -> Rows:
        """`[m]` a number per description, the same for two that are the same."""
        steps = np.rint(described.astype(np.float64) * RESOLUTION).astype(np.int64)
        names: Rows = (steps * self._multipliers).sum(axis=1)  # modulo 2^64
        return names
