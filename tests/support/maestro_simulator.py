"""Walks one cluster mapping step by step, with the elements that every step touches as sets.

Nothing here is in closed form: clusters are split one level at a time, tiles are lists of indices,
and traffic is the difference between the sets of two successive steps. For small layers only.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from costmodel.maestro import NONE, TILED, ClusterMappings

Ranges = dict[str, range]


@dataclass
class Simulated:
    """Elements and cycles of one mapping, by tensor where they have one."""

    fetched: dict[str, int] = field(default_factory=lambda: {"input": 0, "weight": 0})
    touched: dict[str, int] = field(default_factory=dict)
    written: int = 0
    read_back: int = 0
    macs: int = 0
    runtime: int = 0


def simulate(mappings: ClusterMappings, row: int) -> Simulated:
    """Runs one mapping of a batch."""
    m = mappings
    bounds = dict(zip(("K", "C", "R", "S", "P", "Q"), m.bounds[row].tolist(), strict=True))
    tile = dict(zip(TILED, m.tile[row].tolist(), strict=True))
    clusters = [
        (TILED[d], f)
        for d, f in zip(
            m.parallel_dims[row].tolist(), m.parallel_factors[row].tolist(), strict=True
        )
        if d != NONE
    ]
    order = [TILED[d] for d in m.order[row].tolist()]
    stride, depthwise = int(m.stride[row]), bool(m.depthwise[row])
    bandwidth, latency = int(m.noc_bandwidth[row]), int(m.hop_latency[row])
    rows_apart = bounds["R"] if m.row_stationary[row] else 1

    result = Simulated()
    held: dict[str, set[tuple[int, ...]]] = {"input": set(), "weight": set(), "output": set()}
    ever: dict[str, set[tuple[int, ...]]] = {"input": set(), "weight": set(), "output": set()}
    # Per class of steps: work, elements loaded, elements stored, steps.
    classes: dict[str, list[int]] = {d: [0, 0, 0, 0] for d in order}
    previous: tuple[int, ...] | None = None
    loops = []
    for d in order:
        size = tile[d] * math.prod(f for name, f in clusters if name == d)
        loops.append(
            [range(start, min(start + size, bounds[d])) for start in range(0, bounds[d], size)]
        )
    for trip in itertools.product(*(range(len(loop)) for loop in loops)):
        step = {d: loop[i] for d, loop, i in zip(order, loops, trip, strict=True)}
        need: dict[str, set[tuple[int, ...]]] = {"input": set(), "weight": set(), "output": set()}
        busiest = 0
        for element in _elements(step, clusters, tile):
            work = _touch(element, bounds, stride, depthwise, need)
            result.macs += work
            busiest = max(busiest, work // rows_apart)
        loaded = 0
        for tensor in ("input", "weight"):
            new = len(need[tensor] - held[tensor])
            result.fetched[tensor] += new
            loaded += new
        back = len((need["output"] - held["output"]) & ever["output"])
        gone = len(held["output"] - need["output"])
        result.read_back += back
        result.written += gone
        for tensor, elements in need.items():
            ever[tensor] |= elements
        held = need
        if previous is None:
            result.runtime += busiest + _cycles(loaded, 1, bandwidth, latency)
        else:
            advanced = next(d for d, a, b in zip(order, previous, trip, strict=True) if b > a)
            for i, amount in enumerate((busiest, loaded + back, gone, 1)):
                classes[advanced][i] += amount
        previous = trip
    for work, loaded, gone, steps in classes.values():
        result.runtime += max(
            work,
            _cycles(loaded, steps, bandwidth, latency),
            _cycles(gone, steps, bandwidth, latency),
        )
    result.written += len(held["output"])
    result.runtime += _cycles(len(held["output"]), 1, bandwidth, latency)
    result.touched = {tensor: len(elements) for tensor, elements in ever.items()}
    return result


def _elements(step: Ranges, clusters: list[tuple[str, int]], tile: dict[str, int]) -> list[Ranges]:
    """The share of every processing element, splitting one cluster level after the other."""
    if not clusters:
        return [step]
    (dimension, factor), inner = clusters[0], clusters[1:]
    chunk = tile[dimension] * math.prod(f for name, f in inner if name == dimension)
    shares = []
    for child in range(factor):
        part = step[dimension][child * chunk : (child + 1) * chunk]
        shares += _elements(step | {dimension: part}, inner, tile)
    return shares


def _touch(
    element: Ranges,
    bounds: dict[str, int],
    stride: int,
    depthwise: bool,
    need: dict[str, set[tuple[int, ...]]],
) -> int:
    """Adds what one processing element needs; returns its multiply-accumulates."""
    macs = 0
    for k, c, p, q in itertools.product(*(element[d] for d in TILED)):
        need["output"].add((c if depthwise else k, p, q))
        for r, s in itertools.product(range(bounds["R"]), range(bounds["S"])):
            need["input"].add((c, p * stride + s, q * stride + r))
            need["weight"].add((k, c, r, s))
            macs += 1
    return macs


def _cycles(elements: int, transfers: int, bandwidth: int, latency: int) -> int:
    return math.ceil(elements / bandwidth) + transfers * (latency - 1) if elements else 0
