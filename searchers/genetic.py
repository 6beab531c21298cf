"""A genetic algorithm on whole attributes (the set-up of Mind Mappings, ASPLOS 2021, appendix A).

A child takes each attribute from one of two parents, chosen by tournament, and is mutated. The
paper's version (DEAP's) replaces every generation but its elite and mutates by drawing attributes
anew; the default, which is stronger at the same budget, mutates by the space's own small moves
and keeps the best of parents and children together ((mu + lambda) selection, no duplicates).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from searchers.base import MOVE_ATTEMPTS, Codes, Losses, Searcher, require

if TYPE_CHECKING:
    from costmodel.space import Space


class Genetic(Searcher):
    """Tournament selection, crossover of attributes, mutation; batches of one generation."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
        {
            "paper": MappingProxyType(
                {
                    "population": 100,
                    "offspring": 100,
                    "crossover": 0.75,
                    "mutation": 0.05,
                    "moves": "attribute",
                    "tournament": 3,
                    "replacement": "generational",
                    "elite": 1,
                }
            )
        }
    )
    STATE: ClassVar[tuple[str, ...]] = (
        "_population",
        "_losses",
        "_children",
        "_children_losses",
    )

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        population: int = 100,
        offspring: int = 100,
        crossover: float = 0.75,
        mutation: float = 0.3,
        moves: str = "domain",
        tournament: int = 3,
        replacement: str = "plus",
        elite: int = 1,
    ) -> None:
        """Prepares the first generation.

        Args:
            space: where to search.
            seed: decides the whole run.
            population: individuals that live at a time.
            offspring: children per generation.
            crossover: probability that a child has two parents; each attribute then comes from
                either with equal probability.
            mutation: expected share of attributes that are mutated.
            moves: `domain` mutates by the space's moves, `attribute` draws attributes anew.
            tournament: individuals drawn per parent; the best of them is it.
            replacement: `plus` keeps the best of parents and children, `generational` the
                children and the elite.
            elite: individuals that survive a generation unchanged (`generational` only).
        """
        super().__init__(space, seed=seed)
        require(population >= 2, "population", population, "at least 2")
        require(offspring >= 1, "offspring", offspring, "at least 1")
        require(0 <= crossover <= 1, "crossover", crossover, "a probability")
        require(0 <= mutation <= 1, "mutation", mutation, "a probability")
        require(moves in ("domain", "attribute"), "moves", moves, "'domain' or 'attribute'")
        require(tournament >= 1, "tournament", tournament, "at least 1")
        require(
            replacement in ("plus", "generational"),
            "replacement",
            replacement,
            "'plus' or 'generational'",
        )
        require(0 <= elite < population, "elite", elite, "at least 0 and below the population")
        require(
            replacement == "plus" or offspring + elite >= population,
            "offspring",
            offspring,
            "at least the population less the elite where generations are replaced",
        )
        self.population = population
        self.offspring = offspring
        self.crossover = crossover
        self.mutation = mutation
        self.moves = moves
        self.tournament = tournament
        self.replacement = replacement
        self.elite = elite
        self._children: Codes = space.sample(self.rng, population, feasible=True)
        self._children_losses: Losses = np.empty(0)
        self._population: Codes = self._children[:0]
        self._losses: Losses = np.empty(0)

    def _ask(self, n: int) -> Codes:
        told = len(self._children_losses)
        return self._children[told : told + n]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._children_losses = np.append(self._children_losses, losses)
        if len(self._children_losses) == len(self._children):
            self._replace()
            self._breed()

    def _replace(self) -> None:
        """Forms the next population out of the survivors and the children, best first."""
        codes = np.concatenate([self._population, self._children])
        losses = np.concatenate([self._losses, self._children_losses])
        best = np.argsort(losses, kind="stable")[: self.population]
        self._population, self._losses = codes[best], losses[best]

    def _breed(self) -> None:
        """Makes the next children and leaves in the population those who survive without a query.

        A child that is a copy of a living individual has a known loss. DEAP does not evaluate it
        again either: it survives (`generational`) or is bred anew (`plus`, where the original
        survives anyway).
        """
        plus = self.replacement == "plus"
        living = self._population
        kept = np.arange(len(living) if plus else self.elite)
        bred = living[:0]
        for _ in range(MOVE_ATTEMPTS):
            missing = self.offspring - len(bred) - (0 if plus else len(kept) - self.elite)
            if missing <= 0:
                break
            children = self._mutate(self._cross(missing))
            children = children[self.space.feasible(children)]
            original = _first_equal(np.concatenate([living, children]))[len(living) :]
            copies = original < len(living)
            if plus:
                fresh = np.concatenate([bred, children[~copies]])
                bred = fresh[_first_equal(fresh) == np.arange(len(fresh))]
            else:
                kept = np.append(kept, original[copies])
                bred = np.concatenate([bred, children[~copies]])
        if not len(bred):
            bred = self.space.sample(self.rng, self.offspring, feasible=True)
        self._children, self._children_losses = bred, np.empty(0)
        self._population, self._losses = living[kept], self._losses[kept]

    def _parents(self, n: int) -> npt.NDArray[np.int64]:
        """`[n]` rows of the population, each the best of a tournament; the best come first."""
        drawn = self.rng.integers(len(self._population), size=(n, self.tournament))
        rows: npt.NDArray[np.int64] = drawn.min(axis=1)
        return rows

    def _cross(self, n: int) -> Codes:
        """`[n, D]` children of two parents, or copies of one."""
        mother = self._population[self._parents(n)]
        father = self._population[self._parents(n)]
        swapped = self.rng.random(mother.shape) < 0.5
        swapped &= self.rng.random((n, 1)) < self.crossover
        return np.where(swapped, father, mother)

    def _mutate(self, children: Codes) -> Codes:
        """Mutates each attribute with the same probability, or as many domain moves."""
        struck = self.rng.random(children.shape) < self.mutation
        if self.moves == "attribute":
            return self.space.resample(self.rng, children, struck)
        moves = struck.sum(axis=1)
        mutated = children.copy()
        for step in range(int(moves.max(initial=0))):
            rows = np.flatnonzero(moves > step)
            mutated[rows] = self.space.mutate(self.rng, mutated[rows])
        return mutated


def _first_equal(codes: Codes) -> npt.NDArray[np.int64]:
    """`[m]` the first row that equals each row of codes `[m, D]`."""
    _, first, group = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    result: npt.NDArray[np.int64] = first[group.ravel()]
    return result
