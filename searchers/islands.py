"""Islands: several searches of one kind, each with a seed of its own, that exchange their best.

The islands take turns: each spends a leg of `every` queries, then the next. When all have, each
tells its neighbour in the ring the best mapping that it knows (Whitley, Rana & Heckendorn, The
island model genetic algorithm, 1999). A searcher that can make use of it says so
(`Searcher.TAKES_MIGRANTS`); the others are independent, and the best of them counts.

Within a round no island knows of another one, so that the legs of a round may run anywhere and at
the same time: `orchestrator.search.islands` runs them on Ray, with the same result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from costmodel.space import UNLIMITED, Codes, Losses
from mapspace.errors import ConfigError
from searchers.base import Evaluate, Searcher
from searchers.context import Context
from searchers.options import Count, Options, Text

if TYPE_CHECKING:
    from costmodel.space import Space
    from searchers.compiled.cost_function import CompiledCosts, Walk

# Each has a searcher of its own, with all its memory.
MOST_ISLANDS = 1024


class IslandsOptions(Options):
    """Hyperparameters of a search on islands."""

    of: Text = "genetic"
    """The searcher on every island; none that proves, enumerates or needs a surrogate."""
    parameters: dict[str, Any] = Field(default={})
    """Its hyperparameters, and `preset`."""
    islands: Annotated[Count, Field(le=MOST_ISLANDS)] = 4
    """How many there are."""
    every: Count = 500
    """Queries of an island between two exchanges."""

    def resolved(self) -> dict[str, Any]:
        """Likewise, with all hyperparameters of the searcher on every island."""
        from searchers import searcher_class

        own = searcher_class(self.of).OPTIONS.read(self.of, *on_island(self)).resolved()
        return {**super().resolved(), "parameters": own}


class Island:
    """One search and its leg; to a searcher that runs here it is all the budget there is.

    Attributes:
        searcher: the search.
        left: queries of the leg that are left.
        ended: the searcher has nothing more to propose.
        best_code: `[D]` the best mapping that was scored here, None before the first feasible one.
        best_loss: its loss.
    """

    def __init__(self, searcher: Searcher) -> None:
        """An island with a search that has not begun."""
        self.searcher = searcher
        self.left = 0
        self.ended = False
        self.best_code: Codes | None = None
        self.best_loss = math.inf
        self._evaluate: Evaluate | None = None

    def run(self, evaluate: Evaluate, after_step: Callable[[Searcher], None] | None = None) -> None:
        """Spends the leg.

        Args:
            evaluate: scores mappings; its budget may end before the leg does.
            after_step: called with the searcher of this island.
        """
        self._evaluate = evaluate
        self.searcher.run(self, after_step)
        self.ended = self.left > 0 and evaluate.remaining > 0

    def seen(self, codes: Codes, losses: Losses) -> None:
        """Notes what was scored, `[m, D]` and `[m]`."""
        if losses.min(initial=math.inf) < self.best_loss:
            best = int(losses.argmin())
            self.best_code, self.best_loss = codes[best].copy(), float(losses[best])

    @property
    def remaining(self) -> int:
        """See `Evaluate`."""
        return min(self._whole.remaining, self.left)

    @property
    def seconds_left(self) -> float | None:
        """See `Evaluate`."""
        return self._whole.seconds_left

    @property
    def elapsed(self) -> float:
        """See `Evaluate`."""
        return self._whole.elapsed

    @property
    def query_latency(self) -> float:
        """See `Evaluate`."""
        return self._whole.query_latency

    def __call__(self, codes: Codes, *, surrogate_queries: int = 0, counted: bool = True) -> Losses:
        """See `Evaluate`."""
        losses = self._whole(codes, surrogate_queries=surrogate_queries, counted=counted)
        self.left -= surrogate_queries + (len(codes) if counted else 0)
        self.seen(codes, losses)
        return losses

    def walk(self, walk: Walk) -> bool:
        """See `Evaluate`."""

        def shorter(costs: CompiledCosts, n: int) -> tuple[Codes, Losses]:
            codes, scores = walk(costs, min(n, self.left))
            self.left -= len(codes)
            self.seen(codes, scores[:, 0])
            return codes, scores

        return self._whole.walk(shorter)

    @property
    def _whole(self) -> Evaluate:
        assert self._evaluate is not None  # it runs
        return self._evaluate

    def state_dict(self) -> dict[str, Any]:
        """All that decides how the island goes on, as copies."""
        return {
            "searcher": self.searcher.state_dict(),
            "left": self.left,
            "ended": self.ended,
            "best_code": None if self.best_code is None else self.best_code.copy(),
            "best_loss": self.best_loss,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state_dict()` of an island of the same search."""
        self.searcher.load_state_dict(state["searcher"])
        self.left, self.ended = int(state["left"]), bool(state["ended"])
        code = state["best_code"]
        self.best_code = None if code is None else np.array(code, dtype=np.int32)
        self.best_loss = float(state["best_loss"])


