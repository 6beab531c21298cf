"""The compiled pass: traffic, energy and cycles of one mapping after another.

The formulas are Timeloop's (v3, dense, perfect factors) in closed form; the names below follow it.
Letters: B mappings, n dimensions, S slots, L levels, T tensors, C classes of multicasts.

All counts are int64 and exact: `Workload` refuses sizes whose counts could leave 62 bits. Energy
and the bandwidth limits are float64, where every count below 2^53 is exact as well.

A machine of the first kind has one energy per level and a network that counts hops: its mappings
take the short way. What a later machine has beyond stands in `NestTables.machine`, and is looked
at where the flags there say that it is needed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from costmodel.arrays.feasibility import Statuses, axes_in_use, check_mapping
from costmodel.arrays.machine_tables import NETWORK_OF_CLASSES, NETWORK_OF_HOPS
from costmodel.arrays.projections import PART_BY_DIVISION, PART_OF_INPUT
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import Array, NestTables
from costmodel.compiled import lean, part
from costmodel.compiled.by_reference import by_reference
from costmodel.costs import STATUS_OK, STATUS_OUTSIDE, FloatArray
from costmodel.loop_nest.added_cycles import cycles_added
from costmodel.loop_nest.link_transfers import Links, count_links, hands_on, list_all_loops
from costmodel.loop_nest.link_words import (
    takes_part,
    words_arrived,
    words_of_all,
    words_of_each,
    words_served,
)
from costmodel.loop_nest.networks import find_classes, hops_per_delivery
from costmodel.loop_nest.spatial_groups import multicast_groups
from costmodel.loop_nest.temporal_reuse import box_words, list_loops, words_entering
from costmodel.space import Codes


@by_reference
class CostArrays(NamedTuple):
    """Where the costs of B mappings go: energy (pJ), latency (cycles), status and excess `[B]`."""

    energy: FloatArray
    latency: FloatArray
    status: Statuses
    excess: Array


@by_reference
class DetailArrays(NamedTuple):
    """Where the figures behind the costs go; all with B = 0 where they are not asked for.

    tiles `[B, L, T]`; counts `[B, 3, L, T]` reads, fills, updates per instance; instances and
    cycles `[B, L]`; network `[B, T]` pJ of the hops; charges `[B, 3, L, T]` pJ of levels, addresses
    and networks; classes `[B, L, T, C, 4]` children per group, groups, accesses and hops of what
    the network below a level carries, or C = 0.
    """

    tiles: Array
    counts: Array
    instances: Array
    cycles: FloatArray
    network: FloatArray
    charges: FloatArray
    classes: FloatArray


def make_details(tables: NestTables, batch: int, *, classes: int = 0) -> DetailArrays:
    """Zeroed arrays for the figures behind `batch` mappings, with room for classes of networks."""
    return _details(batch, tables.capacity.size, tables.sliding.size, classes)


def _details(batch: int, levels: int, tensors: int, classes: int) -> DetailArrays:
    return DetailArrays(
        tiles=np.zeros((batch, levels, tensors), np.int64),
        counts=np.zeros((batch, 3, levels, tensors), np.int64),
        instances=np.zeros((batch, levels), np.int64),
        cycles=np.zeros((batch, levels)),
        network=np.zeros((batch, tensors)),
        charges=np.zeros((batch, 3, levels, tensors)),
        classes=np.zeros((batch, levels, tensors, classes, 4)),
    )


@lru_cache(maxsize=16)
def no_details(levels: int, tensors: int) -> DetailArrays:
    """The arrays where no figures are asked for: they have no entries, so nobody writes there."""
    return _details(0, levels, tensors, 0)


def make_costs(batch: int) -> CostArrays:
    """Arrays for the costs of `batch` mappings, to be filled."""
    return CostArrays(
        np.empty(batch), np.empty(batch), np.empty(batch, np.int32), np.empty(batch, np.int64)
    )


@part
def _count_instances(
    tables: NestTables,
    scratch: Scratch,
) -> None:
    """Fills above and spread `[L]`, the instances in use, and clears the traffic."""
    used = 1
    for level in range(scratch.above.size):
        scratch.above[level] = used
        scratch.accesses[level] = 0
        scratch.reading[level] = 0.0
        scratch.writing[level] = 0.0
        slot = tables.spatial_slot[level]
        spread = 1
        if slot >= 0:
            for d in range(scratch.rows.size):
                spread *= tables.factors[scratch.rows[d], slot]
        scratch.spread[level] = spread
        used *= spread


@part
def _find_parts(
    tables: NestTables,
    scratch: Scratch,
    t: int,
) -> None:
    """Fills part `[L]`: the words of output t that one instance of a level is the first to see."""
    rows, words = scratch.rows, scratch.part
    words[0] = tables.words[t]
    for level in range(1, words.size):
        words[level] = words[level - 1]
        if scratch.spread[level - 1] == 1:
            continue
        slot = tables.spatial_slot[level - 1]
        if tables.part_kind[t] == PART_BY_DIVISION:
            parts = 1
            for d in range(rows.size):
                parts *= tables.factors[rows[d], slot] if tables.relevant[t, d] else 1
            if parts > 1:
                words[level] //= parts
            continue
        inner = box_words(tables, scratch, t, tables.temporal_slot[level])
        spread = box_words(tables, scratch, t, slot)
        # words * inner // spread, without a product that could leave 64 bits.
        whole = words[level] // spread
        words[level] = whole * inner + (words[level] - whole * spread) * inner // spread


@part
def _hops(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    t: int,
    level: int,
) -> float:
    """Hops of one delivery from an instance of a level to its children, of a tensor's tiles."""
    slot = tables.spatial_slot[level]
    for d in range(scratch.rows.size):
        scratch.factor[d] = tables.factors[scratch.rows[d], slot]
        scratch.inside[d] = tables.within[scratch.rows[d], slot + 1]
    hops: float = hops_per_delivery(
        tables, t, tables.mesh[level],
        tables.orders[tables.order_start[1, level] + code[tables.spatial_order_column[level]]],
        axes_in_use(tables, level, code), scratch.factor, scratch.inside, scratch,
    )  # fmt: skip
    return hops


