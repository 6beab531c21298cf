"""Everything that decides how an RLlib algorithm continues, as arrays, numbers and strings.

Taken between two iterations, when no episode is under way: then environments remember nothing but
what `MappingVectorEnv.state_dict` holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_OPTIMIZER, COMPONENT_RL_MODULE

from searchers.reinforcement.ask_tell_bridge import random_state, set_random_state

LEARNER_PARTS = [
    f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}",
    f"{COMPONENT_LEARNER}/{COMPONENT_OPTIMIZER}",
]


def capture(algorithm: Any) -> dict[str, Any]:
    """The state of an algorithm between two iterations, as copies."""
    runners = algorithm.env_runner_group.foreach_env_runner(
        _runner_state, local_env_runner=not algorithm.config.num_env_runners
    )
    return {
        "learner": pack(algorithm.learner_group.get_state(components=LEARNER_PARTS)),
        "own": pack(algorithm.own_state() if hasattr(algorithm, "own_state") else {}),
        "runners": {str(index): pack(state) for index, state in runners},
        "random": pack(random_state()),
    }


def restore(algorithm: Any, snapshot: Mapping[str, Any]) -> None:
    """Continues from what `capture` returned, in an algorithm that was just built alike."""
    algorithm.learner_group.set_state(unpack(snapshot["learner"]))
    if hasattr(algorithm, "set_own_state"):
        algorithm.set_own_state(unpack(snapshot["own"]))
    algorithm.env_runner_group.sync_weights(
        from_worker_or_learner_group=algorithm.learner_group, inference_only=True
    )
    states = {int(index): unpack(state) for index, state in snapshot["runners"].items()}
    algorithm.env_runner_group.foreach_env_runner(
        lambda runner: _set_runner_state(runner, states),
        local_env_runner=not algorithm.config.num_env_runners,
    )
    set_random_state(unpack(snapshot["random"]))


def place_runners(algorithm: Any, seed: int) -> None:
    """Seeds the environments of all runners and, where they are remote, their processes."""
    remote = bool(algorithm.config.num_env_runners)

    def place(runner: Any) -> None:
        runner.env.unwrapped.place(runner.worker_index, seed)
        if remote:
            torch.manual_seed(seed + runner.worker_index)

    algorithm.env_runner_group.foreach_env_runner(place, local_env_runner=not remote)


def _runner_state(runner: Any) -> tuple[int, dict[str, Any]]:
    environment = runner.env.unwrapped.state_dict()
    return runner.worker_index, {"environment": environment, "random": random_state()}


def _set_runner_state(runner: Any, states: Mapping[int, Mapping[str, Any]]) -> None:
    state = states[runner.worker_index]
    runner.env.unwrapped.load_state_dict(state["environment"])
    set_random_state(dict(state["random"]))


def pack(value: Any) -> Any:
    """A nested state as dictionaries with string keys, lists, arrays, numbers, strings and None."""
    if isinstance(value, torch.Tensor):
        return {"tensor": value.detach().cpu().numpy().copy()}
    if isinstance(value, np.ndarray):
        return {"array": value.copy()}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {"items": [[pack(key), pack(entry)] for key, entry in value.items()]}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [pack(entry) for entry in value]}
    raise TypeError(f"A snapshot cannot hold a {type(value).__name__}.")


def unpack(value: Any) -> Any:
    """What `pack` was given; tensors on the CPU."""
    if not isinstance(value, dict):
        return value
    ((kind, body),) = value.items()
    if kind == "tensor":
        return torch.from_numpy(np.array(body))
    if kind == "array":
        return np.array(body)
    entries = [unpack(entry) for entry in body] if kind != "items" else body
    if kind == "items":
        return {unpack(key): unpack(entry) for key, entry in entries}
    return tuple(entries) if kind == "tuple" else entries
