"""PPO's networks: a policy over the edits of a mapping, and a value function.

Letters: B observations, O values of an observation.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchMultiCategorical
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

from mapspace.errors import MapspaceError


class EditPolicy(TorchRLModule, ValueFunctionAPI):
    """A policy over the edits of every attribute, and a value function, without shared layers."""

    policy: nn.Sequential
    value: nn.Sequential

    def setup(self) -> None:
        """Builds both networks; at the start every attribute is kept with the same probability."""
        inputs = self.observation_space.shape[0]
        choices = [int(count) for count in self.action_space.nvec]
        hidden = self.model_config["hidden"]
        self.policy = _network(inputs, hidden, sum(choices))
        self.value = _network(inputs, hidden, 1)
        keep = 1.0 - min(self.model_config["edits"] / len(choices), 0.5)
        head = self.policy[-1]
        assert isinstance(head, nn.Linear)
        with torch.no_grad():
            head.weight.mul_(0.01)
            head.bias.zero_()
            first = 0
            for count in choices:
                # keep : any other choice = keep : (1 - keep), shared evenly by the others.
                head.bias[first] = math.log(keep / (1.0 - keep) * max(count - 1, 1))
                first += count
        self.action_dist_cls = TorchMultiCategorical.get_partial_dist_cls(input_lens=choices)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        logits = self.policy(batch[Columns.OBS])
        if not torch.isfinite(logits).all():
            raise MapspaceError("PPO's policy has diverged: it returns no finite numbers.")
        return {Columns.ACTION_DIST_INPUTS: logits}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """Expected returns `[B]` of observations `[B, O]`."""
        values: torch.Tensor = self.value(batch[Columns.OBS]).squeeze(-1)
        return values


def _network(inputs: int, hidden: list[int], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.Tanh()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))
