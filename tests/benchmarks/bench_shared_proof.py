"""A proof shared out: seconds alone, shared, and by the recorded lengths of its pieces.

    python tests/benchmarks/bench_shared_proof.py eyeriss resnet-conv4 --workers 2

What 16 and 64 workers would take is a simulation with the measured lengths: pieces are handed out
in their order as workers become free; starting workers and sending pieces count as nothing.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Sequence

from costmodel import MapSpace, accelerator, workload
from costmodel.exact_any.choice import load_prover
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.shared_prover import WINDOW, SharedProver
from costmodel.loop_nest.model import LoopNestModel
from searchers import Evaluator, make


def simulated(lengths: Sequence[Sequence[float]], workers: int) -> float:
    """Seconds that so many workers take, each round of pieces after the one before."""
    total = 0.0
    for one in lengths:
        free, ends = [0.0] * workers, list[float]()
        merged = 0.0
        for at, seconds in enumerate(one):
            if at >= WINDOW:
                merged = max(merged, ends[at - WINDOW])
            begins = max(heapq.heappop(free), merged)
            ends.append(begins + seconds)
            heapq.heappush(free, ends[-1])
        total += max(ends, default=0.0)
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one line per way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("layer")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=20_000)
    options = parser.parse_args(arguments)
    space = MapSpace(workload(options.layer), accelerator(options.machine))
    load_prover(space)
    evaluator = Evaluator(LoopNestModel(), space, objective="edp", iterations=options.iterations)
    make("structured", space, seed=0).run(evaluator)
    assert evaluator.best_code is not None
    first = evaluator.best_code[None]
    alone = AnyProver(space)
    alone.offer(first)
    started = time.perf_counter(), time.process_time()
    alone.run()
    seconds = time.perf_counter() - started[0], time.process_time() - started[1]
    print(f"alone: {seconds[0]:.2f} s, {seconds[1]:.2f} processor s")
    for workers in sorted({1, options.workers}):
        shared = SharedProver(space, workers=workers)
        shared.offer(first)
        begun = time.perf_counter()
        shared.run()
        print(f"{workers} workers: {time.perf_counter() - begun:.2f} s")
    lengths = shared.lengths
    work = sum(map(sum, lengths))
    print(f"pieces: {[len(one) for one in lengths]}, {work:.2f} processor s in all")
    print(f"longest: {[round(max(one, default=0.0), 3) for one in lengths]}")
    for workers in (2, 16, 64):
        print(
            f"simulated, {workers} workers: {seconds[1] / simulated(lengths, workers):.1f} x alone"
        )


if __name__ == "__main__":
    main()
