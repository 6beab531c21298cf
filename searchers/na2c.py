"""Neighbourhood actor advantage critic: short walks from the best mapping, guided by networks.

Walks of a few steps leave from the best mapping known, the centre. A step is one edit of one
attribute, chosen by the actor's policy or at random. What was never visited on the way is measured
in batches, and actor and critic learn from a memory of the steps taken.

Source: Zhang et al., "Compiler-Level Matrix Multiplication Optimization for Deep Learning", 2019,
section 4.3, Algorithm 2.

Letters: m walks or steps, A actions, D attributes of a code, M steps remembered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from costmodel.space import Codes, Losses
from searchers.base import log_losses
from searchers.options import Count, NonNegative, Options, Positive, Presets, Share, Sources, Whole
from searchers.shared.batches import BatchSearcher
from searchers.shared.small_networks import (
    Features,
    Floats,
    Learner,
    Perceptron,
    descend,
    draw,
    learner,
    policy_slope,
)

if TYPE_CHECKING:
    from costmodel.space import Space

Indices = npt.NDArray[np.int64]
Steps = dict[str, npt.NDArray[Any]]

# The most rounds of walks that fill a batch; every other one walks further than the one before.
ROUNDS = 8

# Bound on the norm of a gradient.
LARGEST_GRADIENT = 1.0

# Bound of a standardised reward, and the reward of what the cost model refused.
LARGEST_REWARD = 3.0


class NA2COptions(Options):
    """Hyperparameters of the neighbourhood actor advantage critic."""

    PRESETS: ClassVar[Presets] = {
        "paper": {"walk": 3, "starts": 1, "reward": "inverse", "patience": 0}
    }
    SOURCES: ClassVar[Sources] = {
        "paper": "Zhang et al. (2019), Algorithm 2 and section 5",
    }

    walk: Count = 3
    """Steps of a walk, the paper's T."""
    batch: Count = 32
    """Mappings collected before they are measured."""
    starts: Count = 64
    """Mappings measured first, the best of which is the first centre; those beside the space's own
    start are drawn at random."""
    policy_share: Share = 0.5
    """Probability that a step follows the policy, the paper's epsilon; the others are uniform."""
    reward: Literal["inverse", "log"] = "log"
    """Of a step to a mapping: `inverse` for the paper's 1 / loss, in units of the best loss
    remembered; `log` for its logarithm, standardised over the memory."""
    discount: Share = 0.9
    """Of the value of the next mapping."""
    entropy: NonNegative = 0.01
    """Coefficient of the policy's entropy bonus."""
    hidden: Count = 32
    """Units of the hidden layer of each network."""
    learning_rate: Positive = 3e-3
    """Of Adam."""
    memory: Count = 512
    """Latest steps remembered."""
    minibatch: Count = 64
    """Remembered steps per update."""
    updates: Whole = 4
    """Updates of both networks per batch."""
    patience: Whole = 200
    """Mappings without a better centre after which the search moves to a new start, drawn as the
    first; 0: never."""


