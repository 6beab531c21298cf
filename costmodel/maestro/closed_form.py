"""MAESTRO's counts in closed form: sums over at most four classes of steps, no loop over steps.

Holds where tiles divide. A level steps through its trips in order; a step is of class d if d is the
innermost dimension that advanced into it, and all steps of a class move the same volumes. One more
step, the first, fills everything. Defects of MAESTRO are part of the counts: a tensor is not
fetched again when only loops inside an unrelated one start over, outputs are written back at every
step and never read again, halos are not shared between neighbours in the first step, the outputs
that L1 has to hold and those read at the end are counted in input pixels, and so are those that a
step writes back from the first to the last place of its windows: with a stride above 1 and a filter
above 1x1, n outputs of a row are (n - 1) x stride + 1. One defect is not: for such a layer MAESTRO
may count more work than there is; here work is the true work.

Source: MAESTRO, Kwon et al., MICRO 2019; equal to its reference implementation at commit 4eb08d1,
but for layers whose stride is above a filter above 1, where it leaves out steps.
"""

from __future__ import annotations

import numpy as np

from costmodel.maestro.counts import Counts, Delays
from costmodel.maestro.mappings import (
    NONE,
    PARALLEL,
    TILED_COLUMNS,
    BoolArray,
    C,
    ClusterMappings,
    IntArray,
    K,
    P,
    Q,
)
from costmodel.maestro.windows import Window

# Arrays here are `[4, B]` or `[B]`: one contiguous row per dimension.


