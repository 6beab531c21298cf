"""The decision process of the reinforcement-learning searchers, without RLlib."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError, ContractError, MapspaceError
from mapspace.testing.toy_space import TARGET, ToyModel, ToySpace, toy_losses
from searchers.reinforcement.environment import (
    ACTIONS,
    REWARDS,
    MappingEnv,
    MappingVectorEnv,
    signed_log,
)


class Recorder:
    """Scores toy codes and remembers what was asked; refuses what `refuse` says."""

    def __init__(self, refuse: Any = None) -> None:
        self.asked: list[np.ndarray] = []
        self.refuse = refuse

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        self.asked.append(codes.copy())
        losses = ToyModel().evaluate(ToySpace(), codes).edp
        return losses if self.refuse is None else np.where(self.refuse(codes), np.inf, losses)


def toy(num_envs: int = 4, **changes: Any) -> tuple[MappingVectorEnv, Recorder]:
    recorder = changes.pop("evaluate", None) or Recorder()
    return MappingVectorEnv(num_envs, space=ToySpace(), evaluate=recorder, **changes), recorder


def actions(env: MappingVectorEnv, seed: int) -> np.ndarray:
    env.action_space.seed(seed)
    return env.action_space.sample()


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("elites", [0, 3])
def test_gymnasium_accepts_the_environment(kind: str, reward: str, elites: int) -> None:
    space = MapSpace(workload("cnn:N=2,K=8,C=6,P=7,Q=7,R=3,S=3"), accelerator("mm256"))
    model = LoopNestModel()
    env = MappingEnv(
        space, lambda codes: model.evaluate(space, codes).edp, actions=kind, reward=reward,
        elites=elites,
    )  # fmt: skip
    with warnings.catch_warnings():
        # What Gymnasium recommends, a Box of [-1, 1], cannot hold whitened features.
        warnings.simplefilter("ignore")
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("kind", ACTIONS)
def test_observations_and_mappings_are_valid(kind: str) -> None:
    space = MapSpace(workload("resnet-conv4"), accelerator("mindmappings"))
    model = LoopNestModel()
    env = MappingVectorEnv(
        16, space=space, evaluate=lambda codes: model.evaluate(space, codes).edp, actions=kind,
        episode_length=3,
    )  # fmt: skip
    observations, _ = env.reset(seed=0)
    for step in range(9):
        assert env.observation_space.contains(observations)
        assert space.feasible(env.codes).all()
        observations, rewards, *_ = env.step(actions(env, step))
        assert np.isfinite(rewards).all()


def test_a_batch_is_one_query_per_step() -> None:
    env, recorder = toy(6)
    env.reset(seed=0)
    for step in range(5):
        env.step(actions(env, step))
    assert [len(codes) for codes in recorder.asked] == [6] * 6


def test_improvement_by_hand() -> None:
    env, _ = toy(1, episode_length=2)
    env.reset(seed=0)
    start = toy_losses(env.codes)
    edit = np.zeros((1, 6), np.int64)
    edit[0, 2] = 1 + int(env.codes[0, 2] < 3)  # one step towards the target of attribute 2
    before = env.codes.copy()
    _, rewards, over, cut, _ = env.step(edit)
    assert np.abs(env.codes - before).sum() == 1
    assert rewards[0] == pytest.approx(np.log(start[0]) - np.log(toy_losses(env.codes)[0]))
    assert not over[0]
    assert not cut[0]
    *_, over, cut, _ = env.step(np.zeros((1, 6), np.int64))
    assert over[0]
    assert not cut[0]


def test_cost_by_hand() -> None:
    env, recorder = toy(1, reward="cost")
    env.reset(seed=0)
    assert recorder.asked == []  # the paper's reward needs no cost of a start
    keep = np.zeros((1, 6), np.int64)
    _, first, *_ = env.step(keep)
    assert first[0] == -1.0  # the first loss is the unit
    unit = toy_losses(env.codes)[0]
    edit = keep.copy()
    edit[0, 3] = 1
    _, second, *_ = env.step(edit)
    assert second[0] == pytest.approx(-toy_losses(env.codes)[0] / unit)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 6), kind=st.sampled_from(ACTIONS))
def test_returns_are_log_improvements(seed: int, length: int, kind: str) -> None:
    """The rewards of an episode add up to ln(first loss / last loss)."""
    env, _ = toy(3, episode_length=length, actions=kind)
    env.reset(seed=seed)
    start, total = toy_losses(env.codes), np.zeros(3)
    for step in range(length):
        _, rewards, over, *_ = env.step(actions(env, seed + step))
        assert over.all() == (step == length - 1)
        total += rewards
    np.testing.assert_allclose(total, np.log(start / toy_losses(env.codes)), atol=1e-12)


def test_the_next_episode_starts_in_the_next_step() -> None:
    env, recorder = toy(2, episode_length=1)
    env.reset(seed=0)
    *_, over, _, _ = env.step(np.zeros((2, 6), np.int64))
    assert over.all()
    ended = env.codes.copy()
    observations, rewards, over, *_ = env.step(np.zeros((2, 6), np.int64))
    assert (rewards == 0).all()
    assert not over.any()
    assert (env.codes != ended).any()
    assert (observations[:, -1] == 1.0).all()  # the whole episode is left
    np.testing.assert_array_equal(recorder.asked[-1], env.codes)


def test_refused_mappings_are_left_where_they_were() -> None:
    env, recorder = toy(2, evaluate=Recorder(lambda codes: codes[:, 3] == 4))
    env.reset(seed=1)
    env.codes[:, 3] = 3
    before = env.codes.copy()
    edit = np.zeros((2, 6), np.int64)
    edit[0, 3] = 2  # to 4, which the cost model refuses
    _, rewards, *_ = env.step(edit)
    assert recorder.asked[-1][0, 3] == 4
    np.testing.assert_array_equal(env.codes, before)
    assert rewards[0] == -1.0  # as if e times worse
    assert np.isfinite(rewards).all()


@pytest.mark.parametrize("reward", REWARDS)
def test_a_model_that_refuses_everything_is_survived(reward: str) -> None:
    env, _ = toy(3, reward=reward, elites=2, evaluate=Recorder(lambda codes: codes[:, 0] >= 0))
    env.reset(seed=0)
    for step in range(20):
        observations, rewards, *_ = env.step(actions(env, step))
        assert np.isfinite(rewards).all()
        assert np.isfinite(observations).all()


def test_elites_are_the_best_mappings_seen() -> None:
    env, recorder = toy(5, episode_length=2, elites=3)
    env.reset(seed=0)
    for step in range(30):
        env.step(actions(env, step))
    seen = np.unique(np.concatenate(recorder.asked), axis=0)
    best = np.sort(toy_losses(seen))[:3]
    np.testing.assert_array_equal(np.sort(toy_losses(env._elite_codes)), best)
    asked = len(recorder.asked)
    env.reset()
    assert len(recorder.asked) == asked  # their costs are known
    assert all((env._elite_codes == code).all(axis=1).any() for code in env.codes)


def test_moves_go_along_the_features() -> None:
    """The longest move of one feature changes it by `reach` half ranges of its logarithm."""
    env, _ = toy(1, actions="moves", reach=1.0)
    env.reset(seed=0)
    env.codes[:] = [4, 4, 3, 2, 1, 1]
    move = np.zeros((1, 6), np.float32)
    move[0, 2] = 1.0
    moved = env.decode(env.codes, move)
    expected = np.expm1(np.log1p(3) + np.log1p(6) / 2)
    assert moved[0, 2] == min(6, round(float(expected)))
    np.testing.assert_array_equal(np.delete(moved, 2), np.delete(env.codes, 2))
    np.testing.assert_array_equal(env.decode(env.codes, 0 * move), env.codes)


def test_the_seed_decides_the_starts() -> None:
    first, second, third = toy(4)[0], toy(4)[0], toy(4)[0]
    first.reset(seed=3)
    second.reset(seed=3)
    third.reset(seed=4)
    np.testing.assert_array_equal(first.codes, second.codes)
    assert (first.codes != third.codes).any()


@pytest.mark.parametrize("reward", REWARDS)
def test_state_continues_between_episodes(reward: str) -> None:
    env, twin = toy(4, elites=2, reward=reward)[0], toy(4, elites=2, reward=reward)[0]
    env.reset(seed=0)
    for step in range(8):
        env.step(actions(env, step))
    twin.load_state_dict(env.state_dict())
    for environment in (env, twin):
        environment.reset()
    for step in range(20):
        ours, theirs = env.step(actions(env, step)), twin.step(actions(env, step))
        for mine, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(mine, other)


def test_signed_log_passes_through_zero() -> None:
    np.testing.assert_allclose(signed_log(np.array([-1.0, 0.0, np.e - 1])), [-np.log(2), 0.0, 1.0])


def test_misuse_is_refused() -> None:
    env, _ = toy(2)
    with pytest.raises(ContractError, match="without calling reset"):
        env.step(np.zeros((2, 6), np.int64))
    env.reset(seed=0)
    with pytest.raises(ContractError, match=r"Expected actions of shape \(2, 6\), got \(2, 5\)"):
        env.step(np.zeros((2, 5), np.int64))
    with pytest.raises(ContractError, match="Toy edits are 0, 1 or 2"):
        env.step(np.array([[0] * 6, [3] + [0] * 5]))
    moving, _ = toy(2, actions="moves")
    moving.reset(seed=0)
    with pytest.raises(MapspaceError, match=r"Action \[0, 4\] is nan: the policy has diverged"):
        moving.step(np.array([[0, 0, 0, 0, np.nan, 0], [0] * 6], np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": "jumps"}, "actions must be one of edits, moves, got 'jumps'"),
        ({"reward": "edp"}, "reward must be one of improvement, cost, got 'edp'"),
        ({"episode_length": 0}, "episode_length must be at least 1, got 0"),
        ({"elites": -1}, "elites must be at least 0, got -1"),
        ({"reach": 0.0}, "reach must be above 0, got 0"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        toy(1, **changes)


def test_it_is_a_vector_environment() -> None:
    env, _ = toy(3)
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.single_action_space == gymnasium.spaces.MultiDiscrete([3] * 6)
    assert TARGET.shape == env.single_action_space.shape
