"""Layers, machines and level-3 tiles that the on-chip tests share."""

from __future__ import annotations

from typing import Any

import numpy as np

from costmodel import accelerator, workload
from costmodel.machines.accelerators import Accelerator
from costmodel.maestro import OnChipSpace
from costmodel.maestro.distinct_blocks import Layer, layer_of
from costmodel.maestro.off_chip import search

EYERISS, EDGE = accelerator("eyeriss-168"), accelerator("edge-1024")


def machine(elements: int = 8, l1: int = 90, bandwidth: float = 3.0) -> Accelerator:
    network = {"read_bandwidth": bandwidth, "write_bandwidth": bandwidth, "fanout": elements}
    levels = [{"name": "L2", **network}, {"name": "L1", "capacity_words": l1}]
    return accelerator({"extends": "eyeriss-168", "name": "tiny", "levels": levels})


def whole(layer: Layer, platform: Accelerator, **options: Any) -> OnChipSpace:
    return OnChipSpace(layer, layer.bounds, platform, **options)


def table_3(name: str) -> tuple[Layer, tuple[int, ...]]:
    layer = layer_of(workload(f"marvel-{name}"))
    return layer, search(layer, 108 * 1024).tile


DENSE = Layer("dense", K=4, C=2, R=3, S=3, P=4, Q=2)
SQUARE = Layer("square", K=2, C=2, R=3, S=3, P=4, Q=4)
DEPTHWISE = Layer("depthwise", K=1, C=6, R=3, S=3, P=4, Q=2, depthwise=True)
STRIDED = Layer("strided", K=4, C=4, R=1, S=1, P=3, Q=2, stride=2)
WINDOWED = Layer("strided windows", K=2, C=4, R=3, S=3, P=4, Q=2, stride=2)
SMALL = [DENSE, SQUARE, DEPTHWISE, STRIDED, WINDOWED]


def all_codes(space: OnChipSpace) -> np.ndarray:
    grid = np.meshgrid(*map(np.arange, space.cardinality), indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, 6).astype(np.int32)
