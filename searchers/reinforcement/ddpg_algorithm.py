"""Deep deterministic policy gradients (DDPG) on RLlib's new API stack, which has none of its own.

Lillicrap et al., "Continuous control with deep reinforcement learning" (arXiv 1509.02971), with the
settings of HAQ (Wang et al., CVPR 2019) as defaults. As in HAQ, exploration noise is a normal
distribution around the actor's action, truncated to the action's bounds.

For any environment with a `Box` of observations and a bounded `Box` of actions. The networks are
in `ddpg_networks`, the gradient updates in `ddpg_learner`, the memory in `ddpg_replay`; what is
used of RLlib without being promised by it is in `rllib_seam`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ray.exceptions import RayActorError
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils import metrics as keys

from mapspace.errors import ConfigError, MapspaceError
from mapspace.strict_yaml import validate
from searchers.reinforcement import rllib_seam
from searchers.reinforcement.ddpg_learner import DDPGLearner
from searchers.reinforcement.ddpg_networks import DDPGModule
from searchers.reinforcement.ddpg_options import AgentOptions
from searchers.reinforcement.ddpg_replay import Replay, transitions

# Gradient updates per call of the learner: RLlib's cost per call is shared, memory stays small.
UPDATES_PER_CALL = 64

# RLlib has a name of its own for one of the settings.
RLLIB_NAMES = {"batch_size": "train_batch_size_per_learner"}
SETTINGS = {RLLIB_NAMES.get(name, name): name for name in AgentOptions.model_fields}


class DDPGConfig(AlgorithmConfig):
    """Configures DDPG.

    ```
    config = DDPGConfig().environment("Pendulum-v1").training(warmup_episodes=5)
    mean_return = config.build_algo().train()["env_runners"]["episode_return_mean"]
    ```

    An iteration samples complete episodes, at least one per environment, and then makes the
    gradient updates that are due. With `batch_mode="truncate_episodes"` it samples
    `rollout_fragment_length` steps per environment instead.
    """

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class=algo_class or DDPG)
        for name, setting in SETTINGS.items():
            setattr(self, name, AgentOptions.model_fields[setting].default)
        self.batch_mode = "complete_episodes"
        # RLlib would take the module's actions for points of [-1, 1] and scale them once more.
        self.normalize_actions = False
        self.clip_actions = False
        # A defect of the environment or the actor is raised, not restarted for ever.
        self.restart_failed_env_runners = False

    def training(self, **settings: Any) -> DDPGConfig:
        """Sets what concerns learning; ConfigError if a setting is unknown.

        Args:
            **settings: fields of `AgentOptions`, or RLlib's names of them.
        """
        for name, value in settings.items():
            # RLlib repeats its own defaults where it rebuilds a configuration from a dictionary.
            if name in ("model", "optimizer") and value == getattr(self, name):
                continue
            known = RLLIB_NAMES.get(name, name)
            if known not in SETTINGS:
                raise ConfigError(f"DDPG has no setting {name!r}; known are {', '.join(SETTINGS)}.")
            setattr(self, known, value)
        return self

    def validate(self) -> None:
        """Checks RLlib's settings and those of `training`, else ConfigError."""
        super().validate()
        settings = {setting: getattr(self, name) for name, setting in SETTINGS.items()}
        validate(AgentOptions, settings, "DDPG")
        if self.final_reward and self.batch_mode != "complete_episodes":
            raise ConfigError(
                f"DDPG: batch_mode: expected 'complete_episodes' with final_reward, got "
                f"{self.batch_mode!r}."
            )
        if self.num_learners > 1:
            raise ConfigError(f"DDPG: num_learners: expected 0 or 1, got {self.num_learners}.")

    def get_default_learner_class(self) -> type[TorchLearner]:
        """The learner of this algorithm."""
        return DDPGLearner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """The networks; their spaces come from the environment."""
        return RLModuleSpec(module_class=DDPGModule)

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in ("hidden_layers", "init_w")}
        # inf stands for the uniformly random actions of the warm-up.
        return {**settings, "noise": math.inf if self.warmup_episodes else float(self.noise)}


@dataclass
class Progress:
    """Noise (inf: uniformly random actions) and counters; `due` updates are still to be made."""

    noise: float
    episodes: int = 0
    samples: int = 0
    due: float = 0.0


