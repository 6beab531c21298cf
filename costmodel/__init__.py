"""Workloads, accelerators, map spaces and exact cost models.

The way in: `space = MapSpace(workload("resnet-conv4"), accelerator("mm256"))`, then
`LoopNestModel().evaluate(space, space.sample(rng, n))`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mapspace.errors import ConfigError, ContractError, DataError, MapspaceError
from mapspace.lazy import lazy

if TYPE_CHECKING:
    from costmodel.accelerators import Accelerator, Level, accelerator
    from costmodel.affine import Axis, Tensor, Workload
    from costmodel.bounds import Bound, algorithmic_minimum, floor, known_optimum
    from costmodel.costs import OBJECTIVES, Costs, Detail, explain_status
    from costmodel.loop_nest.model import LoopNestModel
    from costmodel.maestro.model import MaestroModel
    from costmodel.map_space.map_space import MapSpace
    from costmodel.map_space.mapping import Mapping
    from costmodel.space import Codes, CostModel, Space
    from costmodel.tiling.space import TilingSpace
    from costmodel.workloads import workload

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
            "Accelerator": "costmodel.accelerators",
            "Axis": "costmodel.affine",
            "Bound": "costmodel.bounds",
            "Codes": "costmodel.space",
            "CostModel": "costmodel.space",
            "Costs": "costmodel.costs",
            "Detail": "costmodel.costs",
            "Level": "costmodel.accelerators",
            "LoopNestModel": "costmodel.loop_nest.model",
            "MaestroModel": "costmodel.maestro.model",
            "MapSpace": "costmodel.map_space.map_space",
            "Mapping": "costmodel.map_space.mapping",
            "OBJECTIVES": "costmodel.costs",
            "Space": "costmodel.space",
            "Tensor": "costmodel.affine",
            "TilingSpace": "costmodel.tiling.space",
            "Workload": "costmodel.affine",
            "accelerator": "costmodel.accelerators",
            "algorithmic_minimum": "costmodel.bounds",
            "explain_status": "costmodel.costs",
            "floor": "costmodel.bounds",
            "known_optimum": "costmodel.bounds",
            "workload": "costmodel.workloads",
        },
    )
