"""Seconds in which the best mapping is proven, on every published machine (`--layers` for more).

Every search is the default one of `mapspace search`, warm: the proof with the structured searcher
beside it. Seconds are of the wall, on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.affine import Workload
from costmodel.networks import load_network
from searchers import Evaluator, make
from searchers.exact import Exact

MACHINES = (
    "eyeriss", "simba", "gemmini", "nvdla-small", "nvdla-large", "shidiannao", "tpu-v1", "tpu-v4i",
)  # fmt: skip
PROBLEMS = (
    "resnet-conv3", "resnet-conv4", "inception-conv2", "vgg-conv2", "alexnet-conv2",
    "alexnet-conv4", "mttkrp-0", "mttkrp-1", "gemm-512", "gemm-1024",
)  # fmt: skip


def prove(layer: str | Workload, machine: str, seconds: float) -> tuple[float, float, float]:
    """Seconds, the gap that is left as a share, and the best EDP in pJ x cycles."""
    space = MapSpace(workload(layer), accelerator(machine))
    searcher = make("exact", space, seed=0)
    assert isinstance(searcher, Exact)
    evaluator = Evaluator(LoopNestModel(), space, objective="edp", seconds=seconds)
    searcher.run(evaluator)
    spent, gap, edp = evaluator.elapsed, searcher.gap_left, evaluator.best_loss
    where = f"{machine} {space.workload.name}"
    print(f"{where} {spent:.2f} s, gap {gap:.2%}, EDP {edp:.8g}, {_peak():.2f} GiB", flush=True)
    return spent, gap, edp


def _peak() -> float:
    """The most memory that this process has had, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row per machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", nargs="+", default=MACHINES)
    parser.add_argument("--layers", nargs="+", default=PROBLEMS)
    parser.add_argument("--network", help="the layers of a network as well")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args(arguments)
    layers: list[str | Workload] = list(options.layers)
    if options.network is not None:
        layers += [layer for layer, _ in load_network(options.network)[1]]
    table = Table("machine", "proven", "median s", "worst s", "of", "worst gap left")
    for machine in options.machines:
        rows = [prove(layer, machine, options.seconds) for layer in layers]
        spent = np.array([row[0] for row in rows])
        gaps = np.array([row[1] for row in rows])
        table.add_row(
            machine, f"{(gaps == 0).sum()} of {len(rows)}", f"{np.median(spent):.2f}",
            f"{spent.max():.2f}", workload(layers[int(spent.argmax())]).name,
            f"{gaps.max():.2%}",
        )  # fmt: skip
    Console(width=100).print(table)
    print(f"peak memory {_peak():.2f} GiB")


if __name__ == "__main__":
    main()
