"""A proof shared out: processor seconds alone and of its pieces, and what workers would gain.

    python tests/benchmarks/bench_shared_proof.py register256 resnet-conv4 --lengths FILE.json

What 2, 16 and 64 workers would take is a simulation with the measured lengths of the pieces: they
are handed out in their order as workers become free, within the window; a worker fills the tables
of an assignment anew where its last piece was of another one. Starting workers and sending pieces
count as nothing. `--lengths` keeps the lengths, and simulates with those that are there.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from costmodel import MapSpace, accelerator, workload
from costmodel.exact_any.choice import load_prover
from costmodel.exact_any.pieces import Here, Limit, Piece, PieceProver, Settled
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.shared_prover import SharedProver
from costmodel.loop_nest.model import LoopNestModel
from searchers import Evaluator, make

Length = tuple[str, float, float]
"""What tables a piece needs, processor seconds without filling them, and of filling them."""


class Measured(PieceProver):
    """Notes how long pieces take, and how much of that is filling tables."""

    filling = 0.0

    def settle(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """See `PieceProver`; `seconds` are those without filling tables of searches."""
        self.filling = 0.0
        settled = yield from super().settle(piece, limit)
        if not piece.parts:
            self.filling = 0.0  # bounding is filling
        key = f"{piece.group} {piece.assignments[0]}" if piece.parts else ""
        LENGTHS.append((key, settled.seconds - self.filling, self.filling))
        return settled

    def _fill(self, *given: Any, **named: Any) -> Generator[None, None, float]:
        work = super()._fill(*given, **named)
        while True:
            started = time.thread_time()
            try:
                next(work)
            except StopIteration as done:
                self.filling += time.thread_time() - started
                return float(done.value)
            self.filling += time.thread_time() - started
            yield


LENGTHS: list[Length] = []


def simulated(rounds: Sequence[Sequence[Length]], windows: Sequence[int], workers: int) -> float:
    """Seconds that so many workers take, each round of pieces after the one before."""
    fill: dict[str, float] = {}
    for key, _, filling in (length for one in rounds for length in one):
        fill[key] = max(fill.get(key, 0.0), filling)
    total, has = 0.0, [""] * workers
    for one, window in zip(rounds, windows, strict=True):
        free, ends = [(0.0, worker) for worker in range(workers)], list[float]()
        merged = 0.0
        for at, (key, seconds, _) in enumerate(one):
            if at >= window:
                merged = max(merged, ends[at - window])
            begins, worker = heapq.heappop(free)
            ends.append(max(begins, merged) + seconds + (fill[key] if has[worker] != key else 0.0))
            has[worker] = key
            heapq.heappush(free, (ends[-1], worker))
        total += max(ends, default=0.0)
    return total


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Proves alone, and in pieces."""
    space = MapSpace(workload(options.layer), accelerator(options.machine))
    load_prover(space)
    evaluator = Evaluator(LoopNestModel(), space, objective="edp", iterations=options.iterations)
    make("structured", space, seed=0).run(evaluator)
    assert evaluator.best_code is not None
    shared = SharedProver(space, Here(Measured(space)))
    found: dict[str, Any] = {}
    for name, proof in (("shared", shared), ("alone", AnyProver(space))):
        proof.offer(evaluator.best_code[None])
        started = time.process_time()
        proof.run(options.seconds)
        found[name] = {"seconds": time.process_time() - started, "gap": proof.gap}
        found[name] |= {"finished": proof.finished, "counts": proof.counts}
        print(name, json.dumps(found[name]), flush=True)
    rounds, at = [], 0
    for one in shared.lengths:
        rounds.append(LENGTHS[at : at + len(one)])
        at += len(one)
    return found | {"rounds": rounds, "windows": shared.windows}


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what was measured, and what is simulated with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("layer")
    parser.add_argument("--seconds", type=float, help="The most that each proof may take.")
    parser.add_argument("--lengths", type=Path)
    parser.add_argument("--iterations", type=int, default=100_000)
    options = parser.parse_args(arguments)
    file = options.lengths
    found = json.loads(file.read_text()) if file and file.exists() else measure(options)
    if file is not None:
        file.write_text(json.dumps(found))
    for name in ("alone", "shared"):
        said = found[name]
        print(f"{name}: {said['seconds']:.1f} processor s, gap {said['gap']:.2%}")
    rounds = found["rounds"]
    print(f"pieces: {[len(one) for one in rounds]}")
    print(f"longest: {[round(max((sum(x[1:]) for x in one), default=0.0), 2) for one in rounds]}")
    for workers in (1, 2, 16, 64):
        seconds = simulated(rounds, found["windows"], workers)
        gain = found["alone"]["seconds"] / seconds
        print(f"simulated, {workers} workers: {seconds:.1f} s, {gain:.1f} x of the proof alone")


if __name__ == "__main__":
    main()
