"""A genetic algorithm on whole attributes (the set-up of Mind Mappings, ASPLOS 2021, appendix A).

A child takes each attribute from one of two parents, chosen by tournament, and is mutated. The
paper's version (DEAP's) replaces every generation but its elite and mutates by drawing attributes
anew; the default, which is stronger at the same budget, mutates by the space's own small moves
and keeps the best of parents and children together ((mu + lambda) selection, no duplicates).

Of preset `paper` the paper states the library, a population of 100, crossover with a probability
of 0.75 that swaps attributes, an update of each attribute at random with 0.05, and that the next
generation is chosen by fitness. How it is chosen it does not state: tournaments of 3, the one
individual of elite and the number of children are choices made here, as are the even odds for an
attribute to come from either parent, and that a copy of a living individual costs no query (DEAP
does not evaluate it again either).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from costmodel.space import Codes, Losses
from searchers.base import MOVE_ATTEMPTS
from searchers.options import Count, Integer, Options, Presets, Share, Sources, Whole
from searchers.shared.asynchronous import Asynchronous, Notes

if TYPE_CHECKING:
    from costmodel.space import Space

# Where queries are asynchronous children are bred once so much of the population has a loss.
READY = 0.25
# Tournaments are so many times as large then: parents are chosen without the losses of all that is
# out, and a stronger choice makes up for it.
STRONGER = 3


class GeneticOptions(Options):
    """Hyperparameters of the genetic algorithm."""

    PRESETS: ClassVar[Presets] = {
        "paper": {
            "population": 100,
            "offspring": 100,
            "crossover": 0.75,
            "mutation": 0.05,
            "moves": "attribute",
            "tournament": 3,
            "replacement": "generational",
            "elite": 1,
        }
    }
    SOURCES: ClassVar[Sources] = {
        "paper": "Mind Mappings (ASPLOS 2021), Appendix A",
    }

    population: Annotated[Integer, Field(ge=2)] = 100
    """Individuals that live at a time."""
    offspring: Count = 100
    """Children per generation."""
    crossover: Share = 0.75
    """Probability that a child has two parents; each attribute then comes from either with equal
    probability."""
    mutation: Share = 0.3
    """Expected share of attributes that are mutated."""
    moves: Literal["domain", "attribute"] = "domain"
    """`domain` mutates by the space's moves, `attribute` draws attributes anew."""
    tournament: Count = 3
    """Individuals drawn per parent; the best of them is it."""
    replacement: Literal["plus", "generational"] = "plus"
    """`plus` keeps the best of parents and children, `generational` the children and the elite."""
    elite: Whole = 1
    """Individuals that survive a generation unchanged (`generational` only)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.elite >= self.population:
            raise ValueError(f"elite: expected less than the population, got {self.elite}.")
        needed = self.population - self.elite
        if self.replacement == "generational" and self.offspring < needed:
            raise ValueError(
                f"offspring: expected at least the population less the elite ({needed}) where "
                f"generations are replaced, got {self.offspring}."
            )
        return self


class Genetic(Asynchronous):
    """Tournament selection, crossover of attributes, mutation; batches of one generation.

    Where queries are asynchronous children are bred of whoever lives when they are asked for
    (steady state): with `plus` a child competes as soon as its loss is there, with `generational` a
    generation is whatever children come back first.
    """

    OPTIONS = GeneticOptions
    options: GeneticOptions
    TAKES_MIGRANTS = True
    STATE: ClassVar[tuple[str, ...]] = (
        "_population",
        "_losses",
        "_children",
        "_children_losses",
    )
    STATE_OUT: ClassVar[tuple[str, ...]] = ("_handed", "_back", "_back_losses")

    def __init__(self, space: Space, options: GeneticOptions, *, seed: int) -> None:
        """Prepares the first generation; see `Searcher`."""
        super().__init__(space, options, seed=seed)
        self._children: Codes = space.sample(self.rng, options.population, feasible=True)
        self._children_losses: Losses = np.empty(0)
        self._population: Codes = self._children[:0]
        self._losses: Losses = np.empty(0)
        # Where queries are asynchronous: how many of the first generation were asked, and the
        # children of the generation that is coming back.
        self._handed = 0
        self._back: Codes = self._children[:0]
        self._back_losses: Losses = np.empty(0)

    def _ask(self, n: int) -> Codes:
        told = len(self._children_losses)
        return self._children[told : told + n]

    def _tell(self, codes: Codes, losses: Losses) -> None:
        self._children_losses = np.append(self._children_losses, losses)
        if len(self._children_losses) == len(self._children):
            self._replace(self._children, self._children_losses)
            self._breed()

    def _take_in(self, codes: Codes, losses: Losses) -> None:
        """Mappings that neither live nor are about to be evaluated live, if they are fit."""
        there = np.concatenate([self._population, self._children, codes])
        first = _first_equal(there) == np.arange(len(there))
        new = first[-len(codes) :]
        self._replace(codes[new], losses[new])

    def _ask_more(self, n: int) -> tuple[Codes, Notes]:
        codes = self._children[self._handed : self._handed + n]
        self._handed += len(codes)
        if not len(codes) and len(self._population) >= READY * self.options.population:
            codes = self._bred(n)
        if not len(codes):
            codes = self.space.sample(self.rng, n, feasible=True)
        return codes, np.zeros(len(codes), np.int64)

    def _tell_more(self, codes: Codes, notes: Notes, losses: Losses) -> None:
        self._back = np.concatenate([self._back, codes])
        self._back_losses = np.append(self._back_losses, losses)
        plus = self.options.replacement == "plus"
        if plus or len(self._back) >= self.options.offspring:
            survivors = None if plus else self.options.elite
            self._population = self._population[:survivors]
            self._losses = self._losses[:survivors]
            self._replace(self._back, self._back_losses)
            self._back, self._back_losses = self._back[:0], np.empty(0)

    def _bred(self, n: int) -> Codes:
        """At most n children `[m, D]` that neither live nor are out."""
        known = {code.tobytes() for code in (*self._population, *self._back, *self.out.values())}
        found: list[Codes] = []
        for _ in range(MOVE_ATTEMPTS):
            children = self._mutate(self._cross(n - len(found), STRONGER))
            for child in children[self.space.feasible(children)]:
                key = child.tobytes()
                if key not in known:
                    known.add(key)
                    found.append(child)
            if len(found) == n:
                break
        return np.stack(found) if found else self._population[:0]

    def _replace(self, children: Codes, children_losses: Losses) -> None:
        """Forms the next population out of the survivors and the children, best first."""
        codes = np.concatenate([self._population, children])
        losses = np.concatenate([self._losses, children_losses])
        best = np.argsort(losses, kind="stable")[: self.options.population]
        self._population, self._losses = codes[best], losses[best]

    def _breed(self) -> None:
        """Makes the next children and leaves in the population those who survive without a query.

        A child that is a copy of a living individual has a known loss. DEAP does not evaluate it
        again either: it survives (`generational`) or is bred anew (`plus`, where the original
        survives anyway).
        """
        plus = self.options.replacement == "plus"
        living = self._population
        kept = np.arange(len(living) if plus else self.options.elite)
        bred = living[:0]
        for _ in range(MOVE_ATTEMPTS):
            missing = (
                self.options.offspring - len(bred) - (0 if plus else len(kept) - self.options.elite)
            )
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
            bred = self.space.sample(self.rng, self.options.offspring, feasible=True)
        self._children, self._children_losses = bred, np.empty(0)
        self._population, self._losses = living[kept], self._losses[kept]

    def _parents(self, n: int, stronger: int) -> npt.NDArray[np.int64]:
        """`[n]` rows of the population, each the best of a tournament; the best come first."""
        size = (n, stronger * self.options.tournament)
        drawn = self.rng.integers(len(self._population), size=size)
        rows: npt.NDArray[np.int64] = drawn.min(axis=1)
        return rows

    def _cross(self, n: int, stronger: int = 1) -> Codes:
        """`[n, D]` children of two parents, or copies of one."""
        mother = self._population[self._parents(n, stronger)]
        father = self._population[self._parents(n, stronger)]
        swapped = self.rng.random(mother.shape) < 0.5
        swapped &= self.rng.random((n, 1)) < self.options.crossover
        return np.where(swapped, father, mother)

    def _mutate(self, children: Codes) -> Codes:
        """Mutates each attribute with the same probability, or as many domain moves."""
        struck = self.rng.random(children.shape) < self.options.mutation
        if self.options.moves == "attribute":
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
