"""What this project uses of RLlib without RLlib promising it: one place to look when Ray changes.

`USED` names every private member that is read or written here, and every private method that a
class of ours overrides; a test holds both against the Ray that is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample

USED: tuple[tuple[type, str], ...] = (
    (TorchLearner, "_weights_seq_no"),
    (TorchLearner, "_optimizer_parameters"),
    (TorchLearner, "_update"),
    (SingleAgentEnvRunner, "_seed"),
    (TorchRLModule, "_forward"),
    (TorchRLModule, "_forward_inference"),
    (TorchRLModule, "_forward_exploration"),
    (AlgorithmConfig, "_model_config_auto_includes"),
    (Algorithm, "_check_component"),
)


def weights_number(learner: Any) -> int:
    """Which weights a learner has: runners take none whose number they know."""
    number: int = learner._weights_seq_no
    return number


def set_weights_number(learner: Any, number: int) -> None:
    """Numbers the weights that a learner has."""
    learner._weights_seq_no = number


def parameters_of(learner: Any, optimizer: Any) -> Sequence[Any]:
    """The parameters that an optimizer of a learner steps."""
    parameters: Sequence[Any] = learner._optimizer_parameters[optimizer]
    return parameters


def reseed(runner: Any, seed: int, samples: int) -> None:
    """Seeds the next reset of a runner's environments, after `samples` of them.

    RLlib would reset its environments with the same seed, thus to the same states, before every
    sample. A host that resets environments on its own may have set a runner's seed to None.
    """
    if runner._seed is not None:
        words = np.random.SeedSequence([seed, runner.worker_index or 0, samples])
        runner._seed = int(words.generate_state(1)[0])


def sample(runners: Any, timeout: float | None) -> tuple[list[Any], Any]:
    """Episodes, or chunks of them, of all environment runners, and their metrics."""
    episodes, results = synchronous_parallel_sample(
        worker_set=runners,
        sample_timeout_s=timeout,
        _uses_new_env_runners=True,
        _return_metrics=True,
    )
    return list(episodes), results


def holds_component(algorithm: Algorithm, name: str, components: Any, not_components: Any) -> bool:
    """Whether a state with and without those components holds the one of that name."""
    return bool(algorithm._check_component(name, components, not_components))
