"""The same mapping in the words of the loop-nest model, so that both models can score it."""

from __future__ import annotations

from costmodel.maestro.mappings import TILED, ClusterMappings
from costmodel.map_space.mapping import LevelMapping, Mapping
from costmodel.problems.affine import Workload
from costmodel.problems.workload_families import cnn
from mapspace.errors import ConfigError

LEVELS = ("DRAM", "L2", "L1")
# The loop-nest model's names of the six loops; it has a batch as well, and calls the filter's width
# R where MAESTRO calls it S.
NAMES = ("N", "K", "C", "P", "Q", "R", "S")
TENSORS = ("Weights", "Inputs", "Outputs")


def tile_workload(mappings: ClusterMappings, row: int) -> Workload:
    """The level-3 tile of a mapping as a workload of its own: a whole layer for the loop nest.

    Raises:
        ConfigError: a depthwise tile, whose loop nest has other dimensions.
    """
    if mappings.depthwise[row]:
        raise ConfigError("A depthwise tile has no loop nest over K; expected a convolution.")
    k, c, height, width, p, q = (int(bound) for bound in mappings.bounds[row])
    stride = int(mappings.stride[row])
    return cnn(name="tile", N=1, K=k, C=c, P=p, Q=q, R=width, S=height, stride=stride)


def loop_nest(mappings: ClusterMappings, row: int) -> Mapping:
    """A mapping as loops: everything passes DRAM once, L2 holds the tile and steps through it.

    Args:
        mappings: mappings that divide, not row-stationary.
        row: which of them.

    Returns:
        A mapping of `tile_workload(mappings, row)` on a machine with the levels `LEVELS`.

    Raises:
        ConfigError: a depthwise or row-stationary mapping, or one with a remainder.
    """
    filters = tile_workload(mappings, row).dimensions
    if mappings.row_stationary[row]:
        raise ConfigError("A row-stationary mapping splits the filter; expected a generic one.")
    if problem := mappings.remainder(row):
        raise ConfigError(problem)
    tile = dict(zip(TILED, mappings.tile[row].tolist(), strict=True))
    spread = dict(zip(TILED, mappings.spread[row].tolist(), strict=True))
    bounds = dict(zip(TILED, mappings.tiled_bounds[row].tolist(), strict=True))
    ones = dict.fromkeys(NAMES, 1)
    trips = {name: bounds[name] // (tile[name] * spread[name]) for name in TILED}
    order = tuple(TILED[d] for d in mappings.order[row])
    whole = (*(name for name in NAMES if name not in order), *order)
    return Mapping(
        (
            LevelMapping(LEVELS[0], ones, NAMES, keep=TENSORS),
            LevelMapping(LEVELS[1], ones | trips, whole, ones | spread, NAMES, keep=TENSORS),
            LevelMapping(
                LEVELS[2], ones | tile | {"R": filters["R"], "S": filters["S"]}, NAMES, keep=TENSORS
            ),
        ),
        TENSORS,
    )
