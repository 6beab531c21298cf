"""Which spatial factors a fan-out allows, and which tensors a level may keep.

Letters: n dimensions, V vectors.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Mapping, Sequence

import numpy as np

from costmodel.arrays.feasibility import fill_beyond_mesh
from costmodel.arrays.tables import Array
from costmodel.exact.restriction import by_parts, check_names
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.lattice import divisors_of
from mapspace.errors import ConfigError


def vectors(space: MapSpace, level: int) -> Array:
    """`[V, n]` the spatial factors that the children of a level have room for."""
    tables, machine = space.tables, space.tables.machine
    if tables.spatial_slot[level] < 0:
        return np.ones((1, tables.sizes.size), np.int64)
    sizes = tuple(tables.sizes.tolist())
    mesh: tuple[int, ...] = ()
    if machine.both[level]:
        found = _vectors(sizes, int(tables.fanout[level]), int(machine.barred[level]), ())
        beyond = np.zeros(len(found), np.int64)
        fill_beyond_mesh(tables, level, found.copy(), beyond)
        return np.asarray(found[beyond == 0])
    if tables.spatial_axis_column[level] >= 0:
        mesh = _mesh_of(space, level)
    return _vectors(sizes, int(tables.fanout[level]), int(machine.barred[level]), mesh)


@functools.lru_cache(maxsize=8)
def _vectors(sizes: tuple[int, ...], fanout: int, barred: int, mesh: tuple[int, ...]) -> Array:
    """As `vectors`: all orders of buffers side by side ask the same.

    Args:
        sizes: of the dimensions.
        fanout: how many children there are.
        barred: the dimensions, as bits, that do not run across them.
        mesh: what `_heights` is told of it; nothing where no factor needs a place.
    """
    found = np.ones((1, 0), np.int64)
    for d, size in enumerate(sizes):
        choices = [1] if (barred >> d) & 1 else [f for f in divisors_of(size) if f <= fanout]
        left = np.repeat(found, len(choices), axis=0)
        found = np.column_stack([left, np.tile(choices, len(found))])
        found = found[found.prod(axis=1) <= fanout]
    if mesh:
        found = found[[bool(_heights(tuple(row), *mesh)) for row in found.tolist()]]
    found.flags.writeable = False
    return found


def _mesh_of(space: MapSpace, level: int) -> tuple[int, int, int, int]:
    """Width, height, what runs along the height alone, as bits, and what has no choice."""
    machine = space.tables.machine
    width, height = space.tables.mesh[level].tolist()
    fixed, barred = int(machine.only_y[level]), int(machine.only_x[level] | machine.only_y[level])
    return width, height, fixed, barred


def every_axes(space: MapSpace, level: int, factors: Array) -> list[int]:
    """All ways to lay factors `[n]` along width and height, as bits of what runs along the height.

    Factors of 1 stay where they are: they make no difference.
    """
    if space.tables.spatial_axis_column[level] < 0:
        return [0]
    return list(_heights(tuple(factors.tolist()), *_mesh_of(space, level)))


@functools.lru_cache(maxsize=100_000)
def _heights(
    factors: tuple[int, ...], width: int, height: int, fixed: int, barred: int
) -> tuple[int, ...]:
    """What may run along the height, as bits: many machines and layers ask the same."""
    free = [d for d, factor in enumerate(factors) if factor > 1 and not (barred >> d) & 1]
    found = []
    for count in range(len(free) + 1):
        for chosen in itertools.combinations(free, count):
            axes = fixed | sum(1 << d for d in chosen)
            up = math.prod(factor for d, factor in enumerate(factors) if (axes >> d) & 1)
            if up <= height and math.prod(factors) // up <= width:
                found.append(axes)
    return tuple(found)


def count_keeps(space: MapSpace) -> int:
    """How many sets `keep_choices` lists: whether a level keeps one tensor is no other's matter."""
    tables, machine = space.tables, space.tables.machine
    found = 1
    for tensor in range(tables.sliding.size):
        fixed = [
            (int(never) >> tensor & 1) or (int(always) >> tensor & 1) or column < 0
            for always, never, column in zip(
                machine.always_kept, machine.never_kept, tables.keep_column, strict=True
            )
        ]
        held = any(
            one and not int(never) >> tensor & 1
            for one, never in zip(fixed, machine.never_kept, strict=True)
        )
        found *= 2 ** fixed.count(0) - (not held)
    return found


def keep_choices(
    space: MapSpace, keep: Mapping[str, Sequence[str]] | None = None
) -> list[tuple[int, ...]]:
    """The sets of tensors, as bits per level, that a mapping may keep: every tensor somewhere.

    Args:
        space: the map space.
        keep: the tensors that a level keeps, for levels where that is not searched.

    Raises:
        ConfigError: an unknown level or tensor, or what the machine does not leave open.
    """
    names, tensors = space.accelerator.level_names, space.workload.tensor_names
    check_names(space, keep or {})
    tables, machine = space.tables, space.tables.machine
    everything = (1 << tables.sliding.size) - 1
    options = []
    for level in range(tables.capacity.size):
        always, never = int(machine.always_kept[level]), int(machine.never_kept[level])
        if tables.keep_column[level] < 0:
            options.append([everything & ~never])
            continue
        options.append(
            sorted({(mask | always) & ~never & everything for mask in range(everything + 1)})
        )
    for name, kept in by_parts(space.accelerator, keep or {}).items():
        level = names.index(name)
        chosen = sum(1 << tensors.index(tensor) for tensor in set(kept))
        if options[level] == [everything] != [chosen]:
            raise ConfigError(
                f"keep.{name}: {space.accelerator.name} keeps every tensor there; bypass: searched "
                "in its file leaves the choice open."
            )
        if chosen not in options[level]:
            raise ConfigError(
                f"keep.{name}: {space.accelerator.name} does not leave it open to keep "
                f"{', '.join(kept) or 'nothing'} there."
            )
        options[level] = [chosen]
    return [
        keeps
        for keeps in itertools.product(*options)
        if not everything & ~functools.reduce(operator.or_, keeps)
    ]
