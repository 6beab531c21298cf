"""The surrogate networks: the paper's perceptron and a small residual network.

Letters: `B` points, `F` raw values per point, `G` features, `O` targets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from mapspace.strict_yaml import StrictModel
from surrogate.applicability import Structure
from surrogate.features import FEATURES
from surrogate.samples import SMALLEST_COST

# Hegde et al., Mind Mappings (ASPLOS 2021), section 5.5: nine layers, the last the outputs.
PAPER_WIDTHS = (64, 256, 1024, 2048, 2048, 1024, 256, 64)


class NetworkConfig(StrictModel):
    """Shape of a surrogate: what goes in, what is between, what comes out."""

    features: Literal["raw", "physical"]
    """What the network sees of a point."""
    targets: Literal["raw", "log"]
    """Normalised costs as they are, or their natural logarithms."""
    body: Literal["perceptron", "residual"]
    """The paper's perceptron, or residual blocks with LayerNorm and GELU."""
    width: Annotated[int, Field(strict=True, ge=1, le=2**14)] = 256
    """Width of the residual network."""
    blocks: Annotated[int, Field(strict=True, ge=0, le=2**10)] = 3
    """Blocks of the residual network."""

    @property
    def least_bytes(self) -> int:
        """What the weights of the body take at the least, known without making it."""
        if self.body == "residual":
            return 4 * 2 * self.blocks * self.width**2
        return 4 * sum(a * b for a, b in pairwise(PAPER_WIDTHS))


class Perceptron(nn.Sequential):
    """Linear layers with ReLU between them."""

    def __init__(self, inputs: int, outputs: int, widths: tuple[int, ...] = PAPER_WIDTHS) -> None:
        layers: list[nn.Module] = []
        for width in widths:
            layers += [nn.Linear(inputs, width), nn.ReLU()]
            inputs = width
        super().__init__(*layers, nn.Linear(inputs, outputs))


class ResidualBlock(nn.Module):
    """x + W2 GELU(W1 LayerNorm(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, width)
        self.contract = nn.Linear(width, width)
        # A block starts as the identity, so that depth costs nothing early in training.
        nn.init.zeros_(self.contract.weight)
        nn.init.zeros_(self.contract.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[B, width] -> [B, width]."""
        update: torch.Tensor = self.contract(nn.functional.gelu(self.expand(self.norm(hidden))))
        return hidden + update


class ResidualNetwork(nn.Sequential):
    """A linear map in, residual blocks, LayerNorm and a linear map out."""

    def __init__(self, inputs: int, outputs: int, width: int, blocks: int) -> None:
        super().__init__(
            nn.Linear(inputs, width),
            *(ResidualBlock(width) for _ in range(blocks)),
            nn.LayerNorm(width),
            nn.Linear(width, outputs),
        )


class SurrogateNetwork(nn.Module):
    """Raw encoded points to whitened targets, the whitening included.

    The last two targets are total energy and cycles, so their sum (of logarithms) or product (of
    raw values) is the EDP over the algorithmic minimum.
    """

    feature_mean: torch.Tensor
    feature_std: torch.Tensor
    target_mean: torch.Tensor
    target_std: torch.Tensor

    def __init__(self, config: NetworkConfig, structure: Structure, outputs: int) -> None:
        super().__init__()
        self.config = config
        self.features = FEATURES[config.features](structure)
        width = self.features.width
        self.register_buffer("feature_mean", torch.zeros(width))
        self.register_buffer("feature_std", torch.ones(width))
        self.register_buffer("target_mean", torch.zeros(outputs))
        self.register_buffer("target_std", torch.ones(outputs))
        self.body: nn.Module = (
            Perceptron(width, outputs)
            if config.body == "perceptron"
            else ResidualNetwork(width, outputs, config.width, config.blocks)
        )

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Whitened targets [B, O] of raw points [B, F]."""
        outputs: torch.Tensor = self.body(self.describe(points))
        return outputs

    def describe(self, points: torch.Tensor) -> torch.Tensor:
        """Whitened features [B, G] of raw points [B, F]."""
        # Sums of logarithms lose what tells mappings apart in the eight bits of bfloat16.
        with torch.autocast(points.device.type, enabled=False):
            features: torch.Tensor = (self.features(points) - self.feature_mean) / self.feature_std
        return features

    def whiten(self, costs: torch.Tensor) -> torch.Tensor:
        """Whitened targets [B, O] of normalised costs [B, O]."""
        return (as_targets(costs, self.config.targets) - self.target_mean) / self.target_std

    def log_edp(self, points: torch.Tensor) -> torch.Tensor:
        """Logarithm of the predicted EDP over the algorithmic minimum, [B]."""
        return self.log_edp_of(self.forward(points))

    def log_edp_of(self, outputs: torch.Tensor) -> torch.Tensor:
        """The same, of whitened targets [B, O]."""
        return self.log_costs_of(outputs).sum(1)

    def log_costs_of(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logarithms of predicted energy and cycles over their minima, [B, 2]."""
        pair = self._pair(outputs)
        if self.config.targets == "log":
            return pair
        # A network of raw targets may predict a cost below zero, which has no logarithm.
        return pair.clamp(min=SMALLEST_COST).log()

    def energy_and_cycles(self, points: torch.Tensor) -> torch.Tensor:
        """Predicted energy and cycles as targets (raw or logarithms), [B, 2]."""
        return self._pair(self.forward(points))

    def _pair(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs[:, -2:] * self.target_std[-2:] + self.target_mean[-2:]


def as_targets(costs: torch.Tensor, targets: Literal["raw", "log"]) -> torch.Tensor:
    """Normalised costs [B, O] as the network's targets."""
    return costs if targets == "raw" else costs.clamp(min=SMALLEST_COST).log()
