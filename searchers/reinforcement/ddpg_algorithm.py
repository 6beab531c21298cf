"""Deep deterministic policy gradients (DDPG) on RLlib's new API stack, which has none of its own.

Lillicrap et al., "Continuous control with deep reinforcement learning" (arXiv 1509.02971), with the
settings of HAQ (Wang et al., CVPR 2019) as defaults. As in HAQ, exploration noise is a normal
distribution around the actor's action, truncated to the action's bounds.

For any environment with a `Box` of observations and a bounded `Box` of actions. Inside the networks
an action is a point of [-1, 1]^A; everywhere else it has the environment's units.

Letters: B transitions of a gradient update, n any number, O observed values, A values of an action.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch
from ray.exceptions import RayActorError
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, TargetNetworkAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils import metrics as keys
from torch import Tensor, nn

from mapspace.errors import ConfigError, ContractError, MapspaceError
from mapspace.strict_yaml import validate
from searchers.reinforcement.ddpg_options import AgentOptions

Transitions = dict[str, npt.NDArray[Any]]

# Gradient updates per call of the learner: RLlib's cost per call is shared, memory stays small.
UPDATES_PER_CALL = 64

COLUMNS = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, Columns.NEXT_OBS, Columns.TERMINATEDS)


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


def network(inputs: int, hidden: Sequence[int], outputs: int, init_w: float) -> nn.Sequential:
    """A multilayer perceptron with ReLU whose last layer starts within `init_w` of 0."""
    widths = [inputs, *hidden]
    layers: list[nn.Module] = []
    for width, following in itertools.pairwise(widths):
        layers += [nn.Linear(width, following), nn.ReLU()]
    last = nn.Linear(widths[-1], outputs)
    for parameter in last.parameters():
        nn.init.uniform_(parameter, -init_w, init_w)
    return nn.Sequential(*layers, last)


def truncated_normal(mean: Tensor, deviation: float) -> Tensor:
    """Samples the normal distribution truncated to [-1, 1], with torch's global generator.

    Means and samples are `[n, A]`; a deviation of inf gives the uniform distribution.
    """
    if deviation == 0:
        return mean
    if math.isinf(deviation):
        return 2 * torch.rand_like(mean) - 1
    # By inversion, in double precision: single precision has few probabilities near 1.
    centre = mean.double()
    lowest = torch.special.ndtr((-1 - centre) / deviation)
    highest = torch.special.ndtr((1 - centre) / deviation)
    quantile = lowest + (highest - lowest) * torch.rand_like(centre)
    sampled = centre + deviation * torch.special.ndtri(quantile)
    actions: Tensor = sampled.clamp(-1, 1).to(mean.dtype)
    return actions


class DDPGModule(TorchRLModule, InferenceOnlyAPI, TargetNetworkAPI):
    """A deterministic actor and a critic of observation and action, with target networks.

    Environment runners have the actor and the noise only. Whatever has to survive is a parameter
    or a buffer, so that RLlib saves it and sends it to the runners.
    """

    def setup(self) -> None:
        """Makes the networks; ConfigError if the spaces do not suit them."""
        space, seen, settings = self.action_space, self.observation_space, self.model_config
        if not isinstance(space, gym.spaces.Box) or not space.is_bounded():
            raise ConfigError(f"DDPG needs a bounded Box of actions, got {space}.")
        if not isinstance(seen, gym.spaces.Box):
            raise ConfigError(f"DDPG needs a Box of observations, got {seen}.")
        low, high = (torch.tensor(v, dtype=torch.float32) for v in (space.low, space.high))
        self.register_buffer("low", low)
        self.register_buffer("high", high)
        self.register_buffer("noise", torch.tensor([float(settings["noise"])]))
        self.register_buffer("updates", torch.zeros(1, dtype=torch.int64))
        inputs, values = math.prod(seen.shape), math.prod(space.shape)
        hidden, init_w = settings["hidden_layers"], settings["init_w"]
        self.actor = network(inputs, hidden, values, init_w).append(nn.Tanh())
        if not self.inference_only:
            self.critic = network(inputs + values, hidden, 1, init_w)
            # nan until the first batch.
            self.register_buffer("baseline", torch.full((1,), math.nan))

    def make_target_networks(self) -> None:
        """Copies both networks; the learner calls this once."""
        self.target_actor = make_target_network(self.actor)
        self.target_critic = make_target_network(self.critic)

    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        """Pairs of a network and its target."""
        return [(self.actor, self.target_actor), (self.critic, self.target_critic)]

    def get_non_inference_attributes(self) -> list[str]:
        """What environment runners do without."""
        return ["critic", "target_actor", "target_critic", "baseline"]

    def forward_target(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Target critic's values `[n]` of the target actor's actions at `obs` `[n, O]`."""
        observations = batch[Columns.OBS]
        return values_of(self.target_critic, observations, self.target_actor(observations))

    def to_points(self, actions: Tensor) -> Tensor:
        """Actions `[n, ...]` in the environment's units as points `[n, A]` of [-1, 1]^A."""
        # Equal bounds give the point -1.
        width = (self.high - self.low).clamp_min(torch.finfo(torch.float32).tiny)
        points: Tensor = (actions - self.low) / width * 2 - 1
        return points.flatten(1)

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        return self._act(batch[Columns.OBS], 0.0)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        return self._act(batch[Columns.OBS], self.noise.item())

    def _act(self, observations: Tensor, noise: float) -> dict[str, Tensor]:
        with torch.no_grad():
            points = self.actor(observations.flatten(1).float())
            if not torch.isfinite(points).all():
                raise MapspaceError(
                    f"DDPG's actor gave an action that is no number after {self.updates.item()} "
                    "updates: an observation or a weight is nan."
                )
            # In [-1, 1] a width is 2.
            points = truncated_normal(points, 2 * noise).reshape(-1, *self.low.shape)
            actions = self.low + (self.high - self.low) * (points + 1) / 2
            # Rounding may leave the bounds by the last bit.
            return {Columns.ACTIONS: torch.clamp(actions, self.low, self.high)}


