"""Gradient-boosted trees that predict the cost, searched by annealing: AutoTVM's XGBoost tuner.

After every batch the trees are fitted anew to what was measured. Markov chains then walk through
the space by the predicted cost, and the best predicted mappings that were never measured are the
next batch, but for a share drawn at random.

Source: Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, and the tuner of Apache
TVM; the trees are those of the `xgboost` library (Chen & Guestrin, KDD 2016).

Letters: m mappings of a batch, C chains, N mappings measured, D attributes of a code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from mapspace.extras import install
from searchers.base import Library, log_losses, metropolis
from searchers.options import Count, Options, Positive, PositiveShare, Presets, Share, Sources
from searchers.scales import refused_as_worse
from searchers.shared.batches import BatchSearcher

if TYPE_CHECKING:
    import xgboost

    from costmodel.space import Space


class XGBoostOptions(Options):
    """Hyperparameters of the boosted trees and of the walks by their prediction."""

    PRESETS: ClassVar[Presets] = {
        "tvm": {
            "batch": 64,
            "fit": "rank",
            "depth": 3,
            "eta": 0.3,
            "chains": 128,
            "steps": 500,
            "patience": 50,
            "moves": "attribute",
            "temperature": 1.0,
            "random_share": 0.05,
            "diversity": 1,
            "restart_share": 0.0,
        }
    }
    SOURCES: ClassVar[Sources] = {
        "tvm": "AutoTVM's XGBTuner (TVM)",
    }

    batch: Count = 64
    """Mappings measured between two fits, TVM's plan_size."""
    fit: Literal["rank", "regression"] = "regression"
    """Of the trees: `rank` (pairwise) or `regression` on ln loss."""
    trees: Count = 60
    """Boosting rounds of a fit."""
    depth: Count = 3
    """Of a tree, at most."""
    eta: PositiveShare = 0.3
    """Shrinkage of each tree."""
    memory: Count = 4096
    """Latest measurements that trees are fitted to."""
    chains: Count = 128
    """Markov chains side by side."""
    steps: Count = 50
    """Of each chain per batch, at most."""
    patience: Count = 50
    """Steps after which chains stop that found nothing for the next batch."""
    moves: Literal["domain", "attribute"] = "domain"
    """`domain` for the space's own moves, `attribute` to draw one attribute anew."""
    temperature: Positive = 1.0
    """Of the chains at first, in standard deviations of the prediction where they start; it falls
    linearly to 0."""
    random_share: Share = 0.05
    """Share of a batch that is drawn at random."""
    diversity: Count = 2
    """A batch is chosen for different attribute values from this many times as many best predicted
    mappings; 1: the best predicted."""
    restart_share: Share = 0.5
    """Share of the chains that start at the best measured mappings; the others go on from where
    they were."""


