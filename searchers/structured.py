"""Structured local search: proposals that know how the machine works, annealed, restarted.

A new mapping uses the whole array (spatial factors of the largest product), fills the innermost
buffer with random prime factors until none fits, sometimes the buffers above it, and draws each
level's loop order among the reuse classes: one tensor rests while the inner loops run. A chain
takes the best of a few such samples and anneals it by moves that keep this structure (take primes
out and refill, exchange primes between the array and a buffer, redraw a class); then it starts
anew. Few chains run at first, for small budgets, and more in every round, for throughput.

Nearly all of its lead over annealing and genetic search comes from the proposals, which know what
a buffer and a reuse class are. It never reads the cost model's formulas, but is no black box
either: it needs a loop-nest map space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from costmodel.errors import ConfigError
from costmodel.mapspace import MapSpace
from searchers.base import Codes, Losses, Searcher, log_losses, metropolis, require
from searchers.structured_choices import list_choices, make_workspace
from searchers.structured_moves import propose

if TYPE_CHECKING:
    from costmodel.space import Space


class Structured(Searcher):
    """Rounds of short annealing chains in lockstep, compiled."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {
            # The sampler alone, without feedback: how much the proposals are worth.
            "samples": MappingProxyType({"length": 0, "initial": 1}),
        }
    )
    STATE: ClassVar[tuple[str, ...]] = ("_codes", "_losses", "_steps", "_turn", "_rows")

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        chains: int = 256,
        first_chains: int = 4,
        growth: int = 2,
        initial: int = 20,
        length: int = 300,
        temperatures: tuple[float, float] = (0.003, 0.0003),
        outer_fill: float = 0.3,
    ) -> None:
        """Prepares the chains and compiles the moves, so that no search time goes into that.

        Args:
            space: a loop-nest map space.
            seed: decides the whole run.
            chains: the most chains in lockstep.
            first_chains: chains of the first round.
            growth: how many times as many chains every next round has.
            initial: new mappings that a chain samples; it starts from the best of them.
            length: moves of a chain after that.
            temperatures: (highest, lowest) of a chain, on the logarithm of the loss.
            outer_fill: probability that a level above the innermost is filled in a new mapping.

        Raises:
            ConfigError: the space is no loop-nest map space, or a value is not allowed.
        """
        super().__init__(space, seed=seed)
        if not isinstance(space, MapSpace):
            raise ConfigError(
                "The structured searcher knows loop nests only: it needs a MapSpace, got "
                f"{type(space).__name__}."
            )
        require(chains >= 1, "chains", chains, "at least 1")
        require(first_chains >= 1, "first_chains", first_chains, "at least 1")
        require(growth >= 1, "growth", growth, "at least 1")
        require(initial >= 1, "initial", initial, "at least 1")
        require(length >= 0, "length", length, "at least 0")
        require(
            len(temperatures) == 2 and 0 < temperatures[1] <= temperatures[0],
            "temperatures",
            temperatures,
            "(highest, lowest), both above 0",
        )
        require(0 <= outer_fill <= 1, "outer_fill", outer_fill, "a probability")
        self.chains = chains
        self.growth = growth
        self.initial = initial
        self.length = length
        self.temperatures = temperatures
        self._tables = space.tables
        self._choices = list_choices(space.tables, outer_fill)
        self._workspace = make_workspace(space.tables)
        self._start_round(min(first_chains, chains))
        self._propose(self._codes[:0], np.zeros(0, np.bool_), np.zeros(0, np.uint64))

    def _start_round(self, chains: int) -> None:
        """Forgets all chains and starts so many new ones."""
        self._codes: Codes = np.zeros((chains, self.space.cardinality.size), np.int32)
        self._losses: Losses = np.full(chains, math.inf)
        self._steps = np.zeros(chains, np.int64)
        self._turn = 0
        self._rows = np.empty(0, np.int64)

    def _ask(self, n: int) -> Codes:
        # Chains take turns, so that none starves where a host always asks for fewer.
        chains = len(self._codes)
        self._rows = (self._turn + np.arange(min(n, chains))) % chains
        self._turn = (self._turn + len(self._rows)) % chains
        # A chain of which nothing was feasible has no place to move from.
        fresh = (self._steps[self._rows] < self.initial) | np.isinf(self._losses[self._rows])
        seeds = self.rng.integers(2**64, size=len(self._rows), dtype=np.uint64)
        return self._propose(self._codes[self._rows], fresh, seeds)

    def _propose(
        self, codes: Codes, fresh: npt.NDArray[np.bool_], seeds: npt.NDArray[np.uint64]
    ) -> Codes:
        """One new feasible mapping per chain `[C, D]`."""
        proposals = np.empty_like(codes)
        found = np.empty(len(codes), dtype=np.bool_)
        propose(self._tables, self._choices, self._workspace, codes, fresh, seeds, proposals, found)
        lost = np.flatnonzero(~found)
        if lost.size:
            proposals[lost] = self.space.sample(self.rng, lost.size, feasible=True)
        return proposals

    def _tell(self, codes: Codes, losses: Losses) -> None:
        rows = self._rows
        steps = self._steps[rows] - self.initial
        hottest, coldest = self.temperatures
        done = np.clip(steps / max(1, self.length - 1), 0.0, 1.0)
        offered = log_losses(losses)
        held = self._losses[rows]
        accepted = metropolis(self.rng, held, offered, hottest * (coldest / hottest) ** done)
        # While it samples a chain only improves.
        accepted = np.where(steps < 0, offered < held, accepted)
        self._codes[rows[accepted]] = codes[accepted]
        self._losses[rows[accepted]] = offered[accepted]
        self._steps[rows] += 1
        if self._steps.min() >= self.initial + self.length:
            self._start_round(min(self.chains, len(self._codes) * self.growth))
