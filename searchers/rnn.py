"""A recurrent controller trained by policy gradient.

An LSTM emits a mapping from scratch, attribute after attribute, and is rewarded for its cost
(REINFORCE, Williams 1992). An attribute with many values is emitted as several digits, the highest
first: neighbouring factorisations and loop orders share their leading digits, since both are
numbered lexicographically.

Source: Zoph & Le, "Neural Architecture Search with Reinforcement Learning", ICLR 2017; Bello et
al., "Neural Optimizer Search with Reinforcement Learning", ICML 2017.

Letters: m mappings of a batch, D attributes of a code, S digits of a mapping.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from searchers.base import Codes, Losses, log_losses, require
from searchers.batches import BatchSearcher
from searchers.network import (
    Choices,
    Floats,
    Learner,
    Recurrent,
    descend,
    draw,
    learner,
    policy_slope,
)

if TYPE_CHECKING:
    from costmodel.space import Space

# Bound on the norm of a gradient.
LARGEST_GRADIENT = 1.0

# The most often that the controller is asked for a batch: a settled one mostly repeats itself.
EMISSIONS = 5

# Bound of an advantage, in standard deviations of a batch; what was refused has its negative.
LARGEST_ADVANTAGE = 3.0


class Digits:
    """Codes as digits of mixed radix, the highest first, attribute after attribute.

    Attributes:
        choices: `[S]` number of values of each digit.
    """

    def __init__(self, cardinality: npt.NDArray[np.int64], largest: int) -> None:
        """Gives attributes `[D]` as few digits of at most `largest` values as suffice."""
        self._cardinality = cardinality
        self.choices: list[int] = []
        # Of each digit: its attribute, and how much of it one step is worth.
        self._attribute: list[int] = []
        self._worth: list[int] = []
        for attribute, count in enumerate(cardinality.tolist()):
            digits = 0
            while largest**digits < count:
                digits += 1
            radix = next(r for r in range(1, largest + 1) if r**digits >= count)
            for place in range(digits - 1, -1, -1):
                self._attribute.append(attribute)
                self._worth.append(radix**place)
                # The highest digit has only the values that occur.
                highest = place == digits - 1
                self.choices.append(-(-count // radix**place) if highest else radix)

    def allowed(self, s: int, codes: Codes) -> npt.NDArray[np.bool_]:
        """`[m, choices]` values of digit s after which codes `[m, D]`, begun, can be completed."""
        attribute, worth = self._attribute[s], self._worth[s]
        reached = codes[:, [attribute]] + worth * np.arange(self.choices[s])
        found: npt.NDArray[np.bool_] = reached < self._cardinality[attribute]
        return found

    def put(self, s: int, codes: Codes, digits: Choices) -> None:
        """Adds digits `[m]` of place s to codes `[m, D]`."""
        codes[:, self._attribute[s]] += (self._worth[s] * digits).astype(np.int32)

    def split(self, codes: Codes) -> Choices:
        """`[m, S]` the digits of codes `[m, D]`."""
        digits = np.zeros((len(codes), len(self.choices)), np.int64)
        rest = codes.astype(np.int64)
        for s, (attribute, worth) in enumerate(zip(self._attribute, self._worth, strict=True)):
            digits[:, s], rest[:, attribute] = np.divmod(rest[:, attribute], worth)
        return digits


class RNN(BatchSearcher):
    """Emits mappings by an LSTM and follows the policy gradient of their cost.

    The reward is -ln loss less a moving average, in standard deviations of the batch. Where
    `elites` are kept, the controller also learns to emit the best mappings found (priority queue
    training: Abolafia et al., 2018). What is infeasible or was visited before is emitted again;
    what still is after some attempts is drawn uniformly instead.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {
            "nas": MappingProxyType(
                {"hidden": 35, "learning_rate": 0.0006, "elites": 0, "entropy": 0.0}
            )
        }
    )
    STATE: ClassVar[tuple[str, ...]] = (
        *BatchSearcher.STATE,
        "_controller",
        "_baseline",
        "_elite_codes",
        "_elite_losses",
    )

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        batch: int = 16,
        hidden: int = 32,
        embedding: int = 16,
        largest_radix: int = 32,
        learning_rate: float = 0.01,
        baseline_decay: float = 0.9,
        entropy: float = 0.01,
        elites: int = 16,
        elite_weight: float = 3.0,
    ) -> None:
        """Prepares the controller; untrained, it emits nearly uniform mappings.

        Args:
            space: where to search.
            seed: decides the whole run.
            batch: mappings per update.
            hidden: units of the LSTM.
            embedding: values that stand for a digit as the next input.
            largest_radix: most values of one digit.
            learning_rate: of Adam.
            baseline_decay: of the moving average of rewards, in [0, 1).
            entropy: coefficient of the entropy bonus.
            elites: best mappings that are learnt again at every update; 0: none.
            elite_weight: weight of their mean log-likelihood beside the policy gradient.
        """
        super().__init__(space, seed=seed)
        require(batch >= 1, "batch", batch, "at least 1")
        require(hidden >= 1, "hidden", hidden, "at least 1")
        require(embedding >= 1, "embedding", embedding, "at least 1")
        require(largest_radix >= 2, "largest_radix", largest_radix, "at least 2")
        require(learning_rate > 0, "learning_rate", learning_rate, "above 0")
        require(0 <= baseline_decay < 1, "baseline_decay", baseline_decay, "in [0, 1)")
        require(entropy >= 0, "entropy", entropy, "0 or more")
        require(elites >= 0, "elites", elites, "0 or more")
        require(elite_weight >= 0, "elite_weight", elite_weight, "0 or more")
        self.batch = batch
        self.learning_rate = learning_rate
        self.baseline_decay = baseline_decay
        self.entropy = entropy
        self.elites = elites
        self.elite_weight = elite_weight
        self._digits = Digits(space.cardinality, largest_radix)
        self._network = Recurrent(self._digits.choices, hidden=hidden, embedding=embedding)
        self._controller: Learner = learner(self._network.initial(self.rng))
        # Moving average of -ln loss, nan before the first batch.
        self._baseline = math.nan
        self._elite_codes: Codes = self._batch
        self._elite_losses: Losses = np.empty(0)

    def _propose(self) -> Codes:
        found = np.empty((0, self._batch.shape[1]), np.int32)
        for _ in range(EMISSIONS):
            # Twice as many as wanted: wide calls cost little more, and some do not fit.
            emitted = self._emit(2 * self.batch)
            new = np.concatenate([found, emitted[self.space.feasible(emitted)]])
            found = new[self._visited.fresh(new)][: self.batch]
            if len(found) == self.batch:
                return found
        return np.concatenate([found, self._draw(self.batch - len(found))])

    def _emit(self, rows: int) -> Codes:
        """`[rows, D]` mappings drawn from the policy."""
        codes = np.zeros((rows, self._batch.shape[1]), np.int32)

        def choose(s: int, logits: Floats) -> Choices:
            digits = draw(self.rng, np.where(self._digits.allowed(s, codes), logits, -np.inf))
            self._digits.put(s, codes, digits)
            return digits

        self._network.emit(self._controller["parameters"], rows, choose)
        return codes

    def _learn(self, codes: Codes, losses: Losses) -> None:
        rewards = -log_losses(losses)
        finite = np.isfinite(rewards)
        if not finite.any():
            return
        mean, spread = float(rewards[finite].mean()), float(rewards[finite].std())
        if math.isnan(self._baseline):
            self._baseline = mean
        gains = np.where(finite, rewards, 0.0) - self._baseline
        gains = np.where(finite, gains / max(spread, 1e-12), -LARGEST_ADVANTAGE)
        gains = np.clip(gains, -LARGEST_ADVANTAGE, LARGEST_ADVANTAGE)
        self._baseline += (1.0 - self.baseline_decay) * (mean - self._baseline)
        weights = [
            gains / len(codes),
            np.full(len(self._elite_codes), self.elite_weight / max(1, len(self._elite_codes))),
        ]
        bonus = self.entropy / len(codes)
        slope = self.slope(
            np.concatenate([codes, self._elite_codes]), np.concatenate(weights), bonus
        )
        descend(self._controller, slope, self.learning_rate, LARGEST_GRADIENT)
        self._keep_elites(codes[finite], losses[finite])

    def slope(self, codes: Codes, gains: Losses, entropy: float) -> Floats:
        """Slope `[P]` of `sum(-gains ln p(code) - entropy H)` over codes `[m, D]`.

        H is the sum of the entropies of the digits, each given the digits before it.
        """
        chosen = self._digits.split(codes)
        begun = np.zeros_like(codes)
        slopes: list[Floats] = []

        def repeat(s: int, logits: Floats) -> Choices:
            logits = np.where(self._digits.allowed(s, begun), logits, -np.inf)
            slopes.append(policy_slope(logits, chosen[:, s], gains, entropy))
            self._digits.put(s, begun, chosen[:, s])
            return chosen[:, s]

        parameters = self._controller["parameters"]
        _, trace = self._network.emit(parameters, len(codes), repeat)
        return self._network.gradient(parameters, chosen, trace, slopes)

    def _keep_elites(self, codes: Codes, losses: Losses) -> None:
        """Merges measured mappings into the best ones; a batch repeats nothing visited."""
        joined = np.concatenate([self._elite_losses, losses])
        best = np.argsort(joined, kind="stable")[: self.elites]
        self._elite_codes = np.concatenate([self._elite_codes, codes])[best]
        self._elite_losses = joined[best]
