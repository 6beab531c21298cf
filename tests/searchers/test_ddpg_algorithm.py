"""DDPG as a general algorithm: its laws on tiny cases, its state, and Pendulum."""

from __future__ import annotations

import copy
import math
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st
from ray import cloudpickle
from ray.exceptions import RayActorError
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.tune.registry import register_env

from mapspace.errors import ConfigError, ContractError, MapspaceError
from searchers.reinforcement import ddpg_learner, ddpg_networks, ddpg_replay, rllib_seam
from searchers.reinforcement.ddpg_algorithm import DDPG, DDPGConfig
from searchers.reinforcement.ddpg_networks import DDPGModule
from searchers.reinforcement.ddpg_replay import Replay

pytestmark = [
    # RLlib registers its environment anew for every environment runner.
    pytest.mark.filterwarnings("ignore:.*Overriding environment.*:UserWarning"),
    pytest.mark.usefixtures("own_results"),
]

UNEQUAL = gym.spaces.Box(np.float32([-2, 10, 0]), np.float32([0, 14, 1]))
SQUARE = gym.spaces.Box(np.float32([[-1, 0], [5, -9]]), np.float32([[1, 2], [6, 9]]))


@pytest.fixture
def own_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RLlib makes a folder per algorithm, else in the user's home."""
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path))


