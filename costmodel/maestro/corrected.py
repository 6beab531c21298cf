"""Corrected counts: what an array that keeps what it holds would move, remainders included.

Precisely, per level-3 tile:

- The array steps through ceil(bound / (level-1 tile x factors)) trips of every dimension, in order.
  The last trip takes what is left; sub-clusters without work idle. Tiles go to consecutive
  processing elements, so the clusters' nesting does not matter here.
- At each step, L2 sends every input and weight element that the step needs and that no processing
  element held at the step before, once: multicast and exchange between elements are free. A tile
  that stays is not sent again; a sliding window sends its new pixels only.
- Outputs stay while the output tile stays. One that leaves is written to L2; one that comes back
  with part of its sum is read from L2. Sums over processing elements are formed on the way.
- L2 writes of inputs and weights: every element touched, once. L2 reads of outputs: the partial
  sums read back, and every output once at the end.
- L1 writes of inputs and weights equal their L2 reads (as in MAESTRO, copies are not multiplied);
  L1 reads of each tensor, and L1 writes of outputs, equal the multiply-accumulates.
- Cycles: the first step's load and its work; then, per class of steps (by the innermost dimension
  that advanced), the largest of work, loads (inputs, weights, partial sums) and stores, each summed
  over the class; then the last store. A step works as long as its busiest processing element.
  n transfers of v elements in all take ceil(v / bandwidth) + n x (hop latency - 1).
- L1 has to hold two tiles of a processing element, L2 two level-3 tiles.

Strides are exact: inputs are the pixels touched, outputs the outputs. Input pixels between windows
(stride above the filter) are neither stored nor moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.maestro.counts import INPUT, OUTPUT, WEIGHT, Counts
from costmodel.maestro.mappings import TILED_COLUMNS, C, ClusterMappings, IntArray, K, P, Q
from costmodel.maestro.windows import Window, touched

# Arrays here are `[4, B]`: rows are dimensions, or loops from the outermost in.


@dataclass(frozen=True)
class _Loops:
    """What one quantity takes of each loop: the whole is a product over loops.

    Attributes:
        total: `[4, B]` sum over the loop's trips.
        first: `[4, B]` at the first trip.
        last: `[4, B]` at the last trip.
        kept: `[4, B]` what a trip and the next one share, summed over the advances.
        restart: `[4, B]` what the last trip and the first one share.
    """

    total: IntArray
    first: IntArray
    last: IntArray
    kept: IntArray
    restart: IntArray

    def permuted(self, where: IntArray) -> _Loops:
        """The same with rows in another order; where: flat indices `[4, B]`."""
        arrays = (self.total, self.first, self.last, self.kept, self.restart)
        return _Loops(*(array.ravel()[where] for array in arrays))

    def start(self) -> IntArray:
        """`[B]` at the first step."""
        return _product(self.first)

    def end(self) -> IntArray:
        """`[B]` at the last step."""
        return _product(self.last)

    def arrivals(self) -> list[IntArray]:
        """`[B]` per loop: what is new after its advances, with the loops inside it restarted."""
        return self._moved(self.total - self.first, self.first)

    def departures(self) -> list[IntArray]:
        """`[B]` per loop: what is gone after its advances."""
        return self._moved(self.total - self.last, self.last)

    def _moved(self, present: IntArray, inner: IntArray) -> list[IntArray]:
        whole, shared = np.ones_like(inner[0]), np.ones_like(inner[0])
        moved = []
        for i in range(3, -1, -1):
            moved.append(present[i] * whole - self.kept[i] * shared)
            whole, shared = whole * inner[i], shared * self.restart[i]
        return _times_outside(moved[::-1], self.total)


def _product(rows: IntArray) -> IntArray:
    product: IntArray = rows[0] * rows[1] * rows[2] * rows[3]
    return product


def _times_outside(rows: list[IntArray], total: IntArray) -> list[IntArray]:
    outside = np.ones_like(total[0])
    result = []
    for i in range(4):
        result.append(rows[i] * outside)
        outside = outside * total[i]
    return result


def count_corrected(mappings: ClusterMappings) -> Counts:
    """The counts of B mappings, whether their tiles divide or not.

    Args:
        mappings: any; capacities are not looked at here.
    """
    m, window = mappings, Window(mappings)
    bounds = np.ascontiguousarray(m.bounds.T)
    filter_size = bounds[2] * bounds[3]
    whole, tile = bounds[list(TILED_COLUMNS)], np.ascontiguousarray(m.tile.T)
    trips = -(-whole // (tile * m.spread.T))
    place = np.ascontiguousarray(m.order.T) * len(m) + np.arange(len(m))
    inputs, weights, outputs = (t.permuted(place) for t in _tensors(m, window, whole, tile, trips))

    # Per class of steps: the work of the busiest processing elements, loads, stores.
    rows = np.where(m.row_stationary, 1, bounds[2])
    busiest = _busiest(whole - (trips - 1) * tile * m.spread.T, tile, trips).permuted(place)
    work = [amount * rows * bounds[3] for amount in busiest.arrivals()]
    ordered_trips = trips.ravel()[place]
    steps = _times_outside(list(ordered_trips - 1), ordered_trips)
    input_loads = inputs.arrivals()
    weight_loads = [filter_size * amount for amount in weights.arrivals()]
    sum_loads = _came_back(outputs.arrivals(), m, trips[C])
    stores = outputs.departures()

    once = np.ones_like(trips[C])
    first_input, first_weight, last_output = (
        inputs.start(),
        filter_size * weights.start(),
        outputs.end(),
    )
    runtime = busiest.start() * rows * bounds[3] + _delay(first_input + first_weight, once, m)
    for i in range(4):
        load = _delay(input_loads[i] + weight_loads[i] + sum_loads[i], steps[i], m)
        store = _delay(stores[i], steps[i], m)
        runtime = runtime + np.maximum(work[i], np.maximum(load, store))
    runtime = runtime + _delay(last_output, once, m)

    input_reads = first_input + _sum(input_loads)
    weight_reads = first_weight + _sum(weight_loads)
    macs, l3 = m.macs, _footprint(whole, bounds[2], bounds[3], m)
    # A row-stationary processing element has one row of the filter.
    l1 = _footprint(tile, rows, bounds[3], m)
    return Counts(
        runtime_cycles=runtime,
        macs=macs,
        l2_write=np.array([l3[INPUT], l3[WEIGHT], last_output + _sum(stores)]).T,
        l2_read=np.array([input_reads, weight_reads, l3[OUTPUT] + _sum(sum_loads)]).T,
        l1_write=np.array([input_reads, weight_reads, macs]).T,
        l1_read=np.array([macs, macs, macs]).T,
        l2_required=2 * l3.T,
        l1_required=2 * l1.T,
    )


def _sum(classes: list[IntArray]) -> IntArray:
    return classes[0] + classes[1] + classes[2] + classes[3]


def _footprint(tile: IntArray, rows: IntArray, columns: IntArray, m: ClusterMappings) -> IntArray:
    """Elements `[3, B]` of a tile `[4, B]` under a filter of so many rows and columns."""
    width = touched(tile[P], columns, m.stride)
    height = touched(tile[Q], rows, m.stride)
    channels = np.where(m.depthwise, tile[C], tile[K])
    return np.array(
        [
            tile[C] * width * height,
            tile[K] * tile[C] * rows * columns,
            channels * tile[P] * tile[Q],
        ]
    )


def _busiest(left: IntArray, tile: IntArray, trips: IntArray) -> _Loops:
    """Work of the first processing element, which never has less than another."""
    last = np.minimum(tile, left)
    zero = np.zeros_like(tile)
    return _Loops((trips - 1) * tile + last, tile, last, zero, zero)


def _tensors(
    m: ClusterMappings, window: Window, whole: IntArray, tile: IntArray, trips: IntArray
) -> tuple[_Loops, _Loops, _Loops]:
    """Inputs, weights (without the filter's size) and outputs, by dimension."""
    array_tile = tile * m.spread.T
    left = whole - (trips - 1) * array_tile
    single = trips == 1
    array_tile = np.where(single, whole, array_tile)
    zero, one = np.zeros_like(trips), np.ones_like(trips)
    # A dimension that does not index a tensor leaves it as it is.
    count = _Loops(trips, one, one, trips - 1, one)
    elements = _Loops(whole, array_tile, left, zero, np.where(single, whole, 0))
    pixels = _pixels(window, whole, array_tile, left, trips)
    dense, depthwise = ~m.depthwise, m.depthwise
    yes, no = np.ones_like(dense), np.zeros_like(dense)
    return (
        _select(np.stack([no, yes, yes, yes]), pixels, count),
        _select(np.stack([yes, yes, no, no]), elements, count),
        _select(np.stack([dense, depthwise, yes, yes]), elements, count),
    )


def _pixels(
    window: Window, whole: IntArray, array_tile: IntArray, left: IntArray, trips: IntArray
) -> _Loops:
    """What the input takes of each loop: channels, or pixels along P and Q."""
    zero = np.zeros_like(trips[K])
    halo = np.stack([zero, zero, window.x_halo, window.y_halo])
    step = np.stack([zero + 1, zero + 1, window.x_step, window.y_step])
    between = np.maximum(trips - 2, 0) * array_tile * step
    first = window.sizes(array_tile)
    return _Loops(
        total=whole * step + trips * halo,
        first=first,
        last=window.sizes(left),
        kept=(trips - 1) * halo,
        restart=np.where(trips == 1, first, np.maximum(halo - between, 0)),
    )


def _select(indexed: IntArray, inside: _Loops, outside: _Loops) -> _Loops:
    """Loops of a tensor: the first where a dimension indexes it `[4, B]`, the second elsewhere."""
    return _Loops(
        *(
            np.where(indexed, getattr(inside, name), getattr(outside, name))
            for name in ("total", "first", "last", "kept", "restart")
        )
    )


def _came_back(arrived: list[IntArray], m: ClusterMappings, trips: IntArray) -> list[IntArray]:
    """Of the outputs arriving per loop, those with part of their sum.

    They come back at every trip but the first of C if C runs outside them, and always if it is C
    that advances; where C starts over, they are new.
    """
    place = np.argmax(m.order == C, axis=1)
    result = []
    for i, amount in enumerate(arrived):
        outside = amount // trips * (trips - 1)
        again = np.where(place < i, outside, np.where(place == i, amount, 0))
        result.append(np.where(m.depthwise, 0, again))
    return result


def _delay(volume: IntArray, transfers: IntArray, m: ClusterMappings) -> IntArray:
    """Cycles of several transfers of so many elements in all."""
    cycles = -(-volume // m.noc_bandwidth) + transfers * (m.hop_latency - 1)
    delay: IntArray = np.where(volume > 0, cycles, 0)
    return delay
