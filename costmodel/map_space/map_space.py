"""The space of all mappings of one workload on one accelerator, as integer codes.

Letters: B mappings, D attributes, n dimensions, S slots, L levels, T tensors, F features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from costmodel.arrays import feasibility
from costmodel.arrays.remainders import check_no_array, check_true_counting, remainders_of
from costmodel.arrays.scratch import scratch_of
from costmodel.arrays.tables import build_tables
from costmodel.arrays.waiting import with_least_waiting
from costmodel.costs import STATUS_OK, explain_status
from costmodel.machines.accelerators import Accelerator, AcceleratorSource
from costmodel.machines.accelerators import accelerator as find_accelerator
from costmodel.map_space import moves
from costmodel.map_space.constrained_tables import (
    as_read,
    axes_left,
    constrain,
)
from costmodel.map_space.constraints import Constraints
from costmodel.map_space.constructed_draws import LEAST_SHARE, ConstructedDraws
from costmodel.map_space.edits import count_edits, edit_mappings, number_kinds
from costmodel.map_space.feature_names import feature_names
from costmodel.map_space.impossible import all_constraints
from costmodel.map_space.mapping import Mapping
from costmodel.map_space.orders_of_buffers import (
    BESIDE,
    BufferOrders,
    OrderedDraws,
    apart,
    free_groups_of,
)
from costmodel.map_space.real_points import check_points, encode, project
from costmodel.map_space.spelling import Spelling
from costmodel.problems.affine import Workload
from costmodel.problems.workloads import WorkloadSource
from costmodel.problems.workloads import workload as find_workload
from costmodel.space import Codes, check_cells, check_count, resampled
from mapspace.arguments import checked, explained
from mapspace.errors import ConfigError, ContractError, NoMappingError

# A space in which fewer than about one mapping in this many is feasible is not sampled by chance.
_MOST_DRAWS_PER_MAPPING = 200_000
_FEWEST_DRAWS = 4096

# How often `mutate` moves which kind of attribute, before kinds that the space lacks drop out.
_MOVE_SHARES = {
    "tiling": 0.6,
    "order": 0.3,
    "banks": 0.2,
    "keep": 0.1,
    "spatial-order": 0.1,
    "spatial-axis": 0.1,
}


@explained
class MapSpace:
    """All mappings of a workload on an accelerator.

    A mapping is a code `[D]`: per dimension the index of its ordered exact factorisation over the
    slots (DRAM, L2, spatial, L1 on the papers' machines), per level the lexicographic index of its
    loop order, and, where the machine makes them a choice, the order and mesh axes of the spatial
    loops, the bank allocation of a buffer, and the tensors that it keeps (bit t: tensor t). Where
    buffers lie side by side, an attribute per group says in which order they stand in the nest.

    Attributes:
        workload: the operation.
        accelerator: the machine.
        constraints: what they and the machine's own rules leave; None: there are none.
        orders: one map space per order of buffers side by side; None: there is no such choice.
        tables: the space as arrays, for compiled code; of the first of `orders`.
        remainders: how often loops run in the last pass, where factors are imperfect, else None.
        attribute_names: `[D]` such as `tiling.K`, `order.L2`, `banks.L1`, `keep.L1`.
        attribute_kinds: `[D]` tiling, order, spatial-order, spatial-axis, banks, keep or beside.
        cardinality: `[D]` int64 number of values per attribute.
        feature_names: `[F]` names of the columns of `encode`.
        edit_choices: `[D]` int64 number of edits per attribute; edit 0 keeps it.
    """

    @checked
    def __init__(
        self,
        workload: WorkloadSource,
        accelerator: AcceleratorSource,
        constraints: Constraints | Sequence[MappingType[str, Any]] | None = None,
        *,
        factors: Literal["perfect", "imperfect"] | None = None,
        counting: Literal["timeloop", "true"] | None = None,
    ) -> None:
        """Lays the space out.

        Args:
            workload: the operation, or what `costmodel.workload` finds it by.
            accelerator: the machine, or what `costmodel.accelerator` finds it by.
            constraints: what a mapping must obey: entries in the words of Timeloop's mapper, beside
                those of the machine, or what has been read in their place.
            factors: whether factors multiply to the sizes, or loops may have remainders; None: as
                the machine says.
            counting: of mappings with remainders, by Timeloop or every element by itself; None: as
                the machine says.

        Raises:
            ConfigError: an unknown name, a banked level with fewer banks than the workload has
                tensors, or constraints that cannot be read or leave nothing.
        """
        said = {"factors": factors, "counting": counting}
        changed = {key: value for key, value in said.items() if value is not None}
        machine, operation = find_accelerator(accelerator), find_workload(workload)
        machine = machine.model_copy(update=changed) if changed else machine
        machine, constraints = apart(machine, operation, constraints)
        self.workload: Workload = operation
        self.accelerator: Accelerator = machine
        free = free_groups_of(machine, constraints)
        self.orders: BufferOrders[MapSpace] | None = None
        if free:
            self._lay_out(
                BufferOrders(machine, free, lambda one: MapSpace(operation, one, constraints))
            )
            return
        tables, attributes = build_tables(operation, machine)
        self.tables = with_least_waiting(tables)
        self.constraints = all_constraints(operation, machine, constraints)
        if self.tables.imperfect:
            check_no_array(self.tables)
        if self.tables.truly:
            check_true_counting(self.tables)
        if self.tables.imperfect and self.constraints is not None:
            raise ConfigError("constraints: expected factors: perfect beside them, got imperfect.")
        if self.constraints is not None:
            self.tables = constrain(self.tables, self.constraints, operation.dimension_names)
            counts = np.diff(self.tables.row_start).tolist()
            attributes = tuple(
                attribute._replace(cardinality=counts[d]) if d < len(counts) else attribute
                for d, attribute in enumerate(attributes)
            )
        self.remainders = remainders_of(self.tables) if self.tables.imperfect else None
        self.attribute_names = tuple(attribute.name for attribute in attributes)
        self.attribute_kinds = tuple(attribute.kind for attribute in attributes)
        self.cardinality = np.array([a.cardinality for a in attributes], dtype=np.int64)
        self.feature_names = tuple(feature_names(operation, machine, self.tables))
        self.edit_choices = count_edits(self.tables, self.attribute_kinds)
        self._edit_kinds = number_kinds(self.attribute_kinds)
        kinds = set(self.attribute_kinds)
        shares = np.array([v if k in kinds else 0.0 for k, v in _MOVE_SHARES.items()])
        self._move_weights = np.cumsum(shares / shares.sum())

    def _lay_out(self, orders: BufferOrders[MapSpace]) -> None:
        """Takes over what the spaces of all orders have in common."""
        self.orders, first = orders, orders.spaces[0]
        self.tables, self.constraints = first.tables, first.constraints
        self.remainders = first.remainders
        self.attribute_names, self.feature_names = orders.attribute_names, orders.feature_names
        self.attribute_kinds = first.attribute_kinds + (BESIDE,) * len(orders.groups)
        self.cardinality = np.concatenate([first.cardinality, orders.digits])
        self.edit_choices = np.concatenate([first.edit_choices, orders.choices])

    def in_order(self, code: Codes) -> tuple[MapSpace, Codes]:
        """The map space of the order in which a code `[D]` has the buffers, and the code there."""
        return (self, code) if self.orders is None else self.orders.one(code)

    def size(self) -> int:
        """Number of mappings, infeasible ones included; codes that say the same count once."""
        return math.prod(int(count) for count in self.cardinality) >> self._unread_bits

    def feasible_count(self) -> int | None:
        """Number of feasible mappings; None where counting takes too much.

        Exact; None too where there are 2^53 tilings or more.
        """
        if self.orders is not None:
            return self.orders.feasible_count()
        draws = self._constructed.counted
        if draws is None or draws.number >= 2**53:
            return None
        orders = sum(kind in ("order", "spatial-order") for kind in self.attribute_kinds)
        found: int = int(draws.number) * len(self.tables.orders) ** orders >> self._unread_bits
        return found

    @property
    def _unread_bits(self) -> int:
        """Bits of a code on which nothing depends, since the machine decides."""
        machine = self.tables.machine
        everything = 2 ** len(self.workload.tensors) - 1
        bits = 0
        for level in range(len(self.accelerator.levels)):
            if self.tables.keep_column[level] >= 0:
                settled = int(machine.always_kept[level] | machine.never_kept[level])
                bits += (settled & everything).bit_count()
            if self.tables.spatial_axis_column[level] >= 0:
                bits += int(machine.only_x[level] | machine.only_y[level]).bit_count()
        return bits

    def sample(self, rng: np.random.Generator, n: int, *, feasible: bool = False) -> Codes:
        """Draws mappings uniformly: every attribute is uniform and independent of the others.

        Args:
            rng: where the randomness comes from.
            n: how many.
            feasible: draw uniformly among the feasible mappings instead: by rejection, where hardly
                any is feasible of a part of the space (`FittingRows`) or by counting them
                (`FeasibleDraws`).

        Returns:
            `[n, D]` int32.

        Raises:
            ConfigError: no mapping is feasible, or hardly any of a space that is too large to be
                counted; the message says what rejects them.
        """
        check_count("n", n)
        if not feasible:
            codes = rng.integers(0, self.cardinality, (n, self.cardinality.size), dtype=np.int32)
            self.draw_axes(rng, codes)
            return codes
        if n > 0 and self._constructed.at_once:
            at_once = self._constructed.sample(rng, n)
            if at_once is not None:
                return at_once
        found: list[Codes] = []
        missing, drawn, share = n, 0, 0.5
        while missing > 0:
            batch = min(max(int(missing / share * 1.1), 64), 1 << 18)
            codes = self.sample(rng, batch)
            kept = codes[self.feasible(codes)][:missing]
            found.append(kept)
            missing -= len(kept)
            drawn += batch
            share = max((n - missing) / drawn, 1e-5)
            if missing > 0 and share < 10 * LEAST_SHARE and self._constructed.needed:
                constructed = self._constructed.sample(rng, missing)
                if constructed is not None:
                    found.append(constructed)
                    break
            if missing > 0 and drawn > max(_FEWEST_DRAWS, _MOST_DRAWS_PER_MAPPING * (n - missing)):
                none = self.feasible_count() == 0
                raise (NoMappingError if none else ConfigError)(self._why_infeasible(rng, none))
        return np.concatenate(found) if found else np.empty((0, self.cardinality.size), np.int32)

    def draw_axes(self, rng: np.random.Generator, codes: Codes) -> None:
        """Draws mesh axes anew, in place, where constraints leave some sets of dimensions alone."""
        for level, column in enumerate(self.tables.spatial_axis_column):
            left = axes_left(self.tables, level)
            if left.size:
                codes[:, column] = rng.choice(left, len(codes))

    def feasible_share(self, rng: np.random.Generator, n: int = 20_000) -> float:
        """Estimated share of the space's mappings that are feasible, from `n` uniform draws."""
        return float(self.feasible(self.sample(rng, n)).mean())

    @cached_property
    def _constructed(self) -> ConstructedDraws:
        return ConstructedDraws(self) if self.orders is None else OrderedDraws(self, self.orders)

    def __getstate__(self) -> dict[str, Any]:
        """Without the counts, which are large and soon made again."""
        return {name: value for name, value in vars(self).items() if name != "_constructed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """With arrays that may be written, as its own: others would be compiled for once more."""
        for name, value in state.items():
            shared = isinstance(value, np.ndarray) and not value.flags.writeable
            setattr(self, name, value.copy() if shared else value)

    def check(self, codes: npt.NDArray[Any]) -> None:
        """Refuses what is no batch of codes of this space.

        Raises:
            ContractError: wrong shape or type, or an index out of range; names the first bad cell.
        """
        check_cells(codes, self.cardinality, self.attribute_names, "codes")

    def feasible(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """Whether mappings fit the fan-out and the capacities; costs no query.

        Args:
            codes: `[B, D]`.

        Returns:
            `[B]` bool.
        """
        status, _ = self.status(codes)
        found: npt.NDArray[np.bool_] = status == STATUS_OK
        return found

    def status(self, codes: Codes) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Status and excess of codes `[B, D]` as in `Costs`, `[B]` each, without costs."""
        self.check(codes)
        if self.orders is not None:
            return self.orders.status(codes)
        status = np.empty(len(codes), np.int32)
        excess = np.empty(len(codes), np.int64)
        scratch = scratch_of(self.tables)
        feasibility.check_mappings(self.tables, scratch, contiguous(codes), status, excess)
        return status, excess

    def mutate(self, rng: np.random.Generator, codes: Codes, *, steps: int = 1) -> Codes:
        """Applies random domain moves: a prime factor changes its slot, two loops swap, a bank ...

        A result may be infeasible. Now and then a move finds nothing to move and changes nothing.

        Args:
            rng: where the randomness comes from.
            codes: `[B, D]`.
            steps: how many moves each row makes.

        Returns:
            `[B, D]`, new.
        """
        self.check(codes)
        check_count("steps", steps)
        moved = contiguous(codes).copy()
        for _ in range(steps):
            if self.orders is not None:
                moved = self.orders.mutate(rng, moved)
                continue
            uniforms = rng.random((len(moved), moves.UNIFORMS_PER_MOVE))
            moves.mutate(self.tables, moved, self._move_weights, uniforms)
        return moved

    def resample(
        self, rng: np.random.Generator, codes: Codes, mask: npt.NDArray[np.bool_]
    ) -> Codes:
        """Draws the attributes under `mask` `[B, D]` anew, uniformly; the others stay."""
        return resampled(self, rng, codes, mask)

    def neighbours(self, code: Codes) -> Codes:
        """Every mapping one move away from a code `[D]`, feasible or not, without repeats.

        Returns:
            `[M, D]`: a prime factor to another slot, two loops swapped, a bank shifted, a tensor
            kept or dropped, a dimension on the other mesh axis.
        """
        self.check(code[None])
        if self.orders is not None:
            return self.orders.neighbours(code)
        found = moves.neighbours(self.tables, self.attribute_kinds, code)
        if self.constraints is None:
            return found
        for level, column in enumerate(self.tables.spatial_axis_column):
            others = np.repeat(code[None], len(left := axes_left(self.tables, level)), axis=0)
            others[:, column] = left
            found = np.concatenate([found, others])
        # Loops that constraints fix do not move: such a code is read as the one that it came from.
        read: Codes = as_read(self.tables, np.concatenate([code[None], found]))
        moved = (read[1:] != read[0]).any(axis=1)
        _, first = np.unique(read[1:][moved], axis=0, return_index=True)
        distinct: Codes = read[1:][moved][np.sort(first)]
        return distinct

    def edit(self, codes: Codes, edits: npt.NDArray[Any]) -> Codes:
        """Makes the chosen edit of every attribute, where it can be made; nothing is random.

        Edits of a row are made one after another, by ascending column. One that lacks its prime or
        its bank, or that would make a feasible mapping infeasible, is skipped; what was refused for
        infeasibility is tried once more when all columns have had their turn. A row that is
        infeasible to begin with is edited without regard to feasibility.

        Args:
            codes: `[B, D]`.
            edits: `[B, D]` integers, 0 (keep) to `edit_choices` - 1, as
                `costmodel.map_space.edits` numbers
                them: a prime factor to another slot, two loops swapped, a bank shifted, a tensor
                kept or dropped, a dimension on the other mesh axis.

        Returns:
            `[B, D]`, new; feasible where the row was.

        Raises:
            ContractError: wrong shape or type, or a number out of range; names the first bad cell.
        """
        self.check(codes)
        self._check_edits(codes, edits)
        if self.orders is not None:
            return self.orders.edit(self, codes, edits)
        edited = contiguous(codes).copy()
        pending = np.array(edits, dtype=np.int64, order="C")
        t = self.tables
        work = np.empty(max(t.slot_level.size, t.sizes.size, t.sliding.size), np.int64)
        edit_mappings(t, self._edit_kinds, scratch_of(t), work, edited, pending)
        return edited

    def encode(self, codes: Codes) -> npt.NDArray[np.float32]:
        """Codes as real vectors for networks, laid out as the paper has them (section 5.5).

        Args:
            codes: `[B, D]`.

        Returns:
            `[B, F]`: the n problem sizes; S x n factors, slot by slot; L x n loop ranks, level by
            level, 0 the outermost; then, where searched, banks per buffer and tensor, kept tensors
            per level (0 or 1), ranks and axes of the spatial loops; with imperfect factors S x n
            remainders.
        """
        self.check(codes)
        if self.orders is not None:
            return self.orders.encode(codes)
        return encode(self.tables, self.remainders, codes)

    def project(self, points: npt.NDArray[np.floating[Any]]) -> Codes:
        """The mappings nearest to real points, repaired until they are feasible (section 4.2).

        Loop orders are the ranks sorted, factors and banks the nearest in Euclidean distance per
        dimension and buffer. Where the result asks for too many processing elements or words, the
        dimension whose next smaller factorisation is nearest gives way, one after another.

        Args:
            points: `[B, F]`, finite, laid out as `encode`; the problem sizes are not read.

        Returns:
            `[B, D]` int32.

        Raises:
            ContractError: wrong shape, or a value that is not finite.
        """
        check_points(points, len(self.feature_names))
        if self.orders is not None:
            return self.orders.project(points)
        return project(self.tables, points, self.cardinality.size)

    def describe(self, code: Codes) -> Mapping:
        """The mapping of a code `[D]` for people and files; `str()` prints the loop nest."""
        self.check(code[None])
        if self.orders is not None:
            space, inside = self.orders.one(code)
            return space.describe(inside)
        return self._spelling.mapping(code)

    def code(self, mapping: Mapping) -> Codes:
        """The code of a mapping: the inverse of `describe`.

        What cannot matter here (the order of spatial loops where hops are free, banks of an
        unbanked buffer) is not read.

        Returns:
            `[D]` int32.

        Raises:
            ConfigError: the factors of a dimension do not multiply to its size, a tensor bypasses
                a level of a machine without bypass, or a banked level has no allocation.
        """
        if self.orders is not None:
            order = self.orders.order_of([level.name for level in mapping.levels])
            inside = self.orders.spaces[order].code(mapping)
            found: Codes = self.orders.codes(order, inside[None])[0]
            return found
        return self._spelling.code(mapping)

    @property
    def _spelling(self) -> Spelling:
        return Spelling(
            self.workload,
            self.accelerator,
            self.tables,
            self.remainders,
            self.constraints,
            self.cardinality.size,
        )

    def _check_edits(self, codes: Codes, edits: npt.NDArray[Any]) -> None:
        if edits.shape != codes.shape:
            raise ContractError(
                f"Expected edits of shape {list(codes.shape)}, got {list(edits.shape)}."
            )
        if not np.issubdtype(edits.dtype, np.integer):
            raise ContractError(f"Expected integer edits, got {edits.dtype}.")
        wrong = (edits < 0) | (edits >= self.edit_choices)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ContractError(
                f"Edit [{row}, {column}] ({self.attribute_names[column]}) must lie in "
                f"0..{self.edit_choices[column] - 1}, got {edits[row, column]}."
            )

    def _why_infeasible(self, rng: np.random.Generator, none: bool) -> str:
        few = "No" if none else "Hardly any"
        status, excess = self.status(self.sample(rng, _FEWEST_DRAWS))
        levels = tuple(level.name for level in self.accelerator.levels)
        reasons = []
        for value in np.unique(status[status != STATUS_OK]):
            least = int(excess[status == value].min())
            share = float((status == value).mean())
            why = explain_status(int(value), least, levels, self.workload.room_unit)
            reasons.append(f"{share:.1%}: {why} at the least")
        return (
            f"{few} mapping of {self.workload.name} on {self.accelerator.name} is feasible "
            f"(rejected {'; '.join(reasons)})."
        )


def contiguous(codes: npt.NDArray[Any]) -> Codes:
    """Codes as compiled code takes them: what may not be written would be compiled once more."""
    found = np.ascontiguousarray(codes, dtype=np.int32)
    return found if found.flags.writeable else found.copy()
