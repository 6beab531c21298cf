"""Processor seconds in which the best mapping is proven, on every published machine.

Every search is the default one of `mapspace search`, warm: the proof with the structured searcher
beside it, whose processor seconds count as well. Each machine has a process of its own. What is
printed last is a table of docs/inside/proof-times.md.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.networks.network import load_network
from costmodel.problems.affine import Workload
from searchers import Evaluator, make
from searchers.exact import Exact

MACHINES = (
    "eyeriss", "simba", "gemmini", "nvdla-small", "nvdla-large", "shidiannao", "tpu-v1", "tpu-v4i",
)  # fmt: skip
PROBLEMS = (
    "resnet-conv3", "resnet-conv4", "inception-conv2", "vgg-conv2", "alexnet-conv2",
    "alexnet-conv4", "mttkrp-0", "mttkrp-1", "gemm-512", "gemm-1024",
)  # fmt: skip


WARM_UP = "gemm:M=64,N=64,K=64"
"""Proven before anything is measured, so that compiled code is loaded."""


class Proof(NamedTuple):
    """The processor seconds of a search, and the gap that is left as a share."""

    layer: str
    seconds: float
    gap: float


def prove(layer: str | Workload, machine: str, seconds: float) -> Proof:
    """Searches a layer on a machine for so many seconds of the wall at most, and says so."""
    space = MapSpace(workload(layer), accelerator(machine))
    searcher = make("exact", space, seed=0)
    assert isinstance(searcher, Exact)
    searcher.await_walk()
    evaluator = Evaluator(LoopNestModel(), space, objective="edp", seconds=seconds)
    began = time.process_time()
    searcher.run(evaluator)
    spent, gap = time.process_time() - began, searcher.gap_left
    where = f"{machine} {space.workload.name}"
    print(
        f"{where} {spent:.2f} processor s, {evaluator.elapsed:.2f} s, gap {gap:.2%}, "
        f"EDP {evaluator.best_loss:.8g}, {_peak():.2f} GiB",
        flush=True,
    )
    return Proof(space.workload.name, spent, gap)


def row_of(machine: str, layers: Sequence[str | Workload], seconds: float) -> str:
    """The table's row of a machine."""
    prove(WARM_UP, machine, seconds)
    proofs = [prove(layer, machine, seconds) for layer in layers]
    proven = sum(proof.gap == 0 for proof in proofs)
    worst = max(proofs, key=lambda proof: (proof.gap, proof.seconds))
    last = f"{worst.seconds:.2f} ({worst.layer})"
    if worst.gap > 0:
        last = f"{worst.gap:.1%} left after {seconds:g} s ({worst.layer})"
    median = np.median([proof.seconds for proof in proofs])
    count = f"{proven} of {len(proofs)}"
    return f"| `{machine}` | {count} | {median:.2f} | {last} | {_peak():.2f} |"


def _peak() -> float:
    """The most memory that this process has had, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row per machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", nargs="+", default=MACHINES)
    parser.add_argument("--layers", nargs="+", default=PROBLEMS)
    parser.add_argument("--network", help="the layers of a network as well")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the wall, for each")
    options = parser.parse_args(arguments)
    layers: list[str | Workload] = list(options.layers)
    if options.network is not None:
        layers += [layer for layer, _ in load_network(options.network)[1]]
    rows = []
    for machine in options.machines:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            rows.append(process.submit(row_of, machine, layers, options.seconds).result())
    print("| machine | proven | median, s | worst, s | most memory, GiB |")
    print("|---|---|---|---|---|")
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
