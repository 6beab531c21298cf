"""Deep deterministic policy gradients over mappings: the reinforcement learning of Mind Mappings.

The paper's Appendix A takes HAQ's agent: state = mapping, action = move, reward = cost. What it
leaves open (episode length, encoding of actions, scale of the reward) is decided in
`searchers.reinforcement.environment`; the agent is `searchers.reinforcement.ddpg`. Preset `paper`
has HAQ's settings: one episode after the other, of 8 steps (600 of them are the paper's 5,000
queries), an update per step, the final cost as the reward of every step, minus a moving average.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from searchers.reinforcement.host import ReinforcementSearcher

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

    from costmodel.space import Space


class DDPG(ReinforcementSearcher):
    """DDPG on moves of the features of a mapping."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {
            "paper": MappingProxyType(
                {
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
            )
        }
    )

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        environments: int = 32,
        episode_length: int = 16,
        reward: str = "improvement",
        final_reward: bool = False,
        reward_baseline: float | None = None,
        elites: int = 4,
        reach: float = 1.0,
        hidden_layers: tuple[int, ...] | list[int] = (300, 300),
        actor_learning_rate: float = 1e-4,
        critic_learning_rate: float = 1e-3,
        gamma: float = 1.0,
        tau: float = 0.01,
        batch_size: int = 256,
        updates_per_step: float = 0.125,
        warmup_episodes: int = 32,
        noise: float = 0.5,
        noise_decay: float = 1.0,
        runners: int = 0,
    ) -> None:
        """Prepares the search.

        Args:
            space: where to search.
            seed: decides the whole run.
            environments: episodes side by side, per runner.
            episode_length: steps of an episode.
            reward: `improvement` or `cost`.
            final_reward: give every step the reward of its episode's last one.
            reward_baseline: rate of the moving average that is subtracted from rewards; None: 0
                is.
            elites: best mappings among which episodes start; 0: uniformly drawn ones.
            reach: longest move, in half ranges of a feature.
            hidden_layers: widths of the hidden layers of actor and critic.
            actor_learning_rate: of Adam.
            critic_learning_rate: of Adam.
            gamma: discount of later rewards, in [0, 1].
            tau: share of the new weights in the target networks per update.
            batch_size: transitions per update.
            updates_per_step: updates per environment step.
            warmup_episodes: episodes of uniformly random actions at the start.
            noise: initial standard deviation of the exploration, in widths of an action's range.
            noise_decay: factor on it after each episode.
            runners: remote environment runners on the Ray cluster; 0: none.

        Raises:
            ConfigError: a value that is not allowed.
        """
        super().__init__(
            space,
            seed=seed,
            environments=environments,
            runners=runners,
            settings={
                "actions": "moves",
                "reward": reward,
                "episode_length": episode_length,
                "elites": elites,
                "reach": reach,
            },
        )
        self._training = {
            "final_reward": final_reward,
            "reward_baseline": reward_baseline,
            "hidden_layers": tuple(hidden_layers),
            "actor_learning_rate": actor_learning_rate,
            "critic_learning_rate": critic_learning_rate,
            "gamma": gamma,
            "tau": tau,
            "train_batch_size_per_learner": batch_size,
            "updates_per_step": updates_per_step,
            "warmup_episodes": warmup_episodes,
            "noise": noise,
            "noise_decay": noise_decay,
        }
        # Refuses values now rather than in a thread; RLlib, which takes seconds, is needed soon.
        from searchers.reinforcement.ddpg import check_settings

        check_settings(self._training)

    def _config(self) -> AlgorithmConfig:
        from searchers.reinforcement.ddpg import DDPGConfig

        return DDPGConfig().training(**self._training).debugging(seed=self._loop_seed)
