"""Recipes: what is trained, on what loss, by which optimiser at which learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import nn

from mapspace.strict_yaml import StrictModel
from surrogate.network import NetworkConfig
from surrogate.options import FitOptions, Loss


class Recipe(StrictModel):
    """How a surrogate is trained. A view is one training row seen once."""

    network: NetworkConfig
    """What is trained."""
    optimiser: Literal["sgd", "adamw"]
    """SGD with momentum 0.9, or AdamW with weight decay 0.01."""
    learning_rate: float
    """Highest learning rate."""
    schedule: Literal["steps", "one-cycle"]
    """x0.1 after each quarter, or one cosine cycle up and down (Smith and Topin 2018)."""
    batch_size: int
    """Rows of a batch, all workers together."""
    views: int | None = None
    """Length of the training in views ..."""
    epochs: int | None = None
    """... or in passes over the data."""
    edp_weight: float = 1.0
    """Weight of energy and cycles in the loss, against 1 for every other target."""


RECIPES: dict[str, Recipe] = {
    # Hegde et al., Mind Mappings (ASPLOS 2021), section 5.5: 100 epochs, x0.1 every 25.
    "paper": Recipe(
        network=NetworkConfig(features="raw", targets="raw", body="perceptron"),
        optimiser="sgd",
        learning_rate=1e-2,
        schedule="steps",
        batch_size=128,
        epochs=100,
    ),
    "fast": Recipe(
        network=NetworkConfig(features="physical", targets="log", body="residual"),
        optimiser="adamw",
        learning_rate=4e-3,
        schedule="one-cycle",
        batch_size=1024,
        views=3_000_000,
        edp_weight=3.0,
    ),
}

LOSSES: dict[Loss, Callable[..., torch.Tensor]] = {
    "huber": nn.functional.smooth_l1_loss,
    "mse": nn.functional.mse_loss,
    "mae": nn.functional.l1_loss,
}


def recipe_of(options: FitOptions) -> Recipe:
    """The recipe of a run, its batch size and learning rate as the options want them.

    Without a learning rate of its own, another batch size scales the recipe's by the square root
    of their ratio, which keeps the variance of an update per view (Krizhevsky, One weird trick
    for parallelizing convolutional neural networks, 2014, section 5).
    """
    recipe = RECIPES[options.recipe]
    batch_size = options.batch_size or recipe.batch_size
    scaled = recipe.learning_rate * math.sqrt(batch_size / recipe.batch_size)
    return recipe.model_copy(
        update={"batch_size": batch_size, "learning_rate": options.learning_rate or scaled}
    )


def make_optimiser(recipe: Recipe, network: nn.Module) -> torch.optim.Optimizer:
    """The optimiser of a network's parameters."""
    parameters = list(network.parameters())
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=recipe.learning_rate, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=recipe.learning_rate, weight_decay=1e-2, fused=True)


def schedule(recipe: Recipe, optimiser: torch.optim.Optimizer, progress: float) -> None:
    """Sets the learning rate for a progress in [0, 1); a cycle moves Adam's momentum against it."""
    rate, momentum = 0.1 ** int(4 * progress), None
    if recipe.schedule == "one-cycle":
        warm_up = 0.2
        low, peak = (1 / 25, 1.0) if progress < warm_up else (1e-4, 1.0)
        part = progress / warm_up if progress < warm_up else (1 - progress) / (1 - warm_up)
        height = (1 - math.cos(math.pi * part)) / 2
        rate, momentum = low + (peak - low) * height, 0.95 - 0.10 * height
    for group in optimiser.param_groups:
        group["lr"] = recipe.learning_rate * rate
        if momentum is not None and "betas" in group:
            group["betas"] = (momentum, group["betas"][1])
