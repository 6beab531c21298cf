"""Marvel's baselines: searches that do not decouple the level-3 tile from the rest.

Their space is every level-3 tile that divides the layer and fits L2 twice x every on-chip mapping
of it; a layer costs what one tile costs x its tiles, one after another. Runtime and energy of
MAESTRO know nothing of DRAM, so that they can prefer tiles that move far more data off chip than
Marvel's; the off-chip cost of what is found therefore stands beside it.

`random` and `brute-force` are Timeloop-like (Marvel, section 4.4): uniform samples, or plain
enumeration in ascending order with nothing pruned but what cannot run.

Letters: T level-3 tiles, B mappings.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator

import numpy as np

from costmodel.machines.accelerators import Accelerator
from costmodel.maestro.distinct_blocks import LAYOUTS, Layer, data_movement_cost, footprint_elements
from costmodel.maestro.mappings import (
    NONE,
    PARALLEL,
    TILED_COLUMNS,
    BoolArray,
    ClusterMappings,
    IntArray,
)
from costmodel.maestro.on_chip_search import OBJECTIVES, model_of
from costmodel.maestro.on_chip_tables import PERMUTATIONS, tile_pairs
from costmodel.maestro.platform import PlacedTile
from costmodel.tile_chains.lattice import divisors_of
from orchestrator.marvel.rows import Result, memory_of

_BATCH = 1 << 13


class JointSpace(PlacedTile):
    """Every fitting level-3 tile of a layer with every on-chip mapping of it.

    Attributes:
        tiles: `[T, 6]` level-3 tiles by `DIMENSIONS`, ascending.
        counts: `[T]` how many of them the layer has.

    Raises:
        ConfigError: the machine is of another kind.
    """

    def __init__(self, layer: Layer, machine: Accelerator) -> None:
        super().__init__(layer, layer.bounds, machine)
        memory = memory_of(machine)
        choices = [
            divisors_of(bound) if column in TILED_COLUMNS else [bound]
            for column, bound in enumerate(layer.bounds)
        ]
        tiles = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, 6)
        held = 2 * memory.element_bytes * footprint_elements(layer, tiles).sum(axis=1)
        self.tiles: IntArray = tiles[held <= memory.capacity_bytes]
        self.counts: IntArray = layer.macs // self.tiles.prod(axis=1)
        # Per dimension the pairs of every size that it has in some tile, one size after another.
        self._tables: list[IntArray] = []
        self._first: list[IntArray] = []
        self._number: list[IntArray] = []
        for column in TILED_COLUMNS:
            sizes, which = np.unique(self.tiles[:, column], return_inverse=True)
            tables = [tile_pairs(int(size), False) for size in sizes]
            lengths = np.array([len(table) for table in tables])
            self._tables.append(np.concatenate(tables))
            self._first.append((np.cumsum(lengths) - lengths)[which])
            self._number.append(lengths[which])

    def sample(self, rng: np.random.Generator, n: int) -> tuple[IntArray, ClusterMappings]:
        """`[n]` tiles drawn uniformly, and of each a mapping drawn uniformly from those that run.

        As in `OnChipSpace.sample(feasible=True)`, uniform means over codes.
        """
        chosen = rng.integers(0, len(self.tiles), n)
        pairs = np.zeros((n, 4, 2), np.int64)
        pending = np.arange(n)
        while pending.size:
            # Several candidates each once few are left, so that a round always fills its batch.
            candidates = np.repeat(pending, max(1, n // len(pending)))
            drawn = self._pairs_of(
                chosen[candidates],
                [rng.integers(0, numbers[chosen[candidates]]) for numbers in self._number],
            )
            good = np.flatnonzero(self.runs(drawn))
            found, first = np.unique(candidates[good], return_index=True)
            pairs[found] = drawn[good[first]]
            pending = np.setdiff1d(pending, found, assume_unique=True)
        order, nesting = rng.integers(0, len(PERMUTATIONS), (2, n))
        return chosen, self._joined(chosen, pairs, order, nesting)

    def ascending(self) -> Iterator[tuple[IntArray, ClusterMappings]]:
        """All mappings of all tiles that can run, in ascending order, in batches."""
        for tile in range(len(self.tiles)):
            shape = (*(int(number[tile]) for number in self._number), *2 * [len(PERMUTATIONS)])
            for start in range(0, math.prod(shape), _BATCH):
                numbers = np.arange(start, min(start + _BATCH, math.prod(shape)))
                *rows, order, nesting = np.unravel_index(numbers, shape)
                chosen = np.full(len(numbers), tile)
                pairs = self._pairs_of(chosen, rows)
                good = self.runs(pairs)
                if good.any():
                    yield (
                        chosen[good],
                        self._joined(chosen[good], pairs[good], order[good], nesting[good]),
                    )

    def runs(self, pairs: IntArray) -> BoolArray:
        """`[B]` whether level-1 tiles and factors `[B, 4, 2]` fit the array and L1."""
        tile, factor = pairs[..., 0], pairs[..., 1]
        fits: BoolArray = (factor > 1).sum(axis=1) <= PARALLEL
        fits &= factor.prod(axis=1) <= self.platform.processing_elements
        fits &= 2 * self.footprint(tile, self.bounds[2]) <= self.platform.l1_capacity
        return fits

    def _pairs_of(self, chosen: IntArray, rows: list[IntArray]) -> IntArray:
        """`[B, 4, 2]` pairs at rows of the tables of so many tiles."""
        return np.stack(
            [
                table[first[chosen] + row]
                for table, first, row in zip(self._tables, self._first, rows, strict=True)
            ],
            axis=1,
        )

    def _joined(
        self, chosen: IntArray, pairs: IntArray, order: IntArray, nesting: IntArray
    ) -> ClusterMappings:
        dims = PERMUTATIONS[nesting]
        factors = np.take_along_axis(pairs[..., 1], dims, axis=1)
        used = np.argsort(factors == 1, axis=1, kind="stable")
        dims = np.take_along_axis(dims, used, axis=1)[:, :PARALLEL]
        factors = np.take_along_axis(factors, used, axis=1)[:, :PARALLEL]
        mappings = self.cluster_mappings(
            order=PERMUTATIONS[order],
            tile=pairs[..., 0],
            parallel_dims=np.where(factors > 1, dims, NONE),
            parallel_factors=factors,
        )
        return dataclasses.replace(mappings, bounds=self.tiles[chosen])


def random_search(
    layer: Layer, machine: Accelerator, groups: int, *, seconds: float, seed: int
) -> Result:
    """The best of uniform samples within a budget of time."""
    started = time.perf_counter()
    space, rng = JointSpace(layer, machine), np.random.default_rng(seed)

    def batches() -> Iterator[tuple[IntArray, ClusterMappings]]:
        while True:
            yield space.sample(rng, _BATCH)

    found = _best_of(space, batches(), groups, started, seconds)
    return {"method": "random", "seed": seed, "budget_s": seconds, **found}


def brute_force(layer: Layer, machine: Accelerator, groups: int, *, seconds: float) -> Result:
    """The best of a plain enumeration within a budget of time."""
    started = time.perf_counter()
    space = JointSpace(layer, machine)
    found = _best_of(space, space.ascending(), groups, started, seconds)
    return {"method": "brute-force", "seed": 0, "budget_s": seconds, **found}


def _best_of(
    space: JointSpace,
    batches: Iterator[tuple[IntArray, ClusterMappings]],
    groups: int,
    started: float,
    seconds: float,
) -> Result:
    """The best of batches, with when it was found, until the time is over."""
    model = model_of(space.accelerator)
    best: dict[str, tuple[float, int, float]] = {}
    evaluated = 0
    complete = True
    for chosen, mappings in batches:
        costs = model.cost(mappings)
        evaluated += len(mappings)
        repeats = groups * space.counts[chosen]
        runtime = costs.counts.runtime_cycles * repeats
        energy = costs.energies.total * repeats
        elapsed = time.perf_counter() - started
        for name, values in zip(OBJECTIVES, (runtime, energy, energy * runtime), strict=True):
            row = int(np.argmin(values))
            if name not in best or values[row] < best[name][0]:
                best[name] = float(values[row]), int(chosen[row]), elapsed
        if elapsed >= seconds:
            complete = False
            break
    return {
        "complete": complete,
        "evaluated": evaluated,
        "fitting": len(space.tiles),
        "best": {
            name: {"value": value, "found_after_s": elapsed, **placed(space, index)}
            for name, (value, index, elapsed) in best.items()
        },
    }


def placed(space: JointSpace, index: int) -> Result:
    """A tile and its off-chip cost in its best layouts."""
    block = memory_of(space.accelerator).block_elements
    tile = space.tiles[index : index + 1]
    moved = data_movement_cost(space.layer, tile, LAYOUTS, block_elements=block)
    return {"tile": tile[0].tolist(), "cost": float(moved.cost.min())}
