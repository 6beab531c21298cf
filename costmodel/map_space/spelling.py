"""Codes spelled out as mappings for people and files, and mappings written as codes.

Letters: D attributes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from costmodel.arrays.remainders import Remainders
from costmodel.arrays.tables import NestTables
from costmodel.machines.accelerators import Accelerator
from costmodel.map_space import moves
from costmodel.map_space.both_axes import heights_of
from costmodel.map_space.constrained_tables import axes_code, check_obeys
from costmodel.map_space.constraints import Constraints
from costmodel.map_space.mapping import LevelMapping, Mapping
from costmodel.problems.affine import Workload
from costmodel.space import Codes
from mapspace.errors import ConfigError


class Spelling(NamedTuple):
    """What codes of a map space with one order of buffers mean.

    Attributes:
        workload: the operation.
        accelerator: the machine.
        tables: the space as arrays.
        remainders: how often loops run in the last pass; None: factors are perfect.
        constraints: what mappings obey; None: there are none.
        attributes: D.
    """

    workload: Workload
    accelerator: Accelerator
    tables: NestTables
    remainders: Remainders | None
    constraints: Constraints | None
    attributes: int

    def mapping(self, code: Codes) -> Mapping:
        """The mapping of a code `[D]`."""
        t = self.tables
        names, tensors = self.workload.dimension_names, self.workload.tensor_names
        rows = t.row_start[:-1] + code[: t.sizes.size]

        def factors(slot: int) -> dict[str, int]:
            return {name: int(t.factors[rows[d], slot]) for d, name in enumerate(names)}

        def rests(slot: int) -> dict[str, int]:
            if self.remainders is None or slot < 0:
                return {}
            return {name: int(self.remainders.rests[rows[d], slot]) for d, name in enumerate(names)}

        def order(column: int, first: int) -> tuple[str, ...]:
            index = first + (code[column] if column >= 0 else 0)
            return tuple(names[d] for d in t.orders[index])

        levels = []
        for index, level in enumerate(self.accelerator.levels):
            slot = int(t.spatial_slot[index])
            axes, keep, banks = (
                int(code[column[index]]) if column[index] >= 0 else None
                for column in (t.spatial_axis_column, t.keep_column, t.banks_column)
            )
            machine = t.machine
            if axes is not None and machine.placed_start[index] >= 0:
                axes = int(machine.placed[machine.placed_start[index] + axes])
            elif axes is not None:
                axes = (axes | int(machine.only_y[index])) & ~int(machine.only_x[index])
            keep = (-1 if keep is None else keep) | int(machine.always_kept[index])
            keep &= ~int(machine.never_kept[index])
            allocation = {}
            if banks is not None:
                row = t.allocations[t.allocation_start[index] + banks]
                allocation = {name: int(row[i]) for i, name in enumerate(tensors)}
            across = factors(slot) if slot >= 0 else {}
            heights = self._heights(index, across)
            levels.append(
                LevelMapping(
                    name=level.name,
                    temporal=factors(int(t.temporal_slot[index])),
                    order=order(int(t.order_column[index]), t.order_start[0, index]),
                    spatial=across,
                    spatial_order=order(int(t.spatial_order_column[index]), t.order_start[1, index])
                    if slot >= 0
                    else (),
                    spatial_axis=_axes_of(across, heights)
                    if heights
                    else {}
                    if axes is None
                    else {name: "Y" if (axes >> d) & 1 else "X" for d, name in enumerate(names)},
                    spatial_height={
                        name: tall for name, tall in heights.items() if 1 < tall < across[name]
                    },
                    keep=tuple(name for i, name in enumerate(tensors) if (keep >> i) & 1),
                    banks=allocation,
                    temporal_rests=rests(int(t.temporal_slot[index])),
                    spatial_rests=rests(slot),
                )
            )
        return Mapping(tuple(levels), tensors)

    def _heights(self, index: int, across: dict[str, int]) -> dict[str, int]:
        """What of spatial factors runs along the height where both axes may; nothing elsewhere."""
        machine = self.tables.machine
        if not machine.both[index]:
            return {}
        mesh = self.accelerator.levels[index].width_height
        sides = int(machine.only_x[index]), int(machine.only_y[index])
        return dict(zip(across, heights_of(list(across.values()), mesh, *sides), strict=True))

    def code(self, mapping: Mapping) -> Codes:
        """The code `[D]` int32 of a mapping.

        Raises:
            ConfigError: as `MapSpace.code`.
        """
        t = self.tables
        names, tensors = self.workload.dimension_names, self.workload.tensor_names
        code = np.zeros(self.attributes, np.int32)
        factors = np.ones((len(names), t.slot_level.size), np.int64)
        for index, level in enumerate(mapping.levels):
            factors[:, t.temporal_slot[index]] = [level.temporal[name] for name in names]
            if t.spatial_slot[index] >= 0:
                factors[:, t.spatial_slot[index]] = [level.spatial[name] for name in names]
            code[t.order_column[index]] = _index(level.order, names)
            if t.spatial_order_column[index] >= 0:
                code[t.spatial_order_column[index]] = _index(level.spatial_order, names)
            if t.spatial_axis_column[index] >= 0:
                along_y = [level.spatial_axis.get(name, "X") == "Y" for name in names]
                axes = sum(y << d for d, y in enumerate(along_y))
                spread = factors[:, t.spatial_slot[index]]
                code[t.spatial_axis_column[index]] = axes_code(t, index, axes, spread)
            if t.keep_column[index] >= 0:
                kept = [name in level.keep for name in tensors]
                code[t.keep_column[index]] = sum(k << i for i, k in enumerate(kept))
            self._check_keep(index, level)
            if t.banks_column[index] >= 0:
                banks = np.array([level.banks.get(name, 0) for name in tensors])
                row = moves.allocation_row(t, index, banks)
                if row < 0:
                    raise ConfigError(
                        f"mapping.{level.name}.banks: expected at least 1 bank per tensor and "
                        f"{self.accelerator.levels[index].banks} in all, got {level.banks}."
                    )
                code[t.banks_column[index]] = row
        for d, name in enumerate(names):
            product = math.prod(int(f) for f in factors[d])
            row = moves.find_row(t, d, factors[d])
            if product != self.workload.dimensions[name] and not (
                t.imperfect and (t.factors[row] == factors[d]).all()
            ):
                raise ConfigError(
                    f"mapping: the factors of {name} multiply to {product}; "
                    f"{self.workload.name} has {name} = {self.workload.dimensions[name]}."
                )
            row = moves.exact_row(t, d, factors[d])
            if row < 0:
                raise ConfigError(f"mapping: the constraints do not leave these factors of {name}.")
            code[d] = row - t.row_start[d]
        if self.constraints is not None:
            check_obeys(self.constraints, t, mapping, factors)
        return code

    def _check_keep(self, index: int, level: LevelMapping) -> None:
        """Refuses kept tensors that the machine does not leave open."""
        tensors, machine = self.workload.tensor_names, self.tables.machine
        always, never = int(machine.always_kept[index]), int(machine.never_kept[index])
        if self.tables.keep_column[index] < 0:
            always = ~never
        must = tuple(name for i, name in enumerate(tensors) if (always >> i) & 1)
        may = tuple(name for i, name in enumerate(tensors) if not (never >> i) & 1)
        if set(must) <= set(level.keep) <= set(may):
            return
        where = f"mapping.keep.{level.name}: {self.accelerator.name}"
        if must == tensors:
            raise ConfigError(f"{where} keeps every tensor there.")
        bypassed = ", ".join(name for name in tensors if name not in may) or "none"
        raise ConfigError(
            f"{where} keeps {', '.join(must) or 'none'} there and bypasses {bypassed}, got "
            f"{', '.join(level.keep) or 'none'}."
        )


def _axes_of(factors: dict[str, int], heights: dict[str, int]) -> dict[str, str]:
    """The axis of every dimension, X where it runs along both."""
    return {name: "Y" if 1 < f == heights[name] else "X" for name, f in factors.items()}


def _index(order: tuple[str, ...], names: tuple[str, ...]) -> int:
    return int(moves.order_index(np.array([names.index(name) for name in order])))
