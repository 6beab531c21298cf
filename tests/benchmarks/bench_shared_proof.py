"""A proof shared out: processor seconds alone and of its pieces, and what workers would gain.

    python tests/benchmarks/bench_shared_proof.py register256 resnet-conv4 --lengths FILE.json

What 2, 16 and 64 workers would take is a simulation with the measured lengths of the pieces.
Listing the assignments comes first. A worker that is free takes a bundle of what is dealt, as those
on Ray do; a piece is dealt after as many others were merged as were when it was dealt here, merging
one takes the driver its measured time, and a bundle comes back as a whole. A worker whose last
piece read other tables fills them from nothing: pieces of chains are settled twice here where
tables change, and what the second time saves is what filling takes; pieces of floors begin with no
level known. Starting workers and sending pieces count as nothing.
`--lengths` keeps the lengths, and simulates with those that are there; `--alone SECONDS` gives what
the proof alone takes, where that was measured before.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from costmodel import MapSpace, accelerator, workload
from costmodel.exact.pool import Here, Limit, Waiting
from costmodel.exact_any import apart
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

    seconds: of processor time without filling tables.
    """

    after: int
    task: str
    tables: str
    seconds: float


class Measured(PieceProver):
    """Notes how long pieces take, and how long the tables that they read."""

    def __init__(self, space: MapSpace) -> None:
        """Has settled nothing."""
        super().__init__(space)
        self.searched: dict[str, Piece] = {}
        self.fresh: dict[str, float] = {}
        self.largest, self.spent, self.twice, self._filling = 1, 0.0, 0.0, 0.0
        self._floors = apart.least_of_level
        apart.least_of_level = self._least_of_level

    def settle(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """See `PieceProver`."""
        self._filling, first = 0.0, 0.0
        if piece.task == "search":
            self.searched[name(piece)] = piece
        if piece.task == "floors":
            for found, _, raised in self._apart.values():
                found._least.clear()
                found._blocks.clear()
                raised.clear()
        if piece.task == "chains" and (self._held is None or self._held[0] != piece.group):
            first = (yield from super().settle(piece, limit)).seconds
            self.twice += first
            for table in self._held[1] if self._held else []:
                if table.around is not None:
                    # Other pieces share what is outside all fan-outs alone.
                    outside = int((table.around.outer[:-1] == 1).all(axis=1).sum())
                    table.around.limit[outside:] = -np.inf
        done = yield from super().settle(piece, limit)
        self.spent += first + done.seconds
        if first:
            key = name(piece)
            self.fresh[key] = max(self.fresh.get(key, 0.0), first - done.seconds)
        if piece.task == "floors":
            key = name(piece)
            self.fresh[key] = max(self.fresh.get(key, 0.0), self._filling)
        return done._replace(seconds=done.seconds - self._filling)

    def _fill(self, piece: Piece) -> Generator[None, None, tuple[list[ChainTables], Opened]]:
        started = time.thread_time()
        filled = yield from super()._fill(piece)
        self._filling += time.thread_time() - started
        self.largest = max(self.largest, sum(table.size for table in filled[0]))
        return filled

    def _least_of_level(self, *given: Any) -> None:
        """As the compiled one; levels outside all fan-outs are the same for every piece."""
        started = time.thread_time()
        self._floors(*given)
        _, _, around, level, *_ = given
        if (around.outer[level] == 1).all():
            self._filling += time.thread_time() - started


def name(piece: Piece) -> str:
    """Whose tables a piece reads."""
    return " ".join(map(str, piece.tables))


def from_nothing(space: MapSpace, searched: Mapping[str, Piece]) -> dict[str, float]:
    """Seconds that a worker takes to fill the tables of each assignment that was searched."""
    worker, found = PieceProver(space), dict[str, float]()
    for key, piece in searched.items():
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
        found[key] = time.thread_time() - started
    return found


class Waits(NamedTuple):
    """A piece that waits in a simulation; tables: whose it reads."""

    number: int
    tables: str


class Simulation:
    """Workers that settle pieces, and a driver that merges them in their order."""

    def __init__(self, found: Mapping[str, Any], workers: int) -> None:
        """Begins when the assignments are listed."""
        self._lengths = [Length(*one) for one in found["lengths"]]
        self._found, self._workers = found, workers
        self._waiting = Waiting[Waits]()
        self._idle = deque(range(workers))
        self._last = [""] * workers
        self._searched: list[dict[str, None]] = [{} for _ in range(workers)]
        self._settled, self._dealt, self._merged = set[int](), 0, 0
        self._driver = float(found["head"])
        # When, and what ends then: pieces on a worker, or nothing but the driver's turn.
        self._events: list[tuple[float, int, tuple[int, ...]]] = [(self._driver, -1, ())]

    def run(self) -> float:
        """Seconds until all pieces are merged."""
        while self._events:
            now, worker, numbers = heapq.heappop(self._events)
            if worker >= 0:
                self._idle.append(worker)
                self._settled.update(numbers)
            self._drive(now)
            while self._idle and len(self._waiting):
                self._give(self._idle.popleft(), now)
        return self._driver

    def _drive(self, now: float) -> None:
        """Merges one piece if the next is settled, and deals what may follow."""
        if self._driver > now:
            return
        while self._dealt < len(self._lengths):
            one = self._lengths[self._dealt]
            if one.after > self._merged:
                break
            self._waiting.add(self._dealt, Waits(self._dealt, one.tables), (0.0, 0.0))
            self._dealt += 1
        if self._merged in self._settled:
            self._merged += 1
            self._driver = now + self._found["each"]
            heapq.heappush(self._events, (self._driver, -1, ()))

    def _give(self, worker: int, now: float) -> None:
        """Has a worker settle a bundle."""
        bundle = [number for number, *_ in self._waiting.bundle(self._workers)]
        takes = sum(self._takes(worker, self._lengths[number]) for number in bundle)
        heapq.heappush(self._events, (now + takes, worker, tuple(bundle)))

    def _takes(self, worker: int, one: Length) -> float:
        """Seconds that a piece takes on a worker, with the tables that it has to fill."""
        fill = self._found["fresh"].get(one.tables, 0.0)
        last, self._last[worker] = self._last[worker], one.tables
        if one.task != "search":
            return one.seconds + (fill if last != one.tables else 0.0)
        has = self._searched[worker]
        # Those used last are at the end.
        missing = has.pop(one.tables, one) is one
        has[one.tables] = None
        while len(has) > self._found["kept"]:
            del has[next(iter(has))]
        return one.seconds + (fill if missing else 0.0)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Proves alone, and in pieces."""
    space = MapSpace(workload(options.layer), accelerator(options.machine))
    load_prover(space)
    evaluator = Evaluator(LoopNestModel(), space, objective="edp", iterations=options.iterations)
    make("structured", space, seed=0).run(evaluator)
    assert evaluator.best_code is not None
    worker = Measured(space)
    started = time.process_time()
    shared = SharedProver(space, Here(worker))
    head = time.process_time() - started
    found: dict[str, Any] = {"head": head}
    proofs: list[tuple[str, AnyProver | None, float]] = [("shared", shared, head)]
    found["alone"] = {"seconds": options.alone, "gap": 0.0}
    if options.alone is None:
        proofs.append(("alone", None, 0.0))
    for name_of, made, before in proofs:
        started = time.process_time()
        proof = made or AnyProver(space)
        proof.offer(evaluator.best_code[None])
        proof.run(options.seconds)
        found[name_of] = {"seconds": before + time.process_time() - started, "gap": proof.gap}
        found[name_of] |= {"finished": proof.finished, "counts": proof.counts}
        print(name_of, json.dumps(found[name_of]), flush=True)
    found["kept"] = max(1, MOST_BYTES // worker.largest)
    found["fresh"] = worker.fresh | from_nothing(space, worker.searched)
    lengths = [
        Length(one.after, one.of[0], " ".join(map(str, one.of)), one.seconds)
        for one in shared.dealt
    ]
    found["lengths"] = lengths
    driver = found["shared"]["seconds"] - head - worker.spent
    found["each"] = driver / len(shared.dealt)
    found["shared"]["seconds"] -= worker.twice
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what was measured, and what is simulated with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("layer")
    parser.add_argument("--seconds", type=float, help="The most that each proof may take.")
    parser.add_argument("--lengths", type=Path)
    parser.add_argument("--alone", type=float, help="Seconds that the proof alone takes.")
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
        took = [one[3] for one in found["lengths"] if one[1] == task]
        fills = [fill for key, fill in found["fresh"].items() if key.startswith(task)]
        if took:
            print(
                f"{task}: {len(took)} pieces, {sum(took):.1f} s, longest {max(took):.2f} s; "
                f"tables from nothing {max(fills, default=0):.3f} s at most"
            )
    for workers in (1, 2, 16, 64):
        seconds = Simulation(found, workers).run()
        gain = found["alone"]["seconds"] / seconds
        print(f"simulated, {workers} workers: {seconds:.1f} s, {gain:.1f} x of the proof alone")


if __name__ == "__main__":
    main()
