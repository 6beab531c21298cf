"""What the parts of a Marvel study share: a machine's L2, values of whole layers, plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.machines.accelerators import Accelerator
from costmodel.maestro.distinct_blocks import Layer
from costmodel.maestro.on_chip_search import Best
from costmodel.maestro.platform import Platform
from costmodel.maestro.records import records_from_mappings

Result = dict[str, Any]

DRAM_BLOCK_BYTES = 64
"""Table 1."""


@dataclass(frozen=True)
class Memory:
    """What an off-chip search has to know of a machine."""

    capacity_bytes: int
    """Of the L2 buffer."""
    element_bytes: int
    block_elements: int
    """Elements of a DRAM block."""


def memory_of(machine: Accelerator) -> Memory:
    """A machine's L2 and DRAM; words are rounded up to whole bytes."""
    word_bytes = -(-machine.word_bits // 8)
    capacity_bytes = Platform.of(machine).l2_capacity * word_bytes
    return Memory(capacity_bytes, word_bytes, max(1, DRAM_BLOCK_BYTES // word_bytes))


def tiles_of(layer: Layer, tile: tuple[int, ...]) -> int:
    """Level-3 tiles of a layer."""
    return math.prod(bound // size for bound, size in zip(layer.bounds, tile, strict=True))


def scaled(objective: str, value: float, tiles: int) -> float:
    """A level-3 tile's value for so many of them: runtime and energy add up."""
    return value * (tiles * tiles if objective == "edp" else tiles)


def whole_layer(found: Mapping[str, Best], tiles: int) -> dict[str, float]:
    """Values of a layer of so many level-3 tiles, one after another, by objective."""
    return {name: scaled(name, best.value, tiles) for name, best in found.items()}


def bests(found: Mapping[str, Best]) -> Result:
    """The best of every objective as plain data."""
    return {
        name: {
            "runtime": best.runtime_cycles,
            "energy": best.energy,
            "value": best.value,
            "mapping": str(best.described),
            "family": best.described.family,
        }
        for name, best in found.items()
    }


def tile_records(found: Mapping[str, Best]) -> Result:
    """The best mappings of one level-3 tile as records for `mapspace evaluate`, by objective."""
    return {name: records_from_mappings(best.mapping)[0] for name, best in found.items()}