def count_as_maestro(mappings: ClusterMappings) -> Counts:
    """The counts of B mappings whose tiles divide.

    Args:
        mappings: `divides` has to hold; elsewhere the counts mean nothing.
    """
    m = mappings
    bounds = np.ascontiguousarray(m.bounds.T)
    filter_size = bounds[2] * bounds[3]
    per_element = np.ascontiguousarray(m.tile.T)
    window = Window(m)
    sizes = window.sizes(per_element)
    work = filter_size * per_element[K] * per_element[C] * per_element[P] * per_element[Q]
    compute = work
    if m.row_stationary.any():
        loads = sizes[C] * (sizes[P] * sizes[Q] + sizes[K] * filter_size)
        compute = np.where(m.row_stationary, work // bounds[2] + _delay(loads, m), work)
    # From the innermost cluster outwards: an inner level runs one step, so it hides no transfer.
    tile = per_element
    for level in range(PARALLEL - 1, 0, -1):
        split, factor = m.parallel_dims[:, level], m.parallel_factors[:, level]
        present = split != NONE
        if not present.any():
            continue
        inputs, weights = _spread(sizes, filter_size, split, factor)
        compute = compute + np.where(present, _delay(inputs + weights, m), 0)
        tile = np.stack([np.where(split == d, tile[d] * factor, tile[d]) for d in range(4)])
        sizes = window.sizes(tile)
    return _count(m, bounds, tile, sizes, compute, window)


def _spread(
    sizes: IntArray, filter_size: IntArray, split: IntArray, factor: IntArray
) -> tuple[IntArray, IntArray]:
    """Inputs and weights of the first step of a level: multicast, halos not shared."""
    inputs = sizes[C] * sizes[P] * sizes[Q] * np.where(split == K, 1, factor)
    weights = sizes[C] * sizes[K] * filter_size * np.where(split <= C, factor, 1)
    return inputs, weights


def _delay(volume: IntArray, m: ClusterMappings) -> IntArray:
    """Cycles to move a volume: the first element after the latency, 0 for none."""
    cycles = -(-volume // m.noc_bandwidth) + m.hop_latency - 1
    delay: IntArray = np.where(volume > 0, cycles, 0)
    return delay


class _Outermost:
    """The outermost level: its loops and the tiles that one step brings in and out.

    Attributes:
        split: `[4]` of `[B]` bool, whether the level splits a dimension over its sub-clusters.
        factor: `[B]` sub-clusters.
        trips: `[4]` of `[B]`.
        inside: `inside[a][b]` `[B]` bool, whether the loop of b runs inside that of a.
        inputs: `[B]` elements of the first step, likewise weights; outputs of every step.
    """

    def __init__(
        self,
        m: ClusterMappings,
        bounds: IntArray,
        tile: IntArray,
        sizes: IntArray,
        window: Window,
    ) -> None:
        first, self.factor = m.parallel_dims[:, 0], m.parallel_factors[:, 0]
        self.split: list[BoolArray] = [first == d for d in range(4)]
        place = np.empty((4, len(m)), np.int64)
        np.put_along_axis(place, m.order.T, np.arange(4)[:, None], axis=0)
        self.inside: list[list[BoolArray]] = [
            [place[b] > place[a] for b in range(4)] for a in range(4)
        ]
        self.trips: list[IntArray] = [
            bounds[column] // (tile[d] * np.where(self.split[d], self.factor, 1))
            for d, column in enumerate(TILED_COLUMNS)
        ]
        self.inputs: IntArray
        self.inputs, self.weights = _spread(sizes, bounds[2] * bounds[3], first, self.factor)
        by_channel = np.where(m.depthwise, self.split[C], self.split[K])
        channels = np.where(m.depthwise, tile[C], tile[K])
        self.outputs: IntArray = channels * np.where(by_channel, self.factor, 1)
        for axis, step in ((P, window.x_step), (Q, window.y_step)):
            run = tile[axis] * np.where(self.split[axis], self.factor, 1)
            self.outputs = self.outputs * ((run - 1) * step + 1)

    def steps_of(self, d: int) -> IntArray:
        """`[B]` steps whose innermost advanced dimension is d."""
        number: IntArray = self.trips[d] - 1
        for other in range(4):
            if other != d:
                number = number * np.where(self.inside[d][other], 1, self.trips[other])
        return number

    def inputs_of(self, d: int, sizes: IntArray, advance: dict[int, IntArray]) -> IntArray:
        """`[B]` input elements of a step whose innermost advanced dimension is d (C, P or Q).

        The first sub-cluster slides its window if d advances in time and nothing of the input
        inside it starts over; the others share halos with their neighbours along the split.

        Args:
            d: the dimension.
            sizes: `[4, B]` of a sub-cluster's tile.
            advance: of P and Q, the new pixels of a tile next to the last one.
        """
        restarts = np.zeros_like(self.split[d])
        for other in (C, P, Q):
            if other != d:
                restarts = restarts | (self.inside[d][other] & (self.trips[other] > 1))
        first = {a: sizes[a] for a in (C, P, Q)}
        if d != C:
            first[d] = np.where(self.split[d] | restarts, sizes[d], advance[d])
        whole: IntArray = first[C] * first[P] * first[Q]
        others = np.where(self.split[C], whole, 0)
        for split, rest in ((P, first[C] * first[Q]), (Q, first[C] * first[P])):
            shares = ~restarts if split == d else self.inside[d][split]
            part = np.where(shares, advance[split], first[split]) * rest
            others = np.where(self.split[split], part, others)
        return whole + (self.factor - 1) * others


def _count(
    m: ClusterMappings,
    bounds: IntArray,
    tile: IntArray,
    sizes: IntArray,
    compute: IntArray,
    window: Window,
) -> Counts:
    """Counts of the outermost level, given the tile of a sub-cluster and its cycles."""
    level = _Outermost(m, bounds, tile, sizes, window)
    drain = _delay(level.outputs, m)
    hidden = np.maximum(compute, drain)
    fill = _delay(level.inputs + level.weights, m)
    runtime = compute + fill
    least, most, loading = fill, fill, fill
    input_reads, weight_reads = level.inputs, level.weights
    advance = {P: tile[P] * window.x_step, Q: tile[Q] * window.y_step}
    for d in range(4):
        number = level.steps_of(d)
        load = level.weights if d in (K, C) else np.zeros_like(number)
        weight_reads = weight_reads + number * load
        if d != K:
            inputs = level.inputs_of(d, sizes, advance)
            input_reads = input_reads + number * inputs
            load = load + inputs
        delay = _delay(load, m)
        runtime = runtime + number * np.maximum(hidden, delay)
        loading = loading + number * delay
        least = np.where(number > 0, np.minimum(least, delay), least)
        most = np.where(number > 0, np.maximum(most, delay), most)

    macs, trips = m.macs, level.trips
    steps = trips[K] * trips[C] * trips[P] * trips[Q]
    width = _extent(bounds[4], bounds[3], m.stride)
    height = _extent(bounds[5], bounds[2], m.stride)
    channels = np.where(m.depthwise, bounds[1], bounds[0])
    drained = channels * (width - bounds[3] + 1) * (height - bounds[2] + 1)
    weights = bounds[0] * bounds[1] * bounds[2] * bounds[3]
    return Counts(
        runtime_cycles=runtime,
        macs=macs,
        l2_write=np.array([bounds[1] * width * height, weights, steps * level.outputs]).T,
        l2_read=np.array([input_reads, weight_reads, drained]).T,
        l1_write=np.array([input_reads, weight_reads, macs]).T,
        l1_read=np.array([macs, macs, macs]).T,
        l2_required=2 * np.array([level.inputs, level.weights, level.outputs]).T,
        l1_required=2 * _element_tile(m, bounds, window).T,
        delays=Delays(
            compute_cycles=compute,
            egress_cycles=drain,
            ingress_cycles=np.array([least, most, loading // steps]).T,
        ),
    )


def _element_tile(m: ClusterMappings, bounds: IntArray, window: Window) -> IntArray:
    """`[3, B]` elements of one processing element's tile; outputs in input pixels."""
    element = window.sizes(m.tile.T)
    area = element[P] * np.where(m.row_stationary, 1, element[Q])
    rows = np.where(m.row_stationary, 1, bounds[2])
    channels = np.where(m.depthwise, element[C], element[K])
    return np.array(
        [element[C] * area, element[K] * element[C] * bounds[3] * rows, channels * area]
    )


def _extent(outputs: IntArray, window: IntArray, stride: IntArray) -> IntArray:
    """Input pixels along an axis, as MAESTRO is given them: whole strides if the window is less."""
    extent: IntArray = np.where(window >= stride, (outputs - 1) * stride + window, outputs * stride)
    return extent
