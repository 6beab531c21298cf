"""The on-chip cost model MAESTRO and the off-chip distinct-block model of Marvel."""

from __future__ import annotations

from costmodel.maestro.counts import TENSORS, Counts, Delays, Energies
from costmodel.maestro.mappings import DIMENSIONS, NONE, TILED, UNLIMITED, ClusterMappings
from costmodel.maestro.model import (
    FIDELITIES,
    LEVELS,
    STATUS_REMAINDER,
    MaestroCosts,
    MaestroModel,
    explain,
)
from costmodel.maestro.on_chip import OnChipSpace
from costmodel.maestro.on_chip_search import OnChipOptimum, on_chip_search
from costmodel.maestro.pruning import DATAFLOWS, Pruning
from costmodel.maestro.records import (
    mappings_from_records,
    records_from_mappings,
    score_records,
)

__all__ = [
    "DATAFLOWS",
    "DIMENSIONS",
    "FIDELITIES",
    "LEVELS",
    "NONE",
    "STATUS_REMAINDER",
    "TENSORS",
    "TILED",
    "UNLIMITED",
    "ClusterMappings",
    "Counts",
    "Delays",
    "Energies",
    "MaestroCosts",
    "MaestroModel",
    "OnChipOptimum",
    "OnChipSpace",
    "Pruning",
    "explain",
    "mappings_from_records",
    "on_chip_search",
    "records_from_mappings",
    "score_records",
]
