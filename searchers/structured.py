"""Structured local search: proposals made by how the machine works, annealed, restarted.

A new mapping uses the whole array (spatial factors of the largest product), fills the innermost
buffer with random prime factors until none fits, sometimes the buffers above it, and draws each
level's loop order among the reuse classes: one tensor rests while the inner loops run. The best of
a few such samples is annealed by moves that keep this structure (take primes out and refill,
exchange primes between the array and a buffer, redraw a class); then the chain starts anew.

Nearly all of its lead over annealing and genetic search comes from the proposals, which know what
a buffer and a reuse class are; it does not use the cost model's formulas. It needs a loop-nest
map space.
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
from searchers.base import LARGEST_BATCH, Codes, Losses, Searcher, metropolis, require
from searchers.structured_moves import list_choices, make_workspace, propose

if TYPE_CHECKING:
    from costmodel.space import Space


class Structured(Searcher):
    """Chains of structured moves in lockstep, compiled; restarts without end."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {
            "samples": MappingProxyType({"chains": 1, "length": 0, "initial": 1}),
        }
    )
    STATE: ClassVar[tuple[str, ...]] = ("_codes", "_losses", "_steps", "_turn", "_rows")

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        chains: int = 4,
        initial: int = 20,
        length: int = 300,
        temperatures: tuple[float, float] = (0.003, 0.0003),
        outer_fill: float = 0.3,
    ) -> None:
        super().__init__(space, seed=seed)
        if not isinstance(space, MapSpace):
            raise ConfigError(
                f"The structured searcher needs a loop-nest map space, got {type(space).__name__}."
            )
        self.chains = chains
        self.initial = initial
        self.length = length
        self.temperatures = temperatures
        self._tables = space.tables
        self._choices = list_choices(space.tables, outer_fill)
        self._workspace = make_workspace(space.tables)
        width = space.cardinality.size
        self._codes: Codes = np.zeros((chains, width), np.int32)
        self._losses: Losses = np.full(chains, np.inf)
        self._steps = np.zeros(chains, np.int64)
        self._turn = 0
        self._rows = np.empty(0, np.int64)

    def _ask(self, n: int) -> Codes:
        self._rows = (self._turn + np.arange(min(n, self.chains))) % self.chains
        self._turn = (self._turn + len(self._rows)) % self.chains
        codes = self._codes[self._rows]
        fresh = (self._steps[self._rows] < self.initial) | ~np.isfinite(self._losses[self._rows])
        seeds = self.rng.integers(0, 2**64, size=len(codes), dtype=np.uint64)
        proposals = np.empty_like(codes)
        found = np.empty(len(codes), bool)
        propose(self._tables, self._choices, self._workspace, codes, fresh, seeds, proposals, found)
        if not found.all():
            raise RuntimeError(f"not found {(~found).sum()}")
        return proposals

    def _tell(self, codes: Codes, losses: Losses) -> None:
        rows = self._rows
        steps = self._steps[rows]
        hottest, coldest = self.temperatures
        done = np.clip((steps - self.initial) / max(1, self.length - 1), 0.0, 1.0)
        temperature = hottest * (coldest / hottest) ** done
        logs = np.log(np.maximum(losses, np.finfo(np.float64).tiny))
        accepted = metropolis(self.rng, self._losses[rows], logs, temperature)
        accepted = np.where(steps < self.initial, logs < self._losses[rows], accepted)
        self._codes[rows[accepted]] = codes[accepted]
        self._losses[rows[accepted]] = logs[accepted]
        self._steps[rows] += 1
        over = rows[self._steps[rows] >= self.initial + self.length]
        self._steps[over] = 0
        self._losses[over] = np.inf
