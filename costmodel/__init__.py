"""Workloads, accelerators, map spaces and exact cost models.

The way in: `space = MapSpace(workload("resnet-conv4"), accelerator("mm256"))`, then
`LoopNestModel().evaluate(space, space.sample(rng, n))`.
"""

from __future__ import annotations

from costmodel.accelerator import Accelerator, Level, accelerator
from costmodel.affine import Axis, Tensor, Workload
from costmodel.bounds import Bound, algorithmic_minimum, floor, known_optimum
from costmodel.costs import OBJECTIVES, Costs, Detail, explain_status
from costmodel.errors import ConfigError, ContractError, DataError, MapspaceError
from costmodel.loopnest import LoopNestModel
from costmodel.mapping import Mapping
from costmodel.mapspace import MapSpace
from costmodel.space import Codes, CostModel, Space
from costmodel.workload import workload

__all__ = [
    "OBJECTIVES",
    "Accelerator",
    "Axis",
    "Bound",
    "Codes",
    "ConfigError",
    "ContractError",
    "CostModel",
    "Costs",
    "DataError",
    "Detail",
    "Level",
    "LoopNestModel",
    "MapSpace",
    "Mapping",
    "MapspaceError",
    "Space",
    "Tensor",
    "Workload",
    "accelerator",
    "algorithmic_minimum",
    "explain_status",
    "floor",
    "known_optimum",
    "workload",
]
