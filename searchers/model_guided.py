"""Few evaluations for expensive cost models: a fitted model chooses every batch of mappings.

After every batch a model is fitted anew to all losses. Markov chains then walk through the space by
the predicted loss, and the best predicted mappings that were never evaluated, no two of the same
prediction, are the next batch, but for a share of new proposals. On a loop nest chains start and
move as the structured searcher's do.

Two models. *Grey-box*: a law, linear with non-negative coefficients in the words that a mapping
moves (`searchers.shared.nest_features`), times a power of its iterations, and a Gaussian process on
what the law leaves unexplained. It is told no energy, but how such cost models count. *Black-box*:
a Gaussian process on a description of the mapping alone.

Predictions come from this search's own evaluations, so they are no iterations; their time is search
time, a few milliseconds per evaluation.

Letters: m mappings of a batch, C chains, M candidates, N mappings evaluated, D attributes of a
code, F features, K traffic columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from costmodel.arrays.tables import NestTables
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses
from mapspace.errors import ConfigError
from mapspace.extras import install
from searchers.base import MOVE_ATTEMPTS, Library, log_losses, metropolis
from searchers.compiled.structured_state import make_hand
from searchers.compiled.structured_walk import propose
from searchers.context import Context
from searchers.options import (
    Count,
    Integer,
    Options,
    Positive,
    Presets,
    Share,
    ShareBelowOne,
    Sources,
)
from searchers.scales import refused_as_worse
from searchers.shared import nest_features
from searchers.shared.asynchronous import Asynchronous, Notes
from searchers.shared.batches import BatchSearcher
from searchers.shared.gaussian_process import GaussianProcess
from searchers.shared.one_thread import one_thread

if TYPE_CHECKING:
    from costmodel.space import Space

Reals = npt.NDArray[np.float64]

# Probability that a level above the innermost is filled in a new mapping, as structured has it.
OUTER_FILL = 0.3


# Powers of the iterations that a loss may have: latency and EDP 1, energy 0, ED2P 2.
POWERS = (1.0, 0.0, 2.0)

# A law predicts no less than this share of the least loss seen, each over its iterations' power.
LEAST = 1e-3

# Decimals of a predicted ln loss that tell two mappings apart.
DECIMALS = 6
# Share of moves that also take another order of buffers side by side.
EXCHANGED = 0.1


class Predictive(Protocol):
    """What was learnt, in the form in which chains follow it."""

    def predict(self, codes: Codes) -> Reals:
        """Predicted ln losses `[M]` of codes `[M, D]`, up to a constant."""
        ...


class GuidedOptions(Options):
    """What the searchers that follow a prediction share."""

    batch: Count = 12
    """Mappings evaluated between two fits."""
    chains: Count = 128
    """Markov chains side by side."""
    steps: Count = 20
    """Of each chain per batch."""
    temperature: Positive = 0.003
    """Of the chains at first, on the predicted ln loss; it falls linearly to 0."""
    restart_share: Share = 0.25
    """Share of the chains that start at the best evaluated mappings."""
    fresh_share: Share = 0.5
    """Share of the chains that start at new mappings; the others go on from where they were."""
    random_share: ShareBelowOne = 0.1
    """Share of the evaluations that are new mappings, whatever is predicted."""
    memory: Annotated[Integer, Field(ge=2)] = 300
    """Best evaluated mappings that the Gaussian process is fitted to."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.restart_share + self.fresh_share > 1:
            raise ValueError(
                f"restart_share: expected at most 1 - fresh_share ({1 - self.fresh_share:g}), got "
                f"{self.restart_share:g}."
            )
        return self


class ModelGuidedOptions(GuidedOptions):
    """Hyperparameters of the search by a model of its own evaluations."""

    PRESETS: ClassVar[Presets] = {
        # A law is right far from what was evaluated, a process near it.
        "black-box": {"features": "black-box", "restart_share": 0.5, "fresh_share": 0.3}
    }
    SOURCES: ClassVar[Sources] = {
        "black-box": "mapspace: without what is known of buffers and loops",
    }

    features: Literal["auto", "traffic", "black-box"] = "auto"
    """`traffic`: the grey-box model, on loop nests only; `black-box`: the other one; `auto`: the
    grey-box one on loop nests, else the black-box one."""
    initial: Count = 12
    """Mappings of the first batch."""


