"""Marvel's off-chip search: the best level-3 tile and layouts of a layer, and its loop order.

Source: Chatarasi et al., "Marvel", 2020, sections 3.1 and 4.1; the cost is that of
`costmodel.maestro.distinct_blocks`, whose letters and dimension names hold here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.maestro.distinct_blocks import (
    BLOCK_ELEMENTS,
    DIMENSIONS,
    LAYOUTS,
    OUTPUT_WEIGHT,
    FloatArray,
    IntArray,
    Layer,
    Layout,
    block_table,
    check_parameters,
    footprint_elements,
)
from mapspace.errors import ConfigError, ContractError

Tile = tuple[int, ...]


@dataclass(frozen=True)
class OffChipOptimum:
    """The least data movement of a layer, over all tiles and the given layouts.

    Attributes:
        tile: `[6]` level-3 tile in the order of `DIMENSIONS`.
        layout: innermost axes of the three tensors.
        blocks: `[3]` distinct blocks of weights, inputs and outputs of one tile.
        cost: weighted blocks per multiply-accumulate.
        total_blocks: cost x multiply-accumulates of the layer: weighted blocks if every tile
            moves all of its data.
        tied_tiles: tiles that cost the same in the same layout, this one first.
        tiles: how many tiles were enumerated.
        fitting: how many of them fit.
        footprint_bytes: `[3]` bytes of the tile's weights, inputs and outputs, each once.
    """

    tile: Tile
    layout: Layout
    blocks: tuple[int, int, int]
    cost: float
    total_blocks: float
    tied_tiles: tuple[Tile, ...]
    tiles: int
    fitting: int
    footprint_bytes: tuple[int, int, int]


def search(
    layer: Layer,
    capacity_bytes: int,
    layouts: Sequence[Layout] = LAYOUTS,
    *,
    element_bytes: int = 1,
    block_elements: int = BLOCK_ELEMENTS,
    output_weight: float = OUTPUT_WEIGHT,
) -> OffChipOptimum:
    """The best of all tiles that divide the bounds, in all layouts: exhaustive.

    Equal costs: the layout first in `layouts` wins, then the tile first in ascending order of
    K, C, P, Q. R and S are not tiled.

    Args:
        layer: the layer.
        capacity_bytes: bytes of the L2 buffer, which holds every tile twice.
        layouts: those to choose from, in the order in which they win ties.
        element_bytes: bytes of an element.
        block_elements: elements of a DRAM block.
        output_weight: what a block of outputs counts against one of weights or inputs.

    Raises:
        ConfigError: no tile fits, or a parameter is out of range.
    """
    tiles, total = _fitting_tiles(layer, capacity_bytes, element_bytes)
    costs = _costs(layer, tiles, layouts, block_elements, output_weight)  # [L, B]
    column, row = divmod(int(np.argmin(costs)), len(tiles))
    cost = float(costs[column, row])
    layout, best = layouts[column], tiles[row : row + 1]
    table = block_table(layer, best, block_elements)
    weights, inputs, outputs = (int(table[t, axis][0]) for t, axis in enumerate(layout))
    held = footprint_elements(layer, best)[0] * element_bytes
    return OffChipOptimum(
        tile=tuple(best[0].tolist()),
        layout=layout,
        blocks=(weights, inputs, outputs),
        cost=cost,
        total_blocks=cost * layer.macs,
        tied_tiles=tuple(map(tuple, tiles[costs[column] == cost].tolist())),
        tiles=total,
        fitting=len(tiles),
        footprint_bytes=(int(held[0]), int(held[1]), int(held[2])),
    )


def least_costs(
    layer: Layer,
    capacity_bytes: int,
    layouts: Sequence[Layout] = LAYOUTS,
    *,
    element_bytes: int = 1,
    block_elements: int = BLOCK_ELEMENTS,
    output_weight: float = OUTPUT_WEIGHT,
) -> FloatArray:
    """The least cost of each layout, its own best tile taken (Figure 6).

    Args:
        layer: the layer.
        capacity_bytes: bytes of the L2 buffer, which holds every tile twice.
        layouts: L of `LAYOUTS`.
        element_bytes: bytes of an element.
        block_elements: elements of a DRAM block.
        output_weight: what a block of outputs counts against one of weights or inputs.

    Returns:
        `[L]` weighted blocks per multiply-accumulate.

    Raises:
        ConfigError: no tile fits, or a parameter is out of range.
    """
    tiles, _ = _fitting_tiles(layer, capacity_bytes, element_bytes)
    least: FloatArray = _costs(layer, tiles, layouts, block_elements, output_weight).min(axis=1)
    return least


def slopes(
    layer: Layer,
    tile: Sequence[int],
    *,
    block_elements: int = BLOCK_ELEMENTS,
    output_weight: float = OUTPUT_WEIGHT,
) -> dict[str, float]:
    """Partial derivatives of the cost along the tile's sizes, without rounding up to blocks.

    Unrounded, the layouts cancel and the cost is `(1 / (P Q) + x y / (K R S P Q) + weight O') /
    block` with x = P + S - 1, y = Q + R - 1 and O' = 1 / (C R S), or 1 / (K R S) where channels
    stay apart; so depthwise layers have no slope along C.

    Args:
        layer: the layer.
        tile: `[6]` sizes in the order of `DIMENSIONS`.
        block_elements: elements of a DRAM block.
        output_weight: what a block of outputs counts against one of weights or inputs.

    Returns:
        Slopes in weighted blocks per multiply-accumulate and unit of the size, by dimension.

    Raises:
        ConfigError: a parameter is out of range.
        ContractError: the tile does not have six sizes within the bounds.
    """
    within = [1 <= size <= bound for size, bound in zip(tile, layer.bounds, strict=False)]
    if len(tile) != 6 or not all(within):
        raise ContractError(
            f"Expected six sizes between 1 and the bounds {layer.bounds} of {layer.name}, "
            f"got {tuple(tile)}."
        )
    check_parameters(LAYOUTS, block_elements, output_weight)
    k, c, r, s, p, q = map(float, tile)
    x, y = p + s - 1, q + r - 1
    weights, inputs = 1 / (p * q), x * y / (k * r * s * p * q)
    outputs = output_weight / ((k if layer.depthwise else c) * r * s)
    reduced = 0.0 if layer.depthwise else outputs
    along = {
        "K": -(inputs + outputs - reduced) / k,
        "C": -reduced / c,
        "R": -inputs * (1 / r - 1 / y) - outputs / r,
        "S": -inputs * (1 / s - 1 / x) - outputs / s,
        "P": -weights / p - inputs * (1 / p - 1 / x),
        "Q": -weights / q - inputs * (1 / q - 1 / y),
    }
    return {name: slope / block_elements for name, slope in along.items()}


def loop_order(
    layer: Layer,
    tile: Sequence[int],
    *,
    block_elements: int = BLOCK_ELEMENTS,
    output_weight: float = OUTPUT_WEIGHT,
) -> tuple[str, ...]:
    """The level-3 inter-tile loops, outermost first: the most negative slope innermost.

    Loops of a single trip are left out; equal slopes keep the order of `DIMENSIONS`.

    Args:
        layer: the layer.
        tile: `[6]` sizes in the order of `DIMENSIONS`.
        block_elements: elements of a DRAM block.
        output_weight: what a block of outputs counts against one of weights or inputs.

    Raises:
        ConfigError: a parameter is out of range.
        ContractError: the tile does not have six sizes within the bounds.
    """
    along = slopes(layer, tile, block_elements=block_elements, output_weight=output_weight)
    loops = [
        name
        for name, size, bound in zip(DIMENSIONS, tile, layer.bounds, strict=True)
        if size < bound
    ]
    return tuple(sorted(loops, key=lambda name: -along[name]))


def _fitting_tiles(layer: Layer, capacity_bytes: int, element_bytes: int) -> tuple[IntArray, int]:
    """`[B, 6]` tiles that fit, ascending, and how many there are in all."""
    for name, value in (("capacity_bytes", capacity_bytes), ("element_bytes", element_bytes)):
        if value < 1:
            raise ConfigError(f"{name}: expected at least 1, got {value}.")
    choices = [
        [bound] if name in "RS" else [d for d in range(1, bound + 1) if bound % d == 0]
        for name, bound in zip(DIMENSIONS, layer.bounds, strict=True)
    ]
    tiles = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(choices))
    needed = 2 * element_bytes * footprint_elements(layer, tiles).sum(axis=1)
    fits = needed <= capacity_bytes
    if not fits.any():
        smallest = int(np.argmin(needed))
        sizes = ", ".join(f"{n}={v}" for n, v in zip(DIMENSIONS, tiles[smallest], strict=True))
        raise ConfigError(
            f"{layer.name} fits nowhere: its smallest tile ({sizes}) needs {needed[smallest]} "
            f"bytes of the L2 buffer, held twice, which is {needed[smallest] - capacity_bytes} "
            f"more than its {capacity_bytes}."
        )
    return tiles[fits], len(tiles)


def _costs(
    layer: Layer,
    tiles: IntArray,
    layouts: Sequence[Layout],
    block_elements: int,
    output_weight: float,
) -> FloatArray:
    """`[L, B]` weighted blocks per multiply-accumulate."""
    check_parameters(layouts, block_elements, output_weight)
    table = block_table(layer, tiles, block_elements)
    macs = tiles.prod(axis=1)
    return np.stack(
        [(table[0, w] + table[1, i] + output_weight * table[2, o]) / macs for w, i, o in layouts]
    )