@part
def _charge_network(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    place: tuple[int, int, int],
    through: int,
    delivered: int,
    details: DetailArrays,
    links: Links | None,
) -> float:
    """Energy of what the network below a level carries of a tensor, pJ.

    Args:
        tables: the map space.
        scratch: working memory; parts of an output are found.
        code: `[D]`.
        place: the mapping's row in the details, the level and the tensor.
        through: words that pass between one child and what stands below it.
        delivered: words that enter the tile of one child, whether it is kept there or not.
        details: takes the classes where they have room for them.
        links: with what the network carries; None: children hand nothing to their neighbours.
    """
    b, level, t = place
    machine = tables.machine
    again = tables.part_kind[t] != PART_OF_INPUT and machine.dram[level] > 0
    if links is None:
        classes = scratch.classes
        found = find_classes(tables, scratch, code, t, level)
        for i in range(found):
            classes[i, 3] = delivered * classes[i, 2]
            classes[i, 2] = delivered * classes[i, 1]
    else:
        classes = links.classes
        found = links.found[0]
    children = float(scratch.spread[level])
    words = 0.0
    # In the order of Timeloop's divisions: what is cut off below shows it.
    for i in range(found):
        words += classes[i, 0] * classes[i, 2]
    scale = 1.0
    if not takes_part(scratch, level + 1, t):
        scale = through * children / words
    energy = 0.0
    routed = 0.0
    for i in range(found):
        accesses, hops = classes[i, 2] * scale, classes[i, 3]
        if again:
            # A memory outside the chip is read before it is updated, but for what is new.
            accesses = 2 * accesses - (scratch.part[level] if scratch.kept[level, t] else 0)
        # Timeloop skips the hops of what has no accesses: all words of those children are new.
        carried = hops if accesses > 0 else 0.0
        energy += carried * tables.hop_energy[level] + machine.ingress[level] * accesses
        if accesses > 0:
            routed = np.floor(routed + (1 + np.floor(hops / accesses)) * accesses)
        if details.classes.shape[3] > i:
            details.classes[b, level, t, i, 0] = classes[i, 0]
            details.classes[b, level, t, i, 1] = classes[i, 1]
            details.classes[b, level, t, i, 2] = accesses
            details.classes[b, level, t, i, 3] = hops
    energy += machine.router[level] * routed
    if links is not None:  # noqa: SIM102 - by itself it decides what is compiled
        if takes_part(scratch, level + 1, t):
            energy += links.words[2] * (tables.hop_energy[level] + 2 * machine.router[level])
    energy *= scratch.above[level]
    if details.charges.shape[0] > 0:
        details.charges[b, 2, level, t] = energy
    return energy