class XGBoost(BatchSearcher):
    """Proposes what trees fitted to the measurements predict to be best.

    The predictions come from this search's own measurements, so they are no iterations; their time
    is search time.
    """

    OPTIONS = XGBoostOptions
    options: XGBoostOptions
    LIBRARY = Library("xgboost", install("baselines"))
    QUICK: ClassVar[Mapping[str, Any]] = {"trees": 4, "steps": 5, "chains": 32}
    STATE: ClassVar[tuple[str, ...]] = (*BatchSearcher.STATE, "_codes", "_logs", "_chains")

    def __init__(self, space: Space, options: XGBoostOptions, *, seed: int) -> None:
        """Prepares the first batch, which is random."""
        super().__init__(space, options, seed=seed)
        import xgboost

        self._library = xgboost
        # What was measured, and its ln loss `[N]`; the chains, none before the first walk.
        self._codes: Codes = self._batch
        self._logs: Losses = np.empty(0)
        self._chains: Codes = self._batch

    def _propose(self) -> Codes:
        if not np.isfinite(self._logs).any():
            return self._draw(self.options.batch)
        guided = self.options.batch - int(self.options.random_share * self.options.batch)
        chosen = self._walk(self._fit(), guided * self.options.diversity)
        if len(chosen) > guided:
            chosen = chosen[pick_diverse(chosen, guided)]
        return np.concatenate([chosen, self._draw(self.options.batch - len(chosen))])

    def _learn(self, codes: Codes, losses: Losses) -> None:
        self._codes = np.concatenate([self._codes, codes])[-self.options.memory :]
        self._logs = np.append(self._logs, log_losses(losses))[-self.options.memory :]

    def _fit(self) -> xgboost.Booster:
        """Trees fitted to what was measured; higher predictions are better mappings."""
        scores = self.scores(self._logs)
        features = self.space.encode(self._codes)
        rank = self.options.fit == "rank"
        group = np.zeros(len(scores), np.int64) if rank else None
        data = self._library.QuantileDMatrix(features, scores, qid=group, nthread=1)
        settings = {
            "objective": "rank:pairwise" if rank else "reg:squarederror",
            "max_depth": self.options.depth,
            "eta": self.options.eta,
            "tree_method": "hist",
            "nthread": 1,
            "seed": 0,
            "verbosity": 0,
        }
        return self._library.train(settings, data, num_boost_round=self.options.trees)

    def scores(self, logs: Losses) -> Losses:
        """What trees learn of ln losses `[N]`, some of them finite: higher is better.

        `rank`: the lowest loss over the loss, 0 where it was refused. `regression`: minus the
        standardised logarithm.
        """
        finite = np.isfinite(logs)
        if self.options.fit == "rank":
            shares: Losses = np.exp(np.maximum(logs[finite].min() - logs, -700.0))
            return shares
        spread = max(float(logs[finite].std()), 1e-12)
        standard: Losses = (logs[finite].mean() - refused_as_worse(logs)) / spread
        return standard

    def _walk(self, model: xgboost.Booster, wanted: int) -> Codes:
        """Anneals the chains on the prediction; the best unmeasured mappings met, best first."""
        codes, temperature = self._starts(), self.options.temperature
        scores = self._predict(model, codes)
        temperature *= max(float(scores.std()), 1e-6)
        met_codes, met_scores = [codes], [scores]
        best, threshold, idle = np.empty(0), -np.inf, 0
        for step in range(self.options.steps):
            moved = self._move(codes)
            moved = np.where(self.space.feasible(moved)[:, None], moved, codes)
            predicted = self._predict(model, moved)
            heat = temperature * (1.0 - step / self.options.steps)
            accepted = metropolis(self.rng, -scores, -predicted, heat)
            codes = np.where(accepted[:, None], moved, codes)
            scores = np.where(accepted, predicted, scores)
            met_codes.append(moved)
            met_scores.append(predicted)
            idle = 0 if predicted.max() > threshold else idle + 1
            best = np.sort(np.append(best, predicted))[-wanted:]
            threshold = best[0]
            if idle >= self.options.patience:
                break
        self._chains = codes
        order = np.argsort(-np.concatenate(met_scores), kind="stable")
        ranked = np.concatenate(met_codes)[order]
        return ranked[self._visited.fresh(ranked)[:wanted]]

    def _starts(self) -> Codes:
        """`[C, D]` where the chains start: the best measured mappings, and where chains were."""
        if not len(self._chains):
            self._chains = self.space.sample(self.rng, self.options.chains, feasible=True)
        starts = self._chains.copy()
        count = int(self.options.restart_share * self.options.chains)
        best = np.argsort(self._logs, kind="stable")[:count]
        starts[: len(best)] = self._codes[best]
        return starts

    def _move(self, codes: Codes) -> Codes:
        if self.options.moves == "domain":
            return self.space.mutate(self.rng, codes)
        mask = np.zeros(codes.shape, dtype=bool)
        mask[np.arange(len(codes)), self.rng.integers(codes.shape[1], size=len(codes))] = True
        return self.space.resample(self.rng, codes, mask)

    def _predict(self, model: xgboost.Booster, codes: Codes) -> Losses:
        predicted: npt.NDArray[np.float32] = model.inplace_predict(self.space.encode(codes))
        return predicted.astype(np.float64)


def pick_diverse(codes: Codes, count: int) -> npt.NDArray[np.int64]:
    """Rows of codes `[m, D]`, each chosen for the most attribute values that none before it has.

    As AutoTVM's diversity filter; among equals the first wins. `[count]`, count at most m.
    """
    new = np.ones(codes.shape, dtype=bool)
    open_rows = np.ones(len(codes), dtype=bool)
    picked = np.empty(count, np.int64)
    for i in range(count):
        picked[i] = row = int(np.where(open_rows, new.sum(axis=1), -1).argmax())
        open_rows[row] = False
        new &= codes != codes[row]
    return picked
