"""The search for a mapping as a decision process, natively vectorised.

Letters: E environments side by side, D attributes of a code, F features of an encoded mapping.

* **State**: the features of the current mapping, its problem included (`Space.encode`), as
  `sign(x) ln(1 + |x|)`; those that vary over the space are whitened with their mean and standard
  deviation over a fixed sample of it. One more value: the share of the episode that is left.
* **Action** `edits`: one choice per attribute (MultiDiscrete), 0 to keep it, else one of its edits:
  a prime factor moves between two slots, two loops swap, a bank changes its tensor ... An edit that
  would make the mapping infeasible is left out (`Space.edit`).
  **Action** `moves`: a real vector in [-1, 1] with one value per varying feature. The features, in
  the logarithms above, move by it times `reach` times half their range; the new mapping is the
  projection (`Space.project`): a feasible mapping close to it.
* **Transition**: deterministic. Each step asks for the cost of one mapping per environment, all
  of them in one call.
* **Reward** `improvement`: ln loss before - ln loss after, so that an episode's return is the
  logarithm of how many times better its last mapping is than its first.
  **Reward** `cost`: minus the loss, the paper's literal one, in units of the first loss seen. (The
  paper leaves its scale open.)
* **Infeasible**: both kinds of action lead to mappings that fit the machine as far as a look at
  tile sizes can tell. Should the cost model still refuse one, the mapping stays where it was, and
  the reward is that of a loss e times higher.
* **Episode**: `episode_length` steps, then it terminates. It starts at a uniformly drawn feasible
  mapping or, with `elites`, at one of so many best mappings found so far. With `improvement` the
  cost of a drawn start is asked for, one query; otherwise a start costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from costmodel.space import Codes, Losses
from mapspace.errors import ConfigError, ContractError, MapspaceError
from searchers.base import log_losses
from searchers.scales import REFUSED, scale_sample, signed_log

if TYPE_CHECKING:
    from costmodel.space import Space

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

ACTIONS = ("edits", "moves")
REWARDS = ("improvement", "cost")

# Mappings that whiten the observations: the same for every search of a space, so that a policy
# means the same in all of them.
SCALE_SAMPLE = 512

# Bounds of an observation, in standard deviations; unwhitened logarithms stay below it as well.
LARGEST_OBSERVATION = 20.0


class MappingVectorEnv(VectorEnv[Floats, npt.NDArray[Any], npt.NDArray[Any]]):
    """E searches side by side; see the module for the decision process.

    An environment whose episode is over starts its next one in the following step, whose action
    is ignored (Gymnasium's next-step autoreset).

    Attributes:
        codes: `[E, D]` current mappings.
        rng: draws the starts.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int,
        *,
        space: Space,
        evaluate: Callable[[Codes], Losses],
        actions: str = "edits",
        reward: str = "improvement",
        episode_length: int = 8,
        elites: int = 0,
        reach: float = 0.5,
        seed: int = 0,
    ) -> None:
        """Prepares the environments; `reset` starts them.

        Args:
            num_envs: E, at least 1.
            space: where to search.
            evaluate: losses `[m]` of codes `[m, D]`, inf where infeasible.
            actions: `edits` or `moves`.
            reward: `improvement` or `cost`.
            episode_length: steps of an episode, at least 1.
            elites: number of best mappings among which an episode starts; 0: anywhere.
            reach: longest move, in half ranges of a feature.
            seed: decides the starts until `reset` gets one.

        Raises:
            ConfigError: a value that is not allowed.
        """
        for name, value, known in (("actions", actions, ACTIONS), ("reward", reward, REWARDS)):
            if value not in known:
                raise ConfigError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
        for name, number, least in (
            ("num_envs", num_envs, 1),
            ("episode_length", episode_length, 1),
            ("elites", elites, 0),
        ):
            if number < least:
                raise ConfigError(f"{name} must be at least {least}, got {number}.")
        if not reach > 0:
            raise ConfigError(f"reach must be above 0, got {reach}.")
        self.num_envs = num_envs
        self.space = space
        self.evaluate = evaluate
        self.actions = actions
        self.reward = reward
        self.episode_length = episode_length
        self.elites = elites
        self.rng = np.random.Generator(np.random.PCG64(seed))
        features = signed_log(space.encode(scale_sample(space, SCALE_SAMPLE)))
        varies = np.ptp(features, axis=0) > 0
        self._varying = np.flatnonzero(varies)
        self._mean = np.where(varies, features.mean(axis=0), 0.0).astype(np.float32)
        self._scale = np.where(varies, features.std(axis=0), 1.0).astype(np.float32)
        self._reach = reach * np.ptp(features, axis=0)[self._varying] / 2.0
        shape = (features.shape[1] + 1,)
        self.single_observation_space = Box(-LARGEST_OBSERVATION, LARGEST_OBSERVATION, shape)
        self.single_action_space = (
            MultiDiscrete(space.edit_choices)
            if actions == "edits"
            # One action that does nothing where a space has only one candidate.
            else Box(-1.0, 1.0, (max(1, self._varying.size),))
        )
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.codes: Codes = np.zeros((num_envs, space.cardinality.size), np.int32)
        self._log_losses = np.full(num_envs, np.inf)
        self._steps: npt.NDArray[np.int64] | None = None
        self._elite_codes: Codes
        self._elite_losses: Losses
        self._unit: float
        self._forget()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Starts E episodes.

        Args:
            seed: begins anew: it decides all later starts, and no mapping is remembered. None:
                goes on.
            options: none are known.

        Returns:
            `[E, F + 1]` observations, and an empty dictionary.
        """
        if seed is not None:
            self.rng = np.random.Generator(np.random.PCG64(seed))
            self._forget()
        self._steps = np.zeros(self.num_envs, np.int64)
        self._advance(np.zeros_like(self.codes), np.ones(self.num_envs, dtype=bool))
        return self._observe(), {}

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[Floats, npt.NDArray[np.float64], Bools, Bools, dict[str, Any]]:
        """Moves every environment to another mapping.

        Args:
            actions: `[E, D]` integer choices or `[E, A]` real moves.

        Returns:
            `[E, F + 1]` observations, `[E]` rewards, `[E]` whether an episode terminated, `[E]`
            False (none is cut short), and an empty dictionary.

        Raises:
            ContractError: `reset` was not called, or actions of the wrong shape or out of range.
            MapspaceError: an action is nan or infinite.
        """
        if self._steps is None:
            raise ContractError("step() was called without calling reset() first.")
        actions = self._checked(np.asarray(actions))
        starting = self._steps == self.episode_length
        rewards = self._advance(self.decode(self.codes, actions), starting)
        self._steps = np.where(starting, 0, self._steps + 1)
        over: Bools = self._steps == self.episode_length
        return self._observe(), rewards, over, np.zeros_like(over), {}

    def decode(self, codes: Codes, actions: npt.NDArray[Any]) -> Codes:
        """The mappings `[E, D]` that actions lead to from mappings `[E, D]`."""
        if self.actions == "edits":
            return self.space.edit(codes, actions)
        points = signed_log(self.space.encode(codes)).astype(np.float64)
        steps = np.clip(actions[:, : self._varying.size], -1.0, 1.0)
        points[:, self._varying] += steps * self._reach
        return self.space.project(np.sign(points) * np.expm1(np.abs(points)))

    def state_dict(self) -> dict[str, Any]:
        """What the starts of later episodes depend on, as copies; valid between two episodes."""
        return {
            "generator": self.rng.bit_generator.state,
            "elite_codes": self._elite_codes.copy(),
            "elite_losses": self._elite_losses.copy(),
            "unit": self._unit,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from `state_dict()` with the next `reset`."""
        self.rng.bit_generator.state = dict(state["generator"])
        self._elite_codes = np.array(state["elite_codes"], np.int32)
        self._elite_losses = np.array(state["elite_losses"], np.float64)
        self._unit = float(state["unit"])
        self._steps = None

    def _forget(self) -> None:
        """Forgets what was found."""
        self._elite_codes = np.zeros((0, self.space.cardinality.size), np.int32)
        self._elite_losses = np.zeros(0)
        # ln of the loss that counts as 1, nan until one was seen.
        self._unit = np.nan

    def _advance(self, proposed: Codes, starting: Bools) -> npt.NDArray[np.float64]:
        """Moves to the proposed mappings `[E, D]`, or to a start; returns the rewards `[E]`."""
        known = np.full(self.num_envs, np.inf)
        if starting.any():
            proposed[starting], known[starting] = self._starts(int(starting.sum()))
        unknown = ~np.isfinite(known)
        asked = unknown & (~starting | (self.reward == "improvement"))
        # A start whose cost nobody asked for stays at inf.
        after = log_losses(known)
        if asked.any():
            losses = np.asarray(self.evaluate(np.ascontiguousarray(proposed[asked])))
            after[asked] = log_losses(losses)
            self._remember(proposed[asked], losses)
        refused = ~np.isfinite(after) & ~starting
        rewards = np.where(starting, 0.0, self._rewards(after, refused))
        self.codes = np.where(refused[:, None], self.codes, proposed)
        self._log_losses = np.where(refused, self._log_losses, after)
        return rewards

    def _rewards(self, after: Losses, refused: Bools) -> npt.NDArray[np.float64]:
        """Rewards `[E]` of steps to mappings whose ln loss is `after` `[E]`."""
        before = self._log_losses
        if self.reward == "improvement":
            comparable = np.isfinite(before) & np.isfinite(after)
            gained = np.where(comparable, before, 0.0) - np.where(comparable, after, 0.0)
            return np.where(refused, -REFUSED, gained)
        finite = after[np.isfinite(after)]
        if np.isnan(self._unit) and finite.size:
            self._unit = float(finite[0])
        unit = 0.0 if np.isnan(self._unit) else self._unit
        here = np.where(np.isfinite(before), before, unit)
        # Clipped: the square of a loss that is e^20 times the first one still fits a network.
        return -np.exp(np.minimum(np.where(refused, here + REFUSED, after) - unit, 20.0))

    def _starts(self, count: int) -> tuple[Codes, Losses]:
        """Where so many episodes start: mappings `[count, D]`, losses `[count]`, inf if unknown."""
        if self.elites == 0 or not len(self._elite_codes):
            drawn = self.space.sample(self.rng, count, feasible=True)
            return drawn, np.full(count, np.inf)
        chosen = self.rng.integers(len(self._elite_codes), size=count)
        return self._elite_codes[chosen], self._elite_losses[chosen]

    def _remember(self, codes: Codes, losses: Losses) -> None:
        """Merges evaluated mappings into the elite, each of them once."""
        if self.elites == 0:
            return
        good = np.isfinite(losses)
        all_codes = np.concatenate([self._elite_codes, codes[good]])
        all_losses = np.concatenate([self._elite_losses, losses[good]])
        _, first = np.unique(all_codes, axis=0, return_index=True)
        first.sort()
        best = first[np.argsort(all_losses[first], kind="stable")[: self.elites]]
        self._elite_codes, self._elite_losses = all_codes[best], all_losses[best]

    def _observe(self) -> Floats:
        assert self._steps is not None
        features = (signed_log(self.space.encode(self.codes)) - self._mean) / self._scale
        left = 1.0 - self._steps / self.episode_length
        observations = np.concatenate([features, left[:, None]], axis=1)
        bounded: Floats = observations.astype(np.float32)
        return np.clip(bounded, -LARGEST_OBSERVATION, LARGEST_OBSERVATION)

    def _checked(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The actions, of the shape and in the range of the action space."""
        expected = (self.num_envs, *(self.single_action_space.shape or ()))
        if actions.shape != expected:
            raise ContractError(f"Expected actions of shape {expected}, got {actions.shape}.")
        if self.actions == "moves" and not np.isfinite(actions).all():
            row, column = np.argwhere(~np.isfinite(actions))[0]
            raise MapspaceError(
                f"Action [{row}, {column}] is {actions[row, column]}: the policy has diverged."
            )
        return actions


class MappingEnv(gymnasium.Env[Floats, npt.NDArray[Any]]):
    """One search: a `MappingVectorEnv` of size 1 for tools that know no batches."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, space: Space, evaluate: Callable[[Codes], Losses], **settings: Any) -> None:
        """Prepares the environment; the settings are those of `MappingVectorEnv`."""
        self.batch = MappingVectorEnv(1, space=space, evaluate=evaluate, **settings)
        self.observation_space = self.batch.single_observation_space
        self.action_space = self.batch.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Starts an episode; returns the observation `[F + 1]` and an empty dictionary."""
        super().reset(seed=seed)
        observations, info = self.batch.reset(seed=seed, options=options)
        return observations[0], info

    def step(self, action: npt.NDArray[Any]) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Moves to another mapping.

        Args:
            action: `[D]` integer choices or `[A]` real moves.

        Returns:
            The observation `[F + 1]`, the reward, whether the episode terminated, False, and an
            empty dictionary.
        """
        observations, rewards, over, cut, info = self.batch.step(np.asarray(action)[None])
        return observations[0], float(rewards[0]), bool(over[0]), bool(cut[0]), info
