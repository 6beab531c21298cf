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
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from costmodel.space import Codes, Losses
from searchers.base import log_losses
from searchers.options import (
    Count,
    Integer,
    NonNegative,
    Options,
    Positive,
    Presets,
    ShareBelowOne,
    Sources,
    Whole,
)
from searchers.shared.batches import BatchSearcher
from searchers.shared.small_networks import (
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


class RNNOptions(Options):
    """Hyperparameters of the recurrent controller."""

    PRESETS: ClassVar[Presets] = {
        "nas": {"hidden": 35, "learning_rate": 0.0006, "elites": 0, "entropy": 0.0}
    }
    SOURCES: ClassVar[Sources] = {
        "nas": "Neural architecture search with reinforcement learning (ICLR 2017)",
    }

    batch: Count = 16
    """Mappings per update."""
    hidden: Count = 32
    """Units of the LSTM."""
    embedding: Count = 16
    """Values that stand for a digit as the next input."""
    largest_radix: Annotated[Integer, Field(ge=2)] = 32
    """Most values of one digit."""
    learning_rate: Positive = 0.01
    """Of Adam."""
    baseline_decay: ShareBelowOne = 0.9
    """Of the moving average of rewards."""
    entropy: NonNegative = 0.01
    """Coefficient of the entropy bonus."""
    elites: Whole = 16
    """Best mappings that are learnt again at every update; 0: none."""
    elite_weight: NonNegative = 3.0
    """Weight of their mean log-likelihood beside the policy gradient."""


class RNN(BatchSearcher):
    """Emits mappings by an LSTM and follows the policy gradient of their cost.

    The reward is -ln loss less a moving average, in standard deviations of the batch. Where
    `elites` are kept, the controller also learns to emit the best mappings found (priority queue
    training: Abolafia et al., 2018). What is infeasible or was visited before is emitted again;
    what still is after some attempts is drawn uniformly instead.
    """

    OPTIONS = RNNOptions
    options: RNNOptions
    QUICK: ClassVar[Mapping[str, Any]] = {"hidden": 8, "batch": 64}
    STATE: ClassVar[tuple[str, ...]] = (
        *BatchSearcher.STATE,
        "_controller",
        "_baseline",
        "_elite_codes",
        "_elite_losses",
    )

    def __init__(self, space: Space, options: RNNOptions, *, seed: int) -> None:
        """Prepares the controller; untrained, it emits nearly uniform mappings."""
        super().__init__(space, options, seed=seed)
        self._digits = Digits(space.cardinality, options.largest_radix)
        self._network = Recurrent(
            self._digits.choices, hidden=options.hidden, embedding=options.embedding
        )
        self._controller: Learner = learner(self._network.initial(self.rng))
        # Moving average of -ln loss, nan before the first batch.
        self._baseline = math.nan
        self._elite_codes: Codes = self._batch
        self._elite_losses: Losses = np.empty(0)

    def _propose(self) -> Codes:
        found = np.empty((0, self._batch.shape[1]), np.int32)
        for _ in range(EMISSIONS):
            # Twice as many as wanted: wide calls cost little more, and some do not fit.
            emitted = self._emit(2 * self.options.batch)
            new = np.concatenate([found, emitted[self.space.feasible(emitted)]])
            found = new[self._visited.fresh(new)][: self.options.batch]
            if len(found) == self.options.batch:
                return found
        return np.concatenate([found, self._draw(self.options.batch - len(found))])

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
        self._baseline += (1.0 - self.options.baseline_decay) * (mean - self._baseline)
        weights = [
            gains / len(codes),
            np.full(
                len(self._elite_codes), self.options.elite_weight / max(1, len(self._elite_codes))
            ),
        ]
        bonus = self.options.entropy / len(codes)
        slope = self.slope(
            np.concatenate([codes, self._elite_codes]), np.concatenate(weights), bonus
        )
        descend(self._controller, slope, self.options.learning_rate, LARGEST_GRADIENT)
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
        best = np.argsort(joined, kind="stable")[: self.options.elites]
        self._elite_codes = np.concatenate([self._elite_codes, codes])[best]
        self._elite_losses = joined[best]