@part
def _through_links(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    place: tuple[int, int, int],
    words: tuple[int, int, int],
    ends: tuple[int, int],
    details: DetailArrays,
    links: Links,
) -> tuple[int, int, int, int, float]:
    """What passes the network below a level, and the one above it, where neighbours hand words on.

    Args:
        tables: the map space.
        scratch: working memory.
        code: `[D]`.
        place: the mapping's row in the details, the level and the tensor.
        words: that pass between a child and what stands below it, that enter a child's tile, and
            1 where the links hold what the network below the level carries.
        ends: the outermost level that keeps the tensor, and how many loops there are.
        details: of the mapping.
        links: working memory.

    Returns:
        Words that an instance of the level delivers, that enter it, that it hands on, 1 where the
        links hold what the network above carries, and energy of the network below, pJ.
    """
    _, level, t = place
    entering, delivered, linked = words
    handed, hops, every = 0, 0.0, details.classes.shape[3] > 0
    if linked > 0:
        hops = _charge_network(tables, scratch, code, place, entering, delivered, details, links)
        entering = words_served(scratch, links, level, t, entering)
    else:
        if tables.machine.network[level] > 0:
            hops = _charge_network(tables, scratch, code, place, entering, delivered, details, None)
        entering = words_of_all(tables, scratch, level, t, entering, delivered)
    linked = 0
    if level > ends[0]:
        if every or hands_on(tables, scratch, links, t, level - 1):
            linked = 1
            count_links(tables, scratch, links, code, t, level - 1)
            delivered, handed = words_arrived(scratch, links, level, t)
        else:
            delivered = words_of_each(tables, scratch, level, t, ends[1])
    return entering, delivered, handed, linked, hops


