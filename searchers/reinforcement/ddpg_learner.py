"""DDPG's gradient updates: the critic's, then the actor's, then those of the targets.

Letters: B transitions of an update, O observed values, A values of an action.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.utils import metrics as keys
from torch import Tensor, nn

from mapspace.errors import MapspaceError
from searchers.reinforcement import rllib_seam
from searchers.reinforcement.ddpg_networks import DDPGModule, values_of
from searchers.reinforcement.ddpg_replay import COLUMNS


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
        parameters = rllib_seam.parameters_of(self, optimizer)
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
        rllib_seam.set_weights_number(self, rllib_seam.weights_number(self) + 1)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores weights and optimizers, also into a learner that is ahead of them."""
        newest = max(rllib_seam.weights_number(self), state.get(keys.WEIGHTS_SEQ_NO, 0))
        # RLlib skips weights that are not newer than those it has, unless their number is 0, and
        # its optimizers would go on in the caller's arrays.
        super().set_state(copy.deepcopy({**state, keys.WEIGHTS_SEQ_NO: 0}))
        rllib_seam.set_weights_number(self, newest + 1)
