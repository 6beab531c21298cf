"""A proof shared out: processor seconds alone and of its pieces, and what workers would gain.

    python tests/benchmarks/bench_shared_proof.py register256 resnet-conv4 --lengths FILE.json

What 2, 16 and 64 workers would take is a simulation with the measured lengths of the pieces: they
are handed out in their order as workers become free, each after as many others were merged as were
when it was dealt here. Listing the assignments comes first, merging a piece takes the driver its
measured time, and a worker that comes to an assignment whose tables it does not hold fills them
from nothing, as measured. Starting workers and sending pieces count as nothing.
`--lengths` keeps the lengths, and simulates with those that are there.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from costmodel import MapSpace, accelerator, workload
from costmodel.exact.pool import Here, Limit
from costmodel.exact_any.chain_bounds import Opened
from costmodel.exact_any.choice import load_prover
from costmodel.exact_any.pieces import MOST_BYTES, Piece, PieceProver, Settled, write_bounds
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.shared_prover import SharedProver
from costmodel.loop_nest.model import LoopNestModel
from costmodel.tile_chains.tables import ChainTables
from searchers import Evaluator, make


class Length(NamedTuple):
    """Of a piece: how many were merged when it was dealt, what it is, and what it took.

    seconds: of processor time without filling tables of a search; filling: of that, here.
    """

    after: int
    task: str
    tables: str
    seconds: float
    filling: float


class Measured(PieceProver):
    """Notes how long pieces take to fill tables for a search."""

    fillings: list[float]
    searched: dict[str, Piece]
    largest = 1

    def settle(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """See `PieceProver`."""
        self.fillings.append(0.0)
        if piece.task == "search":
            self.searched[f"{piece.group} {piece.assignments[0]}"] = piece
        return (yield from super().settle(piece, limit))

    def _fill(self, piece: Piece) -> Generator[None, None, tuple[list[ChainTables], Opened]]:
        started = time.thread_time()
        filled = yield from super()._fill(piece)
        self.fillings[-1] = time.thread_time() - started
        self.largest = max(self.largest, sum(table.size for table in filled[0]))
        return filled


def from_nothing(space: MapSpace, searched: Mapping[str, Piece]) -> dict[str, float]:
    """Seconds that a worker takes to fill the tables of each assignment that was searched."""
    worker, found = PieceProver(space), dict[str, float]()
    for piece in searched.values():
        group, a = piece.group, piece.assignments[0]
        rows = worker._queue.groups[group][1]
        write_bounds(rows, a, piece.bounds[0])
        if piece.prices is not None:
            worker._bounds.mixed(
                worker._orders[worker._queue.groups[group][0]], rows, a, piece.prices
            )
        worker._held = None
        started = time.thread_time()
        for _ in worker._fill(piece):
            pass
        found[f"{group} {a}"] = time.thread_time() - started
    return found


def simulated(found: Mapping[str, Any], workers: int) -> float:
    """Seconds that so many workers take."""
    lengths = [Length(*one) for one in found["lengths"]]
    free = [(found["head"], worker) for worker in range(workers)]
    has: list[dict[str, None]] = [{} for _ in range(workers)]
    merged, ends = [found["head"]], list[float]()
    for one in lengths:
        while len(merged) <= one.after:
            merged.append(max(merged[-1], ends[len(merged) - 1]) + found["each"])
        begins, worker = heapq.heappop(free)
        takes = one.seconds
        if one.task == "search":
            # Those used last are at the end.
            if has[worker].pop(one.tables, one) is one:
                takes += found["fresh"][one.tables]
            has[worker][one.tables] = None
            while len(has[worker]) > found["kept"]:
                del has[worker][next(iter(has[worker]))]
        ends.append(max(begins, merged[one.after]) + takes)
        heapq.heappush(free, (ends[-1], worker))
    return max(ends, default=found["head"])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Proves alone, and in pieces."""
    space = MapSpace(workload(options.layer), accelerator(options.machine))
    load_prover(space)
    evaluator = Evaluator(LoopNestModel(), space, objective="edp", iterations=options.iterations)
    make("structured", space, seed=0).run(evaluator)
    assert evaluator.best_code is not None
    worker = Measured(space)
    worker.fillings, worker.searched = [], {}
    started = time.process_time()
    shared = SharedProver(space, Here(worker))
    head = time.process_time() - started
    found: dict[str, Any] = {"head": head}
    for name, proof, before in (("shared", shared, head), ("alone", None, 0.0)):
        started = time.process_time()
        proof = proof or AnyProver(space)
        proof.offer(evaluator.best_code[None])
        proof.run(options.seconds)
        found[name] = {"seconds": before + time.process_time() - started, "gap": proof.gap}
        found[name] |= {"finished": proof.finished, "counts": proof.counts}
        print(name, json.dumps(found[name]), flush=True)
    settled = sum(one.seconds for one in shared.dealt)
    found["each"] = (found["shared"]["seconds"] - head - settled) / len(shared.dealt)
    found["kept"] = max(1, MOST_BYTES // worker.largest)
    found["fresh"] = from_nothing(space, worker.searched)
    found["lengths"] = [
        Length(one.after, one.of[0], f"{one.of[1]} {one.of[2]}", one.seconds - filling, filling)
        for one, filling in zip(shared.dealt, worker.fillings, strict=True)
    ]
    return found


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
    print(f"listing: {found['head']:.2f} s, merging a piece: {found['each'] * 1000:.2f} ms")
    for task in ("floors", "chains", "mix", "search"):
        took = [one[3] + one[4] for one in found["lengths"] if one[1] == task]
        if took:
            print(f"{task}: {len(took)} pieces, {sum(took):.1f} s, longest {max(took):.2f} s")
    print(f"tables from nothing: {max(found['fresh'].values(), default=0):.2f} s at most")
    for workers in (1, 2, 16, 64):
        seconds = simulated(found, workers)
        gain = found["alone"]["seconds"] / seconds
        print(f"simulated, {workers} workers: {seconds:.1f} s, {gain:.1f} x of the proof alone")


if __name__ == "__main__":
    main()
