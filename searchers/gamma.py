"""GAMMA: a genetic algorithm whose operators are those of mappings.

Children take one dimension's tiles from another parent (crossover), swap two loops of a level
(reorder), redraw tiles (mutation), change which dimension is spread over the elements (mutation of
the parallel dimension), begin to spread one more (growth) or spread one less (ageing).

Source: S.-C. Kao and T. Krishna, "GAMMA: Automating the HW Mapping of DNN Models on Accelerators
via Genetic Algorithm", ICCAD 2020, section IV; probabilities are those of the released code
(`src/GAMMA/gamma.py`). There a mapping has as many levels as growth and ageing leave it; here the
machine has its levels, so they decide what its fan-outs spread. Left open by both: what becomes of
kept tensors, banks and mesh axes, which mutation redraws like tiles here, and of children that do
not fit, which are bred again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from costmodel.arrays.tables import prime_factors
from costmodel.map_space.map_space import MapSpace
from costmodel.map_space.mapping import LevelMapping, Mapping
from costmodel.space import Codes, Losses
from searchers.base import MOVE_ATTEMPTS, Searcher
from searchers.options import Count, Options, PositiveShare, Presets, Share, Sources
from searchers.shared.nest_edits import code_of
from searchers.shared.perfect_only import refuse_remainders


class GammaOptions(Options):
    """Hyperparameters of GAMMA; the defaults are those of the released code."""

    PRESETS: ClassVar[Presets] = {
        "paper": {
            "population": 100,
            "elite": 0.05,
            "parents": 0.4,
            "crossover": 0.57,
            "reorder": 0.47,
            "mutation": 0.53,
            "redrawn": 3,
            "parallel": 0.1,
            "growth": 0.57,
            "ageing": 0.27,
        }
    }
    SOURCES: ClassVar[Sources] = {"paper": "GAMMA's released code (ICCAD 2020)"}

    population: Count = 100
    """Children of a generation."""
    elite: Share = 0.05
    """Share of the population that survives unchanged."""
    parents: PositiveShare = 0.4
    """Share of the population that has children, the best."""
    crossover: Share = 0.57
    """Probability that a child takes a dimension's tiles from another parent."""
    reorder: Share = 0.47
    """Probability that two loops of a level swap places."""
    mutation: Share = 0.53
    """Probability that attributes are redrawn."""
    redrawn: Count = 3
    """How many attributes a mutation redraws."""
    parallel: Share = 0.1
    """Probability that another dimension is spread in place of one."""
    growth: Share = 0.57
    """Probability that one more dimension is spread."""
    ageing: Share = 0.27
    """Probability that one dimension less is spread."""


class Gamma(Searcher):
    """Generations of children of the best."""

    OPTIONS = GammaOptions
    SPACES = (MapSpace,)
    options: GammaOptions
    space: MapSpace
    STATE: ClassVar[tuple[str, ...]] = (
        "_children",
        "_children_losses",
        "_living",
        "_living_losses",
    )

    def __init__(self, space: MapSpace, options: GammaOptions, *, seed: int) -> None:
        """Prepares the first generation; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        refuse_remainders(space, type(self).__name__)
        kinds = np.array(space.attribute_kinds)
        self._tilings = np.flatnonzero(kinds == "tiling")
        # Loop orders have an operator of their own.
        self._redrawable = np.flatnonzero(kinds != "order")
        self._children: Codes = space.sample(self.rng, options.population, feasible=True)
        self._children_losses: Losses = np.empty(0)
        self._living: Codes = self._children[:0]
        self._living_losses: Losses = np.empty(0)

    def _ask(self, n: int) -> Codes:
        told = len(self._children_losses)
        return self._children[told : told + n]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._children_losses = np.append(self._children_losses, losses)
        if len(self._children_losses) < len(self._children):
            return
        codes = np.concatenate([self._living, self._children])
        losses = np.append(self._living_losses, self._children_losses)
        best = np.argsort(losses, kind="stable")
        size = self.options.population
        parents = codes[best[: max(1, int(size * self.options.parents))]]
        elite = best[: int(size * self.options.elite)]
        self._living, self._living_losses = codes[elite], losses[elite]
        self._children = np.stack([self._child(parents) for _ in range(size)])
        self._children_losses = np.empty(0)

    def _child(self, parents: Codes) -> Codes:
        """`[D]` a feasible child of some parents `[m, D]`."""
        for _ in range(MOVE_ATTEMPTS):
            child = parents[self.rng.integers(len(parents))].copy()
            if self.rng.random() < self.options.crossover:
                other, place = self.rng.integers(len(parents)), self.rng.choice(self._tilings)
                child[place] = parents[other, place]
            if self.rng.random() < self.options.mutation:
                mask = np.zeros(child.size, dtype=bool)
                mask[self.rng.choice(self._redrawable, self.options.redrawn)] = True
                child = self.space.resample(self.rng, child[None], mask[None])[0]
            found = code_of(self.space, self._rearranged(self.space.describe(child)))
            if found is not None:
                return found
        drawn: Codes = self.space.sample(self.rng, 1, feasible=True)[0]
        return drawn

    def _rearranged(self, mapping: Mapping) -> Mapping:
        """A mapping after the operators on orders and on what is spread."""
        options, levels = self.options, list(mapping.levels)
        if self.rng.random() < options.reorder:
            place = int(self.rng.integers(len(levels)))
            order = list(levels[place].order)
            first, second = self.rng.integers(len(order), size=2)
            order[first], order[second] = order[second], order[first]
            levels[place] = replace(levels[place], order=tuple(order))
        fans = [place for place, level in enumerate(levels) if level.spatial]
        if not fans:
            return replace(mapping, levels=tuple(levels))
        for share, less, more in (
            (options.parallel, True, True),
            (options.growth, False, True),
            (options.ageing, True, False),
        ):
            if self.rng.random() < share:
                place = int(self.rng.choice(fans))
                if less:
                    levels[place] = self._less_spread(levels[place])
                if more:
                    levels[place] = self._more_spread(levels[place])
        return replace(mapping, levels=tuple(levels))

    def _less_spread(self, level: LevelMapping) -> LevelMapping:
        """A level where a dimension that was spread is a loop in time."""
        spread = [name for name, factor in level.spatial.items() if factor > 1]
        if not spread:
            return level
        name = str(self.rng.choice(spread))
        return _spread(level, name, 1)

    def _more_spread(self, level: LevelMapping) -> LevelMapping:
        """A level where a dimension that was a loop in time is spread, or more of it."""
        loops = [name for name, factor in level.temporal.items() if factor > 1]
        if not loops:
            return level
        name = str(self.rng.choice(loops))
        taken = 1
        for prime in prime_factors(level.temporal[name]):
            if taken == 1 or self.rng.random() < 0.5:
                taken *= prime
        return _spread(level, name, level.spatial[name] * taken)


def _spread(level: LevelMapping, name: str, factor: int) -> LevelMapping:
    """A level whose loops of a dimension together stay as they are, with so much of it spread."""
    whole = level.temporal[name] * level.spatial[name]
    return replace(
        level,
        temporal={**level.temporal, name: whole // factor},
        spatial={**level.spatial, name: factor},
        spatial_height={},
    )
