"""A proof shared out over Ray: pieces by kept tensors and spatial factors, and parts of long ones.

A piece is floors, chains or a share of a search.
What it ends with does not depend on the number of workers (the lemma of shares,
docs/inside/shared-proofs.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from costmodel.costs import Objective
from costmodel.exact.pool import Here, Limit, Pool, Waiting
from costmodel.exact_any.choice import is_bounded_only
from costmodel.exact_any.pieces import Piece, Settled, Walk
from costmodel.exact_any.shared_prover import MOST_WALKS, MOST_WORKERS, SharedProver
from costmodel.map_space.map_space import MapSpace
from costmodel.problems.affine import Workload
from mapspace.errors import ArgumentError, MapspaceError
from mapspace.ray_start import start_ray
from orchestrator.runs.ray_runtime import Tasks
from orchestrator.search.walking import WALKS, WalkingProver
from searchers.base import Evaluate, Searcher
from searchers.context import Context
from searchers.exact import Exact, ExactOptions

if TYPE_CHECKING:
    from costmodel.machines.accelerators import Accelerator
    from orchestrator.answers.request import Request

FIRST_SAMPLES = 16
"""Mappings at random per tiling that is asked for beside the best one."""

AnyPiece = Piece | Walk


class Problem(NamedTuple):
    """What is proven: all that a worker needs to settle pieces of it."""

    workload: Workload
    accelerator: Accelerator
    objective: Objective
    keep: Mapping[str, Sequence[str]] | None
    top: int = 1

    def prover(self) -> WalkingProver:
        """Settles pieces of it."""
        space = MapSpace(self.workload, self.accelerator)
        return WalkingProver(space, objective=self.objective, keep=self.keep, top=self.top)


class Given(NamedTuple):
    """Pieces with numbers and limits, as a task takes them; none: the worker gets ready."""

    problem: Problem
    pieces: Sequence[tuple[int, AnyPiece, Limit]] = ()


def settle(given: Given) -> list[Settled]:
    """Settles pieces; a worker keeps the prover of the last problem."""
    problem = given.problem
    key = (problem.workload.hash, problem.accelerator.hash, *map(repr, problem[2:]))
    if key not in _provers:
        _provers.clear()
        _provers[key] = prover = problem.prover()
        prover.get_ready()
    return [_whole(_provers[key].settle(piece, limit)) for _, piece, limit in given.pieces]


def _whole(work: Generator[None, None, Settled]) -> Settled:
    while True:
        try:
            next(work)
        except StopIteration as done:
            settled: Settled = done.value
            return settled


_provers: dict[tuple[str, ...], WalkingProver] = {}


class OnRay:
    """A pool of Ray tasks."""

    def __init__(self, problem: Problem, workers: int) -> None:
        """Takes as many pieces at a time as there are workers; Ray runs.

        Workers get ready while the driver lists what is to be settled.
        """
        self._problem = problem
        self._tasks: Tasks[Given, list[Settled]] = Tasks(
            settle, [Given(problem)] * workers, cores=workers
        )
        self._workers, self._waiting = workers, Waiting[AnyPiece]()
        self._out = set[int]()
        # What those have read last that are free again: Ray is likely to give them what comes next.
        self._last = deque[Hashable]()

    def submit(self, number: int, piece: AnyPiece, limit: Limit) -> None:
        """See `Pool`."""
        self._waiting.add(number, piece, limit)

    def _give_out(self) -> None:
        """Has tasks for workers that are free; what stands in line may still be bundled."""
        for _ in range(self._tasks.free):
            if not self._waiting:
                return
            last = self._last.popleft() if self._last else None
            bundle = self._waiting.bundle(self._workers, last)
            self._out.update(number for number, *_ in bundle)
            self._tasks.add(Given(self._problem, bundle))

    def ready(self, seconds: float) -> Sequence[tuple[int, Any]]:
        """See `Pool`.

        Raises:
            MapspaceError: workers kept dying on a piece.
        """
        found = list[tuple[int, Any]]()
        self._give_out()
        for given, settled in self._tasks.ready(seconds):
            if settled is None:
                raise MapspaceError("Workers kept dying on a piece of the proof (out of memory?).")
            self._last.extend(piece.tables for _, piece, _ in given.pieces[-1:])
            for (number, *_), one in zip(given.pieces, settled, strict=True):
                if number in self._out:
                    self._out.discard(number)
                    found.append((number, one))
        self._give_out()
        return found

    def drop(self, number: int) -> None:
        """See `Pool`."""
        self._waiting.drop(number)
        self._out.discard(number)

    def forget(self) -> None:
        """See `Pool`."""
        self._tasks.forget()
        self._waiting.clear()
        self._out.clear()
        self._last.clear()


class SharedExact(Exact):
    """The searcher `exact` around a proof that is shared out.

    The structured searcher walks before the proof, not beside it: when it found what would decide
    how pieces are settled.
    """

    def __init__(
        self,
        space: MapSpace,
        options: ExactOptions,
        *,
        seed: int,
        context: Context,
        pool: Pool[Any, Any],
    ) -> None:
        """Prepares the search; see `Exact`.

        Args:
            space: one that can be proven.
            options: what to prove.
            seed: see `Exact`.
            context: see `Exact`.
            pool: settles pieces.
        """
        super().__init__(space, options, seed=seed, context=context)
        self.await_walk()
        prover = SharedProver(
            space,
            pool,
            walks=MOST_WALKS,
            objective=context.objective,
            keep=options.keep,
            top=options.top,
            build=False,
        )
        if options.top > 1:
            # Until so many are known every piece would be worth the while.
            rng = np.random.default_rng(seed)
            prover.offer(space.sample(rng, FIRST_SAMPLES * options.top, feasible=True))
        self._prover = prover

    def run(self, evaluate: Evaluate, after_step: Callable[[Searcher], None] | None = None) -> None:
        """Searches until the budget is spent or the proof is done."""
        for _ in range(WALKS):
            if evaluate.remaining > 0:
                self._walk(evaluate)
        self._exchange(evaluate)
        while evaluate.remaining > 0 and not self._done(self.prover):
            self._step()
            self._exchange(evaluate)
            if after_step is not None:
                after_step(self)


def shared_exact(
    request: Request, space: MapSpace, name: str, parameters: Mapping[str, Any]
) -> SharedExact:
    """The searcher of a proof that a request shares out; Ray is started where none runs.

    Raises:
        ConfigError: it asks for something else than a proof.
    """
    check_shared(request, name, space)
    assert request.workers is not None  # whoever calls has looked
    options = ExactOptions.read(name, request.preset, parameters)
    problem = Problem(
        space.workload, space.accelerator, request.objective, options.keep, options.top
    )
    pool: Pool[Any, Any]
    if request.workers == 1:
        pool = Here(problem.prover())
    else:
        start_ray()
        pool = OnRay(problem, request.workers)
    context = Context(objective=request.objective, threads=request.threads)
    return SharedExact(space, options, seed=request.seed, context=context, pool=pool)


def check_shared(request: Request, name: str, space: MapSpace) -> None:
    """Refuses what cannot be shared out.

    Raises:
        ConfigError: it is something else than a proof, or for too many workers.
    """
    if name != "exact":
        raise ArgumentError("workers", f" is for a proof, islands or a simulator, not for {name}.")
    if not 1 <= (request.workers or 1) <= MOST_WORKERS:
        raise ArgumentError("workers", f": expected 1 to {MOST_WORKERS}, got {request.workers}.")
    where = f": on {space.accelerator.name} with {space.workload.name}"
    if is_bounded_only(space):
        why = "factors are imperfect" if space.tables.imperfect else "there are too many mappings"
        raise ArgumentError("workers", f"{where} there is no proof, since {why}.")
