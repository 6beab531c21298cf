"""Milliseconds in which the structured searcher comes near proven optima (`make bench`).

Times are those of the evaluator's curve, in processor seconds of one core, compilation excluded:
the searcher's own work, the cost model and Python between them. Medians over seeds; a seed that
never came so near counts as infinite. `--other` measures machines on which the searcher's prior
need not hold, `--published` how far above the least EDP it is after so many milliseconds on
published machines: above the proven one, and where that takes long above the best known.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table

from costmodel import LoopNestModel, MapSpace, accelerator, known_optimum, workload
from costmodel.exact_any.choice import make_prover
from costmodel.exact_any.prover import AnyProver
from costmodel.machines.accelerators import Accelerator
from searchers import Evaluator, Searcher, make, structured
from searchers.compiled.structured_walk import walk

PROBLEMS = (
    "resnet-conv3",
    "resnet-conv4",
    "inception-conv2",
    "vgg-conv2",
    "alexnet-conv2",
    "alexnet-conv4",
    "mttkrp-0",
    "mttkrp-1",
    "gemm-1024",
)
# Element buffers of 512 words in place of 32,768: small beside what a sliding window needs.
SMALL_L1 = {
    "extends": "mm256",
    "name": "mm256, L1 of 512 words",
    "levels": [{"name": "L1", "capacity_words": 512}],
}
OTHERS = ("mm256-bw", SMALL_L1, "mindmappings", "mm256-bypass", "eyeriss-168", "edge-1024")
TARGETS = (0.03, 0.01, 0.001)
MAIN_SECONDS, OTHER_SECONDS = 1.0, 1.0
PUBLISHED = (
    "eyeriss", "eyeriss-v2", "simba", "gemmini", "nvdla-small", "nvdla-large", "tpu-v1", "tpu-v4i",
    "shidiannao",
)  # fmt: skip
AFTER = (10, 30, 100)  # milliseconds
PROOF_SECONDS, KNOWN_SECONDS = 10.0, 2.0


class _ArrivedError(Exception):
    """The last target is met."""


def optimum(space: MapSpace) -> float:
    """The least EDP of a space, proven."""
    known = known_optimum(space.workload, space.accelerator)
    if known is not None:
        return known
    prover = AnyProver(space)
    while not prover.finished:
        prover.step()
    best = LoopNestModel().evaluate(space, prover.codes())
    return float(best.edp.min())


def milliseconds(space: MapSpace, least: float, seed: int, seconds: float) -> list[float]:
    """Milliseconds until a search is within each target, inf where it never was."""
    evaluator = Evaluator(LoopNestModel(), space, seconds=seconds, clock=time.process_time)

    def stop(_: Searcher) -> None:
        if evaluator.best_loss <= least * (1 + TARGETS[-1]):
            raise _ArrivedError

    with contextlib.suppress(_ArrivedError):
        make("structured", space, seed=seed).run(evaluator, stop)
    result = evaluator.result()
    if result.best_loss < least * (1 - 1e-9):
        raise SystemExit(f"{space.workload.name}: {result.best_loss} undercuts {least}")
    times = []
    for target in TARGETS:
        hits = np.flatnonzero(result.curve_loss <= least * (1 + target))
        times.append(1e3 * float(result.curve_seconds[hits[0]]) if hits.size else float("inf"))
    return times


def measure(machine: Accelerator, seeds: int, seconds: float) -> None:
    """Prints one row per problem, and their geometric mean and worst."""
    table = Table(
        "problem", *(f"ms to {target:.1%}" for target in TARGETS), "never", title=machine.name
    )
    rows = []
    for name in PROBLEMS:
        space = MapSpace(workload(name), machine)
        least = optimum(space)
        milliseconds(space, least, 0, 0.05)  # loads compiled code
        times = [milliseconds(space, least, seed, seconds) for seed in range(seeds)]
        rows.append([statistics.median(column) for column in zip(*times, strict=True)])
        never = sum(np.isinf(row[-1]) for row in times)
        table.add_row(name, *(f"{value:.2f}" for value in rows[-1]), f"{never} of {seeds}")
    columns = np.array(rows).T
    table.add_row("geometric mean", *(f"{np.exp(np.log(c).mean()):.2f}" for c in columns), "")
    table.add_row("worst", *(f"{c.max():.2f}" for c in columns), "")
    Console(width=100).print(table)


def least_known(space: MapSpace) -> tuple[float, bool]:
    """The least EDP after a proof of some seconds and a longer search; whether it is proven."""
    prover = make_prover(space, objective="edp")
    prover.run(PROOF_SECONDS)
    evaluator = Evaluator(LoopNestModel(), space, seconds=KNOWN_SECONDS, clock=time.process_time)
    make("structured", space, seed=1_000).run(evaluator)
    least = evaluator.result().best_loss
    if len(codes := prover.codes()):
        least = min(least, float(LoopNestModel().evaluate(space, codes).edp.min()))
    return least, prover.finished


def published(seeds: int) -> None:
    """Prints a row per published machine: per cent above the least EDP, geometric means."""
    print("| |", " | ".join(f"{after} ms" for after in AFTER), "| worst at 10 ms | proven |")
    print("|---|" + "---|" * (len(AFTER) + 2))
    for machine in PUBLISHED:
        excess, proofs = [], 0
        for name in PROBLEMS:
            space = MapSpace(workload(name), accelerator(machine))
            least, is_proven = least_known(space)
            runs = np.array([_after(space, seed) for seed in range(seeds)])
            proofs += is_proven
            excess.append(np.log(runs / min(least, float(runs.min()))).mean(0))
        means = 100 * np.expm1(np.array(excess))
        worst = int(means[:, 0].argmax())
        cells = [f"{value:.2f}" for value in 100 * np.expm1(np.mean(excess, axis=0))]
        print(
            f"| `{machine}` |",
            " | ".join([*cells, f"{means[worst, 0]:.2f}, {PROBLEMS[worst]}", f"{proofs}"]),
            "|",
            flush=True,
        )


def _after(space: MapSpace, seed: int) -> list[float]:
    """The best EDP after so many milliseconds."""
    seconds = AFTER[-1] / 1e3
    evaluator = Evaluator(LoopNestModel(), space, seconds=seconds, clock=time.process_time)
    make("structured", space, seed=seed).run(evaluator)
    result = evaluator.result()
    at = np.searchsorted(result.curve_seconds, np.array(AFTER) / 1e3, side="right") - 1
    return [float(result.curve_loss[i]) if i >= 0 else float("inf") for i in at]


def overhead(machine: Accelerator) -> None:
    """Prints what Python takes: beside compiled walks, and beside batches that are asked for."""
    space = MapSpace(workload("resnet-conv4"), machine)
    inside = 0.0

    def timed(*arguments: Any) -> Any:
        nonlocal inside
        start = time.process_time()
        scored = walk(*arguments)
        inside += time.process_time() - start
        return scored

    with mock.patch.object(structured, "walk", timed):
        evaluator = Evaluator(
            LoopNestModel(),
            space,
            iterations=200 * structured.LONGEST_WALK,
            clock=time.process_time,
        )
        searcher = make("structured", space, seed=0)
        inside = 0.0
        searcher.run(evaluator)
    count = evaluator.iterations_used
    print(
        f"compiled walks of {structured.LONGEST_WALK}: {1e6 * inside / count:.2f} us a mapping, "
        f"Python {1e6 * (evaluator.elapsed - inside) / 200:.0f} us a walk"
    )
    for chains in (4, 256):
        evaluator = Evaluator(
            LoopNestModel(), space, iterations=200 * chains, clock=time.process_time
        )
        searcher = make("structured", space, seed=0, chains=chains)
        Searcher.run(searcher, evaluator)
        print(f"asked for {chains} at a time: {1e6 * evaluator.elapsed / 200:.0f} us a batch")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--other", action="store_true", help="other machines too")
    parser.add_argument("--published", action="store_true", help="published machines alone")
    options = parser.parse_args(arguments)
    if options.published:
        published(options.seeds)
        return
    overhead(accelerator("mm256"))
    measure(accelerator("mm256"), options.seeds, MAIN_SECONDS)
    for machine in OTHERS if options.other else ():
        measure(accelerator(machine), options.seeds, OTHER_SECONDS)


if __name__ == "__main__":
    main()
