"""A proof shared out: processor seconds alone and of its pieces, and what workers would gain.

    python tests/benchmarks/bench_shared_proof.py register256 resnet-conv4 --lengths FILE.json
    python tests/benchmarks/bench_shared_proof.py mm256-bw-bypass inception-conv2

What 2, 16 and 64 workers would take is a simulation with the measured lengths of the pieces.
Listing comes first; workers are ready then, as they lay out the problem while the structured
searcher walks before the proof. A worker that is free takes a bundle of what is dealt, as those on
Ray do (which worker takes it is known here, and likely on Ray); a piece is dealt after as many
others were merged as were when it was dealt here, merging
one takes the driver what it took here, and a bundle comes back as a whole;
what follows from a piece stands in line once that is back, with the limit of that moment, and once
more if it is dealt with another. What a worker has of
tables it keeps as it does on Ray: it fills those of a search again where it has not searched that
assignment last, or among the last where tables are small; of small lattices those of chains where
its last piece read others (such pieces are settled twice here, and what the second time saves is
what filling takes). The first piece of every task is settled twice, too: what the first time took
longer every worker takes once. What is dealt and then dropped, since better was found, is measured,
too, and holds workers up. Of three levels every worker fills its tables while it gets ready, and
the first piece lists the units. Starting workers and sending pieces count as nothing. Tables that a
worker puts aside after some pieces are left out, so that with few workers pieces take less than is
said here, as `--workers` shows; `--aside` measures pieces with them, as one worker has them.
`--lengths` keeps the lengths, and simulates with those that are there; `--alone SECONDS` gives what
the proof alone takes, where that was measured before.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
import time
from collections import deque
from collections.abc import Generator, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact.face import AnyProof
from costmodel.exact.pool import Here, InOrder, Limit, Waiting
from costmodel.exact_any import apart, pieces
from costmodel.exact_any.chain_bounds import Opened
from costmodel.exact_any.choice import load_prover, make_prover
from costmodel.exact_any.held import is_large
from costmodel.exact_any.pieces import MOST_BYTES, Piece, Settled, Walk
from costmodel.exact_any.shared_prover import MOST_WALKS, SharedProver
from costmodel.loop_nest.model import LoopNestModel
from costmodel.space import Codes
from costmodel.tile_chains.tables import ChainTables
from mapspace.less_collecting import collect_less
from orchestrator.search.walking import WalkingProver
from searchers import Evaluator, make


class Length(NamedTuple):
    """Of a piece: the first that was not merged when it was dealt, what it is, and what it took.

    seconds: of processor time without filling tables; dropped: after which was merged nobody needed
    it any more; merging: seconds that the driver takes to merge it and to deal what follows;
    parent: the piece that it follows from, if that is known as soon as that one is settled, else
    -1; limit: what it must be below, before: what was known before it was merged, as numbers.
    """

    after: int
    task: str
    tables: str
    seconds: float
    dropped: int | None = None
    merging: float = 0.0
    parent: int = -1
    limit: int = 0
    before: int = 0


class Merging(InOrder[Any, Any]):
    """Pieces in their order; notes how long the driver takes with what came of each.

    Nothing is settled before it is dealt: it would be the same, and is simulated.

    Attributes:
        seconds: from when a piece is handed back until the next one is, or is waited for.
        parents: by piece, which one it follows from.
        limits: the numbers of limits, with which each piece was dealt, and known before its merge.
    """

    def __init__(self, pool: Measured, proof: SharedProver) -> None:
        """Has dealt nothing."""
        super().__init__(pool)
        self._measured, self._proof = pool, proof
        self.seconds: dict[int, float] = {}
        self._since: tuple[int, float] | None = None
        self._parent_of: dict[Any, int] = {}
        self._number_of: dict[Limit, int] = {}
        self.parents: dict[int, int] = {}
        self.limits: tuple[dict[int, int], dict[int, int]] = {}, {}

    def deal(self, piece: Any, limit: Limit) -> int:
        """See `InOrder`."""
        number = super().deal(piece, limit)
        self.parents[number] = self._parent_of.get(piece, -1)
        self.limits[0][number] = self._numbered(limit)
        return number

    def foresee(self, piece: Any, limit: Limit) -> None:
        """See `InOrder`; here it is not."""

    def wait(self, seconds: float) -> list[tuple[Any, Any]]:
        """See `InOrder`."""
        self.note()
        return super().wait(seconds)

    def take(self) -> tuple[Any, Any]:
        """See `InOrder`."""
        self.note()
        number, proof = self.first, self._proof
        piece, done = super().take()
        if isinstance(proof, SharedProver):
            self.limits[1][number] = self._numbered(proof._limit())
            if isinstance(piece, Piece) and piece.task != "floors" and not len(done.codes):
                for one in proof._following(piece, done):
                    self._parent_of[one] = number
        self._since = number, time.process_time() - self._measured.spent
        return piece, done

    def _numbered(self, limit: Limit) -> int:
        return self._number_of.setdefault(limit, len(self._number_of))

    def note(self) -> None:
        """Is through with the piece handed back last."""
        if self._since is not None:
            number, started = self._since
            # What is dropped is settled meanwhile, to know its length.
            self.seconds[number] = time.process_time() - self._measured.spent - started
            self._since = None


class Measured(Here[Any, Any]):
    """A pool of this thread alone that notes how long pieces take.

    Attributes:
        worker: who settles them.
        seconds: of every piece, by its number.
        spent: seconds in all, of what was settled twice as well.
        in_vain: seconds of these that went into what was dropped.
        begun: the processor time when the first was dealt.
    """

    def __init__(self, worker: Filling) -> None:
        """Has settled nothing."""
        super().__init__(worker)
        self.worker, self.spent, self.in_vain = worker, 0.0, 0.0
        self.seconds: dict[int, float] = {}
        self._given: dict[int, tuple[Any, Limit]] = {}
        self.begun: float | None = None

    def submit(self, number: int, piece: Any, limit: Limit) -> None:
        """See `Pool`."""
        self.begun = self.begun or time.process_time()
        self._given[number] = piece, limit
        super().submit(number, piece, limit)

    def _begin(self, number: int, piece: Any, limit: Limit) -> Generator[None, None, Any]:
        took, work = 0.0, super()._begin(number, piece, limit)
        while True:
            started, settled = time.thread_time(), None
            try:
                next(work)
            except StopIteration as done:
                settled = done.value
            took += time.thread_time() - started
            if settled is not None:
                break
            yield
        self.spent += took
        self._given.pop(number, None)
        self.seconds[number] = took - getattr(self.worker, "filling", 0.0)
        return settled

    def drop(self, number: int) -> None:
        """Drops a piece; other workers may have begun with it, so that its length is noted."""
        super().drop(number)
        if number in self._given:
            spent = self.spent
            for _ in self._begin(number, *self._given[number]):
                pass
            self.in_vain += self.spent - spent

    def forget(self) -> None:
        """Drops all, as `drop` does."""
        for number in list(self._given):
            self.drop(number)
        super().forget()


class Filling(WalkingProver):
    """Settles pieces, and notes how long tables take that another worker would fill again.

    Attributes:
        filling: seconds of the last piece that are none of its length.
        fresh: seconds from nothing, by tables.
        ready: seconds that it takes a worker to get ready.
        warm: by task, seconds that a worker's first piece takes longer.
        largest: bytes of the largest tables of an assignment that was searched.
        twice: seconds of what was settled a second time.
    """

    def __init__(self, space: MapSpace, objective: Objective) -> None:
        """Has settled nothing."""
        started = time.process_time()
        super().__init__(space, objective=objective)
        self.get_ready()
        self.ready = time.process_time() - started
        self._known_of_levels = {n: dict(its[0]._least) for n, its in self._apart.items()}
        self.fresh: dict[str, float] = {}
        self.warm: dict[str, float] = {}
        self.largest, self.twice, self.filling = 1, 0.0, 0.0
        self._floors = apart.least_of_level
        apart.least_of_level = self._least_of_level

    def settle(self, piece: Piece | Walk, limit: Limit) -> Generator[None, None, Settled]:
        """See `PieceProver`."""
        if isinstance(piece, Walk):
            self.filling = 0.0
            return (yield from super().settle(piece, limit))
        cold = piece.task not in self.warm
        held = self._held is not None and self._held[0] == piece.group
        again = piece.task == "chains" and not piece.apart and not held
        first = 0.0
        if cold or again:
            started = time.thread_time()
            done = yield from self._settle_anew(piece, limit)
            first = time.thread_time() - started
            self._opened.clear()
            if not again:
                first -= self.filling
            for table in self._held[1] if again and self._held else []:
                if table.around is not None:
                    # Other pieces share what is outside all fan-outs alone.
                    outside = int((table.around.outer[:-1] == 1).all(axis=1).sum())
                    table.around.limit[outside:] = -np.inf
        started = time.thread_time()
        done = yield from self._settle_anew(piece, limit)
        second = time.thread_time() - started - self.filling
        if cold:
            self.warm[piece.task] = 0.0 if again else max(0.0, first - second)
        if again:
            self.fresh[name(piece)] = max(self.fresh.get(name(piece), 0.0), first - second)
        elif self.filling:
            self.fresh[name(piece)] = max(self.fresh.get(name(piece), 0.0), self.filling)
        if first:
            self.twice += second + self.filling
            self.filling += first
        return done

    def _settle_anew(self, piece: Piece, limit: Limit) -> Generator[None, None, Settled]:
        """Settles a piece; what is known of levels serves no other piece."""
        self.filling = 0.0
        if piece.task == "floors":
            for number, (found, _, raised) in self._apart.items():
                found._least = dict(self._known_of_levels[number])
                found._blocks.clear()
                raised.clear()
        return (yield from super().settle(piece, limit))

    def _fill(self, piece: Piece) -> Generator[None, None, tuple[list[ChainTables], Opened]]:
        started = time.thread_time()
        filled = yield from super()._fill(piece)
        self.filling += time.thread_time() - started
        self.largest = max(self.largest, sum(table.size for table in filled[0]))
        return filled

    def _least_of_level(self, *given: Any) -> None:
        """As the compiled one; levels outside all fan-outs are the same for every piece."""
        started = time.thread_time()
        self._floors(*given)
        _, _, around, level, *_ = given
        if (around.outer[level] == 1).all():
            self.filling += time.thread_time() - started


def said(tables: Hashable) -> str:
    """Whose tables a piece reads, as lengths have it."""
    return " ".join(map(str, tables)) if isinstance(tables, tuple) else ""


def name(piece: Piece) -> str:
    """Whose tables a piece reads."""
    return said(piece.tables)


class Waits(NamedTuple):
    """A piece that waits in a simulation; tables: whose it reads, None: none of its own."""

    number: int
    tables: str | None


class Simulation:
    """Workers that settle pieces, and a driver that merges them in their order."""

    def __init__(self, found: Mapping[str, Any], workers: int) -> None:
        """Begins when the assignments are listed."""
        self._lengths = [Length(*one) for one in found["lengths"]]
        self._found, self._workers = found, workers
        self._waiting = Waiting[Waits]()
        self._idle = deque(range(workers))
        self._last = [""] * workers
        self._read: list[str | None] = [None] * workers
        self._searched: list[dict[str, None]] = [{} for _ in range(workers)]
        self._floors: list[dict[str, None]] = [{} for _ in range(workers)]
        self._warmed: list[set[str]] = [set() for _ in range(workers)]
        self._settled, self._dealt, self._merged = set[int](), 0, 0
        self._dropped: dict[int, list[int]] = {}
        for number, one in enumerate(self._lengths):
            if one.dropped is not None:
                self._dropped.setdefault(one.dropped, []).append(number)
        # Of pieces that are dropped none is dealt after those behind it are merged.
        self._gone = {number for some in self._dropped.values() for number in some}
        self._driver = float(found["head"])
        self._children: dict[int, list[int]] = {}
        for number, one in enumerate(self._lengths):
            self._children.setdefault(one.parent, []).append(number)
        self._foreseen = set[int]()
        # When, and what ends then: pieces on a worker, or nothing but the driver's turn.
        self._events: list[tuple[float, int, tuple[int, ...]]] = [(self._driver, -1, ())]

    def run(self) -> float:
        """Seconds until all pieces are merged."""
        while self._events:
            now, worker, numbers = heapq.heappop(self._events)
            if worker >= 0:
                self._idle.append(worker)
                self._settled.update(numbers)
                self._foresee(numbers)
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
            if self._dealt not in self._foreseen:
                self._wait(self._dealt)
            self._dealt += 1
        if self._merged in self._settled:
            for number in self._dropped.get(self._merged, ()):
                self._waiting.drop(number)
            merging = self._lengths[self._merged].merging
            self._merged += 1
            while self._merged in self._gone:
                self._merged += 1
            self._driver = now + merging
            heapq.heappush(self._events, (self._driver, -1, ()))

    def _wait(self, number: int, at: int | None = None) -> None:
        waits = Waits(number, self._lengths[number].tables or None)
        self._waiting.add(number if at is None else at, waits, (0.0, 0.0))

    def _foresee(self, numbers: Sequence[int]) -> None:
        """Has those stand in line that follow from what came back, with the limit known by now."""
        if self._merged >= len(self._lengths):
            return
        known = self._lengths[self._merged].before
        for child in (one for number in numbers for one in self._children.get(number, ())):
            if child < self._dealt:
                continue
            if self._lengths[child].limit == known:
                self._foreseen.add(child)
                self._wait(child)
            else:
                self._wait(child, -child)

    def _give(self, worker: int, now: float) -> None:
        """Has a worker settle a bundle."""
        read = self._read[worker]
        bundle = [number for number, *_ in self._waiting.bundle(self._workers, read)]
        self._read[worker] = self._lengths[abs(bundle[-1])].tables or None
        takes = sum(self._takes(worker, self._lengths[abs(number)]) for number in bundle)
        bundle = [number for number in bundle if number >= 0]
        heapq.heappush(self._events, (now + takes, worker, tuple(bundle)))

    def _takes(self, worker: int, one: Length) -> float:
        """Seconds that a piece takes on a worker, with the tables that it has to fill."""
        fill = self._found["fresh"].get(one.tables, 0.0)
        warmed, seconds = self._warmed[worker], one.seconds
        if one.task not in warmed:
            seconds += self._found["warm"].get(one.task, 0.0)
            warmed.add(one.task)
        if self._found["large"] and one.task == "chains":
            # Its tables stand where those of a search stood.
            self._searched[worker].clear()
        if one.task == "chains":
            last, self._last[worker] = self._last[worker], one.tables
            return seconds + (fill if last != one.tables else 0.0)
        has = self._searched[worker] if one.task == "search" else self._floors[worker]
        # Those used last are at the end.
        missing = has.pop(one.tables, one) is one
        has[one.tables] = None
        while one.task == "search" and len(has) > self._found["kept"]:
            del has[next(iter(has))]
        return seconds + (fill if missing else 0.0)


def parts(space: MapSpace, objective: Objective) -> tuple[Measured, Merging, SharedProver]:
    """A proof shared out, its tables or list left to its first steps, and who measures it."""
    pool = Measured(Filling(space, objective))
    proof = SharedProver(space, pool, objective=objective, build=False, walks=MOST_WALKS)
    proof._pieces = merging = Merging(pool, proof)
    return pool, merging, proof


def run(proof: AnyProof, codes: Codes, seconds: float | None) -> dict[str, Any]:
    """Runs a proof from a mapping on; what it took, and when it began."""
    started = time.process_time()
    proof.offer(codes)
    proof.run(seconds)
    took = time.process_time() - started
    found = {"seconds": took, "started": started, "gap": proof.gap, "finished": proof.finished}
    print(json.dumps(found | {"counts": proof.counts}), flush=True)
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Proves alone, and in pieces."""
    if not options.aside:
        pieces.OFTEN = sys.maxsize
    space = MapSpace(workload(options.layer), accelerator(options.machine))
    load_prover(space)
    objective: Objective = options.objective
    evaluator = Evaluator(
        LoopNestModel(), space, objective=objective, iterations=options.iterations
    )
    make("structured", space, seed=0).run(evaluator)
    assert evaluator.best_code is not None
    first = evaluator.best_code[None]
    pool, merging, proof = parts(space, objective)
    shared = run(proof, first, options.seconds)
    assert pool.begun is not None
    found: dict[str, Any] = {"head": pool.begun - shared["started"], "shared": shared}
    merging.note()
    shared["seconds"] -= pool.in_vain
    found |= {"kept": 1, "fresh": {}, "warm": {}, "large": False}
    worker = pool.worker
    found["ready"] = worker.ready
    if isinstance(worker, Filling):
        shared["seconds"] -= worker.twice
        found["large"] = any(is_large(one.shape) for one in worker._orders)
        found["kept"] = 1 if found["large"] else max(1, MOST_BYTES // worker.largest)
        found["fresh"], found["warm"] = worker.fresh, worker.warm
    found["lengths"] = [
        Length(
            one.after,
            str(one.tables[0]) if isinstance(one.tables, tuple) else "walk",
            said(one.tables),
            pool.seconds.get(number, 0.0),
            one.dropped,
            merging.seconds.get(number, 0.0),
            merging.parents[number],
            *(its.get(number, -1) for its in merging.limits),
        )
        for number, one in enumerate(proof.dealt)
    ]
    found["alone"] = {"seconds": options.alone, "gap": 0.0}
    if options.alone is None:
        found["alone"] = run(
            make_prover(space, objective=objective, build=False), first, options.seconds
        )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what was measured, and what is simulated with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("layer")
    parser.add_argument("--objective", default="edp", choices=get_args(Objective))
    parser.add_argument("--seconds", type=float, help="The most that each proof may take.")
    parser.add_argument("--lengths", type=Path)
    parser.add_argument("--alone", type=float, help="Seconds that the proof alone takes.")
    parser.add_argument("--aside", action="store_true")
    parser.add_argument("--iterations", type=int, default=100_000)
    options = parser.parse_args(arguments)
    collect_less()  # as commands do
    file = options.lengths
    found = json.loads(file.read_text()) if file and file.exists() else measure(options)
    if file is not None:
        file.write_text(json.dumps(found))
    for which in ("alone", "shared"):
        its = found[which]
        print(f"{which}: {its['seconds']:.1f} processor s, gap {its['gap']:.2%}")
    merging = [Length(*one).merging for one in found["lengths"]]
    print(
        f"listing: {found['head']:.2f} s; merging: {sum(merging):.2f} s, {max(merging):.3f} at most"
    )
    print(f"a worker gets ready: {found['ready']:.2f} s")
    print("a worker's first piece, more s:", {k: round(s, 2) for k, s in found["warm"].items()})
    for task in ("walk", "floors", "chains", "search", "units"):
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
