"""Structured local search: proposals that know how the machine works, annealed, restarted.

A new mapping uses the whole array (spatial factors of the largest product), fills the innermost
buffer with random prime factors until none fits, sometimes the buffers above it, and draws each
level's loop order among the reuse classes: one tensor rests while the inner loops run. A chain
takes the best of some such samples and anneals it by moves that keep this structure (take primes
out and refill, exchange primes between the array and a buffer, redraw a class); then it starts
anew. Several chains take turns, which is for evaluation in parallel: one alone gets further.

Where the evaluator has compiled costs, chains walk in compiled code, which takes 3 us per mapping;
elsewhere every turn is asked for and told. Both visit the same mappings in the same order.

On machines whose levels keep only some tensors, that fan out at several levels or have more than
three of them, proposals are others (`searchers.compiled.structured_deep`) and chains longer.

Nearly all of its lead over annealing and genetic search comes from the proposals, which know what
a buffer and a reuse class are. It never reads the cost model's formulas, but is no black box
either: it needs a loop-nest map space.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from costmodel.loop_nest.model import LoopNestModel
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses
from searchers.base import Evaluate, Searcher
from searchers.compiled.cost_function import CompiledCosts, compiled_costs
from searchers.compiled.structured_state import Chains, Hand, Schedule, is_deep, make_hand
from searchers.compiled.structured_walk import propose, settle, walk
from searchers.options import Count, Options, Presets, Share, Sources, Temperatures, Whole
from searchers.shared.padded_sizes import Padded, PaddedSizes

# Mappings that one compiled walk scores at most: a millisecond or two between looks at the clock.
LONGEST_WALK = 512

# On deep machines chains are so many times as long and, at first, as hot: there are more places for
# every prime, and what one of them costs decides less.
_LONGER, _HOTTER = 4, 20

# Share of rounds in the best order of buffers side by side so far.
_BEST_ORDER = 0.5


class StructuredOptions(Options):
    """Hyperparameters of the structured local search."""

    PRESETS: ClassVar[Presets] = {
        # The sampler alone, without feedback: how much the proposals are worth.
        "samples": {"chains": 256, "initial": 1, "length": 0}
    }
    SOURCES: ClassVar[Sources] = {
        "samples": "mapspace: the proposals alone",
    }

    chains: Count = 1
    """That take turns, and that can be evaluated in parallel."""
    initial: Count = 60
    """New mappings that a chain samples; it starts from the best of them."""
    length: Whole = 300
    """Moves of a chain after that."""
    temperatures: Temperatures = (0.003, 0.0003)
    """(highest, lowest) of a chain, on the logarithm of the loss."""
    outer_fill: Share = 0.3
    """Probability that a level above the innermost is filled in a new mapping."""


class Structured(Searcher):
    """Rounds of short annealing chains that take turns, compiled.

    Attributes:
        lost: how often a walk found no move and took a random mapping: often in tiny spaces alone.
    """

    OPTIONS = StructuredOptions
    SPACES = (MapSpace,)
    BLACK_BOX = False
    space: MapSpace
    options: StructuredOptions
    STATE: ClassVar[tuple[str, ...]] = (
        "_codes",
        "_losses",
        "_steps",
        "_streams",
        "_turn",
        "_rows",
        "_sizes",
        "_best_sizes",
        "_best_loss",
        "_proposed",
    )

    def __init__(self, space: MapSpace, options: StructuredOptions, *, seed: int) -> None:
        """Prepares the chains and compiles the moves, so that no search time goes into that."""
        super().__init__(space, options, seed=seed)
        hottest, coldest = options.temperatures
        self._spaces = (space,) if space.orders is None else space.orders.spaces
        # The least loss of every order of buffers side by side; nan before it had a round.
        self._order_losses: Losses = np.full(len(self._spaces), math.nan)
        self._order, self.lost = 0, 0
        if space.orders is not None:
            self.STATE = (*type(self).STATE, "_order", "_order_losses")  # type: ignore[misc]
        deep = is_deep(space.tables)
        self._schedule = Schedule(
            options.initial,
            options.length * (_LONGER if deep else 1),
            hottest * (_HOTTER if deep else 1),
            coldest,
        )
        self._paddings: list[PaddedSizes] = []
        self._hands: list[Hand] = []
        for one in self._spaces:
            if space.remainders is not None:
                self._paddings.append(PaddedSizes(one, options.outer_fill))
            else:
                self._hands.append(make_hand(one.tables, options.outer_fill))
        self._sizes: list[int] = []
        self._best_sizes: list[int] = []
        self._best_loss = math.inf
        self._proposed: Codes = np.empty((0, space.cardinality.size), np.int32)
        self._start_round()
        # Compiles, without a step.
        self._tell(self._ask(0), np.empty(0))
        costs = compiled_costs(LoopNestModel(), space, "edp")
        assert costs is not None
        self._walk_on(costs, self._codes[:0], self._codes[:0], np.empty((0, 2)))

    @property
    def _padding(self) -> PaddedSizes | None:
        return self._paddings[self._order] if self._paddings else None

    def _draw_order(self) -> int:
        """An order for a round: one that had none, the best so far, or any."""
        new = np.flatnonzero(np.isnan(self._order_losses))
        if new.size:
            return int(new[0])
        if self.rng.random() < _BEST_ORDER:
            return int(self._order_losses.argmin())
        return int(self.rng.integers(len(self._spaces)))

    def _start_round(self) -> None:
        """Forgets all chains and starts new ones; with imperfect factors at other sizes."""
        if len(self._spaces) > 1:
            self._order = self._draw_order()
        if self._padding is not None:
            self._sizes = self._padding.draw(self.rng, self._best_sizes)
        width = self._spaces[0].cardinality.size
        self._codes: Codes = np.zeros((self.options.chains, width), np.int32)
        self._losses: Losses = np.full(self.options.chains, math.inf)
        self._steps = np.zeros(self.options.chains, np.int64)
        self._streams = self.rng.integers(2**64, size=self.options.chains, dtype=np.uint64)
        self._turn = 0
        self._rows = np.empty(0, np.int64)

    def _ask(self, n: int) -> Codes:
        ready = int((self._steps < self._schedule.initial + self._schedule.length).sum())
        self._rows = (self._turn + np.arange(min(n, ready))) % self.options.chains
        self._turn = (self._turn + len(self._rows)) % self.options.chains
        # A chain of which nothing was feasible has no place to move from.
        fresh = (self._steps[self._rows] < self._schedule.initial) | (
            self._losses[self._rows] == math.inf
        )
        streams = self._streams[self._rows]
        proposals = np.empty((len(self._rows), self._codes.shape[1]), np.int32)
        found = np.empty(len(proposals), dtype=np.bool_)
        propose(self._in_hand, self._codes[self._rows], fresh, streams, proposals, found)
        self._streams[self._rows] = streams
        for row in np.flatnonzero(~found):
            proposals[row] = self._walked.sample(self.rng, 1, feasible=True)[0]
        padded = self._padded
        if padded is None:
            return self._with_order(proposals)
        self._proposed = proposals
        translated, inside = padded.codes_of(proposals)
        outside = np.setdiff1d(np.arange(len(proposals)), inside)
        # What stands for no mapping of the space moves no chain.
        self._proposed[outside] = -1
        for row in outside:
            translated[row] = self._spaces[self._order].sample(self.rng, 1, feasible=True)[0]
        return self._with_order(translated)

    def _with_order(self, codes: Codes) -> Codes:
        """Codes of this round's order as those of the space."""
        orders = self.space.orders
        return codes if orders is None else orders.codes(self._order, codes)

    def _tell(self, codes: Codes, losses: Losses) -> None:
        if self.space.orders is not None:
            codes = self.space.orders.inside(self._order, codes)
        if self._padding is not None:
            codes = np.maximum(self._proposed, 0)
            losses = np.where(self._proposed[:, 0] < 0, math.inf, losses)
        settle(self._schedule, self._held(), self._rows, codes, losses)
        self._end_round()

    @property
    def _in_hand(self) -> Hand:
        """What proposals are made of: the space's, or those of this round's sizes."""
        padded = self._padded
        return self._hands[self._order] if padded is None else padded.hand

    @property
    def _padded(self) -> Padded | None:
        return None if self._padding is None else self._padding.lay_out(tuple(self._sizes))

    @property
    def _walked(self) -> MapSpace:
        """The space in which chains walk."""
        padded = self._padded
        return self._spaces[self._order] if padded is None else padded.space

    def run(self, evaluate: Evaluate, after_step: Callable[[Searcher], None] | None = None) -> None:
        """Searches until the budget is spent, in compiled code where costs are compiled."""
        while evaluate.remaining > 0 and not self.awaits_losses and evaluate.walk(self.walk):
            if after_step is not None:
                after_step(self)
        super().run(evaluate, after_step)

    def walk(self, costs: CompiledCosts, n: int) -> tuple[Codes, Losses]:
        """Goes on in compiled code, for `Evaluate.walk`; no losses may be awaited.

        Args:
            costs: how a mapping is scored.
            n: iterations left.

        Returns:
            Codes `[m, D]` scored on the way and their scores `[m, 2]`, m at most n.
        """
        codes = np.empty((min(n, LONGEST_WALK), self._codes.shape[1]), np.int32)
        scores = np.empty((len(codes), 2))
        spare = codes[:0]
        done = self._walk_on(costs, spare, codes, scores)
        walked = [self._with_order(codes[:done])]
        while done < len(codes):
            # The last walk ended with a round, or where a chain found nothing.
            ended = self._end_round()
            self.lost += not ended
            spare = codes[:0] if ended else self._walked.sample(self.rng, 1, feasible=True)
            before = done
            done += self._walk_on(costs, spare, codes[done:], scores[done:])
            walked.append(self._with_order(codes[before:done]))
        self._end_round()
        codes = np.concatenate(walked)
        if self._padding is not None:
            inside = codes[:, 0] >= 0
            return codes[inside], scores[inside]
        return codes, scores

    def _walk_on(self, costs: CompiledCosts, spare: Codes, codes: Codes, scores: Losses) -> int:
        padded = self._padded
        if self.space.orders is not None:
            costs = costs._replace(tables=self._spaces[self._order].tables)
        scored = walk(
            self._in_hand,
            self._schedule,
            self._held(),
            self._turn,
            costs if padded is None else padded.costs(costs),
            spare,
            codes,
            scores,
        )
        if padded is not None:
            translated, inside = padded.codes_of(codes[:scored])
            codes[:scored] = -1
            codes[inside] = translated[inside]
        self._turn = (self._turn + scored) % self.options.chains
        return scored

    def _held(self) -> Chains:
        return Chains(self._codes, self._losses, self._steps, self._streams)

    def _end_round(self) -> bool:
        """Starts new chains if all are at their ends; whether it did."""
        ended = bool(self._steps.min() >= self._schedule.initial + self._schedule.length)
        if ended:
            least = self._order_losses[self._order], self._losses.min()
            self._order_losses[self._order] = np.fmin(*least)
            if self._padding is not None and self._losses.min() < self._best_loss:
                self._best_loss = float(self._losses.min())
                self._best_sizes = self._sizes
            self._start_round()
        return ended
