"""Simulated annealing over primitive lists: prime factors and separators change places.

Source: D. Yang, *Optimizing CNN Accelerator Dataflow Using Simulated Annealing* (project report,
2020). A move exchanges two entries of a mapping's list (`searchers.compiled.primitive_list`) and so
changes tiling, loop order or what runs in parallel. Section 5 of the report names what held it
back; the default answers it: a chain starts from the best of several uniform mappings instead of a
shuffled list, whole merged primitives move too, exchanges that change nothing cost no query, and
the logarithm of the loss is annealed, so that one schedule serves every problem.

What no list holds (bank allocations, kept tensors, mesh axes) is redrawn now and then.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses
from searchers.base import MOVE_ATTEMPTS, Searcher, log_losses, metropolis
from searchers.compiled.primitive_list import (
    SEPARATOR,
    UNIFORMS_PER_MOVE,
    decode_all,
    encode_all,
    make_layout,
    propose,
)
from searchers.options import Count, Flag, Options, Positive, PositiveShare, Presets, Share, Sources
from searchers.shared.perfect_only import refuse_remainders

# Rounds of shuffling after which starts that are still missing are drawn uniformly.
SHUFFLE_ROUNDS = 50

# No temperature falls below this share of the initial one: it would round to nothing.
LEAST_SHARE = 1e-100


class PrimitiveAnnealingOptions(Options):
    """Hyperparameters of annealing over primitive lists."""

    PRESETS: ClassVar[Presets] = {
        # The report; temperature and cooling are of its published tuning script, the one of its
        # settings that cools below the differences in EDP (pJ x cycles).
        "paper": {
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
    }
    SOURCES: ClassVar[Sources] = {
        "paper": "the report on simulated annealing in Timeloop and its tuning script",
    }

    chains: Count = 4
    """Chains in lockstep."""
    start: Literal["uniform", "shuffle"] = "uniform"
    """`uniform` for mappings drawn uniformly among the feasible ones, `shuffle` for shuffled lists,
    feasible ones too (by rejection; uniform where hardly any is)."""
    initial: Count = 20
    """New mappings that a chain tries; it starts from the best of them."""
    length: Count = 500
    """Moves of a chain after that."""
    restart: Flag = True
    """Start anew after that, instead of ending."""
    initial_temperature: Positive = 0.03
    """In units of what is annealed."""
    cooling_period: Count = 10
    """Moves between two steps of cooling."""
    cooling_factor: PositiveShare = 0.9
    """What a step multiplies the temperature by."""
    log_loss: Flag = True
    """Anneal on the logarithm of the loss instead of the loss."""
    merged: Share = 0.5
    """Probability that a move exchanges merged primitives, whole loops, instead of single ones."""
    distinct: Flag = True
    """Moves that leave the mapping as it is are made at no cost, and another one follows."""


class PrimitiveAnnealing(Searcher):
    """Metropolis chains over primitive lists in lockstep, cooled in steps, restarted."""

    OPTIONS = PrimitiveAnnealingOptions
    SPACES = (MapSpace,)
    space: MapSpace
    options: PrimitiveAnnealingOptions
    STATE: ClassVar[tuple[str, ...]] = (
        "_lists",
        "_codes",
        "_losses",
        "_steps",
        "_turn",
        "_rows",
        "_offered",
    )

    def __init__(self, space: MapSpace, options: PrimitiveAnnealingOptions, *, seed: int) -> None:
        """Prepares the chains and compiles the moves, so that no search time goes into that."""
        super().__init__(space, options, seed=seed)
        refuse_remainders(space, type(self).__name__)
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
        self._lists: Array = np.zeros((self.options.chains, self._unshuffled.size), np.int64)
        self._codes: Codes = np.zeros((self.options.chains, self.space.cardinality.size), np.int32)
        self._losses: Losses = np.full(self.options.chains, math.inf)
        self._steps = np.zeros(self.options.chains, np.int64)
        self._turn = 0
        self._rows = np.empty(0, np.int64)
        self._offered: Array = self._lists[:0]

    def _ask(self, n: int) -> Codes:
        if self._round_is_over():
            return self._codes[:0]
        # Chains take turns, so that none starves where a host always asks for fewer.
        self._rows = (self._turn + np.arange(min(n, self.options.chains))) % self.options.chains
        self._turn = (self._turn + len(self._rows)) % self.options.chains
        self._offered = self._lists[self._rows]
        codes = self._codes[self._rows]
        fresh = self._steps[self._rows] < self.options.initial
        if fresh.any():
            self._offered[fresh], codes[fresh] = self._new(int(fresh.sum()))
        if not fresh.all():
            self._offered[~fresh], codes[~fresh] = self._move(self._offered[~fresh], codes[~fresh])
        return codes

    def _tell(self, codes: Codes, losses: Losses) -> None:
        rows = self._rows[: len(codes)]
        moves = self._steps[rows] - self.options.initial
        coolings = np.maximum(moves, 0) // self.options.cooling_period
        share = np.maximum(self.options.cooling_factor ** coolings.astype(np.float64), LEAST_SHARE)
        offered = log_losses(losses) if self.options.log_loss else losses
        held = self._losses[rows]
        accepted = metropolis(self.rng, held, offered, self.options.initial_temperature * share)
        # A new mapping replaces only a worse one, or none.
        new = (offered < held) | (self._steps[rows] == 0)
        accepted = np.where(moves < 0, new, accepted)
        self._lists[rows[accepted]] = self._offered[accepted]
        self._codes[rows[accepted]] = codes[accepted]
        self._losses[rows[accepted]] = offered[accepted]
        self._steps[rows] += 1
        if self.options.restart and self._round_is_over():
            self._start_round()

    def _round_is_over(self) -> bool:
        return bool(self._steps.min() >= self.options.initial + self.options.length)

    def _new(self, count: int) -> tuple[Array, Codes]:
        """Lists `[count, N]` to start from and their feasible codes `[count, D]`."""
        if self.options.start == "uniform":
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
        merged, distinct = self.options.merged, self.options.distinct
        orders = self.space.orders
        if orders is None:
            propose(self._tables, self._layout, lists, codes, uniforms, merged, distinct)
            return lists, codes
        before = lists.copy(), codes.copy()
        for order, rows, inside in orders.split(codes):
            # Moves of the last attributes exchange buffers: what then fits is looked at afterwards.
            whole = np.concatenate([inside, codes[rows, orders.width :]], axis=1)
            of_order, tables = lists[rows], orders.spaces[order].tables
            propose(tables, self._layout, of_order, whole, uniforms[rows], merged, distinct)
            lists[rows] = of_order
            codes[rows] = orders.codes(order, whole[:, : orders.width])
            codes[rows, orders.width :] = whole[:, orders.width :]
        lost = ~self.space.feasible(codes)
        lists[lost], codes[lost] = before[0][lost], before[1][lost]
        return lists, codes