class GuidedSearcher(Asynchronous, BatchSearcher):
    """Evaluates what a prediction says is best; a subclass says what predicts.

    Where queries are asynchronous the model is fitted anew when a batch of losses has come, and
    what it chose before and nobody has asked for is forgotten.
    """

    QUICK: ClassVar[Mapping[str, Any]] = {"batch": 30, "chains": 8, "steps": 3, "memory": 40}
    STATE: ClassVar[tuple[str, ...]] = (*BatchSearcher.STATE, "_codes", "_logs", "_chains")
    STATE_OUT: ClassVar[tuple[str, ...]] = ("_chosen", "_since")
    LIBRARY = Library("scipy", install("baselines"))
    options: GuidedOptions

    def __init__(
        self, space: Space, options: GuidedOptions, *, seed: int, context: Context | None = None
    ) -> None:
        """Prepares the first batch; see `Searcher`."""
        super().__init__(space, options, seed=seed, context=context)
        self._nest = space if isinstance(space, MapSpace) else None
        # Whether the words that a mapping moves are features too.
        self._traffic = False
        # Mappings of a batch that nothing predicts.
        self._initial = options.batch
        if self._nest is not None:
            orders = self._nest.orders
            self._spaces = (self._nest,) if orders is None else orders.spaces
            self._hands = [make_hand(one.tables, OUTER_FILL) for one in self._spaces]
            self._structured(self._batch, fresh=True)
        # What was evaluated, and its ln loss `[N]`; the chains, none before the first walk.
        self._codes: Codes = self._batch
        self._logs: Losses = np.empty(0)
        self._chains: Codes = self._batch
        # Where queries are asynchronous: what was chosen and is not asked yet, and how many losses
        # came since it was.
        self._chosen: Codes = self._batch
        self._since = 0

    def _ask_more(self, n: int) -> tuple[Codes, Notes]:
        if not len(self._chosen) or self._since >= self.options.batch:
            self._chosen, self._since = self._propose(), 0
        codes, self._chosen = self._chosen[:n], self._chosen[n:]
        self._visited.add(codes)
        return codes, np.zeros(len(codes), np.int64)

    def _tell_more(self, codes: Codes, notes: Notes, losses: Losses) -> None:
        self._learn(codes, losses)
        self._since += len(losses)

    @abstractmethod
    def _fit(self) -> Predictive | None:
        """What the evaluations so far say of others; None: nothing."""

    @one_thread()
    def _propose(self) -> Codes:
        model = self._fit()
        if model is None:
            return self._unseen(
                self._batch[:0], self.options.batch if len(self._logs) else self._initial
            )
        # Rounded at random, so that small batches have their share of new mappings too.
        guided = self.options.batch - int(
            self.options.random_share * self.options.batch + self.rng.random()
        )
        return self._unseen(self._walk(model)[:guided], self.options.batch)

    def _learn(self, codes: Codes, losses: Losses) -> None:
        self._codes = np.concatenate([self._codes, codes])
        self._logs = np.append(self._logs, log_losses(losses))

    def _walk(self, model: Predictive) -> Codes:
        """Anneals the chains on the prediction; `[M, D]` what they met that is new, best first."""
        codes = self._starts()
        scores = model.predict(codes)
        met_codes, met_scores = [codes], [scores]
        for step in range(self.options.steps):
            moved = self._move(codes)
            predicted = model.predict(moved)
            heat = self.options.temperature * (1.0 - step / self.options.steps)
            accepted = metropolis(self.rng, scores, predicted, heat)
            codes = np.where(accepted[:, None], moved, codes)
            scores = np.where(accepted, predicted, scores)
            met_codes.append(moved)
            met_scores.append(predicted)
        self._chains = codes
        # What is predicted alike is alike to the model: one of each says all, and none that says
        # again what is known.
        asked = np.stack([*self._codes, *self.out.values()]) if self.out else self._codes
        known = np.round(model.predict(asked), DECIMALS)
        met = np.round(np.concatenate(met_scores), DECIMALS)
        order = np.argsort(met, kind="stable")
        ranked = np.concatenate(met_codes)[order]
        fresh = self._visited.fresh(ranked)
        values, firsts = np.unique(met[order][fresh], return_index=True)
        return ranked[fresh[firsts[~np.isin(values, known)]]]

    def _starts(self) -> Codes:
        """`[C, D]` where the chains start: best evaluated, where they were, and new mappings."""
        starts = self._chains.copy() if len(self._chains) else self._new(self.options.chains)
        order = np.argsort(self._logs, kind="stable")[: np.isfinite(self._logs).sum()]
        best = order[: int(self.options.restart_share * self.options.chains)]
        fresh = int(self.options.fresh_share * self.options.chains)
        starts[: len(best)] = self._codes[best]
        starts[self.options.chains - fresh :] = self._new(fresh)
        return starts

    def _unseen(self, codes: Codes, n: int) -> Codes:
        """Codes `[m, D]` and new mappings, `n` that differ and were never proposed if possible."""
        for attempt in range(2 * MOVE_ATTEMPTS):
            # Few mappings of a small space are structured.
            draw = self._new if attempt < MOVE_ATTEMPTS else self._draw
            codes = np.concatenate([codes, draw(n - len(codes))])
            codes = codes[self._visited.fresh(codes)]
            if len(codes) == n:
                break
        return codes if len(codes) else self._draw(n)

    def _new(self, n: int) -> Codes:
        """`[n, D]` feasible mappings from scratch."""
        if self._nest is None:
            return self._draw(n)
        return self._structured(np.zeros((n, self.space.cardinality.size), np.int32), fresh=True)

    def _move(self, codes: Codes) -> Codes:
        """`[C, D]` each row after a feasible move; as it was where the space found none."""
        if self._nest is not None:
            return self._structured(codes, fresh=False)
        moved = self.space.mutate(self.rng, codes)
        return np.where(self.space.feasible(moved)[:, None], moved, codes)

    def _structured(self, codes: Codes, *, fresh: bool) -> Codes:
        """Proposals `[m, D]` of the structured searcher: moves of codes, or new mappings.

        New ones have any order of buffers side by side; now and then a move exchanges two of them.
        """
        assert self._nest is not None
        orders = self._nest.orders
        if orders is None or not len(codes):
            return self._of_order(0, codes, fresh=fresh)
        if fresh:
            codes = self.space.sample(self.rng, len(codes))
        proposals = codes.copy()
        for order, rows, inside in orders.split(codes):
            found = self._of_order(order, inside, fresh=fresh)
            proposals[rows] = orders.codes(order, found)
        if not fresh:
            swapped = proposals.copy()
            swapped[:, orders.width :] = self.space.sample(self.rng, len(codes))[:, orders.width :]
            taken = (self.rng.random(len(codes)) < EXCHANGED) & self.space.feasible(swapped)
            proposals[taken] = swapped[taken]
        return proposals

    def _of_order(self, order: int, codes: Codes, *, fresh: bool) -> Codes:
        """Proposals of one order, in its own map space."""
        proposals = np.empty_like(codes)
        found = np.empty(len(codes), np.bool_)
        propose(
            self._hands[order],
            codes,
            np.full(len(codes), fresh),
            self.rng.integers(2**64, size=len(codes), dtype=np.uint64),
            proposals,
            found,
        )
        lost = np.flatnonzero(~found)
        if lost.size:
            proposals[lost] = self._spaces[order].sample(self.rng, lost.size, feasible=True)
        return proposals

    def describe(self, codes: Codes) -> tuple[Reals, Reals | None, Reals]:
        """Features `[M, F]`, traffic `[M, K]` (grey-box only) and ln iterations `[M]` of codes."""
        if self._nest is None:
            return self.space.encode(codes).astype(np.float64), None, np.zeros(len(codes))
        orders = self._nest.orders
        if orders is None:
            return self._described(self._nest.tables, codes)
        parts = [
            (rows, self._described(orders.spaces[order].tables, inside))
            for order, rows, inside in orders.split(codes)
        ] or [(np.arange(0), self._described(self._nest.tables, orders.inside(0, codes)))]
        back = np.argsort(np.concatenate([rows for rows, _ in parts]))
        features, words, iterations = (
            None if part[0] is None else np.concatenate(part)[back]
            for part in zip(*(described for _, described in parts), strict=True)
        )
        assert features is not None
        assert iterations is not None
        # Which buffer stands where, as ranks.
        places = np.argsort(orders.orders[orders.which(codes)], axis=1)
        return np.concatenate([features, places], axis=1), words, iterations

    def _described(self, tables: NestTables, codes: Codes) -> tuple[Reals, Reals | None, Reals]:
        """`describe` of codes of one order."""
        nests = nest_features.spell_out(tables, codes)
        features = nest_features.descriptors(tables, codes, nests)
        if not self._traffic:
            return features, None, np.zeros(len(codes))
        words = nest_features.traffic(tables, codes, nests)
        # Each MAC costs the same in every mapping.
        words = np.column_stack([np.full(len(words), float(tables.macs)), words])
        iterations = np.log(nest_features.cycles(tables, nests))
        return np.concatenate([features, np.log1p(words)], axis=1), words, iterations


