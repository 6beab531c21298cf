"""The compiled pass over imperfect mappings, by Timeloop's counting.

`cost_kernel` is for perfect ones and stays as fast as it is: with remainders there is no closed
form of Timeloop's counts. Its order of divisions and roundings is kept here, as fills show it.

Letters: B mappings, L levels, T tensors, C classes of multicasts.
"""

from __future__ import annotations

import numpy as np

from costmodel.arrays.feasibility import axes_in_use, axis_extent, check_mapping
from costmodel.arrays.projections import GROUPS_PER_CHILD, PART_OF_INPUT
from costmodel.arrays.remainders import Remainders, WalkScratch
from costmodel.arrays.scratch import Scratch
from costmodel.arrays.tables import NestTables
from costmodel.compiled import lean, part
from costmodel.costs import STATUS_OK, STATUS_OUTSIDE, FloatArray
from costmodel.loop_nest.cost_kernel import (
    CostArrays,
    DetailArrays,
    _charge_level,
    _count_instances,
    _level_cycles,
)
from costmodel.loop_nest.networks import count_classes
from costmodel.loop_nest.remainder_visits import (
    count_runs,
    find_boxes,
    list_walk,
    words_of_blocks,
    words_over_walk,
)
from costmodel.loop_nest.spatial_groups import sort, tile_key
from costmodel.loop_nest.true_counting import cost_truly
from costmodel.space import Codes


@part
def _words(tables: NestTables, scratch: Scratch, t: int, slot: int) -> int:
    """Words of tensor t's block from a slot inwards, where it is largest."""
    words = 1
    for axis in range(tables.axis_start[t], tables.axis_start[t + 1]):
        words *= axis_extent(tables, axis, slot, scratch.rows)
    return words


@part
def _count_children(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    level: int, inside: int,
) -> int:  # fmt: skip
    """Fills children `[n]` with the spatial factors of a level while a set is in its last pass."""
    slot = tables.spatial_slot[level]
    children = 1
    for d in range(scratch.rows.size):
        walk.children[d] = 1
        if slot >= 0:
            walk.children[d] = tables.factors[scratch.rows[d], slot]
            if inside & walk.bit[d]:
                walk.children[d] = remainders.rests[scratch.rows[d], slot]
        children *= walk.children[d]
    return children


@part
def _group_children(
    tables: NestTables, scratch: Scratch, walk: WalkScratch, code: Codes, t: int, level: int
) -> int:
    """As `networks.find_classes`, of as many children as `walk` says."""
    rows, keys, index = scratch.rows, scratch.children, walk.place
    slot = tables.spatial_slot[level]
    axes = axes_in_use(tables, level, code)
    along_x = along_y = children = 1
    for d in range(rows.size):
        children *= walk.children[d]
        if (axes >> d) & 1:
            along_y *= tables.factors[rows[d], slot]
        else:
            along_x *= tables.factors[rows[d], slot]
    width = max(tables.mesh[level, 0], along_x)
    height = max(tables.mesh[level, 1], along_y)
    column = tables.spatial_order_column[level]
    order = tables.order_start[1, level] + (code[column] if column >= 0 else 0)
    apart = tables.grouping[level, t] == GROUPS_PER_CHILD
    for child in range(children):
        rest = child
        for along_height in range(2):
            for position in range(rows.size - 1, -1, -1):
                d = tables.orders[order, position]
                if (axes >> d) & 1 == along_height:
                    index[d] = rest % walk.children[d]
                    rest //= walk.children[d]
        key = child if apart else tile_key(tables, t, slot, rows, index)
        keys[child] = key * children + child
    sort(keys, children)
    if children == 1:
        # One of several, in the last pass: words enter in the middle of the first column.
        classes = scratch.classes
        classes[0, 0], classes[0, 1], classes[0, 2] = 1.0, 1.0, (height - 1) / 2
        return 1
    for child in range(children):
        scratch.served[child] = 0
    found: int = count_classes(scratch, children, width, height)
    return found


