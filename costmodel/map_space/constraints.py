"""What a mapper's constraints leave of a map space: per level its loops, and what it keeps.

The rules are those of Timeloop's mapper (v3.0.3), so that the spaces have the sizes that it prints.
Letters: n dimensions, S slots, L levels, T tensors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.arrays.machine_tables import machine_tables
from costmodel.arrays.tables import Array, ordered_factorisations
from costmodel.machines.accelerators import Accelerator
from costmodel.problems.affine import Workload


@dataclass(frozen=True)
class LoopRules:
    """What is left of the loops of one level, temporal or spatial.

    Attributes:
        least: `[n]` every factor is at least so large.
        most: `[n]` and at most so large.
        inner: dimensions whose loops are the innermost, in this order, the innermost first.
        outer: dimensions whose loops are the outermost, in this order, the innermost first.
        split: how many dimensions from the innermost run along the width; None: any number.
    """

    least: tuple[int, ...]
    most: tuple[int, ...]
    inner: tuple[int, ...] = ()
    outer: tuple[int, ...] = ()
    split: int | None = None

    @property
    def free(self) -> tuple[int, ...]:
        """Dimensions between the inner and the outer ones, in every order."""
        fixed = {*self.inner, *self.outer}
        return tuple(d for d in range(len(self.least)) if d not in fixed)

    def orders(self) -> list[tuple[int, ...]]:
        """Every order that is left, its outermost loop first."""
        head, tail = self.outer[::-1], self.inner[::-1]
        return [(*head, *middle, *tail) for middle in itertools.permutations(self.free)]

    def splits(self) -> tuple[int, ...]:
        """Every split that is left."""
        return tuple(range(len(self.least) + 1)) if self.split is None else (self.split,)

    def allows(
        self, factors: Sequence[int], order: Sequence[int], height: int | None = None
    ) -> bool:
        """Whether loops are among what is left: some order and split of all dimensions make them.

        Args:
            factors: `[n]`.
            order: the dimensions of loops above 1, the outermost first.
            height: bit d: dimension d runs along the height; None: a temporal level.
        """
        if any(
            not low <= f <= high
            for low, f, high in zip(self.least, factors, self.most, strict=True)
        ):
            return False
        loops = [d for d in reversed(order) if factors[d] > 1]
        inner = [d for d in self.inner if d in loops]
        outer = [d for d in self.outer if d in loops]
        if height is None:
            return loops[: len(inner)] == inner and loops[len(loops) - len(outer) :] == outer
        # Those along the width are inside; each part is a piece of one order of all dimensions.
        width = [d for d in loops if not (height >> d) & 1]
        across = [d for d in loops if (height >> d) & 1]
        return any(self._divides(width, across, split) for split in self.splits())

    def _divides(self, width: list[int], across: list[int], split: int) -> bool:
        """Whether an order has these loops before and after a split, innermost first."""
        n, room = len(self.least), len(self.free)
        middle = min(max(split - len(self.inner), 0), room)
        place = {d: p for p, d in enumerate(self.inner)}
        place |= {d: n - len(self.outer) + p for p, d in enumerate(self.outer)}
        if any(place.get(d, split - 1) >= split for d in width):
            return False
        if any(place.get(d, split) < split for d in across):
            return False
        if sum(d not in place for d in width) > middle:
            return False
        if sum(d not in place for d in across) > room - middle:
            return False
        between = len(self.inner)
        return all(
            places == sorted(places)
            for places in ([place.get(d, between) for d in part] for part in (width, across))
        )


@dataclass(frozen=True)
class Constraints:
    """What constraints leave of the map space of a problem on a machine.

    Attributes:
        sizes: `[n]` of the dimensions.
        temporal: `[L]` loops of every level, outermost first.
        spatial: `[L]` loops to its children; None where it has one.
        keep: `[L]` bit t: the level holds tensor t.
        bypass: `[L]` bit t: it does not; a tensor in neither is held or not.
        tensors: how many there are.
        parallelism: share of all multiply-accumulate units that must at least work.
        units: how many units there are.
        wide: `[L]` bit d: dimension d runs along the width only.
        tall: `[L]` bit d: along the height only.
    """

    sizes: tuple[int, ...]
    temporal: tuple[LoopRules, ...]
    spatial: tuple[LoopRules | None, ...]
    keep: tuple[int, ...]
    bypass: tuple[int, ...]
    tensors: int
    parallelism: float = 0.0
    units: int = 1
    wide: tuple[int, ...] = ()
    tall: tuple[int, ...] = ()

    @property
    def slots(self) -> tuple[LoopRules, ...]:
        """`[S]` loops of every slot, outermost first, as the tables of a map space have them."""
        pairs = zip(self.temporal, self.spatial, strict=True)
        return tuple(rules for pair in pairs for rules in pair if rules is not None)

    def rows(self, dimension: int) -> Array:
        """The factorisations of a dimension that are left, `[rows, S]`, in lexicographic order."""
        slots = self.slots
        rows = ordered_factorisations(self.sizes[dimension], len(slots))
        least = np.array([rules.least[dimension] for rules in slots])
        most = np.array([rules.most[dimension] for rules in slots])
        kept: Array = rows[((rows >= least) & (rows <= most)).all(axis=1)]
        return kept

    def keeps(self, level: int) -> tuple[int, ...]:
        """Every set of tensors that a level may hold, as bits."""
        return tuple(
            held
            for held in range(1 << self.tensors)
            if held & self.keep[level] == self.keep[level] and not held & self.bypass[level]
        )

    def sizes_of_parts(self) -> dict[str, int]:
        """Points of the parts of the map space, by the names that Timeloop prints."""
        orders = splits = 1
        for rules in self.slots:
            orders *= math.factorial(len(rules.free))
        for across in self.spatial:
            splits *= len(across.splits()) if across is not None else 1
        return {
            "IndexFactorization": math.prod(len(self.rows(d)) for d in range(len(self.sizes))),
            "LoopPermutation": orders,
            "Spatial": splits,
            "DatatypeBypass": math.prod(len(self.keeps(level)) for level in range(len(self.keep))),
        }

    def and_also(self, other: Constraints) -> Constraints:
        """What both leave; orders and splits are those of the other."""

        def both(ours: LoopRules | None, theirs: LoopRules | None) -> LoopRules:
            assert ours is not None
            assert theirs is not None
            return replace(
                theirs,
                least=tuple(map(max, ours.least, theirs.least)),
                most=tuple(map(min, ours.most, theirs.most)),
            )

        def either(ours: Sequence[int], theirs: Sequence[int]) -> tuple[int, ...]:
            return tuple(a | b for a, b in zip(ours, theirs, strict=True))

        return replace(
            other,
            temporal=tuple(map(both, self.temporal, other.temporal)),
            spatial=tuple(
                None if a is None else both(a, b)
                for a, b in zip(self.spatial, other.spatial, strict=True)
            ),
            keep=either(self.keep, other.keep),
            bypass=either(self.bypass, other.bypass),
            parallelism=max(self.parallelism, other.parallelism),
            wide=either(self.wide, other.wide),
            tall=either(self.tall, other.tall),
        )


def machine_constraints(
    workload: Workload, machine: Accelerator, *, outermost: bool = True
) -> Constraints:
    """What a machine's own file leaves of the map space of a workload.

    Args:
        workload: the operation.
        machine: the machine.
        outermost: the outermost level keeps what the file does not make it bypass, as it does where
            nothing else is said.

    Raises:
        ConfigError: it keeps, bypasses or spreads something that the workload has not.
    """
    names, n = workload.dimension_names, len(workload.dimensions)
    indexing = {tensor.name: tensor.dimensions for tensor in workload.tensors}
    tables = machine_tables(machine, workload.roles, names, indexing=indexing)
    everything = (1 << len(workload.tensors)) - 1
    sizes = tuple(workload.dimensions.values())
    keep = []
    for level, (always, never) in enumerate(
        zip(tables.always_kept.tolist(), tables.never_kept.tolist(), strict=True)
    ):
        settled = machine.bypass == "none" or (level == 0 and outermost)
        keep.append(everything & ~never if settled else always)
    spatial = [
        tuple(1 if (barred >> d) & 1 else sizes[d] for d in range(n))
        for barred in tables.barred.tolist()
    ]
    return Constraints(
        sizes=sizes,
        temporal=tuple(LoopRules((1,) * n, sizes) for _ in machine.levels),
        spatial=tuple(
            LoopRules((1,) * n, most) if level.fanout > 1 else None
            for level, most in zip(machine.levels, spatial, strict=True)
        ),
        keep=tuple(keep),
        bypass=tuple(tables.never_kept.tolist()),
        tensors=len(workload.tensors),
        units=machine.processing_elements,
        wide=tuple(tables.only_x.tolist()),
        tall=tuple(tables.only_y.tolist()),
    )