class ModelGuided(GuidedSearcher):
    """Evaluates what a model fitted to the evaluations so far predicts to be best."""

    OPTIONS = ModelGuidedOptions
    BLACK_BOX = False
    TAKES_MIGRANTS = True
    options: ModelGuidedOptions

    def __init__(self, space: Space, options: ModelGuidedOptions, *, seed: int) -> None:
        """Prepares the first batch, which no model chooses.

        Raises:
            ConfigError: traffic is asked for of another space.
        """
        super().__init__(space, options, seed=seed)
        if options.features == "traffic" and self._nest is None:
            raise ConfigError(
                f"features: traffic needs a loop-nest MapSpace, got {type(space).__name__}."
            )
        self._traffic = options.features != "black-box"
        self._initial = options.initial

    def _take_in(self, codes: Codes, losses: Losses) -> None:
        """They are evaluations like others."""
        fresh = self._visited.fresh(codes)
        self._visited.add(codes)
        self._learn(codes[fresh], losses[fresh])

    def _fit(self) -> Predictive | None:
        if not np.isfinite(self._logs).any():
            return None
        return Model(self, self._codes, self._logs)


class Model:
    """Predicts ln losses from a law, where there is traffic, and a Gaussian process."""

    def __init__(self, searcher: ModelGuided, codes: Codes, logs: Losses) -> None:
        """Fits codes `[N, D]` and their ln losses `[N]`, some of them finite."""
        self._describe = searcher.describe
        features, words, iterations = self._describe(codes)
        finite = np.isfinite(logs)
        self.law: Law | None = None
        expected = np.zeros(len(logs))
        if words is not None:
            self.law = fit_law(words[finite], iterations[finite], logs[finite])
            expected = self.law.predict(words, iterations)
        self.process = fit_process(features, logs, expected, searcher.options.memory)

    def predict(self, codes: Codes) -> Reals:
        """Predicted ln losses `[M]` of codes `[M, D]`."""
        features, words, iterations = self._describe(codes)
        predicted = self.process.predict(features)
        if self.law is not None and words is not None:
            predicted = predicted + self.law.predict(words, iterations)
        return predicted