@part
def _add_class(
    walk: WalkScratch, level: int, members: float, groups: float, accesses: float, hops: float
) -> None:
    """Adds to the class of groups of so many members, and so many groups; ascending."""
    classes = walk.classes
    place = 0
    found = walk.found[level]
    while place < found and (
        classes[level, place, 0] < members
        or (classes[level, place, 0] == members and classes[level, place, 1] < groups)
    ):
        place += 1
    if place == found or classes[level, place, 0] != members or classes[level, place, 1] != groups:
        for i in range(found, place, -1):
            for k in range(4):
                classes[level, i, k] = classes[level, i - 1, k]
        classes[level, place, 0], classes[level, place, 1] = members, groups
        classes[level, place, 2] = classes[level, place, 3] = 0.0
        walk.found[level] += 1
    classes[level, place, 2] += accesses
    classes[level, place, 3] += hops


@part
def _runs_of(walk: WalkScratch, level: int, inside: int) -> int:
    """Steps at which, of the dimensions that leave children idle, a set is in its last pass."""
    steps = 1
    for d in range(walk.bit.size):
        if walk.idle[level] & walk.bit[d]:
            steps *= walk.runs[d, 1 if inside & walk.bit[d] else 0]
        else:
            steps *= walk.runs[d, 0] + walk.runs[d, 1]
    return steps


@part
def _serve(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    code: Codes, t: int, level: int,
) -> None:  # fmt: skip
    """Finds what passes between a level and its children of tensor t: found and classes."""
    innermost = level == walk.found.size - 1
    walk.found[level] = 0
    blocks = -1
    if not innermost:
        blocks = words_of_blocks(tables, remainders, scratch, walk, t, level + 1)
        if blocks < 0:
            find_boxes(tables, remainders, scratch, walk, t, level + 1)
    idle = walk.idle[level]
    for inside in range(walk.volume.size):
        if inside & ~idle:
            continue
        if innermost:
            words = _runs_of(walk, level, inside)
        elif blocks >= 0:
            words = blocks
        else:
            words = words_over_walk(tables, walk, t, level + 1, inside)
        if words == 0:
            continue
        if walk.spread[level] == 0:
            _add_class(walk, level, 1.0, 1.0, float(words), 0.0)
            continue
        _count_children(tables, remainders, scratch, walk, level, inside)
        groups = _group_children(tables, scratch, walk, code, t, level)
        for i in range(groups):
            _add_class(
                walk, level, scratch.classes[i, 0], scratch.classes[i, 1],
                words * scratch.classes[i, 1], words * scratch.classes[i, 2],
            )  # fmt: skip


@part
def _fanout(tables: NestTables, scratch: Scratch, level: int) -> int:
    """Children in use below one instance of a level."""
    children = 1
    if tables.spatial_slot[level] >= 0:
        for d in range(scratch.rows.size):
            children *= tables.factors[scratch.rows[d], tables.spatial_slot[level]]
    return children


@part
def _pass_through(tables: NestTables, scratch: Scratch, walk: WalkScratch, level: int) -> None:
    """Hands what a level's children ask for on to the next level out, where it is not kept."""
    asked = walk.total[level] * _fanout(tables, scratch, level - 1)
    weighted = 0.0
    for i in range(walk.found[level - 1]):
        weighted += walk.classes[level - 1, i, 2] * walk.classes[level - 1, i, 0]
    total = 0.0
    for i in range(walk.found[level - 1]):
        walk.classes[level - 1, i, 2] *= asked / weighted
        total += walk.classes[level - 1, i, 2]
    walk.total[level - 1] = total


@part
def _charge_classes(
    tables: NestTables, scratch: Scratch, walk: WalkScratch, place: tuple[int, int, int],
    details: DetailArrays,
) -> float:  # fmt: skip
    """Energy of the network below a level, pJ, as `cost_kernel` counts it."""
    b, level, t = place
    machine = tables.machine
    again = tables.part_kind[t] != PART_OF_INPUT and machine.dram[level] > 0
    energy = 0.0
    routed = 0.0
    for i in range(walk.found[level]):
        accesses, hops = walk.classes[level, i, 2], walk.classes[level, i, 3]
        if again:
            accesses = 2 * accesses - (scratch.part[level] if scratch.kept[level, t] else 0)
        if accesses <= 0:
            # Timeloop skips the children of a last pass, all of whose words are new.
            hops = 0.0
        energy += hops * tables.hop_energy[level] + machine.ingress[level] * accesses
        if accesses > 0:
            routed = np.floor(routed + (1 + np.floor(hops / accesses)) * accesses)
        if details.classes.shape[3] > i:
            for k in range(4):
                details.classes[b, level, t, i, k] = walk.classes[level, i, k]
            details.classes[b, level, t, i, 2] = accesses
    charged: float = (energy + machine.router[level] * routed) * scratch.above[level]
    if details.charges.shape[0] > 0:
        details.charges[b, 2, level, t] = charged
    return charged


