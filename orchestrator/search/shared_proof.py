"""A proof shared out over Ray: pieces by kept tensors and spatial factors, and parts of long ones.

What it ends with does not depend on the number of workers (the lemma of shares,
docs/inside/proof-any-levels.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from costmodel.affine import Workload
from costmodel.costs import Objective
from costmodel.exact_any.choice import is_older
from costmodel.exact_any.pieces import Here, Limit, Piece, PieceProver, Pool, Settled
from costmodel.exact_any.shared_prover import MOST_WORKERS, SharedProver
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ArgumentError, MapspaceError
from mapspace.ray_start import start_ray
from orchestrator.runs.ray_runtime import Tasks
from searchers.base import Evaluate, Searcher
from searchers.exact import Exact, ExactOptions

if TYPE_CHECKING:
    from costmodel.accelerators import Accelerator
    from orchestrator.answers.request import Request

FIRST_WALKS = 200
"""Of the structured searcher, before pieces are dealt: 100,000 mappings, however long it takes."""


class Problem(NamedTuple):
    """What is proven: all that a worker needs to settle pieces of it."""

    workload: Workload
    accelerator: Accelerator
    objective: Objective
    keep: Mapping[str, Sequence[str]] | None

    def prover(self) -> PieceProver:
        """Settles pieces of it."""
        space = MapSpace(self.workload, self.accelerator)
        return PieceProver(space, objective=self.objective, keep=self.keep)


class Given(NamedTuple):
    """A piece with its number, as a task takes it; None: the problem's assignments are listed."""

    problem: Problem
    number: int
    piece: Piece | None
    limit: Limit


def settle(given: Given) -> Settled | Literal[True]:
    """Settles a piece; a worker keeps the prover of the last problem."""
    problem = given.problem
    key = (problem.workload.hash, problem.accelerator.hash, problem.objective, repr(problem.keep))
    if key not in _provers:
        _provers.clear()
        _provers[key] = problem.prover()
    if given.piece is None:
        return True
    work = _provers[key].settle(given.piece, given.limit)
    while True:
        try:
            next(work)
        except StopIteration as done:
            settled: Settled = done.value
            return settled


_provers: dict[tuple[str, ...], PieceProver] = {}


class OnRay:
    """A pool of Ray tasks."""

    def __init__(self, problem: Problem, workers: int) -> None:
        """Takes as many pieces at a time as there are workers; Ray runs.

        Workers list the assignments while the driver does.
        """
        self._problem, self._workers = problem, workers
        self._tasks: Tasks[Given, Settled | Literal[True]] = Tasks(
            settle, [Given(problem, -1, None, (0.0, 0.0))] * workers, cores=workers
        )
        self._first: list[Given] | None = []
        self._out = set[int]()

    def submit(self, number: int, piece: Piece, limit: Limit) -> None:
        """See `Pool`."""
        given = Given(self._problem, number, piece, limit)
        self._tasks.add(given)
        self._out.add(number)
        if self._first is not None:
            self._first.append(given)

    def ready(self, seconds: float) -> Sequence[tuple[int, Settled]]:
        """See `Pool`.

        Raises:
            MapspaceError: workers kept dying on a piece.
        """
        if self._first is not None:
            # Else idle: so they have the tables that the next pieces need.
            chains = [one for one in self._first if one.piece and one.piece.task == "chains"]
            idle = self._workers - len(self._first)
            for again in itertools.islice(itertools.cycle(chains), max(0, idle)):
                self._tasks.add(again)
            self._first = None
        found = []
        for given, settled in self._tasks.ready(seconds):
            if settled is None:
                raise MapspaceError("Workers kept dying on a piece of the proof (out of memory?).")
            if settled is not True and given.number in self._out:
                self._out.discard(given.number)
                found.append((given.number, settled))
        return found


class SharedExact(Exact):
    """The searcher `exact` around a proof that is shared out.

    The structured searcher walks before the proof, not beside it: when it found what would decide
    how pieces are settled.
    """

    def __init__(self, space: MapSpace, options: ExactOptions, *, seed: int, pool: Pool) -> None:
        """Prepares the search; see `Exact`.

        Args:
            space: of any hierarchy but that of the proof for three levels.
            options: what to prove.
            seed: see `Exact`.
            pool: settles pieces.
        """
        super().__init__(space, options, seed=seed)
        self.await_walk()
        self._prover = SharedProver(
            space, pool, objective=options.objective, keep=options.keep, build=False
        )

    def run(self, evaluate: Evaluate, after_step: Callable[[Searcher], None] | None = None) -> None:
        """Searches until the budget is spent or the proof is done."""
        for _ in range(FIRST_WALKS):
            if evaluate.remaining > 0:
                self._walk(evaluate)
        self._exchange(evaluate)
        while evaluate.remaining > 0 and not self._done(self.prover):
            self._step()
            self._exchange(evaluate)
            if after_step is not None:
                after_step(self)


def shared_exact(
    request: Request, name: str, space: MapSpace, parameters: Mapping[str, Any]
) -> SharedExact:
    """The searcher of a proof that a request shares out; Ray is started where none runs.

    Raises:
        ConfigError: it asks for something else than one proof on any hierarchy.
    """
    assert request.workers is not None  # whoever calls has looked
    if name != "exact":
        raise ArgumentError("workers", f" is for a proof, islands or a simulator, not for {name}.")
    if request.workers > MOST_WORKERS:
        raise ArgumentError("workers", f": expected 1 to {MOST_WORKERS}, got {request.workers}.")
    where = f": on {space.accelerator.name} with {space.workload.name}"
    if space.tables.imperfect:
        raise ArgumentError("workers", f"{where} there is no proof, since factors are imperfect.")
    if is_older(space):
        raise ArgumentError(
            "workers",
            f"{where} the proof for three levels is taken, which uses this machine's processors by "
            "itself (threads); leave them out.",
        )
    if request.top > 1:
        raise ArgumentError("workers", " is for the best tiling alone, not for several.")
    options = ExactOptions.read(name, None, parameters)
    problem = Problem(space.workload, space.accelerator, options.objective, options.keep)
    pool: Pool
    if request.workers == 1:
        pool = Here(problem.prover())
    else:
        start_ray()
        pool = OnRay(problem, request.workers)
    return SharedExact(space, options, seed=request.seed, pool=pool)
