"""Map spaces of machines whose buffers side by side may stand in every order.

Every order is a map space of its own. A code is that of a mapping in one of them, level by level
from the outside, and one more attribute per group says which: the lexicographic index of its order.
What a code says of a buffer rather than of a place in the nest (kept tensors, banks) stands in the
column of that buffer in the file's order.

Letters: B mappings, D attributes of a code, V orders, G groups, L levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.costs import STATUS_CAPACITY, Costs, Detail
from costmodel.machines.accelerators import Accelerator
from costmodel.machines.constraint_entries import HasConstraints
from costmodel.machines.side_by_side import Group, all_orders, free_groups, in_order
from costmodel.machines.tiles_apart import with_tiles_apart
from costmodel.map_space import moves
from costmodel.map_space.constraints import Constraints
from costmodel.map_space.constructed_draws import ConstructedDraws, NestSpace, rejects
from costmodel.problems.affine import Workload
from costmodel.space import Codes
from mapspace.errors import ConfigError
from mapspace.strict_yaml import validate

BESIDE = "beside"
"""What attributes of this kind are called: `beside.GROUP`."""

# Share of the moves of `mutate` that exchange two buffers.
_MOVED = 0.1

Entries = Constraints | Sequence[Mapping[str, Any]] | None


def apart(machine: Accelerator, operation: Workload, given: Entries) -> tuple[Accelerator, Entries]:
    """A machine with its levels whose tiles are apart as parts, and constraints beside its own.

    Raises:
        ConfigError: as `costmodel.machines.tiles_apart.with_tiles_apart`, or constraints that were
            read already speak of the levels as they were.
    """
    if not any(map(machine.has_tiles_apart, machine.levels)):
        return machine, given
    if isinstance(given, Constraints):
        whole, _ = with_tiles_apart(machine, operation)
        if whole is not machine:
            raise ConfigError("constraints: expected entries beside tiles: apart, got read ones.")
        return machine, given
    entries = validate(HasConstraints, {"constraints": [*given]}, "").constraints if given else ()
    whole, left = with_tiles_apart(machine, operation, entries)
    return whole, [entry.model_dump() for entry in left] if given else given


def free_groups_of(machine: Accelerator, given: Entries) -> tuple[Group, ...]:
    """The groups whose order a map space searches.

    Constraints that were read already are about levels by their positions: none is free then.
    """
    if isinstance(given, Constraints):
        return ()
    entries = validate(HasConstraints, {"constraints": [*given]}, "").constraints if given else ()
    return free_groups(machine, entries)


class OneOrder(NestSpace, Protocol):
    """The map space of one order: `costmodel.map_space.map_space.MapSpace`."""

    accelerator: Accelerator
    attribute_names: tuple[str, ...]
    attribute_kinds: tuple[str, ...]

    def status(self, codes: Codes) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Status and excess of codes `[B, D]`."""
        ...

    def feasible_count(self) -> int | None:
        """Number of feasible mappings."""
        ...


SpaceT = TypeVar("SpaceT", bound=OneOrder)