def values_of(critic: nn.Module, observations: Tensor, points: Tensor) -> Tensor:
    """The critic's values `[n]` of observations `[n, O]` and actions `[n, A]` in [-1, 1]^A."""
    values: Tensor = critic(torch.cat([observations, points], dim=1))
    return values.squeeze(1)


def critic_loss(module: DDPGModule, batch: Mapping[str, Tensor], gamma: float) -> Tensor:
    """Mean squared error of the critic against reward plus discounted value of what follows.

    Only a termination has nothing after it: a truncated episode would have gone on. The batch has
    `obs`, `new_obs` `[B, O]`, `actions` `[B, A]` in [-1, 1], `rewards` and `terminateds` `[B]`.
    """
    with torch.no_grad():
        following = module.forward_target({Columns.OBS: batch[Columns.NEXT_OBS]})
        target = batch[Columns.REWARDS] + gamma * following * ~batch[Columns.TERMINATEDS]
    values = values_of(module.critic, batch[Columns.OBS], batch[Columns.ACTIONS])
    return nn.functional.mse_loss(values, target)


def actor_loss(module: DDPGModule, batch: Mapping[str, Tensor]) -> Tensor:
    """Minus the critic's mean value of the actor's actions at `obs` `[B, O]`."""
    observations = batch[Columns.OBS]
    return -values_of(module.critic, observations, module.actor(observations)).mean()


