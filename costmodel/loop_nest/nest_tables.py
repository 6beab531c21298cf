"""Tables that hold just the mappings of some records, whatever a map space could hold.

A map space tabulates all factorisations of every dimension and all orders of loops. Mappings that
are given need none of that: here a row of the tables is what one record says.

Letters: B mappings, D attributes of a code, n dimensions, L levels, T tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from costmodel.arrays.machine_tables import machine_tables, served_apart
from costmodel.arrays.projections import ABSENT, grouping_table, projection_tables
from costmodel.arrays.remainders import Remainders, fold_remainders
from costmodel.arrays.tables import NOT_SPLIT, Array, NestTables, level_tables
from costmodel.loop_nest.nest_record_models import (
    NestArch,
    NestLevel,
    NestLoops,
    NestProblem,
    is_imperfect,
)
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.packing import pack
from costmodel.space import Codes
from mapspace.errors import ConfigError

NestMapping = tuple[NestLoops, ...]
"""What every level keeps and loops over, outermost first."""


def nest_accelerator(arch: NestArch, *, of_bits: bool = False) -> Accelerator:
    """The machine of a record.

    Args:
        arch: what the record says of it.
        of_bits: whether a tensor says bits, so that the widths of words count.

    Raises:
        ConfigError: a cluster size that does not divide the instances.
    """
    inner = [(step.instances, step.meshX, step.meshY) for step in (*arch.levels[1:], arch.mac)]
    levels = []
    for level, (instances, width, height) in zip(arch.levels, inner, strict=True):
        if level.instances % level.cluster_size:
            raise ConfigError(
                f"arch.levels[{level.name}].cluster_size: expected a divisor of instances = "
                f"{level.instances}, got {level.cluster_size}."
            )
        levels.append(
            _level(level)
            | ({"word_bits": level.word_bits, "packing": level.packing} if of_bits else {})
            | {
                "fanout": instances // level.instances,
                "mesh": (width // level.meshX, height // level.meshY),
            }
        )
    return Accelerator.model_validate(
        {
            "name": arch.name,
            "levels": levels,
            "mac_energy_pj": arch.mac.energy_pj,
            "mac_leakage_pj": arch.mac.leakage_pj,
            "cycles_per_mac": arch.mac.cycles_per_mac,
            "output_fills": arch.output_fills,
            "counting": arch.counting,
            "link_transfers": arch.link_transfers,
        }
    )


def _level(level: NestLevel) -> dict[str, object]:
    network = level.network
    return {
        "name": level.name,
        "capacity_words": level.size_words,
        "technology": level.technology,
        "energy_pj": level.energy_pj,
        "block_words": level.block_size,
        "cluster_size": level.cluster_size,
        "address_pj": level.addr_gen_pj or 0.0,
        "leakage_pj": level.leakage_pj,
        "read_bandwidth": level.read_bandwidth,
        "write_bandwidth": level.write_bandwidth,
        "bandwidth": level.shared_bandwidth,
        "multiple_buffering": level.multiple_buffering,
        "shares": level.shares,
        "min_utilisation": level.min_utilization if level.size_words is not None else 0.0,
        "hop_energy_pj": network.energy_per_hop_pj if network else 0.0,
        "router_pj": network.router_pj if network else 0.0,
        "ingress_pj": network.ingress_pj if network else 0.0,
        "fill_latency": level.network_fill_latency,
        "drain_latency": level.network_drain_latency,
        "array": level.array,
        "startup": level.startup,
        "buffering": level.buffering,
        "spatial": None
        if level.multicast and level.spatial_reduction
        else {"multicast": level.multicast, "reduction": level.spatial_reduction},
    }


def check_nest(problem: NestProblem, arch: NestArch, mapping: NestMapping) -> None:
    """Refuses a mapping that is none of this operation on this machine.

    Raises:
        ConfigError: a level, dimension or tensor that is unknown, missing or named twice, or
            loops that do not run over a size.
    """
    names = [level.name for level in arch.levels]
    if [loops.level for loops in mapping] != names:
        raise ConfigError(
            f"mapping: expected the levels {', '.join(names)} in this order, got "
            f"{', '.join(loops.level for loops in mapping) or 'none'}."
        )
    tensors = {tensor.name for tensor in problem.tensors}
    last = dict.fromkeys(problem.dims, 0)  # the last index that the loops so far reach
    for loops in mapping:
        where = f"mapping[{loops.level}]"
        for name in loops.keep:
            if name not in tensors:
                raise ConfigError(
                    f"{where}.keep: unknown {name!r}; known: {', '.join(sorted(tensors))}."
                )
        _check_banks(arch.levels[names.index(loops.level)], loops, tensors)
        for key, listed in zip(("temporal", "spatial"), loops.listed, strict=True):
            seen = set()
            axes = [loop[2] for loop in loops.spatial] if key == "spatial" else [""] * len(listed)
            for (name, factor, rest), axis in zip(listed, axes, strict=True):
                if name not in last:
                    raise ConfigError(
                        f"{where}.{key}: unknown {name!r}; known: {', '.join(sorted(last))}."
                    )
                if not 1 <= rest <= factor:
                    raise ConfigError(
                        f"{where}.{key}: expected a remainder of {name} from 1 to its factor "
                        f"{factor}, got {rest}."
                    )
                if (name, axis) in seen:
                    along = f" along {axis}" if axis else ""
                    raise ConfigError(f"{where}.{key}: {name!r} has two loops{along}; join them.")
                seen.add((name, axis))
                last[name] = last[name] * factor + rest - 1
    for loops in mapping:
        _check_both_axes(loops, imperfect=is_imperfect(mapping))
    rooms = [level.shares for level in arch.levels if level.shares is not None]
    if rooms and is_imperfect(mapping):
        raise ConfigError(
            f"mapping: expected loops without remainders where levels share the room of {rooms[0]}."
        )
    verb = "run over" if is_imperfect(mapping) else "multiply to"
    for name, index in last.items():
        if index + 1 != problem.dims[name]:
            raise ConfigError(
                f"mapping: the factors of {name} {verb} {index + 1}; "
                f"{problem.name} has {name} = {problem.dims[name]}."
            )


def _check_both_axes(loops: NestLoops, *, imperfect: bool) -> None:
    """Refuses dimensions along both axes where what they cost is not counted."""
    both = loops.across[2]
    where = f"mapping[{loops.level}].spatial"
    if both and imperfect:
        raise ConfigError(
            f"{where}: {next(iter(both))!r} runs along both axes, which is not counted where loops "
            "have remainders."
        )
    if both and _one_order(loops) is None:
        raise ConfigError(
            f"{where}: loops along X and along Y that share {', '.join(both)} stand in two orders; "
            "give one."
        )


def _one_order(loops: NestLoops) -> list[str] | None:
    """Dimensions of spatial loops in an order that those of each axis keep; None: there is none."""
    left = [[name for name, f, axis in loops.spatial if axis == side and f > 1] for side in "YX"]
    found: list[str] = []
    while any(left):
        heads = [names[0] for names in left if names]
        first = next((h for h in heads if all(h not in names[1:] for names in left)), None)
        if first is None:
            return None
        found.append(first)
        left = [[name for name in names if name != first] for names in left]
    return found


def _check_banks(level: NestLevel, loops: NestLoops, tensors: set[str]) -> None:
    """Refuses banks that a level has not, or that are given to some tensors alone."""
    wanted = tensors if level.banks is not None else set()
    if loops.banks.keys() != wanted or sum(loops.banks.values()) > (level.banks or 0):
        raise ConfigError(
            f"mapping[{loops.level}].banks: expected {level.banks or 'no'} banks, given to "
            f"{', '.join(sorted(wanted)) or 'nothing'}, got "
            f"{', '.join(f'{name} {count}' for name, count in loops.banks.items()) or 'none'}."
        )


def nest_tables(
    problem: NestProblem, machine: Accelerator, mappings: Sequence[NestMapping]
) -> tuple[NestTables, Remainders, Codes]:
    """Tables in which the code of the b-th mapping is row b of what is returned beside them.

    Args:
        problem: the operation.
        machine: its machine.
        mappings: of them; `check_nest` found nothing wrong with them.

    Returns:
        The tables, their remainders, and codes `[B, D]`.
    """
    names = list(problem.dims)
    position = {name: d for d, name in enumerate(names)}
    tensors = [tensor.name for tensor in problem.tensors]
    n, levels, batch = len(names), len(machine.levels), len(mappings)
    factors, rests = np.ones((2, n, batch, 2 * levels), dtype=np.int64)
    orders = np.zeros((batch, 2, levels, n), dtype=np.int8)
    masks = np.zeros((batch, 2, levels), dtype=np.int32)  # axes, then kept tensors
    talls = np.ones((n, batch, levels), dtype=np.int64)
    split = False
    for b, mapping in enumerate(mappings):
        for level, loops in enumerate(mapping):
            for k, listed in enumerate(loops.listed):
                for name, factor, rest in listed:
                    factors[position[name], b, 2 * level + k] *= factor
                    rests[position[name], b, 2 * level + k] *= rest
            _, axes, heights = loops.across
            for name, axis in axes.items():
                masks[b, 0, level] |= int(axis == "Y") << position[name]
            for name, tall in heights.items():
                split = True
                talls[position[name], b, level] = tall
            # The loops along the height stand outside those along the width.
            across = _one_order(loops) or []
            for k, ordered in enumerate(([loop[0] for loop in loops.temporal], across)):
                given = [position[name] for name in ordered]
                orders[b, k, level] = given + [d for d in range(n) if d not in given]
            masks[b, 1, level] = sum(1 << tensors.index(name) for name in set(loops.keep))
    codes = np.empty((batch, n + 4 * levels), dtype=np.int32)
    codes[:, :n] = np.arange(batch)[:, None]
    codes[:, n : n + 2 * levels] = np.arange(batch * 2 * levels).reshape(batch, -1)
    codes[:, n + 2 * levels :] = masks.reshape(batch, -1)
    flat = factors.reshape(n * batch, 2 * levels)
    starts = batch * np.arange(n + 1)
    tables = tables_of(problem, machine, flat, starts, orders.reshape(-1, n))
    within, remainders = fold_remainders(flat, rests.reshape(flat.shape))
    if split:
        tables = tables._replace(tall=talls.reshape(n * batch, levels))
    return tables._replace(within=within), remainders, codes


def tables_of(
    problem: NestProblem,
    machine: Accelerator,
    factors: Array,
    row_start: Array,
    orders: npt.NDArray[np.int8],
) -> NestTables:
    """Tables of given factorisations and orders, of machines as timeloop-model judges them.

    A code is `[n + 4 L]`: per dimension its row, then per level its order, the order of its spatial
    loops, the dimensions along the height and the kept tensors, both as bits.

    Args:
        problem: the operation.
        machine: its machine.
        factors: `[rows, 2 L]`, a temporal and a spatial slot per level, dimension by dimension.
        row_start: `[n + 1]` where the rows of each dimension start.
        orders: `[rows, n]` orders of all dimensions, outermost first.
    """
    names, tensors = list(problem.dims), [tensor.name for tensor in problem.tensors]
    n, levels = len(names), len(machine.levels)
    within = np.ones((len(factors), 2 * levels + 1), dtype=np.int64)
    within[:, :-1] = np.cumprod(factors[:, ::-1], axis=1)[:, ::-1]
    columns = n + np.arange(4 * levels).reshape(4, levels)
    roles = {tensor.name: "output" if tensor.output else "input" for tensor in problem.tensors}
    outputs = [t for t, tensor in enumerate(problem.tensors) if tensor.output]
    packing = pack(machine, problem.bits_by_tensor)
    projected = projection_tables(problem.dims, problem.projections)
    none = np.zeros(0, dtype=np.int64)
    return NestTables(
        **projected,
        grouping=grouping_table(projected, served_apart(machine)),
        output=outputs[-1],
        output_words=int(projected["words"][outputs[-1]]),
        **level_tables(machine, tuple(packing.unit.tolist())),
        macs=math.prod(problem.dims.values()),
        machine=machine_tables(machine, roles, names, as_timeloop=True, packing=packing),
        slot_level=np.repeat(np.arange(levels), 2),
        slot_spatial=np.tile([0, 1], levels),
        temporal_slot=2 * np.arange(levels),
        spatial_slot=2 * np.arange(levels) + 1,
        row_start=row_start,
        factors=factors,
        within=within,
        least=np.ones((2 * levels, n), dtype=np.int64),
        most=np.tile(projected["sizes"], (2 * levels, 1)),
        orders=orders,
        ranks=np.argsort(orders, axis=1).astype(np.int8),
        order_start=np.zeros((2, levels), dtype=np.int64),
        order_column=columns[0],
        spatial_order_column=columns[1],
        spatial_axis_column=columns[2],
        keep_column=columns[3],
        banks_column=np.full(levels, ABSENT, dtype=np.int64),
        allocation_start=np.zeros(levels + 1, dtype=np.int64),
        allocations=np.zeros((0, len(tensors)), dtype=np.int64),
        bank_words=np.zeros(levels, dtype=np.int64),
        prime_dimension=none,
        prime_value=none,
        tall=NOT_SPLIT,
    )
