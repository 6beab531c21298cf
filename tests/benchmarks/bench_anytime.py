"""The default search beside the structured one, stopped at the same time (`make bench-anytime`).

Forty pairs of a layer and a machine with hops, bandwidth limits or bypass. Both searches have the
same seed and are stopped after the same seconds; the table says how far the exact searcher's best
is above (+) or below (-) the structured searcher's. Seconds are processor seconds per thread, so
that both see the same machine however busy it is: two for the exact searcher by default.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from searchers import Evaluator, make

LAYERS = (
    "resnet50-conv2_1_2",
    "resnet50-conv3_1_2",
    "resnet-conv4",
    "vgg-conv2",
    "inception-conv2",
    "alexnet-conv2",
    "gemm-1024",
    "mttkrp-0",
)


def _eyeriss(name: str, hop: float, **more: Any) -> dict[str, Any]:
    """Eyeriss as its first paper has it: 12 x 14 elements of 260 words, 108 KB shared."""
    return {
        "name": name,
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 200.0},
            {
                "name": "GLB",
                "energy_pj": 6.0,
                "capacity_words": 55_296,
                "fanout": 168,
                "mesh": [12, 14],
                "hop_energy_pj": hop,
            },
            {"name": "PE", "energy_pj": 1.0, "capacity_words": 260},
        ],
        **more,
    }


MACHINES: tuple[Any, ...] = (
    _eyeriss("12 x 14, hops", 2.0),
    _eyeriss("12 x 14, hops, bypass", 2.0, bypass="searched"),
    "mm256-bw-bypass",
    "mm256-bw",
    {
        "extends": "eyeriss-168",
        "name": "eyeriss-168, hops",
        "levels": [{"name": "L2", "mesh": [12, 14], "hop_energy_pj": 0.5}],
    },
)


def best_at(
    name: str, space: MapSpace, times: Sequence[float], seed: int, threads: int
) -> tuple[list[float], str]:
    """A search's best EDP at each time, and what it says of the last one."""

    def clock() -> float:
        return time.process_time() / threads

    evaluator = Evaluator(LoopNestModel(), space, seconds=max(times), clock=clock)
    options = {"threads": threads} if name == "exact" else {}
    searcher = make(name, space, seed=seed, **options)
    searcher.run(evaluator)
    result = evaluator.result()
    at = np.searchsorted(result.curve_seconds, times, side="right") - 1
    best = [float(result.curve_loss[row]) if row >= 0 else float("inf") for row in at]
    certain = searcher.lower_bound
    return best, "" if certain is None else f"{result.best_loss / certain - 1:.2%}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 3.0, 10.0, 30.0])
    parser.add_argument("--threads", type=int, default=2, help="of the exact searcher")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--machine", type=int, nargs="*", help="only these, counted from 0")
    parser.add_argument("--layer", nargs="*", default=LAYERS, help="only these")
    options = parser.parse_args(arguments)
    console = Console(width=110)
    worst = -np.inf
    for index in options.machine if options.machine is not None else range(len(MACHINES)):
        machine = accelerator(MACHINES[index])
        columns = [f"{seconds:g} s" for seconds in options.seconds]
        table = Table("layer", *columns, "gap at the end", title=machine.name)
        for layer in options.layer:
            space = MapSpace(workload(layer), machine)
            for name in ("structured", "exact"):
                best_at(name, space, [0.05], 0, 1)  # loads compiled code
            theirs, _ = best_at("structured", space, options.seconds, options.seed, 1)
            ours, gap = best_at("exact", space, options.seconds, options.seed, options.threads)
            above = [mine / other - 1 for mine, other in zip(ours, theirs, strict=True)]
            worst = max(worst, *above)
            table.add_row(layer, *(f"{share:+.3%}" for share in above), gap)
            print(machine.name, layer, *(f"{share:+.4%}" for share in above), gap, flush=True)
        console.print(table)
    console.print(f"worst {worst:+.3%}")


if __name__ == "__main__":
    main()
