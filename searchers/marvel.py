"""Marvel's decoupled search: off chip first, then every on-chip mapping of what that found.

The off-chip half, the tile of the shared buffer and the order of the loops above it, is chosen by
the data that it moves; no cost query is needed. Then the on-chip half is enumerated under Marvel's
pruning, the most promising mappings first: those that use most of the array, and among them those
whose elements hold the tiles that move least per operation, within one per cent in random order.
When all are told, `conclusion` says that the best of them is the optimum of that subspace: which
is not the optimum of the map space, since the halves do depend on each other.

Source: Chatarasi et al., "Marvel: A Data-centric Compiler for DNN Operators on Spatial
Accelerators", 2020, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from costmodel.maestro.on_chip import OnChipSpace
from costmodel.map_space.map_space import MapSpace
from costmodel.space import Codes, Losses
from mapspace.errors import ConfigError
from searchers.base import LARGEST_BATCH, Searcher
from searchers.options import Count, Flag, Options, Positive, Presets, Share, Sources
from searchers.shared.decoupled_subspaces import (
    Array,
    Pruning,
    Subspace,
    loop_nest_subspace,
    off_chip,
    on_chip_subspace,
)
from searchers.shared.perfect_only import refuse_remainders

if TYPE_CHECKING:
    from costmodel.space import Space

# Traffic is only a guide to cost: what is this close in its logarithm comes in random order.
TIE = 0.01


class MarvelOptions(Options):
    """Hyperparameters of Marvel's search; on an on-chip space the off-chip ones say nothing."""

    PRESETS: ClassVar[Presets] = {"paper": {"buffering": 2, "utilisation_bound": 0.1}}
    SOURCES: ClassVar[Sources] = {
        "paper": "Marvel (2020), section 3",
    }

    tiles: Count = 1
    """How many of the best off-chip tiles to go through, one after another."""
    buffering: Annotated[Count, Field(le=2)] = 1
    """How often the shared buffer holds a tile."""
    output_weight: Positive = 2.0
    """What a word of outputs counts against one of inputs off chip."""
    unroll_filter: Flag = True
    """Do not tile R and S. May lose the optimum."""
    symmetry: Flag = True
    """Where P and Q, R and S are alike, P runs outside Q. Keeps the optimum."""
    utilisation_bound: Share = 0.5
    """Least share of the processing elements at work."""


def _why_not(space: MapSpace) -> str | None:
    """What a machine has that Marvel's two halves have no place for, in one line; None: nothing."""
    machine, name = space.tables.machine, space.accelerator.name
    for level, never in zip(space.accelerator.levels, machine.never_kept.tolist(), strict=True):
        if never:
            tensor = space.workload.tensor_names[(never & -never).bit_length() - 1]
            return (
                "Marvel chooses one tile per level for all tensors; "
                f"{level.name} of {name} bypasses {tensor}."
            )
    if space.constraints is not None:
        return "Marvel searches whole map spaces; this one has constraints."
    if machine.restricted:
        return f"Marvel knows fan-outs and capacities only; a level of {name} has further rules."
    unknown = set(space.attribute_kinds) - {"tiling", "order", "keep"}
    if unknown:
        return (
            f"Marvel decides tilings and loop orders; {name} also leaves "
            f"{', '.join(sorted(unknown))} to the mapping."
        )
    return None


