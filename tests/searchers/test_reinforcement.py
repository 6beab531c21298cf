"""What the contract tests do not hold of PPO and DDPG: runners, failures, learning."""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from processes import descendants

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from mapspace.errors import ConfigError
from mapspace.testing.toy_space import ToyModel, ToySpace, toy_losses
from searchers import Evaluator, Searcher, TrialResult, make

NAMES = ("ddpg", "ppo")
DIVERGING: dict[str, dict[str, Any]] = {
    "ddpg": {"actor_learning_rate": 1e30, "critic_learning_rate": 1e30, "warmup_episodes": 8},
    "ppo": {"learning_rate": 1e37, "environments": 8},
}


def run(searcher: Searcher, iterations: int) -> TrialResult:
    toy = isinstance(searcher.space, ToySpace)
    model = ToyModel() if toy else LoopNestModel()
    evaluator = Evaluator(model, searcher.space, iterations=iterations)
    searcher.run(evaluator)
    return evaluator.result()


@pytest.mark.usefixtures("ray_runtime")
@pytest.mark.parametrize("name", NAMES)
def test_a_network_that_diverges_leaves_the_best_so_far(name: str) -> None:
    searcher = make(name, ToySpace(), seed=0, **DIVERGING[name])
    result = run(searcher, 3000)
    assert searcher.failure is not None
    assert name.upper() in searcher.failure
    assert np.isfinite(result.best_loss)
    assert 0 < result.iterations < 3000
    # It stays so, also in a copy that is restored.
    assert len(searcher.ask(5)) == 0
    searcher.tell(np.empty(0))
    copy = make(name, ToySpace(), seed=1, **DIVERGING[name])
    copy.load_state_dict(searcher.state_dict())
    assert len(copy.ask(5)) == 0
    assert copy.failure == searcher.failure


@pytest.mark.usefixtures("ray_runtime")
def test_a_failed_search_prints_its_best_and_exits_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from orchestrator.cli import cli
    from searchers import ppo

    class Diverging(ppo.PPOOptions):
        learning_rate: float = 1e37
        environments: int = 8

    monkeypatch.setattr(ppo.PPO, "OPTIONS", Diverging)
    command = ["search", "gemm:M=64,N=64,K=64", "--searcher", "ppo", "--iterations", "3000"]
    answer = CliRunner().invoke(cli, [*command, "--json"])
    summary = json.loads(answer.stdout)
    assert summary["edp"] > 0
    assert 0 < summary["iterations"] < 3000
    assert answer.exit_code != 0
    assert "PPO's policy has diverged" in str(answer.exception)


@pytest.mark.slow
@pytest.mark.usefixtures("ray_runtime")
@pytest.mark.parametrize("name", ["ddpg", "ppo"])
def test_remote_runners_sample_in_rounds_and_resume(name: str) -> None:
    """Two processes sample; the proposals do not depend on which of them is faster."""
    space = MapSpace(workload("gemm:M=96,N=64,K=80"), accelerator("mm256"))
    model = LoopNestModel()
    parameters = {"runners": 2, "environments": 4, "episode_length": 4}
    if name == "ddpg":
        parameters["warmup_episodes"] = 8

    def play(searcher: Searcher, asked: np.ndarray, steps: int) -> list[np.ndarray]:
        """Answers what was asked, and so many questions more."""
        found = [asked]
        for _ in range(steps):
            searcher.tell(model.evaluate(space, found[-1]).edp)
            found.append(searcher.ask(7))
        return found

    searcher = make(name, space, seed=5, **parameters)
    *_, asked = play(searcher, searcher.ask(7), 9)
    # In the middle of a round, with an answer missing.
    state = searcher.state_dict()
    expected = play(searcher, asked, 30)
    # Each has its own processes, and they are done one after another.
    del searcher
    gc.collect()
    again = make(name, space, seed=6, **parameters)
    again.load_state_dict(state)
    np.testing.assert_array_equal(np.concatenate(play(again, asked, 30)), np.concatenate(expected))


