"""From the mapping of a whole nest's record back to a code of a map space."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from typing import Any

from costmodel.loop_nest.nest_record_models import NestLoops
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import LevelMapping, Mapping
from costmodel.space import Codes
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate


def nest_code(space: MapSpace, levels: Sequence[MappingType[str, Any]]) -> Codes:
    """The code `[D]` of a mapping that `nest_record` wrote.

    Args:
        space: the map space that it is of.
        levels: the record's `mapping`, outermost level first.

    Raises:
        ConfigError: it is no mapping of the space.
    """
    found = [validate(NestLoops, level, "mapping") for level in levels]
    if space.orders is not None:
        order = space.orders.order_of([loops.level for loops in found])
        inside = nest_code(space.orders.spaces[order], levels)
        code: Codes = space.orders.codes(order, inside[None])[0]
        return code
    names = space.accelerator.level_names
    if tuple(loops.level for loops in found) != tuple(names):
        raise ConfigError(
            f"mapping: expected the levels {', '.join(names)}, got "
            f"{', '.join(loops.level for loops in found) or 'none'}."
        )
    for loops, level in zip(found, space.accelerator.levels, strict=True):
        tensors = space.workload.tensor_names if level.banks is not None else ()
        if loops.banks.keys() != set(tensors):
            raise ConfigError(
                f"mapping[{loops.level}].banks: expected of {', '.join(tensors) or 'nothing'}, "
                f"got of {', '.join(loops.banks) or 'nothing'}."
            )
    machine = zip(found, space.accelerator.levels, strict=True)
    parts = [_level(space, loops, level.fanout > 1) for loops, level in machine]
    return space.code(Mapping(tuple(parts), space.workload.tensor_names))


def _level(space: MapSpace, loops: NestLoops, spreads: bool) -> LevelMapping:
    names = space.workload.dimension_names
    for name, *_ in (*loops.temporal, *loops.spatial):
        if name not in names:
            raise ConfigError(f"mapping[{loops.level}]: unknown dimension {name!r}.")
    if loops.spatial and not spreads:
        raise ConfigError(f"mapping[{loops.level}].spatial: the level does not fan out.")
    temporal = {name: factor for name, factor, *_ in loops.temporal}
    across, axes, heights = loops.across
    return LevelMapping(
        name=loops.level,
        temporal={name: temporal.get(name, 1) for name in names},
        order=_all(tuple(temporal), names),
        spatial={name: across.get(name, 1) for name in names} if spreads else {},
        spatial_order=_all(tuple(across), names) if spreads else (),
        spatial_axis=axes,
        spatial_height=heights,
        keep=tuple(loops.keep),
        banks={name: loops.banks[name] for name in space.workload.tensor_names if loops.banks},
    )


def _all(first: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    """Every dimension, those without loops last."""
    return (*first, *(name for name in names if name not in first))
