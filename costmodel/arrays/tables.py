"""A map space as integer arrays: what the compiled passes read.

Letters: n dimensions, S slots, L levels, T tensors, D attributes of a code.

A *slot* is a place where a loop can stand, outermost first: one temporal slot per level and,
below a level that fans out, one spatial slot. On the three-level machines of the papers the
slots are (DRAM temporal, L2 temporal, L2 spatial, L1 temporal).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.imperfect_tilings import (
    IDLE_SHARE,
    MOST_ROWS,
    block_extents,
    last_passes,
    moving_primes,
)
from costmodel.arrays.machine_tables import (
    MachineTables,
    machine_tables,
    served_apart,
    usable_words,
)
from costmodel.arrays.projections import (
    ABSENT,
    grouping_table,
    projection_tables,
    projections_of,
)
from costmodel.compiled.by_reference import read_by_reference
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.packing import Packing, pack
from costmodel.problems.affine import Workload
from mapspace.errors import ConfigError

Array = npt.NDArray[np.int64]

UNBOUNDED = -1

MOST_FACTORS = 1 << 24
"""Numbers in the table of all factorisations, and in that of the allocations of a level's banks."""


NOT_SPLIT = np.zeros((0, 0), dtype=np.int64)
"""Of tables in which no dimension runs along both axes of a mesh, or it makes no difference."""


@read_by_reference
class NestTables(NamedTuple):
    """Everything about a (workload, accelerator) that compiled code needs.

    Dimensions and tensors:
        sizes `[n]`; relevant `[T, n]` 1 where the tensor depends on a dimension larger than 1;
        axis_start `[T + 1]` into the axes; term_start `[axes + 1]` into term_dimension and
        term_coefficient; axis_of `[T, n]` and coefficient_of `[T, n]` the axis (counted within
        the tensor) and coefficient of a dimension, -1 and 0 if none; sliding `[T]` 1 where an
        axis has two or more terms; output the output's index; output_words its size. Beyond what
        a `Workload` may hold: axis_coefficient `[axes, n]` with its sign; tangled `[T]` 1 where a
        dimension stands in two axes; part_kind `[T]` 0 for inputs, else how the part of an output
        that one instance produces is found (`costmodel.arrays.projections`); words `[T]`;
        grouping `[L, T]` how distinct tiles among children are counted, likewise.

    Slots and levels:
        slot_level `[S]`, slot_spatial `[S]`; temporal_slot `[L]`, spatial_slot `[L]` (-1: none);
        capacity `[L]` in words, or in bits where `machine.room` is (-1: unbounded); fanout `[L]`;
        mesh `[L, 2]`; energy `[L]`, hop_energy `[L]` pJ; bandwidth `[L, 2]` words per cycle read
        and written (inf: unlimited); mac_energy `[1]` pJ; macs `[1]`; bypass_on_overflow 0 or 1;
        machine, what later machines have beyond.

    Factorisations:
        row_start `[n + 1]`; factors `[rows, S]` ordered exact factorisations of each dimension in
        lexicographic order; within `[rows, S + 1]` products of the factors from a slot inwards;
        least and most `[S, n]` what factors are between; tall `[rows, L]` of spatial factors
        along both axes of a mesh the part along the height, else 1; none where no row has any.

    Codes:
        orders `[n!, n]` dimensions outermost first, lexicographic; ranks `[n!, n]` their inverse;
        order_start `[2, L]` where the orders of a level's temporal and spatial loops begin: beyond
        the first n! are those of levels whose orders are constrained, the nearest that is left for
        each of all; order_column `[L]`, banks_column `[L]`, keep_column `[L]`,
        spatial_order_column `[L]`, spatial_axis_column `[L]` (-1: no such attribute);
        allocation_start `[L + 1]` into allocations `[rows, T]` banks per tensor; bank_words `[L]`
        room of a bank (0: unbanked).

    Moves:
        prime_dimension, prime_value: every prime factor of every dimension, with multiplicity;
        imperfect 1 where factors have remainders, and these are what moves multiply by; truly 1
        where every element is counted by itself then.
    """

    sizes: Array
    relevant: Array
    axis_start: Array
    term_start: Array
    term_dimension: Array
    term_coefficient: Array
    axis_of: Array
    coefficient_of: Array
    axis_coefficient: Array
    sliding: Array
    tangled: Array
    part_kind: Array
    words: Array
    grouping: Array
    output: int
    output_words: int
    slot_level: Array
    slot_spatial: Array
    temporal_slot: Array
    spatial_slot: Array
    capacity: Array
    fanout: Array
    mesh: Array
    energy: npt.NDArray[np.float64]
    hop_energy: npt.NDArray[np.float64]
    bandwidth: npt.NDArray[np.float64]
    mac_energy: float
    macs: int
    bypass_on_overflow: int
    machine: MachineTables
    row_start: Array
    factors: Array
    within: Array
    least: Array
    most: Array
    orders: npt.NDArray[np.int8]
    ranks: npt.NDArray[np.int8]
    order_start: Array
    order_column: Array
    banks_column: Array
    keep_column: Array
    spatial_order_column: Array
    spatial_axis_column: Array
    allocation_start: Array
    allocations: Array
    bank_words: Array
    prime_dimension: Array
    prime_value: Array
    imperfect: int = 0
    truly: int = 0
    tall: Array = NOT_SPLIT