def fit_process(features: Reals, logs: Losses, expected: Reals, memory: int) -> GaussianProcess:
    """A process on how far ln losses `[N]`, some of them finite, lie above those expected `[N]`.

    Args:
        features: `[N, F]`.
        logs: `[N]` ln losses.
        expected: `[N]` what they were expected to be.
        memory: so many of the best are fitted to.
    """
    targets = refused_as_worse(logs) - expected
    kept = np.argsort(logs, kind="stable")[:memory]
    return GaussianProcess(features[kept], targets[kept])


class Law(NamedTuple):
    """loss = exp(offset) x iterations^power x (coefficients . words), coefficients `[K]`."""

    power: float
    offset: float
    coefficients: Reals

    def predict(self, words: Reals, iterations: Reals) -> Reals:
        """Predicted ln losses `[M]` from words `[M, K]` and ln iterations `[M]`."""
        sums = np.maximum(words @ self.coefficients, LEAST)
        predicted: Reals = self.power * iterations + self.offset + np.log(sums)
        return predicted


def fit_law(words: Reals, iterations: Reals, logs: Losses) -> Law:
    """The non-negative law of least squared relative errors, weighted by lowest loss / loss.

    Args:
        words: `[N, K]`, 0 or more; the first column constant.
        iterations: `[N]` their natural logarithms.
        logs: `[N]` ln losses, finite, N at least 1.

    Returns:
        The law with that power of the iterations among `POWERS` that leaves least.
    """
    import scipy.optimize

    scale = np.maximum(words.max(axis=0), 1.0)
    weights = np.exp(logs.min() - logs)
    best, least = Law(0.0, float(logs.min()), np.zeros(words.shape[1])), np.inf
    for power in POWERS:
        relative = logs - power * iterations
        offset = float(relative.min())
        rows = words / scale * (weights * np.exp(offset - relative))[:, None]
        try:
            coefficients, _ = scipy.optimize.nnls(rows, weights)
        except RuntimeError:  # no convergence: this power offers no law
            continue
        law = Law(power, offset, coefficients / scale)
        left = float(np.sum((weights * (law.predict(words, iterations) - logs)) ** 2))
        if left < least:
            best, least = law, left
    return best
