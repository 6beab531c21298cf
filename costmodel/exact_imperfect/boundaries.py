"""The least energy of all tilings with remainders, level by level from the outermost: lemma 10.

Letters: L levels, n dimensions, T tensors; arrays over cells have n axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.exact_imperfect.charges import ANY_AXIS, MOVES_ALL, Charges
from costmodel.exact_imperfect.grid import FloatArray
from costmodel.exact_imperfect.spreads import LONGEST

Resting = tuple[tuple[int, int], ...]
"""Tensors that rest across a boundary, each with the last level that its run reaches."""


class Boundaries:
    """The chain of bounds of some spatial factors; `least` is what no tiling undercuts."""

    def __init__(self, charges: Charges) -> None:
        """Notes what is charged.

        Args:
            charges: of the map space, its kept tensors and the spatial factors.
        """
        self._charges = charges
        self._cells = charges.cells
        self._dims = [d for d, size in enumerate(charges.sizes.tolist()) if size > 1]
        self._held = [self._that_fit(level) for level in range(charges.levels)]
        self._longest = [self._longest_of(level) for level in range(charges.levels)]
        self._charged: dict[tuple[int, int, int, tuple[int, ...], int], FloatArray] = {}
        self._groups = self._classes()

    def least(self) -> float:
        """Energy that no mapping undercuts, pJ; inf if no tile fits."""
        states: dict[Resting, FloatArray] = {(): self._held[0]}
        for level in range(self._charges.levels - 1):
            found: dict[Resting, FloatArray] = {}
            for resting, costs in states.items():
                for key, entered in self._steps(level, resting, costs):
                    held = entered + self._held[level + 1]
                    found[key] = np.minimum(found[key], held) if key in found else held
            states = found
        return self._charges.fixed + min((float(f.min()) for f in states.values()), default=np.inf)

    def _that_fit(self, level: int) -> FloatArray:
        """0 in the cells whose tiles can be those of a level, else inf."""
        charges, cells = self._charges, self._cells
        found = np.zeros(cells.shape)
        if level == 0:
            found[:] = np.inf
            found[(-1,) * found.ndim] = 0.0
        for d, size in enumerate(charges.sizes.tolist()):
            beyond = charges.ends.low[level, d] * cells.low[d] > LONGEST * size
            found = found + cells.along(d, np.where(beyond, np.inf, 0.0))
        capacity = int(charges.tables.capacity[level])
        if capacity >= 0:
            kept = [t for t in range(charges.tensors) if level in charges.kept[t]]
            room = charges.tables.machine.room[level]
            words = sum((charges.tile(t) * room[t] for t in kept), np.zeros((1,) * found.ndim))
            found = np.where(np.broadcast_to(words, found.shape) > capacity, np.inf, found)
        return found

    def _longest_of(self, level: int) -> Array:
        """`[n]` the largest extents of the tiles of a level."""
        fit = np.isfinite(self._held[level])
        if not fit.any():
            return np.ones(fit.ndim, np.int64)
        places = [
            np.flatnonzero(fit.any(axis=tuple(set(range(fit.ndim)) - {d})))[-1]
            for d in range(fit.ndim)
        ]
        return np.array([self._cells.high[d][place] for d, place in enumerate(places)])

    def _classes(self) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
        """Of first loops: tensors that rest, then the dimensions alike in what they move."""
        charges = self._charges
        found: dict[tuple[int, ...], dict[tuple[int, ...], list[int]]] = {}
        for d in self._dims:
            rest = tuple(t for t in range(charges.tensors) if not charges.is_moved(t, d))
            along = tuple(
                charges.first_axis(t, d) if charges.is_moved(t, d) else MOVES_ALL
                for t in range(charges.tensors)
            )
            found.setdefault(rest, {}).setdefault(along, []).append(d)
        return {rest: [tuple(dims) for dims in alike.values()] for rest, alike in found.items()}

    def _steps(
        self, level: int, resting: Resting, costs: FloatArray
    ) -> Iterator[tuple[Resting, FloatArray]]:
        """The costs over the cells of the next level, for every way to fill a level's slot."""
        charges, inner = self._charges, level + 1
        held = {t for t, _ in resting}
        going_on = tuple(pair for pair in resting if pair[1] > inner)
        alone = sum(
            (
                self._at_once(t, inner, tuple(self._moving(t)), ANY_AXIS)
                for t in self._kept(inner, held)
            ),
            np.zeros((1,) * costs.ndim),
        )
        yield going_on, self._inwards(costs, level, set(self._dims)) + alone
        for rest, alike in self._groups.items():
            if not held <= set(rest):
                continue
            fixed = {d for t in held for d in self._moving(t)}
            classes = [dims for dims in alike if not fixed & set(dims)]
            moved = [t for t in self._kept(inner, held) if t not in rest]
            if not classes:
                continue
            entered = [
                sum(
                    (self._at_once(t, inner, dims, self._first(t, dims)) for t in moved),
                    np.zeros((1,) * costs.ndim),
                )
                for dims in classes
            ]
            least = (
                np.minimum.reduce(np.broadcast_arrays(*entered)) if len(entered) > 1 else entered[0]
            )
            fresh = [t for t in rest if t not in held]
            for ends in itertools.product(*(self._ends(t, inner) for t in fresh)):
                paid, runs = costs, list(going_on)
                for t, end in zip(fresh, ends, strict=True):
                    for reached in charges.kept[t][1:]:
                        if inner <= reached <= end:
                            paid = paid + self._in_run(t, reached, level)
                    if end > inner:
                        runs.append((t, end))
                yield tuple(sorted(runs)), self._inwards(paid, level, fixed) + least

    def _kept(self, level: int, held: set[int]) -> list[int]:
        """Tensors that pay for entering a level, but for those that are paid for."""
        kept = self._charges.kept
        return [t for t in range(self._charges.tensors) if level in kept[t][1:] and t not in held]

    def _ends(self, t: int, inner: int) -> list[int]:
        """The levels that a tensor's run may reach; that outside stands for none."""
        reached = [level for level in self._charges.kept[t][1:] if level >= inner]
        return reached if inner in reached else [inner - 1, *reached]

    def _moving(self, t: int) -> list[int]:
        return [d for d in self._dims if self._charges.is_moved(t, d)]

    def _first(self, t: int, dims: tuple[int, ...]) -> int:
        return self._charges.first_axis(t, dims[0])

    def _at_once(self, t: int, level: int, dims: tuple[int, ...], axis: int) -> FloatArray:
        """What a tensor costs that the first loop outside a level moves."""
        key = (t, level, level, dims, axis)
        if key not in self._charged:
            lost = self._charges.lost(level, level, list(dims), self._longest[level])
            self._charged[key] = self._charges.charge(t, level, level, axis, lost)
        return self._charged[key]

    def _in_run(self, t: int, level: int, boundary: int) -> FloatArray:
        """What a tensor costs at a level whose run ends in the slot of one further out."""
        key = (t, level, boundary, (), ANY_AXIS)
        if key not in self._charged:
            moving = self._moving(t)
            lost = self._charges.lost(level, boundary, moving, self._longest[level])
            self._charged[key] = self._charges.charge(t, level, boundary, ANY_AXIS, lost)
        return self._charged[key]

    def _inwards(self, costs: FloatArray, level: int, fixed: set[int]) -> FloatArray:
        """The least cost of all tiles of a level that hold a tile of the next one.

        Args:
            costs: over the cells of the level.
            level: the level.
            fixed: dimensions without a temporal loop between.
        """
        spread, sizes = self._charges.spread, self._charges.sizes
        for d in self._dims:
            low, high = self._cells.low[d], self._cells.high[d]
            least = np.minimum(sizes[d], spread.least[level, d] * low)
            first = np.searchsorted(high, least)
            if d not in fixed:
                turned = np.flip(np.minimum.accumulate(np.flip(costs, d), axis=d), d)
                costs = np.take(turned, first, axis=d)
                continue
            most = np.minimum(sizes[d], spread.most[level, d] * high)
            last = np.searchsorted(high, most)
            slices = [
                costs.take(range(a, b + 1), axis=d).min(axis=d)
                for a, b in zip(first.tolist(), last.tolist(), strict=True)
            ]
            costs = np.stack(slices, axis=d)
        return costs