class Marvel(Searcher):
    """Enumerates the on-chip mappings of the off-chip half that moves least data."""

    OPTIONS = MarvelOptions
    SPACES = (MapSpace, OnChipSpace)
    BLACK_BOX = False
    EXHAUSTIBLE = True
    options: MarvelOptions
    STATE: ClassVar[tuple[str, ...]] = ("_start", "_place", "_taken")

    def __init__(self, space: MapSpace | OnChipSpace, options: MarvelOptions, *, seed: int) -> None:
        """Searches the off-chip half.

        Args:
            space: a loop-nest map space, or the on-chip one of a level-3 tile, whose off-chip half
                is decided.
            options: hyperparameters.
            seed: decides the order of mappings that look equally good.

        Raises:
            ConfigError: the machine leaves banks or the places of spatial loops to the mapping, or
                has rules of its own per level, no tile fits, or a value is not allowed in this
                space.
        """
        super().__init__(space, options, seed=seed)
        refuse_remainders(space, type(self).__name__)
        pruning = Pruning(options.unroll_filter, options.symmetry, options.utilisation_bound)
        self._weight = options.output_weight
        if isinstance(space, OnChipSpace):
            if not options.unroll_filter:
                raise ConfigError(
                    "Hyperparameter unroll_filter must be True on an on-chip space, got False."
                )
            self._subspaces = [on_chip_subspace(space, pruning)]
        else:
            obstacle = _why_not(space)
            if obstacle:
                raise ConfigError(obstacle)
            found = off_chip(
                space,
                pruning,
                buffering=options.buffering,
                output_weight=options.output_weight,
                tiles=options.tiles,
            )
            self._subspaces = [
                loop_nest_subspace(space, tile, pruning, output_weight=options.output_weight)
                for tile in found.tiles
            ]
        self._groups = [
            (subspace, vectors) for subspace in self._subspaces for _, vectors in subspace.spreads()
        ]
        # The enumeration is a function of this number; where it stands in it are three more.
        self._start = int(self.rng.integers(1 << 62))
        self._place = [0, 0, 0]  # group, combination of orders, row
        self._taken = 0
        self._loaded: _Group | None = None

    @property
    def conclusion(self) -> str | None:
        """What is certain of the best mapping when the subspace is exhausted; else None."""
        if self._place[0] < len(self._groups) or self.awaits_losses:
            return None
        return f"the best of all {self._taken:,} mappings of the decoupled, pruned subspace"

    def _ask(self, n: int) -> Codes:
        wanted = min(n, LARGEST_BATCH)
        parts: list[Codes] = [np.empty((0, self.space.cardinality.size), np.int32)]
        while wanted and self._place[0] < len(self._groups):
            number, place, row = self._place
            group = self._group(number)
            parts.append(group.codes(place, row, wanted))
            wanted -= len(parts[-1])
            if wanted:
                self._place = [number, place + 1, 0]
                if place + 1 == len(group.combinations):
                    self._place = [number + 1, 0, 0]
            else:
                self._place = [number, place, row + len(parts[-1])]
        asked = np.concatenate(parts)
        self._taken += len(asked)
        return asked

    def _tell(self, codes: Codes, losses: Losses) -> None:
        """Nothing to learn: what is enumerated does not depend on costs."""

    def _group(self, number: int) -> _Group:
        if self._loaded is None or self._loaded.key != (self._start, number):
            subspace, vectors = self._groups[number]
            self._loaded = _Group(
                (self._start, number), self.space, subspace, vectors, self._weight
            )
        return self._loaded


class _Group:
    """The mappings that use equally many processing elements, the most promising tilings first."""

    def __init__(
        self,
        key: tuple[int, int],
        space: Space,
        subspace: Subspace,
        vectors: Array,
        output_weight: float,
    ) -> None:
        self.key = key
        self.subspace = subspace
        self.combinations = list(subspace.combinations())
        tilings = subspace.tilings(vectors)
        # Whether a mapping fits does not depend on orders.
        tilings = tilings[space.feasible(subspace.codes(tilings, self.combinations[0]))]
        steps = np.floor(np.log(subspace.traffic(tilings, output_weight)) / TIE)
        ties = np.random.Generator(np.random.PCG64(key)).random(len(tilings))
        self._tilings = tilings[np.lexsort((ties, steps))]
        self._matter = subspace.that_matter(self._tilings)
        self._distinct = [orders.distinct() for orders in subspace.orders]
        self._live: tuple[int, Array] | None = None

    def codes(self, place: int, row: int, most: int) -> Codes:
        """Mappings of a combination of orders from a row on, at most so many."""
        combination = self.combinations[place]
        if self._live is None or self._live[0] != place:
            live = np.ones(len(self._tilings), bool)
            for distinct, masks, order in zip(
                self._distinct, self._matter, combination, strict=True
            ):
                live &= distinct[masks, order]
            self._live = place, np.flatnonzero(live)
        rows = self._live[1][row : row + most]
        return self.subspace.codes(self._tilings[rows], combination)
