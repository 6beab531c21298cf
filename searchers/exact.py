"""The exact search: finds the best mapping and proves that there is none better.

It bounds whole sets of mappings from below and evaluates only those that may win
(`costmodel.exact`, docs/exact.md). It is anytime: `lower_bound` always holds, and so does the best
mapping proposed. A few proposals of the structured searcher come first, so that there is a mapping
at once, and further ones fill the pauses between its steps.

It is no black box: it reads the cost model's formulas, and asks for true costs only of mappings
that it knows to be good. An iteration is one of those, so budgets of iterations do not compare it
with other searchers; budgets of time do, its tables included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from costmodel.costs import Objective
from costmodel.errors import ConfigError
from costmodel.exact.prover import Prover, load_compiled
from costmodel.exact.tables import BUFFER, ELEMENT, keep_sets, why_not
from costmodel.loopnest import LoopNestModel
from costmodel.mapspace import MapSpace
from searchers.base import Codes, Losses, Searcher, require
from searchers.structured import Structured

if TYPE_CHECKING:
    from costmodel.space import Space


class Exact(Searcher):
    """Branch and bound over tilings and loop orders, with a certificate."""

    STATE: ClassVar[tuple[str, ...]] = ("_proof", "_samples", "_proposed", "_sampling")

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        objective: Objective = "edp",
        gap: float = 0.0,
        keep: Mapping[str, Sequence[str]] | None = None,
        top: int = 1,
        samples: int = 256,
        threads: int | None = None,
    ) -> None:
        """Checks that the space can be proven, and loads compiled code, off the search's clock.

        The tables are built by the second `ask`, on it.

        Args:
            space: a loop-nest map space on three levels.
            seed: decides the sampled proposals; the optimum does not depend on it.
            objective: what the host minimises.
            gap: exhausted when the best mapping is certainly within this share of the optimum.
            keep: the tensors that a level keeps, for levels where that is not searched.
            top: how many of the best tilings to find, for `prover.codes()`.
            samples: proposals of the structured searcher that come first.
            threads: how many work at a time; None: one per processor, at most four.

        Raises:
            ConfigError: the space cannot be proven, or a value is not allowed.
        """
        super().__init__(space, seed=seed)
        if not isinstance(space, MapSpace):
            raise ConfigError(
                f"The exact searcher needs a loop-nest MapSpace, got {type(space).__name__}."
            )
        problem = why_not(space)
        if problem is not None:
            raise ConfigError(problem)
        for level in (BUFFER, ELEMENT):
            keep_sets(space, level, keep or {})
        require(gap >= 0, "gap", gap, "0 or more")
        require(top >= 1, "top", top, "at least 1")
        require(samples >= 1, "samples", samples, "at least 1")
        load_compiled()
        self.objective = objective
        self.gap = gap
        self.keep = keep
        self.top = top
        self.samples = samples
        self.threads = threads
        self._nest = space
        self._sampler = Structured(space, seed=seed) if keep is None else None
        self._sampling = True
        self._proposed: Codes = np.zeros((0, space.cardinality.size), np.int32)
        self._prover: Prover | None = None
        self._model = LoopNestModel()

    @property
    def prover(self) -> Prover:
        """The proof; made when it is first needed."""
        if self._prover is None:
            self._prover = Prover(
                self._nest,
                objective=self.objective,
                keep=self.keep,
                top=self.top,
                threads=self.threads,
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

    @property
    def _samples(self) -> dict[str, Any] | None:
        return None if self._sampler is None else self._sampler.state_dict()

    @_samples.setter
    def _samples(self, state: Mapping[str, Any] | None) -> None:
        if self._sampler is not None and state is not None:
            self._sampler.load_state_dict(state)

    @property
    def lower_bound(self) -> float | None:
        """What no mapping's objective undercuts; None before the tables stand."""
        if self._prover is None:
            return None
        certain = self._prover.value_of(self._prover.lower_outcome)
        unit = 1 if self.objective == "latency" else self._prover.unit_pj
        return float(certain * unit)

    def _ask(self, n: int) -> Codes:
        if self._sampling:
            self._sampling = False
            proposals = self._sample(min(n, self.samples))
            if len(proposals):
                return proposals
        prover = self.prover
        while not self._done(prover):
            prover.step()
            news = self._unproposed()
            # Otherwise a sampled row per step, so that a host can look at its clock.
            row = news if len(news) else self._sample(1)
            if len(row):
                return row
        return self._unproposed()

    def _unproposed(self) -> Codes:
        """`[0 or 1, D]` the best mapping, if it has not been proposed yet."""
        best = self.prover.codes()[:1]
        known = (best[:, None] == self._proposed[None]).all(axis=2).any(axis=1)
        news: Codes = best[~known]
        return news

    def _sample(self, n: int) -> Codes:
        """At most n feasible mappings that keep what they may."""
        if self._sampler is not None:
            return self._sampler.ask(n)
        codes = self._nest.sample(self.rng, 64 * n)
        tables = self._nest.tables
        names, tensors = self._nest.accelerator.level_names, self._nest.workload.tensor_names
        for level, kept in (self.keep or {}).items():
            column = tables.keep_column[names.index(level)]
            if column >= 0:
                codes[:, column] = sum(1 << tensors.index(tensor) for tensor in set(kept))
        return codes[self._nest.feasible(codes)][:n]

    def _done(self, prover: Prover) -> bool:
        return prover.finished or 0 < self.gap >= prover.gap

    def _tell(self, codes: Codes, losses: Losses) -> None:
        if self._sampler is not None and self._sampler.awaits_losses:
            self._sampler.tell(losses)
        if not len(codes):
            return
        # The host's losses may be of another model; a proof rests on this one alone.
        own = self._model.evaluate(self._nest, codes).objective(self.objective)
        best = codes[[int(np.argmin(own))]]
        if self._prover is None:
            known = np.concatenate([self._proposed, best])
            values = self._model.evaluate(self._nest, known).objective(self.objective)
            self._proposed = known[[int(np.argmin(values))]]
        else:
            self._prover.offer(best)
            self._proposed = self._prover.codes()[:1]
