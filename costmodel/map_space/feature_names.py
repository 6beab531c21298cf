"""Names of the columns of a map space's real vectors."""

from __future__ import annotations

from costmodel.arrays.tables import NestTables
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload


def feature_names(workload: Workload, accelerator: Accelerator, tables: NestTables) -> list[str]:
    """`[F]` in the order of `MapSpace.encode`."""
    names, tensors = workload.dimension_names, workload.tensor_names
    levels = [level.name for level in accelerator.levels]
    t = tables
    slots = t.slot_level.size
    features = [f"problem.{name}" for name in names]
    for level, spatial in zip(t.slot_level, t.slot_spatial, strict=True):
        kind = "spatial" if spatial else "temporal"
        features += [f"{kind}.{levels[level]}.{name}" for name in names]
    features += [f"rank.{level}.{name}" for level in levels for name in names]
    for kind, columns, of in (
        ("banks", t.banks_column, tensors),
        ("keep", t.keep_column, tensors),
        ("spatial-rank", t.spatial_order_column, names),
        ("spatial-axis", t.spatial_axis_column, names),
    ):
        for level_name, column in zip(levels, columns, strict=True):
            features += [f"{kind}.{level_name}.{name}" for name in of] if column >= 0 else []
    if t.imperfect:
        features += [f"rest.{name}" for name in features[len(names) : len(names) * (1 + slots)]]
    return features
