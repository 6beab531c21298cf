"""The exact search: finds the best mapping and proves that there is none better.

It bounds whole sets of mappings from below and evaluates only those that may win
(`costmodel.exact`, docs/inside/proof.md). It is anytime: `lower_bound` always holds, and so does
the best mapping proposed.

An unfinished proof may have seen nothing but poor mappings, so the structured searcher shares the
time: what it finds is offered to the proof, whose gap profits, and the best of both is the result.
Under a budget of time it walks in compiled code, on one of the threads beside the proof or, where
there is one only, in turns with it; the first moments are nearly all the proof's, which is often
done by then. Under a budget of iterations alone, a few of its proposals come first and a further
one fills every pause between two steps of the proof. Where a true query takes time (a benchmark's
virtual latency), the proof, which needs none, has the first half second to itself.

It is no black box: it reads the cost model's formulas, and asks for true costs only of mappings
that it knows to be good. An iteration is one of those, so budgets of iterations do not compare it
with other searchers; budgets of time do, its tables included.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from costmodel.costs import TIE_BREAKERS
from costmodel.exact.face import AnyProof
from costmodel.exact.progress import MOST_TOP
from costmodel.exact.restriction import by_parts
from costmodel.exact_any.choice import is_bounded_only, make_prover, why_not
from costmodel.exact_any.imperfect_prover import check_top
from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.constrained_tables import as_read
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses, Space
from costmodel.tile_chains.spatial import keep_choices
from mapspace.errors import ConfigError
from searchers.base import Evaluate, Searcher
from searchers.compiled.cost_function import CompiledCosts
from searchers.context import Context
from searchers.first_use import FirstUse
from searchers.options import Count, NonNegative, Options, Text, Whole
from searchers.structured import Structured, StructuredOptions

# Most proofs are done sooner than the structured searcher begins: where it has a thread of its own,
# after so many seconds of proof; where the two take turns later, until when it has a small share.
BESIDE_SECONDS = 0.1
ALONE_SECONDS = 0.5
FIRST_SHARE = 0.04

# Parts of a proof's work, milliseconds each, between two proposals under a budget of iterations.
STEP_PARTS = 20

# The longest wait for a step of the proof between two looks at the clock, seconds.
WAIT_SECONDS = 0.05


class ExactOptions(Options):
    """What to prove, and how."""

    gap: NonNegative = 0.0
    """Exhausted when the best mapping is certainly within this share of the optimum."""
    keep: Mapping[Text, tuple[Text, ...]] | None = None
    """The tensors that a level keeps, for levels where that is not searched."""
    top: Annotated[Count, Field(le=MOST_TOP)] = 1
    """How many of the best tilings to find, for `prover.codes()`."""
    samples: Count = 256
    """Proposals of the structured searcher that come first."""
    threads: Whole | None = None
    """With 1 the proof and the structured searcher take turns; else each has a thread of its own;
    null: as many as there are processors."""


class Exact(Searcher):
    """Branch and bound over tilings and loop orders, with a certificate.

    Attributes:
        gap_left: how far the best mapping can be above the optimum after the last step, as a share;
            inf before the first.
    """

    OPTIONS = ExactOptions
    USES = frozenset({"objective", "threads"})
    SPACES = (MapSpace,)
    BLACK_BOX = False
    EXHAUSTIBLE = True
    space: MapSpace
    options: ExactOptions
    STATE: ClassVar[tuple[str, ...]] = ("_proof", "_samples", "_proposed", "_sampling")

    def __init__(
        self, space: MapSpace, options: ExactOptions, *, seed: int, context: Context | None = None
    ) -> None:
        """Checks that the space can be proven, and loads compiled code, off the search's clock.

        The tables are built by the second `ask`, on it.

        Args:
            space: a loop-nest map space.
            options: what to prove.
            seed: decides the sampled proposals; the optimum does not depend on it.
            context: what is minimised, and how many may work at a time.

        Raises:
            ConfigError: the space cannot be proven.
        """
        super().__init__(space, options, seed=seed, context=context)
        self.check("exact", space, options)
        self._first_use = FirstUse()
        self._seed = seed
        self._sampler: Structured | None = None
        self._meet_sampler(wait=False)
        self._sampling = True
        self._proposed: Codes = np.zeros((0, space.cardinality.size), np.int32)
        self._prover: AnyProof | None = None
        self._certain: float | None = None
        self.gap_left = math.inf
        self._walked_score = (math.inf, math.inf)
        self._walked: Codes = self._proposed
        self._proof_seconds = 0.0
        self._walk_seconds = 0.0
        self._query_seconds = 0.0
        self._model = LoopNestModel()

    @classmethod
    def check(cls, name: str, space: Space, options: ExactOptions) -> None:
        """See `Searcher`; a restriction has to be one that the machine leaves open."""
        super().check(name, space, options)
        assert isinstance(space, MapSpace)  # one of `SPACES`
        problem = why_not(space)
        if problem is not None:
            raise ConfigError(problem)
        keep_choices(space, options.keep)
        if is_bounded_only(space):
            check_top(options.top)

    def __del__(self) -> None:
        """Frees the tables of a proof that was not finished, which garbage would hold for long."""
        if getattr(self, "_prover", None) is not None:
            self.prover.close()

    def _meet_sampler(self, *, wait: bool) -> None:
        """Makes the structured searcher, unless another process is still compiling it."""
        if self._sampler is not None:
            return
        if wait or self._first_use.structured_is_there:
            self._first_use.await_structured()
            walked = (
                self.space
                if self.options.keep is None
                else kept_space(self.space, self.options.keep)
            )
            self._sampler = Structured(walked, StructuredOptions(), seed=self._seed)

    @property
    def _threads(self) -> int | None:
        """What the user says, else what the host does."""
        said = self.options.threads
        return self.context.threads if said is None else said

    @property
    def waits_for_walk(self) -> bool:
        """Whether another process is still compiling the structured searcher."""
        self._meet_sampler(wait=False)
        return self._sampler is None

    def await_walk(self) -> None:
        """Returns when that is compiled: a short budget would be over before."""
        self._meet_sampler(wait=True)

    def _read(self, codes: Codes) -> Codes:
        """Codes `[m, D]` of the structured searcher with the tensors that levels keep for it."""
        assert self._sampler is not None  # it has proposed them
        walked = self._sampler.space
        return codes if walked is self.space else as_read(walked.tables, codes, self.space.tables)

    @property
    def _may_sample(self) -> bool:
        """Whether the first proposals are due, without waiting for the structured searcher."""
        self._meet_sampler(wait=False)
        return self._sampling and self._sampler is not None and not self._query_seconds

    @property
    def prover(self) -> AnyProof:
        """The proof; made when it is first needed, its tables in its first steps."""
        if self._prover is None:
            self._prover = make_prover(
                self.space,
                objective=self.context.objective,
                keep=self.options.keep,
                top=self.options.top,
                build=False,
            )
            self._prover.offer(self._proposed)
        return self._prover

    @property
    def _proof(self) -> dict[str, Any] | None:
        return None if self._prover is None else self._prover.state_dict()

    @_proof.setter
    def _proof(self, state: Mapping[str, Any] | None) -> None:
        self._prover = None
        if state is not None:
            self._proposed = self._proposed[:0]
            self.prover.load_state_dict(state)
            self._note_bound()

    @property
    def _samples(self) -> dict[str, Any] | None:
        return None if self._sampler is None else self._sampler.state_dict()

    @_samples.setter
    def _samples(self, state: Mapping[str, Any] | None) -> None:
        if state is not None:
            self._meet_sampler(wait=True)
            assert self._sampler is not None  # whoever saved had one
            self._sampler.load_state_dict(state)

    @property
    def lower_bound(self) -> float | None:
        """What no mapping's objective undercuts; None before the proof began."""
        return self._certain

    def run(self, evaluate: Evaluate, after_step: Callable[[Searcher], None] | None = None) -> None:
        """Searches until the budget is spent or the proof is done."""
        if evaluate.seconds_left is None:
            super().run(evaluate, after_step)
            return
        self._query_seconds = evaluate.query_latency
        with ThreadPoolExecutor(1) as pool:
            proof: Future[None] | None = None
            try:
                while evaluate.remaining > 0 and (self._may_sample or not self._done(self.prover)):
                    if self._may_sample:
                        self.step(evaluate, evaluate.remaining)
                        continue
                    beside = self._walks_beside
                    began = evaluate.elapsed
                    proof = pool.submit(self._step)
                    self._await(proof, evaluate, beside)
                    proof.result()
                    self._proof_seconds += evaluate.elapsed - began
                    self._walk_in_turn(evaluate)
                    self._exchange(evaluate)
                    if after_step is not None:
                        after_step(self)
            finally:
                self._end(proof)

    @property
    def _walks_beside(self) -> bool:
        """Whether the structured searcher takes a thread of its own while the proof does a step.

        Tables are built by one thread, so that another one is free. What queries take is virtual
        and passes for the proof, too, which would not work meanwhile.
        """
        several = self._sampler is not None and (self._threads or os.cpu_count() or 1) > 1
        free = several and not self._query_seconds
        return free and (self._proof_seconds >= BESIDE_SECONDS or not self.prover.built)

    def _await(self, proof: Future[None], evaluate: Evaluate, beside: bool) -> None:
        """Lets a step of the proof come to its end, which is soon when the time is spent."""
        while not proof.done():
            left = evaluate.seconds_left
            if left is None or left <= 0 or evaluate.remaining <= 0:
                self._end(proof)
            elif beside:
                self._walk(evaluate)
            else:
                wait([proof], timeout=min(left, WAIT_SECONDS))

    def _walk_in_turn(self, evaluate: Evaluate) -> None:
        """Lets the structured searcher catch up with what is its share of the time."""
        share = self._walk_share
        while self._walk_seconds < share * self._proof_seconds and evaluate.remaining > 0:
            if self._sampler is None or self._walks_beside:
                return
            self._walk(evaluate)

    @property
    def _walk_share(self) -> float:
        """Seconds that the structured searcher may have for each one of the proof, in turns."""
        if self._proof_seconds >= ALONE_SECONDS:
            return 1.0
        return 0.0 if self._query_seconds else FIRST_SHARE

    def _walk_rows(self, n: int) -> int:
        """Of n mappings those that the structured searcher may score until its turn is over."""
        if not self._query_seconds:
            return n
        seconds = self._walk_share * self._proof_seconds - self._walk_seconds
        return max(1, min(n, int(seconds / self._query_seconds)))

    def _walk(self, evaluate: Evaluate) -> None:
        """Lets the structured searcher score some mappings."""
        assert self._sampler is not None  # whoever calls has looked
        began = evaluate.elapsed
        if not evaluate.walk(self._score_walk):
            codes = self._read(self._sampler.ask(self._walk_rows(evaluate.remaining)))
            losses = evaluate(codes)
            self._sampler.tell(losses)
            self._take_walked(codes, np.column_stack([losses, losses]))
        self._walk_seconds += evaluate.elapsed - began

    def _score_walk(self, costs: CompiledCosts, n: int) -> tuple[Codes, Losses]:
        assert self._sampler is not None  # as in `_walk`
        costs = costs._replace(tables=self._sampler.space.tables)
        codes, scores = self._sampler.walk(costs, self._walk_rows(n))
        codes = self._read(codes)
        self._take_walked(codes, scores)
        return codes, scores

    def _take_walked(self, codes: Codes, scores: Losses) -> None:
        """Keeps the best of the codes `[m, D]` by their scores `[m, 2]`, to be offered."""
        if not len(codes):  # the time ended between two looks at the clock
            return
        best = int(np.lexsort(scores.T[::-1])[0])
        score = float(scores[best, 0]), float(scores[best, 1])
        if score < self._walked_score:
            self._walked_score = score
            self._walked = codes[[best]]

    def _exchange(self, evaluate: Evaluate) -> None:
        """Offers the proof what was walked over, and proposes what the proof has found."""
        if len(self._walked):
            self._proposed = np.concatenate([self._proposed, self._walked])
            self.prover.offer(self._walked)
            self._walked = self._walked[:0]
        news = self._unproposed()
        if len(news) and evaluate.remaining > 0:
            self._tell(news, evaluate(news))
        self._note_bound()

    def _end(self, proof: Future[None] | None) -> None:
        """Ends a step of the proof as soon as it can."""
        while proof is not None and not proof.done():
            # Again, since the proof may only now be made.
            if self._prover is not None:
                self._prover.halt()
            wait([proof], timeout=WAIT_SECONDS)
        if self._prover is not None:
            self._prover.go_on()

    def _step(self) -> None:
        self.prover.step()

    def _note_bound(self) -> None:
        """Keeps what is certain for whoever reads it during a step, from another thread."""
        certain = self.prover.value_of(self.prover.lower_outcome)
        if self.prover.built or certain:
            self.gap_left = self.prover.gap
            unit = 1 if self.context.objective == "latency" else self.prover.unit_pj
            self._certain = float(certain * unit)

    def _ask(self, n: int) -> Codes:
        if self._sampling:
            self._sampling = False
            proposals = self._sample(min(n, self.options.samples))
            if len(proposals):
                return proposals
        prover = self.prover
        while not self._done(prover):
            # So many whatever time they take: a seed decides what is proposed.
            prover.step(parts=STEP_PARTS)
            self._note_bound()
            news = self._unproposed()
            # Otherwise a sampled row per step, so that a host can look at its clock.
            row = news if len(news) else self._sample(1)
            if len(row):
                return row
        return self._unproposed()

    def _unproposed(self) -> Codes:
        """`[0 or 1, D]` the best mapping, if it has not been proposed yet."""
        best = self.prover.codes(1)
        known = (best[:, None] == self._proposed[None]).all(axis=2).any(axis=1)
        news: Codes = best[~known]
        return news

    def _sample(self, n: int) -> Codes:
        """At most n feasible mappings that keep what they may."""
        self._meet_sampler(wait=True)
        assert self._sampler is not None
        return self._read(self._sampler.ask(n))

    def _done(self, prover: AnyProof) -> bool:
        return prover.finished or 0 < self.options.gap >= prover.gap

    def _tell(self, codes: Codes, losses: Losses) -> None:
        if self._sampler is not None and self._sampler.awaits_losses:
            self._sampler.tell(losses)
        if not len(codes):
            return
        # The host's losses may be of another model; a proof rests on this one alone.
        best = self._best_of(codes)
        if self._prover is None:
            self._proposed = self._best_of(np.concatenate([self._proposed, best]))
        else:
            self._prover.offer(best)
            self._proposed = self._prover.codes(1)

    def _best_of(self, codes: Codes) -> Codes:
        """`[1, D]` the best of mappings `[m, D]`, m above 0."""
        costs = self._model.evaluate(self.space, codes)
        tie, loss = (
            costs.objective(TIE_BREAKERS[self.context.objective]),
            costs.objective(self.context.objective),
        )
        return codes[np.lexsort((tie, loss))[:1]]


def kept_space(space: MapSpace, keep: Mapping[str, Sequence[str]]) -> MapSpace:
    """A map space in which levels keep given tensors; `as_read` has its codes in the other's."""
    names, tensors = space.accelerator.level_names, space.workload.tensor_names
    open_levels = {
        level: set(kept)
        for level, kept in by_parts(space.accelerator, keep).items()
        if space.tables.keep_column[names.index(level)] >= 0
    }
    if space.constraints is None:
        rules = [
            {
                "type": "bypass",
                "target": level,
                "keep": [name for name in tensors if name in kept],
                "bypass": [name for name in tensors if name not in kept],
            }
            for level, kept in open_levels.items()
        ]
        return MapSpace(space.workload, space.accelerator, constraints=rules) if rules else space
    held, left = list(space.constraints.keep), list(space.constraints.bypass)
    for level, kept in open_levels.items():
        for bit, name in enumerate(tensors):
            (held if name in kept else left)[names.index(level)] |= 1 << bit
    narrowed = replace(space.constraints, keep=tuple(held), bypass=tuple(left))
    return MapSpace(space.workload, space.accelerator, constraints=narrowed)
