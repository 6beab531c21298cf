"""Deep deterministic policy gradients over mappings: the reinforcement learning of Mind Mappings.

The paper's Appendix A takes HAQ's agent: state = mapping, action = move, reward = cost. What it
leaves open (episode length, encoding of actions, scale of the reward) is decided in
`searchers.reinforcement.environment`; the agent is `searchers.reinforcement.ddpg_algorithm`. Preset
`paper` has HAQ's settings: one episode after the other, of 8 steps (600 of them are the paper's
5,000 queries), an update per step, the final cost as the reward of every step, minus a moving
average.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from searchers.options import (
    Count,
    NonNegative,
    Positive,
    PositiveShare,
    Presets,
    Share,
    Sources,
    Whole,
)
from searchers.reinforcement.ddpg_options import AgentOptions
from searchers.reinforcement.host import ReinforcementOptions, ReinforcementSearcher

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    from costmodel.space import Space


class DDPGOptions(ReinforcementOptions, AgentOptions):
    """Hyperparameters of DDPG: the agent's, with other defaults, and the decision process's."""

    PRESETS: ClassVar[Presets] = {
        "paper": {
            "environments": 1,
            "episode_length": 8,
            "elites": 0,
            "reward": "cost",
            "final_reward": True,
            "reward_baseline": 0.5,
            "reach": 2.0,
            "batch_size": 64,
            "updates_per_step": 1.0,
            "warmup_episodes": 20,
            "noise_decay": 0.99,
        }
    }
    SOURCES: ClassVar[Sources] = {
        "paper": "Mind Mappings (ASPLOS 2021), Appendix A; HAQ's agent",
    }

    elites: Whole = 4
    reach: Positive = 1.0
    """Longest move, in half ranges of a feature."""
    gamma: Share = 1.0
    batch_size: Count = 256
    updates_per_step: NonNegative = 0.125
    warmup_episodes: Whole = 32
    noise_decay: PositiveShare = 1.0


class DDPG(ReinforcementSearcher):
    """DDPG on moves of the features of a mapping."""

    OPTIONS = DDPGOptions
    options: DDPGOptions

    def __init__(self, space: Space, options: DDPGOptions, *, seed: int) -> None:
        """Prepares the search; see `ReinforcementSearcher`."""
        super().__init__(space, options, seed=seed, actions="moves", reach=options.reach)

    def _config(self) -> AlgorithmConfig:
        from searchers.reinforcement.ddpg_algorithm import DDPGConfig

        settings = {name: getattr(self.options, name) for name in AgentOptions.model_fields}
        return DDPGConfig().training(**settings).debugging(seed=self._loop_seed)