@pytest.mark.usefixtures("ray_runtime")
@pytest.mark.parametrize(
    ("machine", "orders"), [("eyeriss", "file"), ("simba", "file"), ("eyeriss", "searched")]
)
@pytest.mark.parametrize("name", NAMES)
def test_agents_work_on_real_machines(name: str, machine: str, orders: str) -> None:
    """Feasible proposals alone, and better ones than as many draws' median."""
    device = accelerator({"extends": machine, "orders": orders})
    space, model = MapSpace(workload("gemm:M=96,N=64,K=80"), device), LoopNestModel()
    searcher = make(name, space, seed=0, environments=4)
    found: list[float] = []
    while len(found) < 200:
        codes = searcher.ask(20)
        assert space.feasible(codes).all()
        found.extend(model.evaluate(space, codes).edp.tolist())
        searcher.tell(np.array(found[-len(codes) :]))
    drawn = space.sample(np.random.default_rng(0), 200, feasible=True)
    assert min(found) < np.median(model.evaluate(space, drawn).edp)


@pytest.mark.usefixtures("ray_runtime")
def test_a_lost_runner_leaves_the_best_so_far() -> None:
    space, model = MapSpace(workload("gemm:M=96,N=64,K=80"), accelerator("mm256")), LoopNestModel()
    searcher = make("ppo", space, seed=0, runners=2, environments=4, episode_length=4)
    before = _runner_processes()
    asked, started = 0, time.monotonic()
    while searcher.failure is None:
        codes = searcher.ask(50)
        searcher.tell(model.evaluate(space, codes).edp)
        asked += len(codes)
        if asked >= 100 and (alive := _runner_processes() - before):
            os.kill(min(alive), signal.SIGKILL)
            before |= alive
        # Ray takes its time to notice, on a busy machine much of it.
        assert time.monotonic() < started + 240
    assert "actor died" in searcher.failure
    assert len(searcher.ask(5)) == 0


def _runner_processes() -> set[int]:
    """Numbers of the processes below this one in which RLlib's runners live.

    Tests beside these have runners of their own.
    """
    below = descendants(os.getpid())
    return {number for number, (_, title) in below.items() if "SingleAgentEnvRunner" in title}


@pytest.mark.usefixtures("ray_runtime")
def test_a_searcher_that_nobody_needs_ends_its_thread() -> None:
    searcher = make("ppo", ToySpace(), seed=0)
    searcher.ask(10)
    thread = searcher._conversation._thread
    assert thread.is_alive()
    del searcher
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.usefixtures("ray_runtime")
@pytest.mark.parametrize("name", NAMES)
def test_agents_learn(name: str) -> None:
    """From random starts, what a trained agent proposes costs less than what an untrained does."""
    untrained = {"ppo": {"learning_rate": 1e-12}, "ddpg": {"warmup_episodes": 10**6}}[name]

    def late_proposals(**changes: Any) -> float:
        searcher = make(name, ToySpace(), seed=0, elites=0, **changes)
        losses = np.empty(0)
        while len(losses) < 3000:
            codes = searcher.ask(500)
            told = toy_losses(codes)
            searcher.tell(told)
            losses = np.append(losses, told)
        return float(np.log(losses[2000:]).mean())

    assert late_proposals() < late_proposals(**untrained) - 0.1


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ppo", {"learning_rate": 0.0}, "learning_rate: expected more than 0, got 0"),
        ("ppo", {"epochs": 0}, "epochs: expected at least 1, got 0"),
        ("ppo", {"runners": -1}, "runners: expected at least 0, got -1"),
        ("ppo", {"environments": 0}, "environments: expected at least 1, got 0"),
        ("ppo", {"reward": "edp"}, "reward: expected 'improvement' or 'cost', got 'edp'"),
        ("ddpg", {"reach": -1.0}, "reach: expected more than 0, got -1"),
        ("ddpg", {"tau": 2.0}, "tau: expected at most 1, got 2"),
        ("ddpg", {"noise_decay": 0.0}, "noise_decay: expected more than 0, got 0"),
        ("ddpg", {"updates_per_step": -1.0}, "updates_per_step: expected at least 0, got -1"),
    ],
)
def test_settings_are_refused_at_once(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(name, ToySpace(), seed=0, **changes)
