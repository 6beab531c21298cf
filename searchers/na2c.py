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
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from searchers.base import Codes, Losses, log_losses, require
from searchers.batches import BatchSearcher
from searchers.network import (
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


class NA2C(BatchSearcher):
    """Explores a neighbourhood of the best mapping, guided by an advantage actor-critic.

    Where nothing new is found in the neighbourhood, the walks become longer step by step, as the
    paper suggests, and at last a mapping is drawn at random.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {
            "paper": MappingProxyType(
                {"walk": 3, "starts": 1, "reward": "inverse", "patience": 0},
            )
        }
    )
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

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        walk: int = 3,
        batch: int = 32,
        starts: int = 64,
        policy_share: float = 0.5,
        reward: str = "log",
        discount: float = 0.9,
        entropy: float = 0.01,
        hidden: int = 32,
        learning_rate: float = 3e-3,
        memory: int = 512,
        minibatch: int = 64,
        updates: int = 4,
        patience: int = 200,
    ) -> None:
        """Prepares networks and memory.

        Args:
            space: where to search; it starts at its attribute `start` if it has one.
            seed: decides the whole run.
            walk: steps of a walk, the paper's T.
            batch: mappings collected before they are measured.
            starts: mappings measured first, the best of which is the first centre; those beside
                the space's own start are drawn at random.
            policy_share: probability that a step follows the policy, the paper's epsilon; the
                others are uniform.
            reward: of a step to a mapping: `inverse` for the paper's 1 / loss, in units of the
                best loss remembered; `log` for its logarithm, standardised over the memory.
            discount: of the value of the next mapping, in [0, 1].
            entropy: coefficient of the policy's entropy bonus.
            hidden: units of the hidden layer of each network.
            learning_rate: of Adam.
            memory: latest steps remembered.
            minibatch: remembered steps per update.
            updates: updates of both networks per batch.
            patience: mappings without a better centre after which the search moves to a new
                start, drawn as the first; 0: never.
        """
        super().__init__(space, seed=seed)
        require(walk >= 1, "walk", walk, "at least 1")
        require(batch >= 1, "batch", batch, "at least 1")
        require(starts >= 1, "starts", starts, "at least 1")
        require(0 <= policy_share <= 1, "policy_share", policy_share, "a probability")
        require(reward in ("inverse", "log"), "reward", reward, "'inverse' or 'log'")
        require(0 <= discount <= 1, "discount", discount, "in [0, 1]")
        require(entropy >= 0, "entropy", entropy, "0 or more")
        require(hidden >= 1, "hidden", hidden, "at least 1")
        require(learning_rate > 0, "learning_rate", learning_rate, "above 0")
        require(memory >= 1, "memory", memory, "at least 1")
        require(minibatch >= 1, "minibatch", minibatch, "at least 1")
        require(updates >= 0, "updates", updates, "0 or more")
        require(patience >= 0, "patience", patience, "0 or more")
        self.walk = walk
        self.batch = batch
        self.starts = starts
        self.policy_share = policy_share
        self.reward = reward
        self.discount = discount
        self.entropy = entropy
        self.learning_rate = learning_rate
        self.memory = memory
        self.minibatch = minibatch
        self.updates = updates
        self.patience = patience

        # Action a makes edit `_edit[a]` of attribute `_attribute[a]`.
        edits = space.edit_choices - 1
        self._attribute = np.repeat(np.arange(len(edits)), edits)
        self._edit = np.concatenate([np.arange(1, count + 1) for count in edits])
        self._features = Features(space)
        width, actions = self._features.width, len(self._edit)
        self._policy = Perceptron((width, hidden, actions))
        self._value = Perceptron((width, hidden, 1))
        self._actor: Learner = learner(self._policy.initial(self.rng))
        self._critic: Learner = learner(self._value.initial(self.rng))
        self._memory = _no_steps(len(space.cardinality))
        # The steps that led to the mappings of the batch, in its order; empty after a start.
        self._steps = _no_steps(len(space.cardinality))
        self._centre: Codes = np.empty((0, len(space.cardinality)), np.int32)
        self._centre_loss = math.inf
        self._idle = 0

    def _propose(self) -> Codes:
        if self.patience and self._idle >= self.patience:
            self._centre, self._centre_loss = self._centre[:0], math.inf
        if not len(self._centre):
            self._steps = _no_steps(self._centre.shape[1])
            self._idle = 0
            if len(self._visited):
                return self._draw(self.starts)
            return np.concatenate([self._start(), self._draw(self.starts - 1)])
        self._steps = self._collect()
        if not len(self._steps["next"]):
            return self._draw(self.batch)
        return self._steps["next"]

    def _collect(self) -> dict[str, Any]:
        """Walks from the centre until a batch of mappings is found that were never visited."""
        found = _no_steps(self._centre.shape[1])
        for attempt in range(ROUNDS if len(self._edit) else 0):
            missing = self.batch - len(found["next"])
            if missing <= 0:
                break
            codes = np.repeat(self._centre, -(-missing // self.walk), axis=0)
            steps = [found]
            # Longer walks once the neighbourhood is exhausted.
            for _ in range(self.walk * (1 + attempt // 2)):
                actions = self._choose(codes)
                following = self._apply(codes, actions)
                steps.append({"code": codes, "action": actions, "next": following})
                codes = following
            found = self._unvisited(_join(steps))
        return {name: rows[: self.batch] for name, rows in found.items()}

    def _unvisited(self, steps: Steps) -> Steps:
        """The steps to mappings that were never visited, one to each."""
        rows = self._visited.fresh(steps["next"])
        rows = rows[self.space.feasible(steps["next"][rows])]
        return {name: values[rows] for name, values in steps.items()}

    def _choose(self, codes: Codes) -> Indices:
        """`[m]` actions: by the policy with probability `policy_share`, else uniform."""
        uniform = self.rng.integers(len(self._edit), size=len(codes))
        guided = np.flatnonzero(self.rng.random(len(codes)) < self.policy_share)
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
            self._memory = {name: rows[-self.memory :] for name, rows in steps.items()}
            self._train()

    def _train(self) -> None:
        """Updates critic and actor from remembered steps: advantage r + g V(s') - V(s)."""
        rewards = self._rewards()
        before = self._features(self._memory["code"])
        after = self._features(self._memory["next"])
        for _ in range(self.updates):
            rows = self.rng.integers(len(rewards), size=min(self.minibatch, len(rewards)))
            values, read = self._value.forward(self._critic["parameters"], before[rows])
            ahead, _ = self._value.forward(self._critic["parameters"], after[rows])
            advantages = rewards[rows] + self.discount * ahead[:, 0] - values[:, 0]
            slope = self._value.gradient(
                self._critic["parameters"], read, -advantages[:, None] / len(rows)
            )
            descend(self._critic, slope, self.learning_rate, LARGEST_GRADIENT)
            logits, read = self._policy.forward(self._actor["parameters"], before[rows])
            slope = self._policy.gradient(
                self._actor["parameters"],
                read,
                policy_slope(logits, self._memory["action"][rows], advantages, self.entropy)
                / len(rows),
            )
            descend(self._actor, slope, self.learning_rate, LARGEST_GRADIENT)

    def _rewards(self) -> Floats:
        """`[M]` rewards of the remembered steps."""
        logs = self._memory["log"]
        finite = np.isfinite(logs)
        if not finite.any():
            return np.zeros(len(logs))
        if self.reward == "inverse":
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
