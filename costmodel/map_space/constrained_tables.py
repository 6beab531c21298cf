"""The tables of a map space narrowed to what constraints leave.

Factorisations that are not left are not in the tables. Orders and axes keep their codes: a code is
read as the nearest of what is left, so that every code is a mapping that obeys. Kept tensors are
settled as a machine settles them.
Letters: n dimensions, S slots, L levels.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array, NestTables
from costmodel.map_space.constraints import Constraints, LoopRules
from costmodel.map_space.mapping import Mapping
from costmodel.map_space.moves import find_row, order_index
from costmodel.space import Codes
from mapspace.errors import ConfigError


def constrain(tables: NestTables, rules: Constraints, names: tuple[str, ...]) -> NestTables:
    """Tables of what is left.

    Args:
        tables: of the whole map space.
        rules: what constraints leave of it.
        names: `[n]` of the dimensions, for messages.

    Raises:
        ConfigError: no factorisation of a dimension is left, or a tensor is both kept and bypassed.
    """
    n, slots = tables.sizes.size, rules.slots
    least = np.array([loops.least for loops in slots], dtype=np.int64)
    most = np.array([loops.most for loops in slots], dtype=np.int64)
    starts, left = [0], []
    for d in range(n):
        rows = np.arange(tables.row_start[d], tables.row_start[d + 1])
        found = tables.factors[rows]
        left.append(rows[((found >= least[:, d]) & (found <= most[:, d])).all(axis=1)])
        if not len(left[-1]):
            raise ConfigError(f"constraints: they leave no factorisation of {names[d]}.")
        starts.append(starts[-1] + len(left[-1]))
    rows = np.concatenate(left)
    orders, order_start = _orders(tables, rules)
    machine = tables.machine
    always, never = np.array(rules.keep), np.array(rules.bypass)
    if (always & never).any():
        level = int(np.flatnonzero(always & never)[0])
        raise ConfigError(
            f"constraints: a tensor is to be both kept and bypassed at level {level} (0 is the "
            "outermost), by them or by the machine."
        )
    placed_start, placed = _placed(tables, rules)
    only_x, only_y = _along_one(tables, rules)
    units = math.ceil(rules.parallelism * rules.units)
    units -= units > 1 and (units - 1) / rules.units >= rules.parallelism
    narrowed = machine._replace(
        always_kept=always,
        never_kept=never,
        only_x=only_x,
        only_y=only_y,
        placed_start=placed_start,
        placed=placed,
        least_units=max(1, int(units)),
        restricted=int(
            machine.restricted or units > 1 or bool(never[0]) or bool((placed_start >= 0).any())
        ),
    )
    return tables._replace(
        machine=narrowed,
        row_start=np.array(starts, dtype=np.int64),
        factors=np.ascontiguousarray(tables.factors[rows]),
        within=np.ascontiguousarray(tables.within[rows]),
        least=least,
        most=most,
        orders=orders,
        ranks=np.argsort(orders, axis=1).astype(np.int8),
        order_start=order_start,
    )


def _orders(tables: NestTables, rules: Constraints) -> tuple[npt.NDArray[np.int8], Array]:
    """All orders, then those of constrained levels, and where these begin `[2, L]`."""
    parts = [tables.orders]
    start = np.zeros_like(tables.order_start)
    for kind, listed in enumerate((rules.temporal, rules.spatial)):
        for level, loops in enumerate(listed):
            if loops is None or not (loops.inner or loops.outer):
                continue
            start[kind, level] = sum(map(len, parts))
            parts.append(_nearest_orders(tables.orders, loops))
    return np.ascontiguousarray(np.concatenate(parts)), start


def _nearest_orders(orders: npt.NDArray[np.int8], loops: LoopRules) -> npt.NDArray[np.int8]:
    """Every order with the outer and inner dimensions where they belong, the others as they are."""
    free = np.isin(orders, loops.free)
    between = orders[free].reshape(len(orders), -1)
    head = np.tile(np.array(loops.outer[::-1], dtype=np.int8), (len(orders), 1))
    tail = np.tile(np.array(loops.inner[::-1], dtype=np.int8), (len(orders), 1))
    return np.concatenate([head, between, tail], axis=1).astype(np.int8)


def heights(loops: LoopRules) -> Array:
    """Sets of dimensions, as bits, that some order and split put along the height, ascending."""
    n, free = len(loops.least), loops.free
    bits = np.array([sum(1 << d for k, d in enumerate(free) if (m >> k) & 1)
                     for m in range(1 << len(free))])  # fmt: skip
    found: set[int] = set()
    for split in loops.splits():
        inside = min(len(loops.inner), split)
        beyond = max(0, split - len(loops.inner) - len(free))
        fixed = sum(1 << d for d in (*loops.inner[inside:], *loops.outer[beyond:]))
        tall = n - split - (len(loops.inner) - inside) - (len(loops.outer) - beyond)
        for mask in bits.tolist():
            if mask.bit_count() == tall:
                found.add(mask | fixed)
    return np.array(sorted(found), dtype=np.int64)


def _placed(tables: NestTables, rules: Constraints) -> tuple[Array, Array]:
    """What `MachineTables` has of spatial loops: where each level's part starts, and the parts."""
    n = tables.sizes.size
    start = np.full(len(rules.spatial), -1, dtype=np.int64)
    parts: list[Array] = [np.zeros(0, dtype=np.int64)]
    every = np.arange(1 << n)
    for level, loops in enumerate(rules.spatial):
        left = None if loops is None or tables.machine.both[level] else heights(loops)
        if left is None or len(left) == 1 << n:
            continue
        if tables.spatial_axis_column[level] >= 0:
            apart = np.bitwise_count(every[:, None] ^ left[None, :])
            part = left[apart.argmin(axis=1)]
        else:
            # In a row nothing may run along the height.
            part = ((every[:, None] & left[None, :]) == 0).any(axis=1)
        start[level] = sum(map(len, parts))
        parts.append(part.astype(np.int64))
    return start, np.concatenate(parts)