class DDPG(Algorithm):
    """Samples, remembers transitions in `replay`, learns, and counts it in `progress`."""

    @classmethod
    def get_default_config(cls) -> DDPGConfig:
        """The defaults."""
        return DDPGConfig()

    def setup(self, config: AlgorithmConfig) -> None:
        """Makes the runners, the learner and an empty replay."""
        super().setup(config)
        self.replay = Replay(self.config.replay_capacity, seed=self.config.seed)
        self.progress = Progress(self.config.model_config["noise"])

    def training_step(self) -> None:
        """One iteration; MapspaceError if an action or a loss is no number, or nothing came."""
        config, progress = self.config, self.progress
        warm_up = progress.episodes < config.warmup_episodes
        with self.metrics.log_time((keys.TIMERS, keys.ENV_RUNNER_SAMPLING_TIMER)):
            episodes = self._sample()
        rows = transitions(episodes, final_reward=config.final_reward)
        self.replay.add(rows)
        finished = sum(bool(episode.is_done) for episode in episodes)
        progress.episodes += finished
        if not warm_up:
            progress.noise *= config.noise_decay**finished
            progress.due += len(rows[Columns.REWARDS]) * config.updates_per_step
        elif progress.episodes >= config.warmup_episodes:
            progress.noise = float(config.noise)
        with self.metrics.log_time((keys.TIMERS, keys.LEARNER_UPDATE_TIMER)):
            while progress.due >= 1:
                self._learn(min(int(progress.due), UPDATES_PER_CALL))
        noise = progress.noise
        with self.metrics.log_time((keys.TIMERS, keys.SYNCH_WORKER_WEIGHTS_TIMER)):
            self.learner_group.foreach_learner(lambda learner: learner.set_noise(noise))
            self.env_runner_group.sync_weights(
                from_worker_or_learner_group=self.learner_group, inference_only=True
            )

    def _sample(self) -> list[Any]:
        """Episodes, or chunks of them, of all environment runners."""
        seed, samples = self.config.seed, self.progress.samples
        if seed is not None and self.config.batch_mode == "complete_episodes":
            # With a seed of its own a sample also does not depend on earlier ones.
            self.env_runner_group.foreach_env_runner(
                lambda runner: rllib_seam.reseed(runner, seed, samples)
            )
        try:
            episodes, results = rllib_seam.sample(
                self.env_runner_group, self.config.sample_timeout_s
            )
        except RayActorError as error:
            # RLlib ends a remote runner at any error, and its message with it.
            raise MapspaceError(
                "A remote environment runner of DDPG died of an error: its environment's, or an "
                "action that is no number. Without remote runners the error itself is shown."
            ) from error
        if not any(map(len, episodes)):
            timeout = self.config.sample_timeout_s
            raise MapspaceError(f"DDPG sampled nothing within sample_timeout_s = {timeout}.")
        self.metrics.aggregate(results, key=keys.ENV_RUNNER_RESULTS)
        self.progress.samples += 1
        return episodes

    def _learn(self, updates: int) -> None:
        """Makes gradient updates with transitions drawn for each."""
        size = updates * self.config.train_batch_size_per_learner
        batch = SampleBatch(self.replay.sample(size))
        results = self.learner_group.update(
            batch=MultiAgentBatch({DEFAULT_MODULE_ID: batch}, env_steps=size)
        )
        self.metrics.aggregate(results, key=keys.LEARNER_RESULTS)
        self.progress.due -= updates

    def own_state(self) -> dict[str, Any]:
        """What RLlib does not know of: dictionaries of arrays, numbers and strings, as copies."""
        return {"replay": self.replay.get_state(), "progress": dict(vars(self.progress))}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Continues from `own_state()`; the learner group has a state of its own."""
        self.replay.set_state(state["replay"])
        self.progress = Progress(**state["progress"])

    def get_state(self, components: Any = None, **options: Any) -> dict[str, Any]:
        """RLlib's state of the algorithm, with `own_state()`."""
        state: dict[str, Any] = super().get_state(components, **options)
        if rllib_seam.holds_component(self, "own", components, options.get("not_components")):
            state["own"] = self.own_state()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continues from `get_state()`."""
        super().set_state(state)
        if "own" in state:
            self.set_own_state(state["own"])