class Attribute(NamedTuple):
    """One column of a code: `kind` is tiling, order, banks, keep, spatial-order or spatial-axis."""

    name: str
    kind: str
    cardinality: int


def prime_factors(number: int) -> list[int]:
    """Prime factors with multiplicity, ascending; empty for 1."""
    primes = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            primes.append(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        primes.append(number)
    return primes


@lru_cache(maxsize=65536)
def ordered_factorisations(number: int, parts: int) -> Array:
    """All ordered factorisations of `number` into `parts` factors.

    Returns:
        `[rows, parts]` int64 in lexicographic order, read-only.
    """
    rows = np.ones((1, parts), dtype=np.int64)
    for prime, group in itertools.groupby(prime_factors(number)):
        exponent = len(list(group))
        rows = (rows[:, None, :] * prime ** _compositions(exponent, parts)).reshape(-1, parts)
    rows = np.ascontiguousarray(rows[np.lexsort(rows.T[::-1])])
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=256)
def _compositions(total: int, parts: int) -> Array:
    """All ordered sums of `parts` non-negative terms that make `total`, `[rows, parts]`."""
    bars = np.array(list(itertools.combinations(range(total + parts - 1), parts - 1)))
    bars = bars.reshape(math.comb(total + parts - 1, parts - 1), parts - 1)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, total + parts - 1)))
    result: Array = (np.diff(edges, axis=1) - 1).astype(np.int64)
    return result


@lru_cache(maxsize=4096)
def imperfect_factorisations(size: int, whole: tuple[bool, ...]) -> Array:
    """The factorisations of a size over slots of which some may have remainders.

    Args:
        size: of the dimension.
        whole: `[S]` where no pass may be shorter: fan-outs above buffers.

    Returns:
        `[rows, S]` int64 in lexicographic order, read-only; the exact factorisations are among
        them.
    """
    slots = len(whole)
    found = [ordered_factorisations(size, slots)]
    listed = 0
    for outer, block in _padded_blocks(size):
        if outer * block > size * (1 + IDLE_SHARE) or listed > MOST_ROWS:
            break
        for leading in range(slots - (block > 1)):
            _check_room([block], slots, f"{size:,} with remainders")
            inner = ordered_factorisations(block, max(1, slots - leading - 1))
            rows = np.ones((len(inner), slots), dtype=np.int64)
            rows[:, leading] = outer
            rows[:, leading + 1 :] = inner[:, : slots - leading - 1]
            found.append(rows)
            listed += len(rows)
    rows = np.concatenate(found)
    rows = rows[((last_passes(size, rows) == rows) | ~np.array(whole)).all(axis=1)]
    rows = np.ascontiguousarray(rows[np.lexsort(rows.T[::-1])])
    rows.flags.writeable = False
    return rows


def _padded_blocks(size: int) -> Iterator[tuple[int, int]]:
    """Passes over equal blocks of which the last is shorter, and their size: the least idle first.

    Of a large size few are wanted, so they are not all listed.
    """
    for padded in itertools.count(size + 1):
        idle = padded - size
        if idle >= size:
            return
        for block in ordered_factorisations(padded, 2)[:, 0].tolist():
            if idle < block < size:
                yield padded // block, block