@part
def _count_tensor(
    tables: NestTables,
    scratch: Scratch,
    code: Codes,
    t: int,
    loops: tuple[int, int],
    b: int,
    details: DetailArrays,
    links: Links | None,
) -> float:
    """Counts what is done for tensor t at every level; returns the energy of its hops, pJ.

    Fills counts `[3, L, T]` of the scratch, and adds to accesses, reading and writing.
    """
    kept, tile, counts = scratch.kept, scratch.tile, scratch.counts
    machine = tables.machine
    steps = loops[1] * machine.cycles_per_mac
    noted = machine.separate or machine.asking or details.tiles.shape[0] > 0
    outermost = 0
    while not kept[outermost, t]:
        outermost += 1
    produced = tables.part_kind[t] != PART_OF_INPUT
    if produced:
        _find_parts(tables, scratch, t)
    # From the inside out: `entering` words pass between a level and what stands below it.
    entering = delivered = loops[1]
    hops = 0.0
    linked = 0
    if links is not None:
        last = kept.shape[0] - 1
        if details.classes.shape[3] > 0 or hands_on(tables, scratch, links, t, last):
            linked = 1
            count_links(tables, scratch, links, code, t, last)
    for level in range(kept.shape[0] - 1, outermost - 1, -1):
        network = machine.network[level]
        handed = 0
        if links is not None:
            entering, delivered, handed, linked, more = _through_links(
                tables, scratch, code, (b, level, t), (entering, delivered, linked),
                (outermost, loops[0]), details, links,
            )  # fmt: skip
            hops += more
        else:
            if network == NETWORK_OF_CLASSES:
                hops += _charge_network(
                    tables, scratch, code, (b, level, t), entering, delivered, details, links
                )
            elif network == NETWORK_OF_HOPS:
                delivery = _hops(tables, scratch, code, t, level)
                hops += delivery * tables.hop_energy[level] * entering * scratch.above[level]
            if scratch.spread[level] > 1:
                entering *= multicast_groups(tables, scratch, t, level)
            if level > outermost and (kept[level, t] or machine.classed):
                words = tile[level, t]
                if not kept[level, t]:
                    words = box_words(tables, scratch, t, tables.temporal_slot[level])
                delivered = words_entering(tables, scratch, t, level, words, loops[0])
        if not kept[level, t]:
            continue
        served = entering
        share = 0
        if level > outermost:
            entering = share = delivered
        reads, fills, updates = served + handed, share, 0
        if produced:
            # The first time that a word is produced at a level, nothing is read.
            reads, updates = served - scratch.part[level] + handed, served
            if level > outermost and not machine.charged:
                fills -= scratch.part[level]
        scratch.accesses[level] += reads + fills + updates
        if machine.bounded[level]:
            # Summed per tensor, as Timeloop does: the rounding up below shows it.
            width = machine.words[level, t]
            at = machine.sharing[level, 0]
            scratch.reading[at] += width * reads / steps
            scratch.writing[at] += width * (fills + updates) / steps
        if noted:
            counts[0, level, t] = reads
            counts[1, level, t] = fills
            counts[2, level, t] = updates
    return hops


