"""Proximal policy optimisation of mappings, by RLlib's PPO.

The policy looks at a mapping and chooses one edit, or none, for each of its attributes; the reward
is the improvement of the logarithm of the loss. See `searchers.reinforcement.environment` for the
decision process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from searchers.options import Count, NonNegative, Positive, PositiveShare, Share
from searchers.reinforcement.host import ReinforcementOptions, ReinforcementSearcher

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    from costmodel.space import Space


class PPOOptions(ReinforcementOptions):
    """Hyperparameters of PPO."""

    edits: Positive = 2.0
    """Attributes that the untrained policy edits per step, on average."""
    hidden: tuple[Count, ...] = (128, 128)
    """Widths of the hidden layers of policy and value function."""
    learning_rate: Positive = 3e-3
    """Of Adam."""
    discount: PositiveShare = 1.0
    """Of later rewards."""
    gae: Share = 0.95
    """Lambda of the generalised advantage estimate."""
    clip: Positive = 0.2
    """Bound on the policy's change per iteration."""
    entropy: NonNegative = 0.0
    """Coefficient of the entropy bonus."""
    epochs: Count = 4
    """Passes over an iteration's steps."""
    minibatches: Count = 2
    """Updates per pass."""


class PPO(ReinforcementSearcher):
    """RLlib's PPO on edits of mappings."""

    OPTIONS = PPOOptions
    options: PPOOptions

    def __init__(self, space: Space, options: PPOOptions, *, seed: int) -> None:
        """Prepares the search; see `ReinforcementSearcher`."""
        super().__init__(space, options, seed=seed, actions="edits")

    def _config(self) -> AlgorithmConfig:
        # Not before they are needed: importing RLlib takes seconds.
        from ray.rllib.algorithms.ppo import PPOConfig
        from ray.rllib.core.rl_module.rl_module import RLModuleSpec

        from searchers.reinforcement.policy import EditPolicy

        options, steps = self.options, self.steps_per_iteration
        model = {"hidden": list(options.hidden), "edits": options.edits}
        return (
            PPOConfig()
            .training(
                train_batch_size=steps,
                minibatch_size=-(-steps // options.minibatches),
                lr=options.learning_rate,
                gamma=options.discount,
                lambda_=options.gae,
                clip_param=options.clip,
                entropy_coeff=options.entropy,
                num_epochs=options.epochs,
                # The clip bounds the change already.
                use_kl_loss=False,
                # Returns are logarithms of improvements: no outliers to guard against.
                vf_clip_param=float("inf"),
                grad_clip=1.0,
            )
            .rl_module(rl_module_spec=RLModuleSpec(EditPolicy, model_config=model))
        )
