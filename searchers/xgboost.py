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
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from costmodel.errors import ConfigError
from searchers.base import Codes, Losses, log_losses, metropolis, require
from searchers.batches import BatchSearcher

if TYPE_CHECKING:
    import xgboost

    from costmodel.space import Space

# ln of how many times worse than the worst a refused mapping counts.
REFUSED = 1.0


class XGBoost(BatchSearcher):
    """Proposes what trees fitted to the measurements predict to be best.

    The predictions come from this search's own measurements, so they are no iterations; their time
    is search time.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {
            "tvm": MappingProxyType(
                {
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
            )
        }
    )
    STATE: ClassVar[tuple[str, ...]] = (*BatchSearcher.STATE, "_codes", "_logs", "_chains")

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        batch: int = 64,
        fit: str = "regression",
        trees: int = 60,
        depth: int = 3,
        eta: float = 0.3,
        memory: int = 4096,
        chains: int = 128,
        steps: int = 50,
        patience: int = 50,
        moves: str = "domain",
        temperature: float = 1.0,
        random_share: float = 0.05,
        diversity: int = 2,
        restart_share: float = 0.5,
    ) -> None:
        """Prepares the first batch, which is random.

        Args:
            space: where to search.
            seed: decides the whole run.
            batch: mappings measured between two fits, TVM's plan_size.
            fit: of the trees: `rank` (pairwise) or `regression` on ln loss.
            trees: boosting rounds of a fit.
            depth: of a tree, at most.
            eta: shrinkage of each tree.
            memory: latest measurements that trees are fitted to.
            chains: Markov chains side by side.
            steps: of each chain per batch, at most.
            patience: steps after which chains stop that found nothing for the next batch.
            moves: `domain` for the space's own moves, `attribute` to draw one attribute anew.
            temperature: of the chains at first, in standard deviations of the prediction where they
                start; it falls linearly to 0.
            random_share: share of a batch that is drawn at random.
            diversity: a batch is chosen for different attribute values from this many times as
                many best predicted mappings; 1: the best predicted.
            restart_share: share of the chains that start at the best measured mappings; the others
                go on from where they were.
        """
        super().__init__(space, seed=seed)
        require(batch >= 1, "batch", batch, "at least 1")
        known = ("rank", "regression")
        require(fit in known, "fit", fit, "'rank' or 'regression'")
        require(trees >= 1, "trees", trees, "at least 1")
        require(depth >= 1, "depth", depth, "at least 1")
        require(0 < eta <= 1, "eta", eta, "above 0 and at most 1")
        require(memory >= 1, "memory", memory, "at least 1")
        require(chains >= 1, "chains", chains, "at least 1")
        require(steps >= 1, "steps", steps, "at least 1")
        require(patience >= 1, "patience", patience, "at least 1")
        require(moves in ("domain", "attribute"), "moves", moves, "'domain' or 'attribute'")
        require(temperature > 0, "temperature", temperature, "above 0")
        require(0 <= random_share <= 1, "random_share", random_share, "a share")
        require(diversity >= 1, "diversity", diversity, "at least 1")
        require(0 <= restart_share <= 1, "restart_share", restart_share, "a share")
        # Here, so that a missing library is one line and the first ask pays for no import.
        try:
            import xgboost as library
        except ImportError as error:
            raise ConfigError(
                "The xgboost searcher needs the library xgboost: pip install xgboost-cpu."
            ) from error
        self._library = library
        self.batch = batch
        self.fit = fit
        self.trees = trees
        self.depth = depth
        self.eta = eta
        self.memory = memory
        self.chains = chains
        self.steps = steps
        self.patience = patience
        self.moves = moves
        self.temperature = temperature
        self.random_share = random_share
        self.diversity = diversity
        self.restart_share = restart_share
        # What was measured, and its ln loss `[N]`; the chains, none before the first walk.
        self._codes: Codes = self._batch
        self._logs: Losses = np.empty(0)
        self._chains: Codes = self._batch

    def _propose(self) -> Codes:
        if not np.isfinite(self._logs).any():
            return self._draw(self.batch)
        guided = self.batch - int(self.random_share * self.batch)
        chosen = self._walk(self._fit(), guided * self.diversity)
        if len(chosen) > guided:
            chosen = chosen[pick_diverse(chosen, guided)]
        return np.concatenate([chosen, self._draw(self.batch - len(chosen))])

    def _learn(self, codes: Codes, losses: Losses) -> None:
        self._codes = np.concatenate([self._codes, codes])[-self.memory :]
        self._logs = np.append(self._logs, log_losses(losses))[-self.memory :]

    def _fit(self) -> xgboost.Booster:
        """Trees fitted to what was measured; higher predictions are better mappings."""
        scores = self.scores(self._logs)
        features = self.space.encode(self._codes)
        rank = self.fit == "rank"
        group = np.zeros(len(scores), np.int64) if rank else None
        data = self._library.QuantileDMatrix(features, scores, qid=group, nthread=1)
        settings = {
            "objective": "rank:pairwise" if rank else "reg:squarederror",
            "max_depth": self.depth,
            "eta": self.eta,
            "tree_method": "hist",
            "nthread": 1,
            "seed": 0,
            "verbosity": 0,
        }
        return self._library.train(settings, data, num_boost_round=self.trees)

    def scores(self, logs: Losses) -> Losses:
        """What trees learn of ln losses `[N]`, some of them finite: higher is better.

        `rank`: the lowest loss over the loss, 0 where it was refused. `regression`: minus the
        standardised logarithm.
        """
        finite = np.isfinite(logs)
        if self.fit == "rank":
            shares: Losses = np.exp(np.maximum(logs[finite].min() - logs, -700.0))
            return shares
        spread = max(float(logs[finite].std()), 1e-12)
        filled = np.where(finite, logs, logs[finite].max() + REFUSED)
        standard: Losses = (logs[finite].mean() - filled) / spread
        return standard

    def _walk(self, model: xgboost.Booster, wanted: int) -> Codes:
        """Anneals the chains on the prediction; the best unmeasured mappings met, best first."""
        codes, temperature = self._starts(), self.temperature
        scores = self._predict(model, codes)
        temperature *= max(float(scores.std()), 1e-6)
        met_codes, met_scores = [codes], [scores]
        best, threshold, idle = np.empty(0), -np.inf, 0
        for step in range(self.steps):
            moved = self._move(codes)
            moved = np.where(self.space.feasible(moved)[:, None], moved, codes)
            predicted = self._predict(model, moved)
            heat = temperature * (1.0 - step / self.steps)
            accepted = metropolis(self.rng, -scores, -predicted, heat)
            codes = np.where(accepted[:, None], moved, codes)
            scores = np.where(accepted, predicted, scores)
            met_codes.append(moved)
            met_scores.append(predicted)
            idle = 0 if predicted.max() > threshold else idle + 1
            best = np.sort(np.append(best, predicted))[-wanted:]
            threshold = best[0]
            if idle >= self.patience:
                break
        self._chains = codes
        order = np.argsort(-np.concatenate(met_scores), kind="stable")
        ranked = np.concatenate(met_codes)[order]
        return ranked[self._visited.fresh(ranked)[:wanted]]

    def _starts(self) -> Codes:
        """`[C, D]` where the chains start: the best measured mappings, and where chains were."""
        if not len(self._chains):
            self._chains = self.space.sample(self.rng, self.chains, feasible=True)
        starts = self._chains.copy()
        count = int(self.restart_share * self.chains)
        best = np.argsort(self._logs, kind="stable")[:count]
        starts[: len(best)] = self._codes[best]
        return starts

    def _move(self, codes: Codes) -> Codes:
        if self.moves == "domain":
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