@part
def _charge_level(
    tables: NestTables,
    scratch: Scratch,
    level: int,
) -> float:
    """Energy of a level, pJ, where actions, blocks, clusters or addresses have their own.

    Fills charges `[2, L, T]` of the scratch: the level's and its addresses'.
    """
    machine, counts, charges = tables.machine, scratch.counts, scratch.charges
    clusters = min(scratch.above[level], machine.clusters[level])
    energy = 0.0
    for t in range(counts.shape[2]):
        parts, block = machine.parts[level, t], machine.block[level, t]
        charges[0, level, t] = charges[1, level, t] = 0.0
        if not scratch.kept[level, t]:
            continue
        charge = 0.0
        for action in range(3):
            # Rounded up once, over the whole run: a block is read or written as a whole.
            accesses = counts[action, level, t] * parts
            if block > 1:
                accesses = -(-accesses // block)
            charge += accesses * machine.action[level, action]
        charges[0, level, t] = charge * clusters
        addressed = counts[1, level, t]
        addressed += counts[0 if tables.part_kind[t] == PART_OF_INPUT else 2, level, t]
        charges[1, level, t] = machine.address[level] * clusters * addressed
        energy += charges[0, level, t] + charges[1, level, t]
    return energy


@part
def _level_cycles(
    tables: NestTables,
    scratch: Scratch,
    level: int,
    steps: int,
) -> float:
    """Cycles that a level needs for its traffic, at least `steps`."""
    slowdown = 1.0
    reading, writing = scratch.reading[level], scratch.writing[level]
    if reading > 0:
        slowdown = min(slowdown, tables.bandwidth[level, 0] / reading)
    if writing > 0:
        slowdown = min(slowdown, tables.bandwidth[level, 1] / writing)
    if reading + writing > 0:
        slowdown = min(slowdown, tables.machine.shared[level] / (reading + writing))
    cycles: float = np.ceil(steps / slowdown)
    return cycles


@part
def _has_figures(
    scratch: Scratch,
) -> bool:
    """Whether no count is below zero, which outputs at sums of dimensions can bring about."""
    counts = scratch.counts
    for level in range(counts.shape[1]):
        for t in range(counts.shape[2]):
            if scratch.kept[level, t] and min(counts[0, level, t], counts[1, level, t]) < 0:
                return False
    return True


@part
def _write_details(
    tables: NestTables,
    scratch: Scratch,
    b: int,
    cycles: int,
    details: DetailArrays,
) -> None:
    """Copies the figures of one mapping; networks are written where they are counted."""
    counts = scratch.counts
    for level in range(counts.shape[1]):
        details.instances[b, level] = scratch.above[level]
        details.cycles[b, level] = cycles
        if tables.machine.bounded[level]:
            details.cycles[b, level] = _level_cycles(
                tables, scratch, tables.machine.sharing[level, 0], cycles
            )
        for t in range(counts.shape[2]):
            if not scratch.kept[level, t]:
                continue
            details.tiles[b, level, t] = scratch.tile[level, t]
            accesses = 0
            for action in range(3):
                details.counts[b, action, level, t] = counts[action, level, t]
                accesses += counts[action, level, t]
            if tables.machine.separate:
                details.charges[b, 0, level, t] = scratch.charges[0, level, t]
                details.charges[b, 1, level, t] = scratch.charges[1, level, t]
            else:
                energy = accesses * scratch.above[level] * tables.energy[level]
                details.charges[b, 0, level, t] = energy


@lean
def evaluate_mappings(
    tables: NestTables,
    scratch: Scratch,
    codes: Codes,
    costs: CostArrays,
    details: DetailArrays,
    links: Links | None,
    added: bool | None,
) -> None:
    """Costs of codes `[B, D]`, and the figures behind them where there is room for them.

    Args:
        tables: the map space.
        scratch: working memory.
        codes: `[B, D]`.
        costs: is filled.
        details: is filled where there is room.
        links: working memory where children hand words to their neighbours; None: they do not,
            and what belongs to it is not even compiled.
        added: whether cycles are added to computing and ports (`adds_cycles`); likewise.
    """
    machine = tables.machine
    levels = tables.capacity.size
    for b in range(codes.shape[0]):
        code = codes[b]
        costs.status[b], costs.excess[b] = check_mapping(
            tables, code, scratch.rows, scratch.kept, scratch.tile
        )
        if costs.status[b] != STATUS_OK:
            costs.energy[b] = np.inf
            costs.latency[b] = np.inf
            continue
        loops = list_loops(tables, scratch, code)
        _count_instances(tables, scratch)
        if links is not None:
            list_all_loops(tables, scratch, links, code)
        hop_energy = 0.0
        for t in range(tables.sliding.size):
            hops = _count_tensor(tables, scratch, code, t, loops, b, details, links)
            hop_energy += hops
            if details.network.shape[0] > 0:
                details.network[b, t] = hops
        steps = loops[1] * machine.cycles_per_mac
        total = tables.macs * tables.mac_energy + hop_energy
        slowest = float(steps)
        waited = 0.0
        if added is not None:
            slowest, waited = cycles_added(tables, scratch, steps, loops)
        for level in range(levels):
            if machine.separate:
                total += _charge_level(tables, scratch, level)
            else:
                total += scratch.accesses[level] * scratch.above[level] * tables.energy[level]
            if machine.bounded[level]:
                slowest = max(slowest, _level_cycles(tables, scratch, level, steps))
        slowest += waited
        slowest += machine.waiting
        if machine.separate:
            for level in range(levels):
                total += machine.leakage[level] * slowest * scratch.above[level]
            units = scratch.above[levels - 1] * scratch.spread[levels - 1]
            total += machine.leakage[levels] * slowest * units
        if details.tiles.shape[0] > 0:
            _write_details(tables, scratch, b, steps, details)
        costs.energy[b] = total
        costs.latency[b] = slowest
        if machine.cumulative and not _has_figures(scratch):
            costs.status[b], costs.excess[b] = STATUS_OUTSIDE, 0
            costs.energy[b] = np.inf
            costs.latency[b] = np.inf