class Walk(VectorEnv[Any, Any, Any]):
    """Points that walk on; episodes of 4 steps, ended by termination or truncation."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, settings: dict[str, Any]) -> None:
        self.num_envs = settings.get("num_envs", 1)
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.single_action_space = settings.get("actions", UNEQUAL)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.terminates = settings.get("terminates", True)
        self.broken = settings.get("broken", "")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = np.zeros(self.num_envs, int)
        at = np.random.default_rng(seed).standard_normal((self.num_envs, 3))
        self.at = at.astype(np.float32) * (math.nan if self.broken == "observation" else 1)
        return self.at, {}

    def step(self, actions: npt.NDArray[np.float32]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert all(self.single_action_space.contains(action) for action in actions)
        again = self.t == 4
        self.t = np.where(again, 0, self.t + 1)
        self.at = np.where(again[:, None], 1, self.at + 0.1).astype(np.float32)
        rewards = -self.t * (math.nan if self.broken == "reward" else 1.0)
        done = self.t == 4
        return self.at, rewards, done & self.terminates, done & (not self.terminates), {}


# Remote environment runners cannot import a test file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", autouse=True)
def _registered(ray_runtime: None) -> None:
    """A name is known to the Ray that was running when it was given."""
    register_env("walk", Walk)


def walk(settings: dict[str, Any] | None = None, **training: Any) -> DDPGConfig:
    config = DDPGConfig().environment("walk", env_config=settings or {}).debugging(seed=3)
    vector = {"gym_env_vectorize_mode": "vector_entry_point", "num_envs_per_env_runner": 2}
    config.env_runners(num_env_runners=0, **vector)
    small = {"hidden_layers": [8], "train_batch_size_per_learner": 4, "warmup_episodes": 2}
    return config.training(**{**small, **training})


def make_module(space: gym.Space[Any] = UNEQUAL, noise: float = 0.5) -> DDPGModule:
    spaces = {"observation_space": gym.spaces.Box(-1, 1, (3,)), "action_space": space}
    settings = {"hidden_layers": [4], "init_w": 0.5, "noise": noise}
    module = DDPGModule(**spaces, model_config=settings)
    module.make_target_networks()
    return module


def weights(algorithm: DDPG) -> dict[str, Any]:
    return dict(algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID])


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(np.array_equal(one[name], other[name], equal_nan=True) for name in one | other)


@pytest.mark.parametrize("space", [UNEQUAL, SQUARE])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.5, 100.0, math.inf])
def test_actions_have_the_units_of_the_environment(space: gym.spaces.Box, noise: float) -> None:
    module = make_module(space, noise)
    batch = {"obs": torch.randn(500, 3)}
    explored = module.forward_exploration(batch)["actions"].numpy()
    plain = module.forward_inference(batch)["actions"].numpy()
    assert explored.shape == plain.shape == (500, *space.shape)
    assert ((space.low <= explored) & (explored <= space.high)).all()
    assert np.array_equal(explored, plain) == (noise == 0)
    points = module.to_points(torch.from_numpy(explored))
    assert points.shape == (500, math.prod(space.shape))
    if noise >= 100:
        assert abs(points.std() - 1 / math.sqrt(3)) < 0.05, "not uniform"


def test_noise_is_a_truncated_normal_distribution() -> None:
    torch.manual_seed(0)
    drawn = ddpg_networks.truncated_normal(torch.full((40_000, 1), 0.8), 0.5).double()
    normal = torch.distributions.Normal(0.8, 0.5)
    low, high = normal.cdf(torch.tensor(-1.0)), normal.cdf(torch.tensor(1.0))
    for bound in (-0.2, 0.3, 0.9):
        expected = (normal.cdf(torch.tensor(bound)) - low) / (high - low)
        assert abs((drawn < bound).double().mean() - expected) < 0.01


def test_losses_and_gradients_by_hand() -> None:
    """Linear networks: actor tanh(obs . w), critic obs . u + v * action, no biases."""
    module = make_module(gym.spaces.Box(-1, 1, (1,)))
    actor, critic = (torch.nn.Linear(width, 1, bias=False) for width in (3, 4))
    actor.weight.data = torch.tensor([[0.1, 0.2, 0.3]])
    critic.weight.data = torch.tensor([[1.0, 0.0, -1.0, 2.0]])
    module.actor, module.critic = torch.nn.Sequential(actor, torch.nn.Tanh()), critic
    module.make_target_networks()
    batch = {
        "obs": torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        "actions": torch.tensor([[0.5], [-0.5]]),
        "rewards": torch.tensor([1.0, 2.0]),
        "new_obs": torch.tensor([[0.0, 0.0, 1.0], [5.0, 5.0, 5.0]]),
        "terminateds": torch.tensor([False, True]),
    }
    # Q(obs, action) is 1 + 2 * 0.5 = 2 and 0 - 1 = -1. The second transition is terminal.
    errors = [2 - (1 + 0.9 * (-1 + 2 * math.tanh(0.3))), -1 - 2]
    loss = ddpg_learner.critic_loss(module, batch, gamma=0.9)
    assert loss.item() == pytest.approx(sum(e * e for e in errors) / 2)
    loss.backward()
    # d loss / d u = mean of 2 * error * input.
    expected = [errors[0], errors[1], 0.0, 0.5 * errors[0] - 0.5 * errors[1]]
    assert critic.weight.grad[0].tolist() == pytest.approx(expected)
    assert actor.weight.grad is None
    loss = ddpg_learner.actor_loss(module, batch)
    assert loss.item() == pytest.approx(-(1 + 2 * math.tanh(0.1) + 2 * math.tanh(0.2)) / 2)
    (gradient,) = torch.autograd.grad(loss, actor.weight)
    slopes = [-(1 - math.tanh(x) ** 2) for x in (0.1, 0.2)]
    assert gradient[0].tolist() == pytest.approx([*slopes, 0.0])


def test_update_steps_networks_targets_and_baseline(ray_runtime: None) -> None:
    algorithm = walk(tau=0.25, reward_baseline=0.5, updates_per_step=0.0).build_algo()
    algorithm.train()
    before = weights(algorithm)
    twin = Replay(algorithm.replay.capacity, seed=0)
    twin.set_state(algorithm.replay.get_state())
    algorithm._learn(1)
    after = weights(algorithm)
    for name in ("actor.0.weight", "critic.2.bias", "critic.0.weight"):
        assert not np.array_equal(before[name], after[name])
        mixed = 0.75 * before[f"target_{name}"] + 0.25 * after[name]
        assert after[f"target_{name}"] == pytest.approx(mixed, abs=1e-6)
        # Adam's first step has the length of the learning rate, whatever the gradient.
        rate = 1e-3 if name.startswith("critic") else 1e-4
        assert np.abs(after[name] - before[name]).max() == pytest.approx(rate, rel=0.05)
    algorithm._learn(3)
    batches = [twin.sample(4), *np.split(twin.sample(12)["rewards"], 3)]
    average = batches[0]["rewards"].mean()
    for batch in batches[1:]:
        average += 0.5 * (batch.mean() - average)
    assert weights(algorithm)["baseline"] == pytest.approx(average, rel=1e-5)
    assert weights(algorithm)["updates"] == 4
    for _ in range(2):
        algorithm.train()
        # Also without an update the noise reaches the runner.
        assert algorithm.env_runner.module.noise.item() == pytest.approx(algorithm.progress.noise)
    algorithm.stop()


@pytest.mark.parametrize("terminates", [True, False])
def test_transitions_tell_termination_from_truncation(terminates: bool) -> None:
    chunk: dict[str, Any] = {"observations": [[0], [1], [2]], "actions": [[5], [6]]}
    ended = {"terminated": terminates, "truncated": not terminates, "len_lookback_buffer": 0}
    episode = SingleAgentEpisode(**chunk, rewards=[0.5, 7], **ended).to_numpy()
    rows = ddpg_replay.transitions([episode])
    assert rows["obs"].tolist() == [[0], [1]]
    assert rows["new_obs"].tolist() == [[1], [2]]
    assert rows["actions"].tolist() == [[5], [6]]
    assert rows["terminateds"].tolist() == [False, terminates]
    assert rows["rewards"].tolist() == [0.5, 7]
    assert ddpg_replay.transitions([episode] * 2, final_reward=True)["rewards"].tolist() == [7] * 4


@given(st.integers(1, 7), st.lists(st.integers(1, 12), max_size=6), st.integers(0, 5))
def test_replay_is_a_ring(capacity: int, counts: list[int], cut: int) -> None:
    replay, told = Replay(capacity, seed=0), 0
    for step, count in enumerate(counts):
        values = np.arange(told, told + count)
        replay.add({"a": values, "b": np.stack([values, -values], axis=1)})
        told += count
        if step == cut:
            state, replay = replay.get_state(), Replay(capacity, seed=9)
            replay.set_state(state)
    assert len(replay) == min(told, capacity)
    if not told:
        with pytest.raises(ContractError, match="empty"):
            replay.sample(1)
        return
    twin = Replay(capacity, seed=5)
    twin.set_state(replay.get_state())
    rows = replay.sample(200)
    assert same(rows, twin.sample(200))
    assert set(rows["a"]) <= set(range(max(0, told - capacity), told))
    assert (rows["b"] == np.stack([rows["a"], -rows["a"]], axis=1)).all()
    with pytest.raises(ContractError, match="columns of shapes"):
        replay.add({"a": np.zeros(2)})


def trained(algorithm: DDPG) -> dict[str, Any]:
    """Weights and counters after two more iterations from a set state of the global generator."""
    torch.manual_seed(11)
    for _ in range(2):
        algorithm.train()
    own = algorithm.own_state()
    return {**weights(algorithm), **own["replay"]["rows"], **own["progress"]}


def test_a_restored_algorithm_continues_exactly(ray_runtime: None, tmp_path: Path) -> None:
    algorithm, used = (walk(reward_baseline=0.5, updates_per_step=0.7).build_algo() for _ in "ab")
    for _ in range(3):
        algorithm.train()
    algorithm.save_to_path(tmp_path / "checkpoint")
    state = algorithm.get_state()
    kept = copy.deepcopy(state["learner_group"]["learner"]["optimizer"])
    expected = trained(algorithm)
    starts = expected["obs"][::4]
    assert len(np.unique(starts, axis=0)) == len(starts) == 10, "samples begin alike"
    # A used algorithm has weights that RLlib takes for newer.
    for _ in range(6):
        used.train()
    used.set_state(state)
    assert same(trained(used), expected)
    used.train()
    used.restore_from_path(tmp_path / "checkpoint")
    assert same(trained(used), expected)
    loaded = DDPG.from_checkpoint(tmp_path / "checkpoint")
    assert same(trained(loaded), expected)
    for name, entry in state["learner_group"]["learner"]["optimizer"].items():
        moments = [each["state"]["state"][0]["exp_avg"] for each in (entry, kept[name])]
        assert np.array_equal(*moments), "training changed the state that it started from"
    for each in (algorithm, used, loaded):
        each.stop()


def test_remote_runners_get_weights_and_noise(ray_runtime: None) -> None:
    config = walk(noise=0.4, noise_decay=0.5, updates_per_step=1.0).env_runners(num_env_runners=1)
    algorithm = config.build_algo()
    for expected in (math.inf, 0.4, 0.1):
        runners = algorithm.env_runner_group.foreach_env_runner(
            lambda runner: runner.module.get_state(), local_env_runner=False
        )
        assert runners[0]["noise"] == pytest.approx(expected)
        assert np.array_equal(runners[0]["actor.0.weight"], weights(algorithm)["actor.0.weight"])
        result = algorithm.train()
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] == 24
    assert np.isfinite(result["env_runners"]["episode_return_mean"])
    algorithm.stop()


def test_truncated_samples_bootstrap(ray_runtime: None) -> None:
    config = walk({"terminates": False, "actions": SQUARE}, warmup_episodes=0, updates_per_step=1.0)
    config.env_runners(batch_mode="truncate_episodes", rollout_fragment_length=3)
    algorithm = config.build_algo()
    for _ in range(4):
        algorithm.train()
    rows = algorithm.replay.sample(100)
    assert not rows["terminateds"].any()
    assert rows["actions"].shape == (100, 2, 2)
    moved = np.abs(rows["new_obs"] - rows["obs"])
    assert moved == pytest.approx(0.1, abs=1e-5), "an observation of another episode"
    assert weights(algorithm)["updates"] == len(algorithm.replay) == 24
    algorithm.stop()


def test_what_is_no_number_is_reported(ray_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    unrewarded = walk({"broken": "reward"}).build_algo()
    unrewarded.train()
    with pytest.raises(MapspaceError, match=r"critic has a loss of nan at update 1\b"):
        unrewarded.train()
    unseen = walk({"broken": "observation"}, warmup_episodes=0).build_algo()
    with pytest.raises(MapspaceError, match="actor gave an action that is no number"):
        unseen.train()
    monkeypatch.setattr(rllib_seam, "synchronous_parallel_sample", Mock(side_effect=RayActorError))
    with pytest.raises(MapspaceError, match="remote environment runner of DDPG died"):
        unseen.train()
    unrewarded.stop()
    unseen.stop()


@pytest.mark.parametrize("space", [gym.spaces.Discrete(3), gym.spaces.Box(-np.inf, 1, (1,))])
def test_only_bounded_boxes_of_actions(space: gym.Space[Any]) -> None:
    with pytest.raises(ConfigError, match="bounded Box of actions, got"):
        make_module(space)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("tau", 0.0), ("gamma", 1.1), ("actor_learning_rate", "fast"), ("warmup_episodes", 1.5)),
        *(("hidden_layers", []), ("hidden_layers", [3, 0]), ("noise", math.nan)),
        *(("final_reward", 1), ("reward_baseline", 2.0), ("updates_per_step", True)),
    ],
)
def test_wrong_settings_are_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^DDPG: {name}.*: expected"):
        DDPGConfig().environment("Pendulum-v1").training(**{name: value}).validate()


def test_settings_that_do_not_exist_or_fit_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="no setting 'lr'; known are actor_learning_rate, critic_learning_rate"
    ):
        DDPGConfig().training(lr=1.0)
    config = DDPGConfig().environment("Pendulum-v1").training(final_reward=True)
    assert DDPGConfig().update_from_dict(config.to_dict()).final_reward
    with pytest.raises(ConfigError, match="complete_episodes"):
        config.env_runners(batch_mode="truncate_episodes").validate()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_learns_pendulum(ray_runtime: None) -> None:
    """About a minute on one core: from -1,300 to -150; a pendulum held upright earns about -150."""
    config = DDPGConfig().environment("Pendulum-v1").debugging(seed=0)
    config.training(
        warmup_episodes=5, noise_decay=0.98, actor_learning_rate=1e-3, hidden_layers=[128, 128]
    )
    algorithm = config.build_algo()
    returns = [algorithm.train()["env_runners"]["episode_return_mean"] for _ in range(60)]
    assert np.mean(returns[:5]) < -900
    assert np.mean(returns[-20:]) > -300
    algorithm.stop()
