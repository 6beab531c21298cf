"""Rates of the cost model on one core, beside a plain NumPy loop over mappings (`make bench`).

Rates are medians over repetitions in this process, from codes to costs; the ratio divides two
rates that were measured in turn, so that a busy machine slows both.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload

PROBLEMS = ("resnet-conv4", "vgg-conv2", "mttkrp-0", "gemm-1024")
BATCH = 1_000_000
PLAIN_BATCH = 300
REPETITIONS = 7
DEEP = ("eyeriss", "tpu-v1", "gemmini", "simba")
DEEP_BATCH = 30_000


def plain_energy_delay(space: MapSpace, codes: Codes) -> np.ndarray:
    """EDP `[B]` of mappings that keep every tensor, one by one with NumPy, no bandwidth limit."""
    t = space.tables
    n = t.sizes.size
    results = np.full(len(codes), np.inf)
    for b, code in enumerate(codes):
        factors = t.factors[t.row_start[:-1] + code[:n]]  # [n, S]
        inside = np.concatenate([np.cumprod(factors[:, ::-1], 1)[:, ::-1], np.ones((n, 1), int)], 1)
        elements = int(factors[:, 2].prod())
        if elements > 256:
            continue
        loops = [
            (d, factors[d, slot], inside[d, slot + 1])
            for level, slot in ((1, 1), (0, 0))
            for d in t.orders[code[t.order_column[level]]][::-1]
            if factors[d, slot] > 1
        ]
        own = sum(factors[d, 1] > 1 for d in range(n))  # the L2 loops, above L1 only
        energy = space.workload.macs * t.mac_energy
        used = {1: 0, 3: 0}
        for index, tensor in enumerate(space.workload.tensors):
            terms = [
                [(space.workload.dimension_names.index(d), c) for d, c in axis.terms]
                for axis in tensor.axes
            ]
            entering = []
            for slot, above in ((1, loops[own:]), (3, loops)):
                extent = np.array([1 + sum(c * (inside[d, slot] - 1) for d, c in a) for a in terms])
                used[slot] += int(extent.prod())
                steps = [
                    np.array([sum(c * s for e, c in a if e == d) for a in terms])
                    for d, _, s in above
                ]
                words, moved = int(extent.prod()), np.zeros(len(terms), int)
                for i, step in enumerate(steps):
                    tile, outer = int(extent.prod()), int(np.prod([x[1] for x in above[i + 1 :]]))
                    overlap = int(np.maximum(0, extent - steps[0]).prod())
                    same = i == 0 or (step - moved == steps[0]).all()
                    words += (above[i][1] - 1) * outer * (tile - overlap if same else tile)
                    moved = moved + step
                entering.append(words)
            groups = 1
            for a in terms:
                grid = np.zeros(1, int)
                for d, c in a:
                    grid = np.add.outer(grid, c * inside[d, 3] * np.arange(factors[d, 2])).ravel()
                groups *= len(np.unique(grid))
            dram, l2 = entering
            macs = space.workload.macs
            if tensor.output:
                words = space.workload.words(index)
                first = words * elements // groups
                energy += (2 * dram - words) * t.energy[0]
                energy += (2 * l2 * groups + dram - 2 * words) * t.energy[1]
                energy += (2 * macs + l2 * elements - 2 * first) * t.energy[2]
            else:
                energy += dram * t.energy[0] + (dram + l2 * groups) * t.energy[1]
                energy += (macs + l2 * elements) * t.energy[2]
        if used[1] <= t.capacity[1] and used[3] <= t.capacity[2]:
            results[b] = energy * (space.workload.macs // elements)
    return results


def seconds(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def deep_hierarchies() -> Table:
    """Rates on machines of four to six levels: one row per problem, feasible mappings alone."""
    table = Table("M mappings/s, all feasible", *DEEP)
    model = LoopNestModel()
    for name in PROBLEMS:
        cells = []
        for machine in DEEP:
            space = MapSpace(workload(name), accelerator(machine))
            codes = space.sample(np.random.default_rng(0), DEEP_BATCH, feasible=True)
            model.evaluate(space, codes)
            times = [seconds(lambda s=space, c=codes: model.evaluate(s, c)) for _ in range(15)]
            cells.append(f"{DEEP_BATCH / statistics.median(times) / 1e6:.2f}")
        table.add_row(name, *cells)
    return table


def main() -> None:
    """Prints one row per problem."""
    table = Table("problem", "feasible", "mappings/s (median)", "plain NumPy/s", "ratio")
    model = LoopNestModel()
    for name in PROBLEMS:
        space = MapSpace(workload(name), accelerator("mm256"))
        codes = space.sample(np.random.default_rng(0), BATCH)
        few = codes[:PLAIN_BATCH]
        ours, plain = model.evaluate(space, few).edp, plain_energy_delay(space, few)
        if not np.allclose(ours, plain, rtol=1e-12):
            raise SystemExit(f"{name}: the plain loop and the model disagree")
        rates, ratios = [], []
        plain_rate = 0.0
        for _ in range(REPETITIONS):
            plain_rate = PLAIN_BATCH / seconds(lambda s=space, c=few: plain_energy_delay(s, c))
            rates.append(BATCH / seconds(lambda s=space, c=codes: model.evaluate(s, c)))
            ratios.append(rates[-1] / plain_rate)
        table.add_row(
            name,
            f"{space.feasible(codes).mean():.1%}",
            f"{statistics.median(rates) / 1e6:.2f} M",
            f"{plain_rate:,.0f}",
            f"{statistics.median(ratios):,.0f} x",
        )
    Console().print(table)
    Console().print(deep_hierarchies())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"Peak memory with {BATCH:,} mappings at a time: {peak:.2f} GB")


if __name__ == "__main__":
    main()
