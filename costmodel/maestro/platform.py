"""A level-3 tile on an accelerator, as MAESTRO and Marvel see both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.machines.accelerators import Accelerator
from costmodel.maestro.distinct_blocks import DIMENSIONS, Layer
from costmodel.maestro.mappings import (
    TILED_COLUMNS,
    UNLIMITED,
    C,
    ClusterMappings,
    IntArray,
    K,
    P,
    Q,
)
from costmodel.maestro.on_chip_tables import tile_pairs
from costmodel.maestro.windows import touched
from mapspace.errors import ConfigError


@dataclass(frozen=True)
class Platform:
    """What MAESTRO knows of an accelerator, in elements and cycles."""

    processing_elements: int
    noc_bandwidth: int
    """Elements per cycle, in either direction."""
    l1_capacity: int
    l2_capacity: int
    hop_latency: int = 1

    @classmethod
    def of(cls, accelerator: Accelerator) -> Platform:
        """The platform of an accelerator with one shared level above an array of buffers.

        Raises:
            ConfigError: it is built otherwise, or its network's bandwidths are not one whole
                number.
        """
        levels = accelerator.levels
        feeding = [index for index, level in enumerate(levels) if level.fanout > 1]
        if len(feeding) != 1 or feeding[0] != len(levels) - 2:
            names = ", ".join(levels[index].name for index in feeding) or "none"
            raise ConfigError(
                f"{accelerator.name}: expected a fanout above 1 at the last level but one only, "
                f"got it at: {names}."
            )
        shared, private = levels[-2:]
        width = shared.read_bandwidth
        if width != shared.write_bandwidth or (width is not None and width != int(width)):
            raise ConfigError(
                f"{accelerator.name}: {shared.name}: expected equal, whole bandwidths, "
                f"got {width} and {shared.write_bandwidth}."
            )
        return cls(
            processing_elements=accelerator.processing_elements,
            noc_bandwidth=UNLIMITED if width is None else int(width),
            l1_capacity=private.capacity_words or UNLIMITED,
            l2_capacity=shared.capacity_words or UNLIMITED,
        )


class PlacedTile:
    """A level-3 tile in the shared buffer of a platform; B mappings of it.

    Args:
        layer: the layer; its stride and whether it is depthwise count.
        tile: `[6]` level-3 tile by `DIMENSIONS`, which divides the layer.
        accelerator: the machine.
        remainders: allow pairs whose product does not divide the bound.

    Attributes:
        bounds: `[6]` the level-3 tile, by `DIMENSIONS`.
        platform: the machine's limits.
        pairs: per dimension of `TILED` `[N, 2]` level-1 tiles and parallel factors, ascending.

    Raises:
        ConfigError: the tile does not divide the layer, or the machine is of another kind.
    """

    def __init__(
        self,
        layer: Layer,
        tile: Sequence[int],
        accelerator: Accelerator,
        *,
        remainders: bool = False,
    ) -> None:
        self.layer, self.accelerator, self.remainders = layer, accelerator, remainders
        self.bounds = tuple(int(size) for size in tile)
        if len(self.bounds) != 6:
            raise ConfigError(
                f"{layer.name}: level-3 tile: expected six sizes ({', '.join(DIMENSIONS)}), "
                f"got {self.bounds}."
            )
        for name, size, bound in zip(DIMENSIONS, self.bounds, layer.bounds, strict=True):
            if size < 1 or bound % size:
                raise ConfigError(
                    f"{layer.name}: level-3 tile does not divide {name}: expected a divisor of "
                    f"{bound}, got {size}."
                )
        self.platform = Platform.of(accelerator)
        self.pairs: tuple[IntArray, ...] = tuple(
            tile_pairs(self.bounds[column], remainders) for column in TILED_COLUMNS
        )

    def footprint(self, tile: IntArray, rows: int) -> IntArray:
        """`[B]` elements of level-1 tiles `[B, 4]` under so many filter rows."""
        width = np.array(self.bounds[3])
        stride = np.array(self.layer.stride)
        inputs = tile[:, C] * touched(tile[:, P], width, stride)
        inputs = inputs * touched(tile[:, Q], np.array(rows), stride)
        weights = tile[:, K] * tile[:, C] * rows * width
        channels = tile[:, C if self.layer.depthwise else K]
        elements: IntArray = inputs + weights + channels * tile[:, P] * tile[:, Q]
        return elements

    def cluster_mappings(
        self,
        *,
        order: IntArray,
        tile: IntArray,
        parallel_dims: IntArray,
        parallel_factors: IntArray,
        row_stationary: bool = False,
    ) -> ClusterMappings:
        """Cluster mappings of this tile on this platform, whatever the space holds."""
        batch, p = len(order), self.platform

        def full(value: int) -> IntArray:
            return np.full(batch, value, np.int64)

        return ClusterMappings(
            bounds=np.broadcast_to(np.array(self.bounds, np.int64), (batch, 6)),
            stride=full(self.layer.stride),
            depthwise=np.full(batch, self.layer.depthwise),
            order=order,
            tile=tile,
            parallel_dims=parallel_dims,
            parallel_factors=parallel_factors,
            row_stationary=np.full(batch, row_stationary),
            noc_bandwidth=full(p.noc_bandwidth),
            hop_latency=full(p.hop_latency),
            processing_elements=full(p.processing_elements),
            l1_capacity=full(p.l1_capacity),
            l2_capacity=full(p.l2_capacity),
            strict=not self.remainders,
        )
