"""DDPG's actor, its critic, their targets, and the noise around an action.

Inside the networks an action is a point of [-1, 1]^A; everywhere else it has the environment's
units. Letters: n any number of rows, O observed values, A values of an action.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, TargetNetworkAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor, nn

from mapspace.errors import ConfigError, MapspaceError


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
