"""Proximal policy optimisation of mappings, by RLlib's PPO.

The policy looks at a mapping and chooses one edit, or none, for each of its attributes; the reward
is the improvement of the logarithm of the loss. See `searchers.reinforcement.environment` for the
decision process.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from searchers.base import require
from searchers.reinforcement.host import ReinforcementSearcher

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    from costmodel.space import Space


class PPO(ReinforcementSearcher):
    """RLlib's PPO on edits of mappings."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        environments: int = 32,
        episode_length: int = 16,
        reward: str = "improvement",
        elites: int = 16,
        edits: float = 2.0,
        hidden: tuple[int, ...] | list[int] = (128, 128),
        learning_rate: float = 3e-3,
        discount: float = 1.0,
        gae: float = 0.95,
        clip: float = 0.2,
        entropy: float = 0.0,
        epochs: int = 4,
        minibatches: int = 2,
        runners: int = 0,
    ) -> None:
        """Prepares the search.

        Args:
            space: where to search.
            seed: decides the whole run.
            environments: episodes side by side, per runner.
            episode_length: steps of an episode.
            reward: `improvement` or `cost`.
            elites: best mappings among which episodes start; 0: uniformly drawn ones.
            edits: attributes that the untrained policy edits per step, on average.
            hidden: widths of the hidden layers of policy and value function.
            learning_rate: of Adam.
            discount: of later rewards, in (0, 1].
            gae: lambda of the generalised advantage estimate, in [0, 1].
            clip: bound on the policy's change per iteration.
            entropy: coefficient of the entropy bonus.
            epochs: passes over an iteration's steps.
            minibatches: updates per pass.
            runners: remote environment runners on the Ray cluster; 0: none.

        Raises:
            ConfigError: a value that is not allowed.
        """
        require(learning_rate > 0, "learning_rate", learning_rate, "above 0")
        require(0 < discount <= 1, "discount", discount, "in (0, 1]")
        require(0 <= gae <= 1, "gae", gae, "in [0, 1]")
        require(clip > 0, "clip", clip, "above 0")
        require(entropy >= 0, "entropy", entropy, "0 or more")
        require(edits > 0, "edits", edits, "above 0")
        require(epochs >= 1, "epochs", epochs, "at least 1")
        require(minibatches >= 1, "minibatches", minibatches, "at least 1")
        require(all(width >= 1 for width in hidden), "hidden", hidden, "widths of at least 1")
        super().__init__(
            space,
            seed=seed,
            environments=environments,
            runners=runners,
            settings={
                "actions": "edits",
                "reward": reward,
                "episode_length": episode_length,
                "elites": elites,
            },
        )
        self._model = {"hidden": list(hidden), "edits": edits}
        self._training = {
            "lr": learning_rate,
            "gamma": discount,
            "lambda_": gae,
            "clip_param": clip,
            "entropy_coeff": entropy,
            "num_epochs": epochs,
            # The clip bounds the change already.
            "use_kl_loss": False,
            # Returns are logarithms of improvements: no outliers to guard against.
            "vf_clip_param": float("inf"),
            "grad_clip": 1.0,
        }
        self._minibatches = minibatches

    def _config(self) -> AlgorithmConfig:
        # Not before they are needed: importing RLlib takes seconds.
        from ray.rllib.algorithms.ppo import PPOConfig
        from ray.rllib.core.rl_module.rl_module import RLModuleSpec

        from searchers.reinforcement.policy import EditPolicy

        steps = self.steps_per_iteration
        return (
            PPOConfig()
            .training(
                train_batch_size=steps,
                minibatch_size=-(-steps // self._minibatches),
                **self._training,
            )
            .rl_module(rl_module_spec=RLModuleSpec(EditPolicy, model_config=self._model))
        )
