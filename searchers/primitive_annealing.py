"""Simulated annealing over primitive lists: prime factors and separators change places.

Source: D. Yang, *Optimizing CNN Accelerator Dataflow Using Simulated Annealing* (project report,
2020). A move exchanges two entries of a mapping's list (`searchers.primitive_list`) and so changes
tiling, loop order or what runs in parallel. Section 5 of the report names what held it back; the
default answers it: a chain starts from the best of several uniform mappings instead of a shuffled
list, whole merged primitives move too, exchanges that change nothing cost no query, and the
logarithm of the loss is annealed, so that one schedule serves every problem.

What no list holds (bank allocations, kept tensors, mesh axes) is redrawn now and then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from costmodel.errors import ConfigError
from costmodel.mapspace import MapSpace
from costmodel.nest import Array
from searchers.base import MOVE_ATTEMPTS, Codes, Losses, Searcher, log_losses, metropolis, require
from searchers.primitive_list import (
    SEPARATOR,
    UNIFORMS_PER_MOVE,
    decode_all,
    encode_all,
    make_layout,
    propose,
)

if TYPE_CHECKING:
    from costmodel.space import Space

# Rounds of shuffling after which starts that are still missing are drawn uniformly.
SHUFFLE_ROUNDS = 50

# No temperature falls below this share of the initial one: it would round to nothing.
LEAST_SHARE = 1e-100


class PrimitiveAnnealing(Searcher):
    """Metropolis chains over primitive lists in lockstep, cooled in steps, restarted."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {
            # The report; temperature and cooling are of its published tuning script, the one of
            # its settings that cools below the differences in EDP (pJ x cycles).
            "paper": MappingProxyType(
                {
                    "chains": 1,
                    "start": "shuffle",
                    "initial": 1,
                    "length": 999,
                    "restart": False,
                    "initial_temperature": 1e24,
                    "cooling_period": 10,
                    "cooling_factor": 0.8,
                    "log_loss": False,
                    "merged": 0.0,
                    "distinct": False,
                }
            )
        }
    )
    STATE: ClassVar[tuple[str, ...]] = (
        "_lists",
        "_codes",
        "_losses",
        "_steps",
        "_turn",
        "_rows",
        "_offered",
    )

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        chains: int = 4,
        start: str = "uniform",
        initial: int = 20,
        length: int = 500,
        restart: bool = True,
        initial_temperature: float = 0.03,
        cooling_period: int = 10,
        cooling_factor: float = 0.9,
        log_loss: bool = True,
        merged: float = 0.5,
        distinct: bool = True,
    ) -> None:
        """Prepares the chains and compiles the moves, so that no search time goes into that.

        Args:
            space: a loop-nest map space.
            seed: decides the whole run.
            chains: chains in lockstep.
            start: `uniform` for mappings drawn uniformly among the feasible ones, `shuffle` for
                shuffled lists, feasible ones too (by rejection; uniform where hardly any is).
            initial: new mappings that a chain tries; it starts from the best of them.
            length: moves of a chain after that.
            restart: start anew after that, instead of ending.
            initial_temperature: in units of what is annealed.
            cooling_period: moves between two steps of cooling.
            cooling_factor: what a step multiplies the temperature by.
            log_loss: anneal on the logarithm of the loss instead of the loss.
            merged: probability that a move exchanges merged primitives, whole loops, instead of
                single ones.
            distinct: moves that leave the mapping as it is are made at no cost, and another one
                follows.

        Raises:
            ConfigError: the space is no loop-nest map space, or a value is not allowed.
        """
        super().__init__(space, seed=seed)
        if not isinstance(space, MapSpace):
            raise ConfigError(
                "The primitive-annealing searcher knows loop nests only: it needs a MapSpace, got "
                f"{type(space).__name__}."
            )
        require(chains >= 1, "chains", chains, "at least 1")
        require(start in ("uniform", "shuffle"), "start", start, "'uniform' or 'shuffle'")
        require(initial >= 1, "initial", initial, "at least 1")
        require(length >= 1, "length", length, "at least 1")
        require(
            0 < initial_temperature < math.inf,
            "initial_temperature",
            initial_temperature,
            "above 0 and finite",
        )
        require(cooling_period >= 1, "cooling_period", cooling_period, "at least 1")
        require(0 < cooling_factor <= 1, "cooling_factor", cooling_factor, "above 0 and at most 1")
        require(0 <= merged <= 1, "merged", merged, "a probability")
        self.chains = chains
        self.start = start
        self.initial = initial
        self.length = length
        self.restart = restart
        self.initial_temperature = initial_temperature
        self.cooling_period = cooling_period
        self.cooling_factor = cooling_factor
        self.log_loss = log_loss
        self.merged = merged
        self.distinct = distinct
        self._tables = space.tables
        self._layout = make_layout(space.tables, space.cardinality)
        self._unshuffled: Array = np.concatenate(
            [
                np.arange(space.tables.prime_value.size),
                np.full(space.tables.slot_level.size - 1, SEPARATOR),
            ]
        )
        self._start_round()
        self._from_codes(self._codes[:0])
        self._from_lists(self._lists[:0])
        self._move(self._lists[:0], self._codes[:0])

    def _start_round(self) -> None:
        """Forgets all chains and starts new ones."""
        self._lists: Array = np.zeros((self.chains, self._unshuffled.size), np.int64)
        self._codes: Codes = np.zeros((self.chains, self.space.cardinality.size), np.int32)
        self._losses: Losses = np.full(self.chains, math.inf)
        self._steps = np.zeros(self.chains, np.int64)
        self._turn = 0
        self._rows = np.empty(0, np.int64)
        self._offered: Array = self._lists[:0]

    def _ask(self, n: int) -> Codes:
        if self._round_is_over():
            return self._codes[:0]
        # Chains take turns, so that none starves where a host always asks for fewer.
        self._rows = (self._turn + np.arange(min(n, self.chains))) % self.chains
        self._turn = (self._turn + len(self._rows)) % self.chains
        self._offered = self._lists[self._rows]
        codes = self._codes[self._rows]
        fresh = self._steps[self._rows] < self.initial
        if fresh.any():
            self._offered[fresh], codes[fresh] = self._new(int(fresh.sum()))
        if not fresh.all():
            self._offered[~fresh], codes[~fresh] = self._move(self._offered[~fresh], codes[~fresh])
        return codes

    def _tell(self, codes: Codes, losses: Losses) -> None:
        rows = self._rows[: len(codes)]
        moves = self._steps[rows] - self.initial
        coolings = np.maximum(moves, 0) // self.cooling_period
        share = np.maximum(self.cooling_factor ** coolings.astype(np.float64), LEAST_SHARE)
        offered = log_losses(losses) if self.log_loss else losses
        held = self._losses[rows]
        accepted = metropolis(self.rng, held, offered, self.initial_temperature * share)
        # A new mapping replaces only a worse one, or none.
        new = (offered < held) | (self._steps[rows] == 0)
        accepted = np.where(moves < 0, new, accepted)
        self._lists[rows[accepted]] = self._offered[accepted]
        self._codes[rows[accepted]] = codes[accepted]
        self._losses[rows[accepted]] = offered[accepted]
        self._steps[rows] += 1
        if self.restart and self._round_is_over():
            self._start_round()

    def _round_is_over(self) -> bool:
        return bool(self._steps.min() >= self.initial + self.length)

    def _new(self, count: int) -> tuple[Array, Codes]:
        """Lists `[count, N]` to start from and their feasible codes `[count, D]`."""
        if self.start == "uniform":
            return self._from_codes(self.space.sample(self.rng, count, feasible=True))
        lists, codes = self._lists[:0], self._codes[:0]
        for _ in range(SHUFFLE_ROUNDS):
            shuffled = np.tile(self._unshuffled, (max(64, 4 * count), 1))
            drawn = self._from_lists(self.rng.permuted(shuffled, axis=1))
            feasible = self.space.feasible(drawn[1])
            lists = np.concatenate([lists, drawn[0][feasible]])
            codes = np.concatenate([codes, drawn[1][feasible]])
            if len(lists) >= count:
                return lists[:count], codes[:count]
        missing = self.space.sample(self.rng, count - len(lists), feasible=True)
        rest = self._from_codes(missing)
        return np.concatenate([lists, rest[0]]), np.concatenate([codes, rest[1]])

    def _from_codes(self, codes: Codes) -> tuple[Array, Codes]:
        """The merged lists of codes, and the codes that those decode to."""
        lists = np.empty((len(codes), self._unshuffled.size), np.int64)
        encode_all(self._tables, self._layout, codes, lists)
        codes = codes.copy()
        decode_all(self._tables, self._layout, lists, codes)
        return lists, codes

    def _from_lists(self, lists: Array) -> tuple[Array, Codes]:
        """Lists and their codes, which the list's own attributes and random others make up."""
        codes = self.space.sample(self.rng, len(lists))
        decode_all(self._tables, self._layout, lists, codes)
        return lists, codes

    def _move(self, lists: Array, codes: Codes) -> tuple[Array, Codes]:
        """One feasible move of every list `[m, N]` and code `[m, D]`."""
        uniforms = self.rng.random((len(lists), MOVE_ATTEMPTS, UNIFORMS_PER_MOVE))
        lists, codes = lists.copy(), codes.copy()
        propose(
            self._tables, self._layout, lists, codes, uniforms, float(self.merged), self.distinct
        )
        return lists, codes
