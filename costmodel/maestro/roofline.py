"""Roofline bounds of a layer on a platform: what Marvel's Figure 8 holds its mappings against.

Source: Chatarasi et al., "Marvel", 2020, section 4.2 and Tables 1 and 2. The paper draws the
attainable performance without giving its formula; the words around it (layers of low intensity
are "bounded by NoC bandwidth") and Table 2's traffic lead to this reading:

    cycles >= max(MACs / processing elements, ingress / bandwidth, egress / bandwidth)

Ingress is every weight and every input that some output uses, once (multicast is free); egress is
every output, once. The two directions of the network are separate, as in MAESTRO. (Table 2 itself
counts the inputs that a stride skips, too.)

MAESTRO does not charge the egress of a mapping's last step, so where egress binds, its runtime
may be below this bound by up to that step's egress.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from costmodel.machines.accelerators import Accelerator
from costmodel.maestro.distinct_blocks import DIMENSIONS, Layer
from mapspace.errors import ConfigError


@dataclass(frozen=True)
class Roofline:
    """A layer's work and traffic, and the cycles that each needs at least."""

    macs: int
    """Multiply-accumulates."""
    ingress_elements: int
    """Weights and inputs that go from the shared buffer to the array."""
    egress_elements: int
    """Outputs that come back."""
    compute_cycles: float
    """With every processing element working all the time."""
    ingress_cycles: float
    """With the network towards the array busy all the time."""
    egress_cycles: float
    """With the network back busy all the time."""

    @property
    def cycles(self) -> float:
        """The bound: the largest of the three."""
        return max(self.compute_cycles, self.ingress_cycles, self.egress_cycles)

    @property
    def binding(self) -> Literal["compute", "ingress", "egress"]:
        """Which of the three it is; compute before ingress before egress where equal."""
        if self.compute_cycles == self.cycles:
            return "compute"
        return "ingress" if self.ingress_cycles == self.cycles else "egress"

    @property
    def macs_per_cycle(self) -> float:
        """Attainable throughput (Figure 8's roofline), MACs per cycle."""
        return self.macs / self.cycles


def roofline(layer: Layer, accelerator: Accelerator, tile: Sequence[int] | None = None) -> Roofline:
    """The bounds of a whole layer, or of a layer that runs level-3 tile by level-3 tile.

    Args:
        layer: the layer; here its stride counts: of the inputs that it skips, none moves.
        accelerator: one with a single level above the array of processing elements, whose
            read bandwidth serves ingress and whose write bandwidth takes egress, both in words
            (elements) per cycle; without a bandwidth that direction takes no time.
        tile: `[6]` level-3 tile sizes that divide the bounds, in the order of `DIMENSIONS`.
            With it, every tile moves all of its data, as a mapper that knows one tile at a time
            counts; without it, the bound holds for any tiling.

    Raises:
        ConfigError: the tile does not divide the layer, or no single level feeds the array.
    """
    sizes = layer.bounds if tile is None else tuple(tile)
    if len(sizes) != 6 or any(
        size < 1 or bound % size for size, bound in zip(sizes, layer.bounds, strict=False)
    ):
        raise ConfigError(
            f"{layer.name}: tile: expected six divisors of {', '.join(DIMENSIONS)} = "
            f"{layer.bounds}, got {sizes}."
        )
    feeding = [level for level in accelerator.levels if level.fanout > 1]
    if len(feeding) != 1:
        raise ConfigError(
            f"{accelerator.name}: expected exactly one level with a fanout above 1, got "
            f"{', '.join(level.name for level in feeding) or 'none'}."
        )
    network = feeding[0]
    k, c, r, s, p, q = sizes
    tiles = layer.macs // math.prod(sizes)
    inputs = c * _used(p, s, layer.stride) * _used(q, r, layer.stride)
    ingress = tiles * (k * c * r * s + inputs)
    egress = tiles * p * q * (c if layer.depthwise else k)
    return Roofline(
        macs=layer.macs,
        ingress_elements=ingress,
        egress_elements=egress,
        compute_cycles=layer.macs / accelerator.processing_elements,
        ingress_cycles=ingress / (network.read_bandwidth or math.inf),
        egress_cycles=egress / (network.write_bandwidth or math.inf),
    )


def _used(outputs: int, window: int, stride: int) -> int:
    """Distinct positions along an axis that `outputs` windows cover."""
    return outputs * min(stride, window) + max(window - stride, 0)