class Islands(Searcher):
    """Searches side by side that exchange their best mappings in a ring.

    Attributes:
        islands: the searches.
        seeds: theirs, spawned from the one seed.
    """

    OPTIONS = IslandsOptions
    USES = frozenset({"objective"})
    QUICK: ClassVar[Mapping[str, Any]] = {"islands": 3, "every": 60}
    options: IslandsOptions
    STATE: ClassVar[tuple[str, ...]] = ("_exchanges",)

    def __init__(
        self, space: Space, options: IslandsOptions, *, seed: int, context: Context | None = None
    ) -> None:
        """Makes the searches; see `Searcher`.

        Raises:
            ConfigError: no searcher of that name or none that can be on an island, or a
                hyperparameter that it does not take.
        """
        super().__init__(space, options, seed=seed, context=context)
        self.seeds = seeds_of(seed, options.islands)
        self.islands = [
            Island(island_searcher(space, options, one, self.context)) for one in self.seeds
        ]
        self.learns = self.islands[0].searcher.learns
        self._exchanges = 0

    @classmethod
    def check(cls, name: str, space: Space, options: IslandsOptions) -> None:
        """See `Searcher`; what is on every island, too."""
        from searchers import check

        preset, own = on_island(options)
        check(options.of, space, preset=preset, **own)

    def legs(self, n: int) -> list[Island]:
        """The islands that have a leg to spend, in their order.

        Where all legs are spent the best mappings are exchanged and new ones dealt first.

        Args:
            n: iterations left in all, at least 1.

        Returns:
            None of them where all searches have ended.
        """
        if not any(island.left for island in self.islands):
            self._exchange()
            for island in self.islands:
                island.left = 0 if island.ended else min(self.options.every, n)
                n -= island.left
        return [island for island in self.islands if island.left]

    def settle(self) -> None:
        """Sums up what the islands have spent, once they ran."""
        for island in self.islands:
            if island.ended:
                island.left = 0
        self.surrogate_queries = sum(one.searcher.surrogate_queries for one in self.islands)
        if all(island.ended for island in self.islands):
            self.failure = next((one.searcher.failure for one in self.islands), None)

    def run(self, evaluate: Evaluate, after_step: Callable[[Searcher], None] | None = None) -> None:
        """Runs the legs one after another until the budget is spent; see `Searcher`."""

        def then(_: Searcher) -> None:
            self.settle()
            if after_step is not None:
                after_step(self)

        while (remaining := evaluate.remaining) > 0 and (legs := self.legs(remaining)):
            for island in legs:
                island.run(evaluate, then)
                self.settle()

    def _ask(self, n: int) -> Codes:
        while legs := self.legs(UNLIMITED):
            searcher = legs[0].searcher
            spent = -searcher.surrogate_queries
            codes = searcher.ask(min(n, legs[0].left))
            spent += searcher.surrogate_queries + (len(codes) if self.learns else 0)
            legs[0].left -= spent
            if spent or len(codes):
                self.settle()
                return codes
            searcher.tell(np.empty(0))
            legs[0].ended = True
            self.settle()
        return np.empty((0, self.space.cardinality.size), np.int32)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        for island in self.islands:
            if island.searcher.awaits_losses:
                island.searcher.tell(losses)
                island.seen(codes, losses)

    def _exchange(self) -> None:
        """Every island is told the best of the one before it, as they were before the exchange."""
        self._exchanges += 1
        best = [(island.best_code, island.best_loss) for island in self.islands]
        for index, island in enumerate(self.islands):
            code, loss = best[index - 1]
            takes = island.searcher.TAKES_MIGRANTS and not island.ended
            if takes and code is not None and len(best) > 1:
                island.searcher.take_in(code[None], np.array([loss]))

    def state_dict(self) -> dict[str, Any]:
        """See `Searcher`; the islands are a part of it."""
        return {**super().state_dict(), "islands": [one.state_dict() for one in self.islands]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Searcher`."""
        super().load_state_dict(state)
        for island, saved in zip(self.islands, state["islands"], strict=True):
            island.load_state_dict(saved)


def seeds_of(seed: int, islands: int) -> list[int]:
    """A seed per island; those of fewer islands are the first of them."""
    spawned = np.random.SeedSequence(seed).spawn(islands)
    return [int(one.generate_state(1, np.uint64)[0]) for one in spawned]


def island_searcher(space: Space, options: IslandsOptions, seed: int, context: Context) -> Searcher:
    """The search on one island.

    Args:
        space: where to search.
        options: of the islands: its name, hyperparameters and preset.
        seed: its own.
        context: what the host knows of the run.

    Raises:
        ConfigError: it cannot be on an island, or as `searchers.make` says.
    """
    from searchers import make

    preset, own = on_island(options)
    return make(options.of, space, seed=seed, preset=preset, context=context, **own)


def on_island(options: IslandsOptions) -> tuple[str | None, dict[str, Any]]:
    """The preset and the hyperparameters of the searcher on every island.

    Raises:
        ConfigError: it cannot be on an island, or has no such hyperparameters.
    """
    from searchers import searcher_class

    of, parameters = options.of, options.parameters
    cls = searcher_class(of)
    if cls.EXHAUSTIBLE or issubclass(cls, Islands) or "predictor" in cls.USES:
        raise ConfigError(
            "searcher islands: of: expected a searcher that neither proves or enumerates nor needs "
            f"a surrogate, such as genetic or annealing, got {of}."
        )
    preset = parameters.get("preset")
    if preset is not None and not isinstance(preset, str):
        raise ConfigError(f"searcher islands: parameters: preset: expected a name, got {preset!r}.")
    own = {name: value for name, value in parameters.items() if name != "preset"}
    cls.OPTIONS.check_names(of, own)
    return preset, own