class NA2C(BatchSearcher):
    """Explores a neighbourhood of the best mapping, guided by an advantage actor-critic.

    Where nothing new is found in the neighbourhood, the walks become longer step by step, as the
    paper suggests, and at last a mapping is drawn at random.
    """

    OPTIONS = NA2COptions
    options: NA2COptions
    QUICK: ClassVar[Mapping[str, Any]] = {"updates": 1}
    STATE: ClassVar[tuple[str, ...]] = (
        *BatchSearcher.STATE,
        "_actor",
        "_critic",
        "_memory",
        "_steps",
        "_centre",
        "_centre_loss",
        "_idle",
    )

    def __init__(self, space: Space, options: NA2COptions, *, seed: int) -> None:
        """Prepares networks and memory; the space's attribute `start` is the start, if any."""
        super().__init__(space, options, seed=seed)
        # Action a makes edit `_edit[a]` of attribute `_attribute[a]`.
        edits = space.edit_choices - 1
        self._attribute = np.repeat(np.arange(len(edits)), edits)
        self._edit = np.concatenate([np.arange(1, count + 1) for count in edits])
        self._features = Features(space)
        width, actions = self._features.width, len(self._edit)
        self._policy = Perceptron((width, options.hidden, actions))
        self._value = Perceptron((width, options.hidden, 1))
        self._actor: Learner = learner(self._policy.initial(self.rng))
        self._critic: Learner = learner(self._value.initial(self.rng))
        self._memory = _no_steps(len(space.cardinality))
        # The steps that led to the mappings of the batch, in its order; empty after a start.
        self._steps = _no_steps(len(space.cardinality))
        self._centre: Codes = np.empty((0, len(space.cardinality)), np.int32)
        self._centre_loss = math.inf
        self._idle = 0

    def _propose(self) -> Codes:
        if self.options.patience and self._idle >= self.options.patience:
            self._centre, self._centre_loss = self._centre[:0], math.inf
        if not len(self._centre):
            self._steps = _no_steps(self._centre.shape[1])
            self._idle = 0
            if len(self._visited):
                return self._draw(self.options.starts)
            return np.concatenate([self._start(), self._draw(self.options.starts - 1)])
        self._steps = self._collect()
        if not len(self._steps["next"]):
            return self._draw(self.options.batch)
        return self._steps["next"]

    def _collect(self) -> dict[str, Any]:
        """Walks from the centre until a batch of mappings is found that were never visited."""
        found = _no_steps(self._centre.shape[1])
        for attempt in range(ROUNDS if len(self._edit) else 0):
            missing = self.options.batch - len(found["next"])
            if missing <= 0:
                break
            codes = np.repeat(self._centre, -(-missing // self.options.walk), axis=0)
            steps = [found]
            # Longer walks once the neighbourhood is exhausted.
            for _ in range(self.options.walk * (1 + attempt // 2)):
                actions = self._choose(codes)
                following = self._apply(codes, actions)
                steps.append({"code": codes, "action": actions, "next": following})
                codes = following
            found = self._unvisited(_join(steps))
        return {name: rows[: self.options.batch] for name, rows in found.items()}

    def _unvisited(self, steps: Steps) -> Steps:
        """The steps to mappings that were never visited, one to each."""
        rows = self._visited.fresh(steps["next"])
        rows = rows[self.space.feasible(steps["next"][rows])]
        return {name: values[rows] for name, values in steps.items()}

    def _choose(self, codes: Codes) -> Indices:
        """`[m]` actions: by the policy with probability `policy_share`, else uniform."""
        uniform = self.rng.integers(len(self._edit), size=len(codes))
        guided = np.flatnonzero(self.rng.random(len(codes)) < self.options.policy_share)
        if guided.size:
            features = self._features(codes[guided])
            logits, _ = self._policy.forward(self._actor["parameters"], features)
            uniform[guided] = draw(self.rng, logits)
        return uniform

    def _apply(self, codes: Codes, actions: Indices) -> Codes:
        """`[m, D]` after actions `[m]`; one that cannot be made changes nothing."""
        edits = np.zeros(codes.shape, np.int64)
        edits[np.arange(len(codes)), self._attribute[actions]] = self._edit[actions]
        return self.space.edit(codes, edits)

    def _learn(self, codes: Codes, losses: Losses) -> None:
        self._idle += len(losses)
        best = int(losses.argmin())
        if losses[best] < self._centre_loss:
            self._centre, self._centre_loss = codes[[best]], float(losses[best])
            self._idle = 0
        if len(self._steps["next"]):
            steps = _join([self._memory, {**self._steps, "log": log_losses(losses)}])
            self._memory = {name: rows[-self.options.memory :] for name, rows in steps.items()}
            self._train()

    def _train(self) -> None:
        """Updates critic and actor from remembered steps: advantage r + g V(s') - V(s)."""
        rewards = self._rewards()
        before = self._features(self._memory["code"])
        after = self._features(self._memory["next"])
        for _ in range(self.options.updates):
            rows = self.rng.integers(len(rewards), size=min(self.options.minibatch, len(rewards)))
            values, read = self._value.forward(self._critic["parameters"], before[rows])
            ahead, _ = self._value.forward(self._critic["parameters"], after[rows])
            advantages = rewards[rows] + self.options.discount * ahead[:, 0] - values[:, 0]
            slope = self._value.gradient(
                self._critic["parameters"], read, -advantages[:, None] / len(rows)
            )
            descend(self._critic, slope, self.options.learning_rate, LARGEST_GRADIENT)
            logits, read = self._policy.forward(self._actor["parameters"], before[rows])
            slope = self._policy.gradient(
                self._actor["parameters"],
                read,
                policy_slope(logits, self._memory["action"][rows], advantages, self.options.entropy)
                / len(rows),
            )
            descend(self._actor, slope, self.options.learning_rate, LARGEST_GRADIENT)

    def _rewards(self) -> Floats:
        """`[M]` rewards of the remembered steps."""
        logs = self._memory["log"]
        finite = np.isfinite(logs)
        if not finite.any():
            return np.zeros(len(logs))
        if self.options.reward == "inverse":
            shares: Floats = np.exp(np.maximum(logs[finite].min() - logs, -700.0))
            return shares
        spread = max(float(logs[finite].std()), 1e-12)
        gains = (logs[finite].mean() - np.where(finite, logs, 0.0)) / spread
        return np.clip(np.where(finite, gains, -LARGEST_REWARD), -LARGEST_REWARD, LARGEST_REWARD)


def _no_steps(attributes: int) -> Steps:
    """No step: from a code, by an action, to the next, of a ln loss."""
    none = np.empty((0, attributes), np.int32)
    return {"code": none, "action": np.empty(0, np.int64), "next": none, "log": np.empty(0)}


def _join(steps: list[Steps]) -> Steps:
    """Steps one after another, with the fields that all of them have."""
    shared = [name for name in steps[0] if all(name in part for part in steps)]
    return {name: np.concatenate([part[name] for part in steps]) for name in shared}