class BufferOrders(Generic[SpaceT]):
    """The map spaces of all orders, and what a map space asks of them together.

    Attributes:
        groups: `[G]` the groups.
        orders: `[V]` per order, every level's position in the file.
        spaces: `[V]` one map space per order, the file's first.
        digits: `[G]` number of orders of every group.
        choices: `[G]` number of edits of a group's order: to exchange two buffers, or none.
        columns: `[V, D - G]` where an attribute of an order's space stands in a code.
    """

    def __init__(
        self,
        machine: Accelerator,
        groups: tuple[Group, ...],
        make: Callable[[Accelerator], SpaceT],
    ) -> None:
        """Lays out the map spaces.

        Args:
            machine: the machine.
            groups: its groups whose order is free, one at least.
            make: the map space of a machine without free groups.
        """
        self.groups = groups
        self.orders = np.array(all_orders(machine, groups), dtype=np.int64)
        self.spaces = tuple(make(in_order(machine, order)) for order in self.orders.tolist())
        sizes = [group.stop - group.first for group in groups]
        self.digits = np.array([math.factorial(size) for size in sizes], dtype=np.int64)
        self.choices = np.array([1 + math.comb(size, 2) for size in sizes], dtype=np.int64)
        self._strides = np.cumprod([1, *self.digits[:0:-1]])[::-1]
        first = self.spaces[0]
        self.width = len(first.attribute_names)
        self.columns = np.array([self._columns(first, space) for space in self.spaces])
        self._exchanged = [_exchanges(group) for group in groups]

    @staticmethod
    def _columns(first: OneOrder, space: OneOrder) -> list[int]:
        places = {name: column for column, name in enumerate(first.attribute_names)}
        attributes = enumerate(zip(space.attribute_names, space.attribute_kinds, strict=True))
        return [
            places[name] if kind in ("keep", "banks") else column
            for column, (name, kind) in attributes
        ]

    def label(self, names: Sequence[str]) -> tuple[str, ...]:
        """Attributes such as `order.ifmap` by places of the nest, `order.element.1`."""
        machine = self.spaces[0].accelerator
        labels = {
            machine.levels[place].name: f"{group.name}.{place - group.first + 1}"
            for group in self.groups
            for place in range(group.first, group.stop)
        }
        found = []
        for name in names:
            kind, _, level = name.partition(".")
            place = name if kind == "tiling" else f"{kind}.{labels.get(level, level)}"
            found.append(place)
        return tuple(found)

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """`[D]`: loops are named by places, kept tensors and banks by buffers."""
        first = self.spaces[0]
        named = zip(
            first.attribute_names, self.label(first.attribute_names), first.attribute_kinds,
            strict=True,
        )  # fmt: skip
        names = [name if kind in ("keep", "banks") else place for name, place, kind in named]
        return (*names, *(f"{BESIDE}.{group.name}" for group in self.groups))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """`[F]`: those of a mapping by places, then every buffer's place in its group.

        A place has the name of the buffer that the file has there.
        """
        first = self.spaces[0]
        levels = first.accelerator.levels
        ranks = (
            f"{BESIDE}.{levels[place].name}"
            for group in self.groups
            for place in range(group.first, group.stop)
        )
        return (*first.feature_names, *ranks)

    def which(self, codes: Codes) -> Array:
        """`[B]` the order of every code."""
        found: Array = codes[:, self.width :].astype(np.int64) @ self._strides
        return found

    def digits_of(self, order: int) -> npt.NDArray[np.int32]:
        """`[G]` what a code says of an order."""
        return (order // self._strides % self.digits).astype(np.int32)

    def codes(self, order: int, codes: Codes) -> Codes:
        """`[B, D]` codes `[B, D - G]` of an order's space, as this space has them."""
        found = np.empty((len(codes), self.width + len(self.groups)), np.int32)
        found[:, self.columns[order]] = codes
        found[:, self.width :] = self.digits_of(order)
        return found

    def inside(self, order: int, codes: Codes) -> Codes:
        """`[B, D - G]` codes of an order in its own space."""
        return np.ascontiguousarray(codes[:, self.columns[order]], dtype=np.int32)

    def split(self, codes: Codes) -> Iterator[tuple[int, Array, Codes]]:
        """Every order that occurs, the rows that have it, and their codes in its own space."""
        which = self.which(codes)
        for order in np.unique(which).tolist():
            rows = np.flatnonzero(which == order)
            yield order, rows, self.inside(order, codes[rows])

    def one(self, code: Codes) -> tuple[SpaceT, Codes]:
        """The space of a code's `[D]` order, and the code there."""
        order = int(self.which(code[None])[0])
        return self.spaces[order], self.inside(order, code[None])[0]

    def status(self, codes: Codes) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """As `MapSpace.status`; levels are those of the file."""
        status, excess = np.zeros(len(codes), np.int32), np.zeros(len(codes), np.int64)
        for order, rows, inside in self.split(codes):
            status[rows], excess[rows] = self.spaces[order].status(inside)
            status[rows] = self._of_the_file(order, status[rows])
        return status, excess

    def _of_the_file(self, order: int, status: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        levels = self.orders.shape[1]
        place = status - STATUS_CAPACITY
        about = (place >= 0) & (place < 2 * levels)
        half, level = np.divmod(np.where(about, place, 0), levels)
        named = STATUS_CAPACITY + half * levels + self.orders[order][level]
        return np.where(about, named, status).astype(np.int32)

    def evaluate(self, evaluate: Callable[..., Costs], codes: Codes, detail: bool) -> Costs:
        """Costs `[B]` of codes; details are by level of the file.

        Args:
            evaluate: a model's, of one map space.
            codes: `[B, D]`.
            detail: whether counts are asked for.
        """
        parts = [
            (order, rows, evaluate(self.spaces[order], inside, detail=detail))
            for order, rows, inside in self.split(codes)
        ] or [(0, np.empty(0, np.int64), evaluate(self.spaces[0], codes[:, : self.width],
                                                  detail=detail))]  # fmt: skip
        back = np.argsort(np.concatenate([rows for _, rows, _ in parts]))

        def joined(name: str) -> Any:
            return np.concatenate([getattr(costs, name) for _, _, costs in parts])[back]

        status = np.concatenate([self._of_the_file(o, costs.status) for o, _, costs in parts])[back]
        together = Costs(joined("energy_pj"), joined("latency_cycles"), status, joined("excess"))
        if not detail:
            return together
        details = [(order, costs.detail) for order, _, costs in parts if costs.detail is not None]

        def by_level(name: str) -> Any:
            arrays = [getattr(d, name)[:, np.argsort(self.orders[o])] for o, d in details]
            return np.concatenate(arrays)[back]

        def whole(name: str) -> Any:
            return np.concatenate([getattr(d, name) for _, d in details])[back]

        names = ("tile", "reads", "fills", "updates", "instances", "energy_pj")
        found = Detail(
            **{name: by_level(name) for name in names},
            network_energy_pj=whole("network_energy_pj"),
            mac_energy_pj=max(d.mac_energy_pj for _, d in details),
            utilisation=whole("utilisation"),
        )
        return Costs(joined("energy_pj"), joined("latency_cycles"), status, joined("excess"), found)

    def mutate(self, rng: np.random.Generator, codes: Codes) -> Codes:
        """`[B, D]` after one random move each: of a mapping in its order, or of two buffers."""
        moved = codes.astype(np.int32)
        exchanged = rng.random(len(codes)) < _MOVED
        group = rng.integers(len(self.groups), size=len(codes))
        edit = 1 + (rng.random(len(codes)) * (self.choices[group] - 1)).astype(np.int64)
        for g in range(len(self.groups)):
            rows = np.flatnonzero(exchanged & (group == g))
            column = self.width + g
            moved[rows, column] = self._exchanged[g][moved[rows, column], edit[rows]]
        stay = np.flatnonzero(~exchanged)
        for order, rows, inside in self.split(moved[stay]):
            result = self.spaces[order].mutate(rng, inside)
            moved[stay[rows]] = self.codes(order, result)
        return moved

    def neighbours(self, code: Codes) -> Codes:
        """`[M, D]` every move within the order of a code `[D]`, and every exchange."""
        order = int(self.which(code[None])[0])
        space, inside = self.one(code)
        found = [self.codes(order, space.neighbours(inside))]
        for g, table in enumerate(self._exchanged):
            column = self.width + g
            others = np.repeat(code[None], table.shape[1] - 1, axis=0)
            others[:, column] = table[code[column], 1:]
            found.append(others)
        return np.concatenate(found)

    def edit(self, space: OneOrder, codes: Codes, edits: npt.NDArray[Any]) -> Codes:
        """As `MapSpace.edit`: the edits within an order first, then exchanges of buffers."""
        edited = codes.astype(np.int32)
        for order, rows, inside in self.split(codes):
            chosen = edits[rows][:, self.columns[order]]
            edited[rows] = self.codes(order, self.spaces[order].edit(inside, chosen))
        feasible = space.feasible(codes)
        for g, table in enumerate(self._exchanged):
            column = self.width + g
            tried = edited.copy()
            tried[:, column] = table[edited[:, column], edits[:, column]]
            taken = ~feasible | space.feasible(tried)
            edited[taken] = tried[taken]
        return edited

    def encode(self, codes: Codes) -> npt.NDArray[np.float32]:
        """`[B, F]`."""
        found = np.empty((len(codes), len(self.feature_names)), np.float32)
        ranks = sum(group.stop - group.first for group in self.groups)
        for order, rows, inside in self.split(codes):
            found[rows, :-ranks] = self.spaces[order].encode(inside)
            places = np.argsort(self.orders[order])
            found[rows, -ranks:] = [
                places[level] - group.first
                for group in self.groups
                for level in range(group.first, group.stop)
            ]
        return found

    def project(self, points: npt.NDArray[np.floating[Any]]) -> Codes:
        """`[B, D]`: the order whose ranks are sorted as a point's, then what is nearest there."""
        sizes = [group.stop - group.first for group in self.groups]
        end = points.shape[1] - sum(sizes)
        digits = np.empty((len(points), len(self.groups)), np.int64)
        position = end
        for g, size in enumerate(sizes):
            ranks = np.ascontiguousarray(points[:, position : position + size], np.float64)
            digits[:, g] = moves.order_indices(ranks)
            position += size
        which = digits @ self._strides
        codes = np.empty((len(points), self.width + len(self.groups)), np.int32)
        for order in np.unique(which).tolist():
            rows = np.flatnonzero(which == order)
            projected = self.spaces[order].project(points[rows, :end])
            codes[rows] = self.codes(order, projected)
        return codes

    def order_of(self, names: Sequence[str]) -> int:
        """The order in which a mapping's levels stand; the file's where none is."""
        for order, space in enumerate(self.spaces):
            if space.accelerator.level_names == tuple(names):
                return order
        return 0

    def feasible_count(self) -> int | None:
        """Feasible mappings of all orders; None where one of them cannot be counted."""
        total = 0
        for space in self.spaces:
            number = space.feasible_count()
            if number is None:
                return None
            total += number
        return total


class OrderedDraws(ConstructedDraws):
    """Uniform draws of feasible mappings over all orders."""

    def __init__(self, space: NestSpace, orders: BufferOrders[Any]) -> None:
        """Does nothing yet."""
        super().__init__(space)
        self._orders = orders

    @cached_property
    def _parts(self) -> list[ConstructedDraws]:
        return [ConstructedDraws(space) for space in self._orders.spaces]

    @property
    def _rules_out(self) -> bool:
        fitting = [part.fitting for part in self._parts]
        return None not in fitting and any(rows is not None and rows.share > 0 for rows in fitting)

    def sample(self, rng: np.random.Generator, n: int) -> Codes | None:
        """`[n, D]` uniform; None if there is no way to so many, or none is feasible."""
        fitting = [part.fitting for part in self._parts if part.fitting is not None]
        sizes = np.array([rows.size for rows in fitting])
        share = float(sizes @ np.array([rows.share for rows in fitting]) / max(1, sizes.sum()))
        if (
            len(fitting) == len(self._parts)
            and share > 0
            and (rejects(share, n) or any(part.counted is None for part in self._parts))
        ):
            # Every order is drawn as often as mappings of it fit by themselves, then rejected.
            return self._reject(rng, n, sizes / sizes.sum(), share)
        numbers = []
        for part in self._parts:
            if part.counted is None:
                return None
            numbers.append(float(part.counted.number))
        if not sum(numbers):
            return None
        return self._draw(rng, n, np.array(numbers) / sum(numbers))

    def _draw(self, rng: np.random.Generator, n: int, weights: npt.NDArray[np.float64]) -> Codes:
        which = rng.choice(len(weights), n, p=weights)
        codes = np.empty((n, self._space.cardinality.size), np.int32)
        for order in np.unique(which).tolist():
            rows = np.flatnonzero(which == order)
            counted, space = self._parts[order].counted, self._orders.spaces[order]
            assert counted is not None  # whoever calls has looked
            inside = space.sample(rng, len(rows))
            counted.sample(rng, inside)
            codes[rows] = self._orders.codes(order, inside)
        return codes

    def _reject(
        self, rng: np.random.Generator, n: int, weights: npt.NDArray[np.float64], share: float
    ) -> Codes:
        found = [np.empty((0, self._space.cardinality.size), np.int32)]
        missing = n
        while missing > 0:
            batch = min(max(int(1.1 * missing / share), 64), 1 << 18)
            which = rng.choice(len(weights), batch, p=weights)
            places, accepted = [], []
            for order in np.unique(which).tolist():
                space = self._orders.spaces[order]
                fitting = self._parts[order].fitting
                assert fitting is not None  # whoever calls has looked
                rows = np.flatnonzero(which == order)
                inside = fitting.draw(rng, len(rows))
                fits = space.feasible(inside)
                kept = inside[fits]
                fitting.draw_orders(rng, kept)
                places.append(rows[fits])
                accepted.append(self._orders.codes(order, kept))
            # As they were drawn: the first so many are of all orders alike.
            codes = np.concatenate(accepted)[np.argsort(np.concatenate(places))]
            found.append(codes[:missing])
            missing -= len(found[-1])
        return np.concatenate(found)


def _exchanges(group: Group) -> Array:
    """`[orders, edits]` the order after every edit: none, then two places exchanged."""
    orders = group.orders
    numbers = {order: index for index, order in enumerate(orders)}
    size = group.stop - group.first
    table = []
    for index, order in enumerate(orders):
        row = [index]
        for first in range(size):
            for second in range(first + 1, size):
                other = list(order)
                other[first], other[second] = order[second], order[first]
                row.append(numbers[tuple(other)])
        table.append(row)
    return np.array(table, dtype=np.int64)
