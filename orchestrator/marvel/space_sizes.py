"""How many mappings a layer has before and after decoupling and pruning (Marvel's Table 4).

The paper prints sizes without saying what they count. Here a mapping gives each of the seven loops
(batch 1) a level-1 tile, a parallel factor (its level-2 tile) and a level-3 tile that divide one
another and the bound, at any product of factors that the array holds; each of the two levels of
loops between tiles an order; and each tensor a layout.

- `original`: all of these, with 7! x 7! orders and 4! 3! 3! = 864 layouts.
- `off_chip`, after decoupling: level-3 tiles x 7! orders x 864 layouts.
- `on_chip`, after decoupling: level-1 tiles and factors of the level-3 tile that the off-chip step
  found x 7! orders.
- `off_chip_pruned`: level-3 tiles that fit L2 twice, R and S not tiled, x 36 layouts that differ
  in their innermost axis; the order follows from the slopes. All of them are enumerated.
- `on_chip_pruned`: level-1 tiles and factors that pass Algorithm 1's pruning x the orders of K, C,
  P and Q: 4! = 24, or 12 where tile and filter are square. Fewer are costed, since some of these
  orders cannot differ in cost, and every nesting of parallel dimensions is costed beside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from costmodel.machines.accelerators import Accelerator
from costmodel.maestro import OnChipOptimum, Pruning
from costmodel.maestro.distinct_blocks import LAYOUTS, Layer
from costmodel.maestro.off_chip import OffChipOptimum
from costmodel.tile_chains.lattice import divisors_of

LOOP_ORDERS = math.factorial(7)
ALL_LAYOUTS = math.factorial(4) * math.factorial(3) * math.factorial(3)


def space_sizes(
    layer: Layer,
    machine: Accelerator,
    off_chip: OffChipOptimum,
    on_chip: OnChipOptimum,
    pruning: Pruning,
) -> dict[str, float]:
    """The five sizes, by the names above.

    Args:
        layer: the layer.
        machine: its processing elements bound the parallel factors.
        off_chip: what the off-chip step found.
        on_chip: what the on-chip step found under the pruning.
        pruning: whether symmetry halves the orders.
    """
    elements = machine.processing_elements
    level_3 = math.prod(len(divisors_of(bound)) for bound in layer.bounds)
    everything = _within((_chains_of_layer(bound) for bound in layer.bounds), elements)
    inside = _within((_chains_of_tile(size) for size in off_chip.tile), elements)
    _, _, r, s, p, q = off_chip.tile
    symmetric = pruning.symmetry and (p, r) == (q, s)
    return {
        "original": float(everything * LOOP_ORDERS**2 * ALL_LAYOUTS),
        "off_chip": float(level_3 * LOOP_ORDERS * ALL_LAYOUTS),
        "on_chip": float(inside * LOOP_ORDERS),
        "off_chip_pruned": float(off_chip.fitting * len(LAYOUTS)),
        "on_chip_pruned": float(on_chip.fitting * (12 if symmetric else 24)),
    }


def _chains_of_tile(size: int) -> Counter[int]:
    """Pairs of a level-1 tile and a factor that divide a level-3 tile's size, by the factor."""
    return Counter({factor: len(divisors_of(size // factor)) for factor in divisors_of(size)})


def _chains_of_layer(bound: int) -> Counter[int]:
    """The same over all level-3 tiles of a bound."""
    total: Counter[int] = Counter()
    for size in divisors_of(bound):
        total += _chains_of_tile(size)
    return total


def _within(chains: Iterable[Counter[int]], elements: int) -> int:
    """Combinations over the loops whose factors multiply to at most so many elements."""
    used = Counter({1: 1})
    for loop in chains:
        joined: Counter[int] = Counter()
        for before, ways in used.items():
            for factor, choices in loop.items():
                if before * factor <= elements:
                    joined[before * factor] += ways * choices
        used = joined
    return used.total()
