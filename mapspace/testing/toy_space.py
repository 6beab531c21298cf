"""A small separable space that shares nothing with loop nests, its cost model and a predictor.

The contract tests run every searcher on it as well: what holds only on loop nests is no contract.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from costmodel.costs import Costs
from mapspace.errors import ContractError

CARDINALITY = np.array([9, 9, 7, 5, 4, 3], dtype=np.int64)
TARGET = np.array([7, 1, 3, 4, 0, 1])
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 0.25])
LIMIT = 11  # on the sum of the first two attributes


class ToySpace:
    """Integer boxes, feasible where the first two attributes add up to no more than `LIMIT`."""

    cardinality = CARDINALITY
    edit_choices = np.full(len(CARDINALITY), 3, dtype=np.int64)  # keep, one less, one more
    feature_names = ("problem.X", *(f"value.{d}" for d in range(len(CARDINALITY))))

    def size(self) -> int:
        """Number of codes."""
        return int(np.prod(CARDINALITY))

    def sample(self, rng: np.random.Generator, n: int, *, feasible: bool = False) -> np.ndarray:
        """`[n, D]` uniform over the space, or over its feasible part."""
        codes = rng.integers(CARDINALITY, size=(n, len(CARDINALITY)), dtype=np.int64)
        while feasible and not (good := self.feasible(codes)).all():
            codes[~good] = rng.integers(CARDINALITY, size=((~good).sum(), len(CARDINALITY)))
        return codes.astype(np.int32)

    def check(self, codes: np.ndarray) -> None:
        """Refuses codes that are out of range."""
        if ((codes < 0) | (codes >= CARDINALITY)).any():
            raise ContractError("A toy code is out of range.")

    def feasible(self, codes: np.ndarray) -> np.ndarray:
        """`[B]` whether the first two attributes are small enough together."""
        return np.asarray(codes[:, :2].sum(axis=1) <= LIMIT)

    def mutate(self, rng: np.random.Generator, codes: np.ndarray, *, steps: int = 1) -> np.ndarray:
        """`[B, D]` after so many steps of one, each of a random attribute."""
        moved = codes.copy()
        rows = np.arange(len(codes))
        for _ in range(steps):
            column = rng.integers(len(CARDINALITY), size=len(codes))
            step = rng.choice(np.array([-1, 1]), size=len(codes))
            moved[rows, column] = np.clip(
                moved[rows, column] + step, 0, CARDINALITY[column] - 1
            ).astype(np.int32)
        return moved

    def resample(self, rng: np.random.Generator, codes: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """`[B, D]` with what is under the mask drawn anew."""
        return np.where(mask, self.sample(rng, len(codes)), codes)

    def neighbours(self, code: np.ndarray) -> np.ndarray:
        """`[M, D]` every code that differs in one attribute."""
        rows = [
            np.where(np.arange(len(code)) == d, value, code)
            for d in range(len(code))
            for value in range(CARDINALITY[d])
            if value != code[d]
        ]
        return np.array(rows, dtype=np.int32)

    def edit(self, codes: np.ndarray, edits: np.ndarray) -> np.ndarray:
        """`[B, D]` after one step or none of each attribute."""
        self.check(codes)
        if edits.shape != codes.shape or ((edits < 0) | (edits >= self.edit_choices)).any():
            raise ContractError("Toy edits are 0, 1 or 2, one per attribute.")
        edited = codes.copy()
        guarded = self.feasible(codes)
        pending = np.array([0, -1, 1], dtype=codes.dtype)[edits]
        for _ in range(2):
            for d in range(len(CARDINALITY)):
                moved = edited.copy()
                moved[:, d] += pending[:, d]
                inside = (moved[:, d] >= 0) & (moved[:, d] < CARDINALITY[d])
                made = inside & (self.feasible(moved) | ~guarded)
                edited[made] = moved[made]
                pending[made | ~inside, d] = 0
        return edited

    def encode(self, codes: np.ndarray) -> np.ndarray:
        """`[B, F]` a constant and the code."""
        constant = np.full((len(codes), 1), 5.0)
        return np.concatenate([constant, codes], axis=1).astype(np.float32)

    def project(self, points: np.ndarray) -> np.ndarray:
        """`[B, D]` the nearest feasible codes."""
        codes: np.ndarray = np.clip(np.rint(points[:, 1:]), 0, CARDINALITY - 1).astype(np.int32)
        over = np.maximum(codes[:, :2].sum(axis=1) - LIMIT, 0)
        taken = np.minimum(over, codes[:, 0])
        codes[:, 0] -= taken.astype(np.int32)
        codes[:, 1] -= (over - taken).astype(np.int32)
        return codes


def toy_losses(codes: np.ndarray) -> np.ndarray:
    """`[B]` 1 + a weighted squared distance from the target."""
    return np.asarray(1.0 + (WEIGHT * (codes - TARGET) ** 2).sum(axis=1))


class ToyModel:
    """Scores the toy space; infeasible where the space says so."""

    name = "toy"
    version = "1"

    def evaluate(self, space: Any, codes: np.ndarray, *, detail: bool = False) -> Costs:
        """Costs of codes `[B, D]`."""
        good = space.feasible(codes)
        energy = np.where(good, toy_losses(codes), np.inf)
        return Costs(
            energy_pj=energy,
            latency_cycles=np.where(good, 1.0, np.inf),
            status=np.where(good, 0, 2).astype(np.int32),
            excess=np.where(good, 0, 1),
        )


class ToyPredictor:
    """A predictor whose logarithm is a paraboloid around a random point of any space's features."""

    def __init__(self, features: int, scale: np.ndarray | None = None) -> None:
        rng = np.random.default_rng(7)
        self.scale = np.full(features, 2.0) if scale is None else scale
        self.centre = rng.uniform(0.0, 4.0, size=features)
        self.queries = 0

    def value(self, points: np.ndarray) -> np.ndarray:
        """`[m]` predicted ln EDP."""
        self.queries += len(points)
        shifted = (points.astype(np.float64) - self.centre) / self.scale
        return np.asarray(np.log1p((shifted**2).sum(axis=1)))

    def value_and_gradient(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predicted ln EDP `[m]` and the gradient `[m, F]`."""
        value = self.value(points)
        shifted = (points.astype(np.float64) - self.centre) / self.scale
        return value, 2.0 * shifted / self.scale

    def describe(self, points: np.ndarray) -> np.ndarray:
        """`[m, F]` the points themselves, in units of their spread."""
        return np.asarray((points - self.centre) / self.scale, np.float32)

    def value_and_slope(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predicted ln EDP `[m]`, the description and the gradient by it `[m, F]`."""
        value, described = self.value(points), self.describe(points)
        return value, described, 2.0 * described / (1.0 + (described**2).sum(axis=1))[:, None]

    def value_and_sum_gradient(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same with the gradient of another objective."""
        value, gradient = self.value_and_gradient(points)
        return value, 0.5 * gradient