def _check_room(sizes: Iterable[int], parts: int, title: str) -> None:
    """Refuses sizes whose factorisations have no room in a table.

    Raises:
        ConfigError: what there would be.
    """
    count = 0
    for size in sizes:
        exponents = Counter(prime_factors(size)).values()
        count += parts * math.prod(math.comb(e + parts - 1, parts - 1) for e in exponents)
    if count > MOST_FACTORS:
        raise ConfigError(
            f"{title}: the factorisations of its sizes over {parts} loops are {count:.3g} numbers; "
            f"expected at most {MOST_FACTORS:,}: search smaller sizes, or on fewer levels."
        )


@lru_cache(maxsize=16)
def _permutations(count: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """All permutations in lexicographic order `[count!, count]`, and their inverses."""
    orders = np.array(list(itertools.permutations(range(count))), dtype=np.int8)
    ranks = np.argsort(orders, axis=1).astype(np.int8)
    orders.flags.writeable = False
    ranks.flags.writeable = False
    return orders, ranks


@lru_cache(maxsize=64)
def level_tables(accelerator: Accelerator, units: tuple[int, ...]) -> dict[str, Any]:
    """The fields of `NestTables` that are about the machine alone, but for its choices.

    Args:
        accelerator: the machine.
        units: `[L]` parts of a word that capacities are counted in.
    """
    levels = accelerator.levels
    return {
        "capacity": np.array(
            [
                UNBOUNDED if lv.capacity_words is None else usable_words(lv, unit)
                for lv, unit in zip(levels, units, strict=True)
            ],
            dtype=np.int64,
        ),
        "fanout": np.array([level.fanout for level in levels], dtype=np.int64),
        "mesh": np.array([level.width_height for level in levels], dtype=np.int64),
        "energy": np.array([level.word_energy_pj for level in levels]),
        "hop_energy": np.array([level.hop_energy_pj for level in levels]),
        "bandwidth": np.array(
            [
                [math.inf if b is None else b for b in (lv.read_bandwidth, lv.write_bandwidth)]
                for lv in levels
            ]
        ),
        "mac_energy": accelerator.mac_energy_pj,
        "bypass_on_overflow": int(accelerator.overflow == "bypass"),
    }


def _check_utilisation(
    workload: Workload, accelerator: Accelerator, machine: MachineTables, packing: Packing
) -> None:
    """Refuses a level that must hold more than all tensors that it can hold are together."""
    for index, level in enumerate(accelerator.levels):
        first, stop = machine.sharing[index]
        room = sum(
            workload.words(t) * int(machine.room[index, t])
            for t in range(len(workload.tensors))
            # Levels that share a room fill it together.
            if not all(never >> t & 1 for never in machine.never_kept[first:stop])
        )
        least = machine.least_room[index]
        if least > room:
            asked, most = (amount / int(packing.unit[index]) for amount in (least, room))
            raise ConfigError(
                f"accelerator.levels[{level.name}].min_utilisation: {level.min_utilisation:g} asks "
                f"for {asked:g} words, and the whole tensors of {workload.name} that it can hold "
                f"have {most:g}; expected at most {room * level.min_utilisation / least:.2g}."
            )


def _check_perfect(accelerator: Accelerator) -> None:
    """Refuses dimensions along both axes of a mesh where more than their product would matter.

    And rooms that several levels share where loops have remainders, and what is not counted with
    link transfers.
    """
    if accelerator.link_transfers:
        _check_links(accelerator)
    shared = next((name for level in accelerator.levels if (name := level.shares)), None)
    if shared is not None and accelerator.factors == "imperfect":
        raise ConfigError(
            f"accelerator.factors: expected perfect where levels share the room of {shared}, got "
            "imperfect; leave shares, or tiles: apart, out."
        )
    for level in filter(accelerator.takes_both_axes, accelerator.levels):
        where = f"accelerator.levels[{level.name}].axes: both axes for one dimension"
        if accelerator.factors == "imperfect":
            raise ConfigError(f"{where} need factors: perfect, got imperfect; give axes: one.")
        if level.hop_energy_pj > 0 or level.router_pj > 0:
            key = "hop_energy_pj" if level.hop_energy_pj > 0 else "router_pj"
            raise ConfigError(
                f"{where} are for meshes without hops, and this one has {key}; give axes: one."
            )


def _check_links(accelerator: Accelerator) -> None:
    """Refuses what is not counted with link transfers."""
    where = "accelerator.link_transfers: expected false where"
    if accelerator.factors == "imperfect":
        raise ConfigError(f"{where} factors are imperfect, got true.")
    for level in accelerator.levels:
        if accelerator.takes_both_axes(level):
            raise ConfigError(f"{where} a dimension may run along both axes of a mesh, got true.")
        if level.shares is not None or accelerator.has_tiles_apart(level):
            raise ConfigError(f"{where} levels share one room (tiles: apart), got true.")


def build_tables(
    workload: Workload, accelerator: Accelerator
) -> tuple[NestTables, tuple[Attribute, ...]]:
    """Lays out the map space of a workload on an accelerator.

    Returns:
        The tables, and one attribute per code column: a tiling per dimension, an order per level,
        then, where the machine makes them a choice, spatial orders and axes (mesh), bank
        allocations and kept tensors, outer level first.

    Raises:
        ConfigError: a level has fewer banks than the workload has tensors, or keeps, bypasses or
            spreads something that the workload has not.
    """
    levels = accelerator.levels
    names = workload.dimension_names
    tensor_names = workload.tensor_names
    _check_perfect(accelerator)
    indexing = {tensor.name: tensor.dimensions for tensor in workload.tensors}
    packing = pack(accelerator, workload.bits_by_tensor)
    machine = machine_tables(accelerator, workload.roles, names, indexing=indexing, packing=packing)
    _check_utilisation(workload, accelerator, machine, packing)
    slots, temporal_slot, spatial_slot = _slots(accelerator)
    tilings, factors, within = _tilings(workload, slots, accelerator)
    orders, ranks = _permutations(len(names))

    attributes = [
        Attribute(f"tiling.{name}", "tiling", len(rows))
        for name, rows in zip(names, tilings, strict=True)
    ]

    allocations = _allocation_tables(workload, accelerator)
    columns = {
        kind: np.full(len(levels), ABSENT, dtype=np.int64)
        for kind in ("order", "spatial-order", "spatial-axis", "banks", "keep")
    }
    for kind, index, count in _choices(accelerator, machine, len(names), allocations):
        columns[kind][index] = len(attributes)
        attributes.append(Attribute(f"{kind}.{levels[index].name}", kind, count))

    imperfect = accelerator.factors == "imperfect"
    primes = [
        (d, prime)
        for d, size in enumerate(workload.dimensions.values())
        for prime in moving_primes(size, prime_factors(size), imperfect=imperfect)
    ]
    projected = projection_tables(workload.dimensions, projections_of(workload))
    tables = NestTables(
        **projected,
        grouping=grouping_table(projected, served_apart(accelerator)),
        output=len(tensor_names) - 1,
        output_words=workload.words(len(tensor_names) - 1),
        macs=workload.macs,
        **level_tables(accelerator, tuple(packing.unit.tolist())),
        machine=machine,
        slot_level=np.array([level for level, _ in slots], dtype=np.int64),
        slot_spatial=np.array([spatial for _, spatial in slots], dtype=np.int64),
        temporal_slot=np.array(temporal_slot, dtype=np.int64),
        spatial_slot=np.array(spatial_slot, dtype=np.int64),
        row_start=np.concatenate([[0], np.cumsum([len(rows) for rows in tilings])]),
        factors=factors,
        within=within,
        least=np.ones((len(slots), len(names)), dtype=np.int64),
        most=np.tile(workload.sizes, (len(slots), 1)),
        orders=orders,
        ranks=ranks,
        order_start=np.zeros((2, len(levels)), dtype=np.int64),
        order_column=columns["order"],
        banks_column=columns["banks"],
        keep_column=columns["keep"],
        spatial_order_column=columns["spatial-order"],
        spatial_axis_column=columns["spatial-axis"],
        allocation_start=np.concatenate([[0], np.cumsum([len(rows) for rows in allocations])]),
        allocations=np.concatenate(allocations),
        bank_words=np.array(
            [(lv.capacity_words or 0) // lv.banks if lv.banks else 0 for lv in levels], np.int64
        )
        * packing.unit,
        prime_dimension=np.array([d for d, _ in primes], dtype=np.int64),
        prime_value=np.array([prime for _, prime in primes], dtype=np.int64),
        imperfect=int(imperfect),
        truly=int(imperfect and accelerator.counting == "true"),
    )
    return tables, tuple(attributes)


def _slots(accelerator: Accelerator) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Level and kind (1: spatial) of every slot; per level its temporal and its spatial slot."""
    slots: list[tuple[int, int]] = []
    temporal, spatial = [], []
    for index, level in enumerate(accelerator.levels):
        temporal.append(len(slots))
        slots.append((index, 0))
        spatial.append(len(slots) if level.fanout > 1 else ABSENT)
        if level.fanout > 1:
            slots.append((index, 1))
    return slots, temporal, spatial


def _allocation_tables(workload: Workload, accelerator: Accelerator) -> list[Array]:
    """Per level the allocations `[A, T]` of its banks to the tensors, none where it has no banks.

    Raises:
        ConfigError: fewer banks than tensors, or banks of a level without limit.
    """
    tensors = len(workload.tensors)
    tables = []
    for level in accelerator.levels:
        if level.banks is None:
            tables.append(np.zeros((0, tensors), dtype=np.int64))
            continue
        if level.banks < tensors:
            raise ConfigError(
                f"Level {level.name} of {accelerator.name} has {level.banks} banks; "
                f"{workload.name} has {tensors} tensors and each needs at least one."
            )
        if level.capacity_words is None:
            raise ConfigError(f"Level {level.name} has banks but no capacity to split.")
        if (count := tensors * math.comb(level.banks - 1, tensors - 1)) > MOST_FACTORS:
            raise ConfigError(
                f"Level {level.name} of {accelerator.name} can give its {level.banks:,} banks to "
                f"{tensors} tensors in ways of {count:.3g} numbers; expected at most "
                f"{MOST_FACTORS:,}."
            )
        tables.append(_compositions(level.banks - tensors, tensors) + 1)
    return tables


def _choices(
    accelerator: Accelerator, machine: MachineTables, dimensions: int, allocations: Sequence[Array]
) -> Iterator[tuple[str, int, int]]:
    """What a code decides beside tilings: the kind, the level and how many values there are.

    Args:
        accelerator: the machine.
        machine: its arrays.
        dimensions: of the operation.
        allocations: `[A, T]` of the banks of each level.
    """
    levels, orders = accelerator.levels, math.factorial(dimensions)
    for index in range(len(levels)):
        yield "order", index, orders
    for index, level in enumerate(levels):
        handed = accelerator.link_transfers and level.fanout > 1
        if level.hop_energy_pj > 0 or (level.router_pj > 0 and level.fanout > 1) or handed:
            yield "spatial-order", index, orders
        # Without hops loops of one dimension along both axes are as one, wherever they lie.
        if level.width_height[1] > 1 and not accelerator.takes_both_axes(level):
            yield "spatial-axis", index, 2**dimensions
    for index, level in enumerate(levels):
        if level.banks is not None:
            yield "banks", index, len(allocations[index])
    if accelerator.bypass == "searched":
        everything = 2 ** allocations[0].shape[1] - 1
        settled = machine.always_kept | machine.never_kept
        for index in range(1, len(levels)):
            # Of tensors that the machine decides on, the code's bits are not read.
            if settled[index] != everything:
                yield "keep", index, everything + 1


def _tilings(
    workload: Workload, slots: Sequence[tuple[int, int]], accelerator: Accelerator
) -> tuple[list[Array], Array, Array]:
    """The factorisations of every dimension, all of them, and the extents of their blocks."""
    sizes = workload.dimensions.values()
    _check_room(sizes, len(slots), f"{workload.name} on {accelerator.name}")
    if accelerator.factors == "perfect":
        return _perfect_tilings(tuple(sizes), len(slots))
    innermost = slots[-1][0]
    # Timeloop takes all children of a fan-out above buffers for full.
    full = accelerator.counting == "timeloop"
    whole = tuple(full and spatial == 1 and level < innermost for level, spatial in slots)
    tilings = [imperfect_factorisations(size, whole) for size in sizes]
    extents = [
        block_extents(rows, last_passes(size, rows))[0]
        for size, rows in zip(sizes, tilings, strict=True)
    ]
    return tilings, np.concatenate(tilings), np.concatenate(extents)


@lru_cache(maxsize=4)
def _perfect_tilings(sizes: tuple[int, ...], slots: int) -> tuple[list[Array], Array, Array]:
    """As `_tilings`: the map spaces of all orders of buffers side by side read the same ones."""
    tilings = [ordered_factorisations(size, slots) for size in sizes]
    factors = np.concatenate(tilings)
    within = np.ones((len(factors), slots + 1), dtype=np.int64)
    within[:, :-1] = np.cumprod(factors[:, ::-1], axis=1)[:, ::-1]
    return tilings, factors, within
