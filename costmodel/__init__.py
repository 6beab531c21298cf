"""Workloads, accelerators, map spaces and exact cost models.

The way in: `space = MapSpace(workload("resnet-conv4"), accelerator("mm256"))`, then
`LoopNestModel().evaluate(space, space.sample(rng, n))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mapspace.errors import ConfigError, ContractError, DataError, MapspaceError
from mapspace.lazy import lazy

if TYPE_CHECKING:
    from costmodel.costs import OBJECTIVES, Costs, Detail, explain_status
    from costmodel.loop_nest.model import LoopNestModel
    from costmodel.machines.accelerators import Accelerator, Level, accelerator
    from costmodel.machines.bounds import Bound, algorithmic_minimum, floor, known_optimum
    from costmodel.maestro.model import MaestroModel
    from costmodel.map_space.map_space import MapSpace
    from costmodel.map_space.mapping import Mapping
    from costmodel.problems.affine import Axis, Tensor, Workload
    from costmodel.problems.workloads import workload
    from costmodel.space import Codes, CostModel, Space
    from costmodel.tiling.space import TilingSpace

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
    "MaestroModel",
    "MapSpace",
    "Mapping",
    "MapspaceError",
    "Space",
    "Tensor",
    "TilingSpace",
    "Workload",
    "accelerator",
    "algorithmic_minimum",
    "explain_status",
    "floor",
    "known_optimum",
    "workload",
]

# Compiled code takes longest to import: a command pays for what it uses.
if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Accelerator": "costmodel.machines.accelerators",
            "Axis": "costmodel.problems.affine",
            "Bound": "costmodel.machines.bounds",
            "Codes": "costmodel.space",
            "CostModel": "costmodel.space",
            "Costs": "costmodel.costs",
            "Detail": "costmodel.costs",
            "Level": "costmodel.machines.accelerators",
            "LoopNestModel": "costmodel.loop_nest.model",
            "MaestroModel": "costmodel.maestro.model",
            "MapSpace": "costmodel.map_space.map_space",
            "Mapping": "costmodel.map_space.mapping",
            "OBJECTIVES": "costmodel.costs",
            "Space": "costmodel.space",
            "Tensor": "costmodel.problems.affine",
            "TilingSpace": "costmodel.tiling.space",
            "Workload": "costmodel.problems.affine",
            "accelerator": "costmodel.machines.accelerators",
            "algorithmic_minimum": "costmodel.machines.bounds",
            "explain_status": "costmodel.costs",
            "floor": "costmodel.machines.bounds",
            "known_optimum": "costmodel.machines.bounds",
            "workload": "costmodel.problems.workloads",
        },
    )