@part
def _count_tensor(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch,
    code: Codes, place: tuple[int, int], details: DetailArrays,
) -> tuple[float, bool]:  # fmt: skip
    """Fills counts `[3, L]` of a tensor; returns its networks' energy, and whether it has figures.

    An output is read less often than never where first words are not read: no figures.
    """
    b, t = place
    kept, counts, levels = scratch.kept, scratch.counts, walk.found.size
    produced = tables.part_kind[t] != PART_OF_INPUT
    outermost = 0
    while not kept[outermost, t]:
        counts[0, outermost, t] = counts[1, outermost, t] = counts[2, outermost, t] = 0
        outermost += 1
    scratch.part[0] = tables.words[t]
    walk.share[0] = 0.0
    for level in range(levels):
        if level >= outermost:
            _serve(tables, remainders, scratch, walk, code, t, level)
        total = 0.0
        for i in range(walk.found[level] if level >= outermost else 0):
            total += walk.classes[level, i, 2]
        walk.total[level] = total
        if level + 1 == levels:
            break
        walk.share[level + 1] = _share(tables, scratch, walk, level) if level >= outermost else 0.0
        scratch.part[level + 1] = scratch.part[level]
        if walk.spread[level]:
            inner = _words(tables, scratch, t, tables.temporal_slot[level + 1])
            spread = _words(tables, scratch, t, tables.spatial_slot[level])
            whole = scratch.part[level] // spread
            scratch.part[level + 1] = (
                whole * inner + (scratch.part[level] - whole * spread) * inner // spread
            )
    fine = True
    for level in range(levels - 1, outermost - 1, -1):
        if not kept[level, t]:
            counts[0, level, t] = counts[1, level, t] = counts[2, level, t] = 0
            _pass_through(tables, scratch, walk, level)
            continue
        asked = walk.total[level]
        share = walk.share[level] if level > outermost else 0.0
        if produced:
            new = scratch.part[level]
            old = 0 if tables.machine.charged or level == outermost else new
            fine = fine and asked >= new and share - old > -0.5
            counts[0, level, t] = int(np.floor(asked - new + 0.5))
            counts[1, level, t] = int(np.floor(share - old + 0.5))
            counts[2, level, t] = int(np.floor(asked + 0.5))
        else:
            counts[0, level, t] = int(np.floor(asked + 0.5))
            counts[1, level, t] = int(share)
            counts[2, level, t] = 0
    energy = 0.0
    for level in range(outermost, levels):
        energy += _charge_classes(tables, scratch, walk, (b, level, t), details)
    return energy, fine


@part
def _share(tables: NestTables, scratch: Scratch, walk: WalkScratch, level: int) -> float:
    """Words that enter one child of a level, on average, class by class as Timeloop adds them."""
    fanout = _fanout(tables, scratch, level)
    share: float = 0.0
    for i in range(walk.found[level]):
        share += walk.classes[level, i, 2] * walk.classes[level, i, 0] / fanout
    return share


@part
def _count_macs(
    tables: NestTables, remainders: Remainders, scratch: Scratch, walk: WalkScratch
) -> float:
    """Multiply-accumulates by Timeloop's counting: all elements do what the first child's do."""
    level = walk.found.size - 1
    total = 0
    most = 1
    for inside in range(walk.volume.size):
        if inside & ~walk.idle[level] == 0:
            runs = _runs_of(walk, level, inside)
            children = _count_children(tables, remainders, scratch, walk, level, inside)
            total += runs * children
            if runs > 0:
                most = max(most, children)
    every = scratch.above[level] * _fanout(tables, scratch, level)
    macs: float = total / most * every
    return macs