class DDPGLearner(TorchLearner):
    """Makes gradient updates: the critic's, then the actor's, then those of the targets."""

    _weights_seq_no: int

    def build(self) -> None:
        """Makes the networks, their targets and optimizers."""
        super().build()
        self._ddpg.make_target_networks()

    @property
    def _ddpg(self) -> DDPGModule:
        module: DDPGModule = self.module[DEFAULT_MODULE_ID].unwrapped()
        return module

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Registers one optimizer per network."""
        for name in ("critic", "actor"):
            rate = getattr(self.config, f"{name}_learning_rate")
            parameters = list(getattr(self._ddpg, name).parameters())
            # Fused: one pass instead of a loop over tensors.
            optimizer = torch.optim.Adam(parameters, lr=rate, fused=True)
            names = {"module_id": module_id, "optimizer_name": name}
            self.register_optimizer(**names, optimizer=optimizer, params=parameters)

    def compute_loss_for_module(self, **kwargs: Any) -> Tensor:
        """Not used: each network has a loss of its own."""
        raise NotImplementedError

    def _update(self, batch: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor], Any]:
        """Makes one gradient update per B rows, in their order; MapspaceError if a loss is nan.

        RLlib would log a dozen metrics per call: so a call gets the rows of many updates.
        """
        module, rows = self._ddpg, dict(batch[DEFAULT_MODULE_ID])
        rows[Columns.ACTIONS] = module.to_points(rows[Columns.ACTIONS])
        size = self.config.train_batch_size_per_learner
        sources, targets = (
            [tensor.detach() for each in networks for tensor in each.parameters()]
            for networks in zip(*module.get_target_network_pairs(), strict=True)
        )
        losses = []
        for parts in zip(*(rows[name].split(size) for name in COLUMNS), strict=True):
            part = dict(zip(COLUMNS, parts, strict=True))
            part[Columns.REWARDS] = self._above_baseline(part[Columns.REWARDS])
            critic = self._descend("critic", critic_loss(module, part, self.config.gamma))
            actor = self._descend("actor", actor_loss(module, part))
            losses.append(torch.stack([critic, actor]))
            torch._foreach_lerp_(targets, sources, self.config.tau)
        return {}, {DEFAULT_MODULE_ID: self._checked(torch.stack(losses))}, {}

    def _above_baseline(self, rewards: Tensor) -> Tensor:
        """Rewards `[B]` minus the moving average of batch means, which takes these in first."""
        rate, baseline = self.config.reward_baseline, self._ddpg.baseline
        if rate is None:
            return rewards
        # The first batch sets the average.
        baseline.copy_(torch.where(baseline.isnan(), rewards.mean(), baseline))
        baseline.lerp_(rewards.mean(), rate)
        above: Tensor = rewards - baseline
        return above

    def _descend(self, name: str, loss: Tensor) -> Tensor:
        """Steps one network along its gradient of a loss; no other network's is touched."""
        optimizer = self.get_optimizer(DEFAULT_MODULE_ID, name)
        parameters = self._optimizer_parameters[optimizer]
        gradients = torch.autograd.grad(loss, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        return loss.detach()

    def _checked(self, losses: Tensor) -> Tensor:
        """Counts updates with losses `[n, 2]` of critic and actor, logs and adds the means.

        Many at once: a look after every update would wait for it on a GPU.
        """
        names, values, updates = ("critic", "actor"), losses.cpu().numpy(), self._ddpg.updates
        wrong = np.argwhere(~np.isfinite(values))
        if len(wrong):
            row, column = wrong[0]
            raise MapspaceError(
                f"DDPG's {names[column]} has a loss of {values[row, column]} at update "
                f"{updates.item() + row + 1}: a reward is nan or huge, or a learning rate too high."
            )
        updates += len(values)
        for name, mean in zip(names, values.mean(axis=0), strict=True):
            self.metrics.log_value((DEFAULT_MODULE_ID, f"{name}_loss"), float(mean), window=1)
        return losses.mean(dim=0).sum()

    def set_noise(self, noise: float) -> None:
        """Sets the noise that goes to the environment runners with the next weights."""
        self._ddpg.noise.fill_(noise)
        # Runners take no weights whose number they know.
        self._weights_seq_no += 1

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores weights and optimizers, also into a learner that is ahead of them."""
        newest = max(self._weights_seq_no, state.get(keys.WEIGHTS_SEQ_NO, 0))
        # RLlib skips weights that are not newer than those it has, unless their number is 0, and
        # its optimizers would go on in the caller's arrays.
        super().set_state(copy.deepcopy({**state, keys.WEIGHTS_SEQ_NO: 0}))
        self._weights_seq_no = newest + 1


class Replay:
    """A ring of transitions as flat arrays, sampled uniformly with replacement."""

    def __init__(self, capacity: int, *, seed: int | None) -> None:
        self.capacity = capacity
        self.rng = np.random.default_rng(seed)
        self._rows: Transitions = {}
        self._size = 0
        self._next = 0

    def __len__(self) -> int:
        return self._size

    def add(self, rows: Transitions) -> None:
        """Remembers columns of n values each, over the oldest if there is no room left.

        The first call decides names, shapes and types; ContractError if others come later.
        """
        self._rows = self._rows or {
            name: np.empty((self.capacity, *values.shape[1:]), values.dtype)
            for name, values in rows.items()
        }
        held, new = ({k: v.shape[1:] for k, v in each.items()} for each in (self._rows, rows))
        if held != new:
            raise ContractError(f"Expected columns of shapes {held}, got {new}.")
        count = len(next(iter(rows.values())))
        kept = min(count, self.capacity)
        places = (self._next + np.arange(count - kept, count)) % self.capacity
        for name, values in rows.items():
            self._rows[name][places] = values[count - kept :]
        self._next = (self._next + count) % self.capacity
        self._size = min(self._size + count, self.capacity)

    def sample(self, count: int) -> Transitions:
        """Draws that many transitions; ContractError if nothing is remembered yet."""
        if not self._size:
            raise ContractError("The replay is empty: add() transitions before sample().")
        chosen = self.rng.integers(self._size, size=count)
        return {name: values[chosen] for name, values in self._rows.items()}

    def get_state(self) -> dict[str, Any]:
        """The rows in use and where the next one goes, as copies, and the generator."""
        return {
            "rows": {name: values[: self._size].copy() for name, values in self._rows.items()},
            "next": self._next,
            "generator": self.rng.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continues from `get_state()` of a replay of the same capacity, else ContractError."""
        size = len(next(iter(state["rows"].values()), ()))
        if state["next"] != size % self.capacity and size != self.capacity:
            raise ContractError(f"A replay of {size} rows does not fit capacity {self.capacity}.")
        self._rows, self._size, self._next = {}, 0, 0
        if size:
            self.add(state["rows"])
        self._next = int(state["next"])
        self.rng.bit_generator.state = copy.deepcopy(state["generator"])


def transitions(episodes: Iterable[Any], *, final_reward: bool = False) -> Transitions:
    """RLlib's single-agent episodes, or chunks of them, as transitions in their order.

    Columns `obs`, `new_obs` `[n, O]`, `actions` `[n, ...]` and `rewards` `[n]`, float32, and
    `terminateds` `[n]`, true only where an episode came to an end of its own. With `final_reward`
    every transition has the last reward of its episode.
    """
    parts = []
    for episode in episodes:
        if steps := len(episode):
            seen = np.asarray(episode.get_observations(), np.float32).reshape(steps + 1, -1)
            rewards = np.asarray(episode.get_rewards(), np.float32)
            if final_reward:
                rewards = np.full_like(rewards, rewards[-1])
            ended = np.zeros(steps, bool)
            ended[-1] = episode.is_terminated
            actions = np.asarray(episode.get_actions(), np.float32)
            parts.append((seen[:-1], actions, rewards, seen[1:], ended))
    joined = (np.concatenate(column) for column in zip(*parts, strict=True))
    return dict(zip(COLUMNS, joined, strict=True))


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
            # RLlib would reset its environments with the same seed, thus to the same states, before
            # every sample. With a seed of its own a sample also does not depend on earlier ones.
            # A host that resets environments on its own may have set a runner's to None.
            def reseed(runner: Any) -> None:
                if runner._seed is not None:
                    words = np.random.SeedSequence([seed, runner.worker_index or 0, samples])
                    runner._seed = int(words.generate_state(1)[0])

            self.env_runner_group.foreach_env_runner(reseed)
        try:
            episodes, results = synchronous_parallel_sample(
                worker_set=self.env_runner_group,
                sample_timeout_s=self.config.sample_timeout_s,
                _uses_new_env_runners=True,
                _return_metrics=True,
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
        return list(episodes)

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
        if self._check_component("own", components, options.get("not_components")):
            state["own"] = self.own_state()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continues from `get_state()`."""
        super().set_state(state)
        if "own" in state:
            self.set_own_state(state["own"])
