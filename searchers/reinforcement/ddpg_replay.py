"""What DDPG remembers: transitions of episodes, drawn again for its updates.

Letters: n any number of transitions, O observed values.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from ray.rllib.core.columns import Columns

from mapspace.errors import ContractError

Transitions = dict[str, npt.NDArray[Any]]

COLUMNS = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, Columns.NEXT_OBS, Columns.TERMINATEDS)


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