@part
def _write_details(
    tables: NestTables, scratch: Scratch, b: int, steps: int, details: DetailArrays
) -> None:
    """Copies the figures of one mapping; its networks are written where they are counted."""
    counts = scratch.counts
    for level in range(counts.shape[1]):
        details.instances[b, level] = scratch.above[level]
        details.cycles[b, level] = _level_cycles(tables, scratch, level, steps)
        for t in range(counts.shape[2]):
            details.tiles[b, level, t] = scratch.tile[level, t]
            accesses = 0
            for action in range(3):
                details.counts[b, action, level, t] = counts[action, level, t]
                accesses += counts[action, level, t]
            details.charges[b, 0, level, t] = accesses * scratch.above[level] * tables.energy[level]
            for charge in range(2 if tables.machine.separate else 0):
                details.charges[b, charge, level, t] = scratch.charges[charge, level, t]


@part
def _add_traffic(tables: NestTables, scratch: Scratch, level: int, steps: int) -> None:
    """Sums what a level reads and writes, in all and per cycle, tensor by tensor."""
    for t in range(scratch.counts.shape[2]):
        read = scratch.counts[0, level, t]
        written = scratch.counts[1, level, t] + scratch.counts[2, level, t]
        scratch.accesses[level] += read + written
        width = tables.machine.words[level, t]
        scratch.reading[level] += width * read / steps
        scratch.writing[level] += width * written / steps


@lean
def evaluate_imperfect(
    tables: NestTables,
    remainders: Remainders,
    scratch: Scratch,
    walk: WalkScratch,
    codes: Codes,
    costs: CostArrays,
    details: DetailArrays,
    macs: FloatArray,
) -> None:
    """As `cost_kernel.evaluate_mappings`, with remainders.

    macs `[B]` as they are counted. Where tables say truly, counts are those of all instances
    together.
    """
    machine = tables.machine
    for b in range(codes.shape[0]):
        code = codes[b]
        costs.status[b], costs.excess[b] = check_mapping(
            tables, code, scratch.rows, scratch.kept, scratch.tile
        )
        costs.energy[b] = costs.latency[b] = np.inf
        if costs.status[b] != STATUS_OK:
            continue
        steps = list_walk(tables, remainders, scratch, walk, code) * machine.cycles_per_mac
        _count_instances(tables, scratch)
        if tables.truly:
            cost_truly(tables, remainders, scratch, walk, b, costs, details, macs)
            continue
        count_runs(tables, remainders, scratch, walk)
        macs[b] = _count_macs(tables, remainders, scratch, walk)
        hop_energy = 0.0
        fine = True
        for t in range(tables.sliding.size):
            energy, counted = _count_tensor(
                tables, remainders, scratch, walk, code, (b, t), details
            )
            hop_energy += energy
            fine = fine and counted
            if details.network.shape[0] > 0:
                details.network[b, t] = energy
        if not fine:
            costs.status[b], costs.excess[b] = STATUS_OUTSIDE, 0
            continue
        # In the order of `cost_kernel`, so that what has no remainders costs the same there.
        total = macs[b] * tables.mac_energy + hop_energy
        slowest = float(steps)
        for level in range(tables.capacity.size):
            _add_traffic(tables, scratch, level, steps)
            if machine.separate:
                total += _charge_level(tables, scratch, level)
            else:
                total += scratch.accesses[level] * scratch.above[level] * tables.energy[level]
            slowest = max(slowest, _level_cycles(tables, scratch, level, steps))
        slowest += machine.waiting
        if machine.separate:
            for level in range(tables.capacity.size):
                total += machine.leakage[level] * slowest * scratch.above[level]
            last = machine.leakage.size - 2
            units = scratch.above[last] * scratch.spread[last]
            total += machine.leakage[last + 1] * slowest * units
        if details.tiles.shape[0] > 0:
            _write_details(tables, scratch, b, steps, details)
        costs.energy[b] = total
        costs.latency[b] = slowest