def _along_one(tables: NestTables, rules: Constraints) -> tuple[Array, Array]:
    """Dimensions, as bits `[L]`, that run along the width only, and the height only.

    Where dimensions may run along both axes at once, orders and splits say it of those whose place
    they fix.

    Raises:
        ConfigError: they fix how many run along the height, and not which.
    """
    machine, n = tables.machine, tables.sizes.size
    only_x, only_y = machine.only_x.copy(), machine.only_y.copy()
    for level in np.flatnonzero(machine.both).tolist():
        left = heights(loops) if (loops := rules.spatial[level]) else np.arange(1 << n)
        tall = int(np.bitwise_and.reduce(left))
        wide = ~int(np.bitwise_or.reduce(left)) & ((1 << n) - 1)
        if len(left) != 1 << (n - (tall | wide).bit_count()):
            raise ConfigError(
                f"constraints: they say how many dimensions run along the height of level {level} "
                "(0 is the outermost), and not which, where one may run along both axes; give "
                "axes: one."
            )
        only_x[level] |= wide
        only_y[level] |= tall
    return only_x, only_y


def as_read(tables: NestTables, codes: Codes, whole: NestTables | None = None) -> Codes:
    """Codes with orders, axes and kept tensors as they are read; new.

    Args:
        tables: of the map space.
        codes: `[B, D]` of it.
        whole: of the map space that it was narrowed from, whose codes are wanted; None: its own.
    """
    machine, read = tables.machine, codes.copy()
    if whole is not None:
        for d in np.flatnonzero(np.diff(tables.row_start) < np.diff(whole.row_start)).tolist():
            rows, place = np.unique(codes[:, d], return_inverse=True)
            found = [find_row(whole, d, tables.factors[tables.row_start[d] + row]) for row in rows]
            read[:, d] = (np.array(found, np.int64) - whole.row_start[d])[place]
    columns = (tables.order_column, tables.spatial_order_column)
    for kind, listed in enumerate(columns):
        for first, column in zip(tables.order_start[kind], listed, strict=True):
            if first > 0 and column >= 0:
                found = tables.orders[first + codes[:, column]].astype(np.int64)
                read[:, column] = [order_index(order) for order in found]
    for level, column in enumerate(tables.spatial_axis_column):
        if column >= 0 and machine.placed_start[level] >= 0:
            read[:, column] = machine.placed[machine.placed_start[level] + codes[:, column]]
    for level, column in enumerate(tables.keep_column):
        if column >= 0:
            read[:, column] |= machine.always_kept[level].astype(np.int32)
            read[:, column] &= ~machine.never_kept[level].astype(np.int32)
    return read


def axes_left(tables: NestTables, level: int) -> Array:
    """Sets of dimensions that may run along a level's height, as bits; none where all may."""
    start = tables.machine.placed_start[level]
    if start < 0 or tables.spatial_axis_column[level] < 0:
        return np.zeros(0, dtype=np.int64)
    left: Array = np.unique(tables.machine.placed[start : start + (1 << tables.sizes.size)])
    return left


def axes_code(tables: NestTables, level: int, axes: int, factors: Array) -> int:
    """Axes that are left and agree with given ones in every loop; the given ones if none does."""
    spread = sum(1 << d for d in np.flatnonzero(factors > 1).tolist())
    agreeing = [a for a in axes_left(tables, level).tolist() if not (a ^ axes) & spread]
    return agreeing[0] if agreeing else axes


def check_obeys(rules: Constraints, tables: NestTables, mapping: Mapping, factors: Array) -> None:
    """Refuses a mapping whose orders or axes constraints do not leave.

    Orders that change no figure are not looked at.

    Args:
        rules: the constraints.
        tables: of the map space.
        mapping: of it, but for constraints.
        factors: `[n, S]` its factors.

    Raises:
        ConfigError: names the level.
    """
    last = len(mapping.levels) - 1
    for index, level in enumerate(mapping.levels):
        place = {name: d for d, name in enumerate(level.temporal)}
        loops, across = rules.temporal[index], rules.spatial[index]
        trips = factors[:, tables.temporal_slot[index]].tolist()
        if index < last and not loops.allows(trips, [place[name] for name in level.order]):
            raise ConfigError(
                f"mapping.{level.name}.perm: the constraints do not leave this order."
            )
        if across is None or tables.machine.both[index]:
            continue
        order = [place[name] for name in level.spatial_order]
        if tables.spatial_order_column[index] < 0:
            order = [*across.outer[::-1], *across.free, *across.inner[::-1]]
        tall = sum(1 << d for name, d in place.items() if level.spatial_axis.get(name) == "Y")
        if not across.allows(factors[:, tables.spatial_slot[index]].tolist(), order, tall):
            raise ConfigError(
                f"mapping.{level.name}.spatial: the constraints do not leave these axes."
            )
