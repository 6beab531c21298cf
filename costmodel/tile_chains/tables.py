"""The tables of a chain for one assignment after another, built anew only where they differ.

Letters: L levels, n dimensions, T tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from costmodel.arrays.tables import Array
from costmodel.compiled.laid_out import laid_out
from costmodel.tile_chains.aside import LOOSER, Aside, bring_back, stepped
from costmodel.tile_chains.chain import build_levels
from costmodel.tile_chains.chain_arrays import Scratch, empty_chain, make_scratch
from costmodel.tile_chains.credits import Credits
from costmodel.tile_chains.entering import Around, fill_paid_inside, first_change, settle
from costmodel.tile_chains.lines import Lines, room_for_lines
from costmodel.tile_chains.shape import Shape
from costmodel.tile_chains.tiles import FloatArray, Lattice, Tiles

FEW = 20_000
"""Cells of lattices whose tables are filled without a pause."""

SOON = 2
"""Tables outside all fan-outs are filled for every assignment after so many sets of them."""


def products_inside(spatial: Array) -> Array:
    """`[..., L, n]` products of the factors, likewise, below a level and all levels inside it."""
    return np.cumprod(spatial[..., ::-1, :], axis=-2)[..., ::-1, :]


def paid_inside(weight: FloatArray) -> Array:
    """`[L, T]` 1 where a level further in pays for a tensor, by weights `[L + 1, T]`."""
    follows = np.empty((len(weight) - 1, weight.shape[1]), np.int64)
    fill_paid_inside(weight, follows)
    return follows


class ChainTables:
    """Bounds of everything outside a tile, for assignments that keep the same tensors.

    Attributes:
        keeps: `[L]` kept tensors of every level, as bits.
        tiles: what fits.
        chain: the tables, for `around`.
        scratch: what passes over the tables write to.
        around: the assignment that they are for; None before the first.
        asked: how often assignments that share them were bounded.
        exact: whether they must say what new ones would.
        steps: of how many levels, from the outermost, limits rise in steps, so that others fill
            the same tables; 0: of none.
        filled: how many tiles were filled further in than these, of slots and of boundaries.
        aside: takes tables of the outermost levels, to be brought back; None: nothing does.
        whole: whether the outermost slot's serve whatever is asked for: once sets have shared them,
            and where tables are kept for whatever is next.
    """

    def __init__(
        self,
        shape: Shape,
        tiles: Tiles,
        keeps: tuple[int, ...],
        known: Credits | None = None,
        *,
        exact: bool = False,
        scratch: Scratch | None = None,
        outside: int = 0,
    ) -> None:
        """Makes room; the tables are filled by `fill`.

        Args:
            shape: the operation.
            tiles: what fits.
            keeps: `[L]` kept tensors of every level, as bits.
            known: the credits of the operation, where others read them too.
            exact: whether they must say what new ones would: a higher limit does not serve then.
            scratch: that of other tables of these tiles; None: it has its own.
            outside: how many levels stand outside all fan-outs, where their tables are to be kept
                while others are read; 0: no tables are.
        """
        self._shape, self.keeps, self.exact = laid_out(shape), keeps, exact
        self.tiles = laid_out(tiles)
        self._make_room()
        self.around: Around | None = None
        self._credits = known or Credits(shape)
        # Where two tensors can rest as a pair it matters which others are followed (lemma 5c).
        self.aside = Aside(outside) if outside and not shape.pair_one.size else None
        self.asked = self.steps = self.filled = 0
        self._levels = len(keeps)
        # Where no tile is left, so that nothing further in is filled; else as many as levels.
        self._empty = self._levels
        # Levels whose tables are for the tiles as they are; the others' are for earlier ones.
        self._valid = self._levels
        self.whole = exact and shape.cells > FEW
        # Of spatial factors, found once.
        self._idled: dict[bytes, Array] = {}
        self._first: dict[bytes, int] = {}
        if scratch is None:
            scratch = laid_out(make_scratch(shape, int(np.diff(self.tiles.start).max())))
        self.scratch = scratch

    @cached_property
    def lines(self) -> tuple[Lines, Array, Array]:
        """Room for what is certain of chains of tiles (`room_for_lines`)."""
        return room_for_lines(self._levels)

    @property
    def serves_others(self) -> bool:
        """Whether what stands outside all fan-outs is likely to serve further assignments."""
        return self.aside is not None or self.asked > SOON

    def may_serve(self, shape: Shape) -> bool:
        """Whether the tables may be filled for other kept tensors of an operation.

        How many points a pair keeps depends on how many tiles there are.
        """
        return self._shape is shape and not shape.pair_one.size

    def turn_to(self, tiles: Tiles, keeps: tuple[int, ...], same: int | None = None) -> None:
        """Serves other kept tensors from now on.

        Args:
            tiles: those that are left of every level.
            keeps: `[L]` kept tensors.
            same: how many levels, from the outermost, stay filled; None: those that keep the same.
        """
        same = alike(self.keeps, keeps) if same is None else same
        self.tiles, self.keeps, self.asked = laid_out(tiles), keeps, 0
        self._idled.clear()
        self._first.clear()
        self._valid = min(self._valid, same)
        if tiles.start[-1] > self.chain.free.size:
            self._make_room()
            self._valid = 0
        if np.diff(tiles.start).max() > self.scratch.listed.size:
            self.scratch = laid_out(make_scratch(self._shape, int(np.diff(tiles.start).max())))

    def _make_room(self) -> None:
        """Makes room for tables of the tiles as they are."""
        chain = empty_chain(self.tiles, self._shape.sliding.size, self._shape.pair_one.size)
        # Bytes of the tables, if all of them are written.
        self.size = sum(array.nbytes for array in chain)
        self.chain = laid_out(chain)

    def touch(self, tiles: int) -> None:
        """Writes over what is there of so many tiles, so that their memory is there."""
        chain = self.chain
        for counts in (chain.slot_free, chain.slot_n, chain.free, chain.hull_n):
            counts[:tiles] = 0
        for points in (chain.slot_u, chain.slot_c, chain.hull_u, chain.hull_c):
            points[:, :, :tiles] = 0
        self._valid = 0

    def _idle(self, spatial: Array) -> Array:
        """`[L]` the dimensions, as bits, that may be taken to run inside a level's tile.

        They move nothing that the level keeps, where that has no windows, and no fan-out outside it
        spreads windows along an axis of theirs.
        """
        shape, key = self._shape, (spatial > 1).tobytes()
        if key in self._idled:
            return self._idled[key]
        found = self._idled[key] = np.zeros(self._levels, np.int64)
        for level in range(1, self._levels if shape.exchanges else 0):
            kept = ((self.keeps[level] >> np.arange(shape.sliding.size)) & 1) > 0
            if shape.sliding[kept].any():
                continue
            moved = (shape.relevant[kept] > 0).any(axis=0)
            spread = (shape.together[:, spatial[level - 1] > 1] > 0).any(axis=1)
            found[level] = (~(moved | spread) << np.arange(shape.sizes.size)).sum()
        return found

    def fill(
        self, spatial: Array, outer: Array, weight: FloatArray, inside: Array | None = None,
        limit: FloatArray | None = None, *, kept: bool = True, limited: bool = True,
        more: Array | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """Fills the tables for an assignment, in pieces.

        Args:
            spatial: `[L, n]` factors below every level.
            outer: `[L + 1, n]` their products outside a level.
            weight: `[L + 1, T]` energy of a word that enters a tile.
            inside: `[L, n]` what tiles of every level will be asked for: multiples of that; None:
                what this assignment needs. The tables serve others with the same factors outside.
            limit: `[L]` what words that enter the tiles of a level and of those outside it must
                cost less than; None: whatever they cost. Tables below a higher limit serve as well,
                where they need not be exact.
            kept: whether weights outside all fan-outs are those of other assignments, too.
            limited: whether tables outside all fan-outs leave out what is above the limit: if they
                must be exact they then serve no other limit.
            more: `[l, T]` 1 where others that read the tables of the outermost levels pay further
                in; where two tensors can rest as a pair it is not looked at.
        """
        around = self._around_of(spatial, outer, weight, inside, limit, kept, limited, more)
        first = 0
        if self.around is not None:
            first = min(self._valid, first_change(self.around, around, 0, self.exact))
            around.limit[:first] = self.around.limit[:first]
            around.inner[:first] = self.around.inner[:first]
            first = self._bring_back(around, first)
        self.around, self._valid = around, self._levels
        if first > self._empty:
            return
        self._empty = self._levels
        shape, tiles, chain = self._shape, self.tiles, self.chain
        aside = self.aside if kept and self.aside and first < self.aside.levels else None
        if aside is not None and not self.exact and not aside.exact:
            its = around.limit[max(first, 1) : aside.levels]
            its += LOOSER * np.abs(its)
        # Small ones without a pause: to call compiled code takes as long as to fill them.
        at_once = 2 * self._levels if shape.cells <= FEW else 1
        for begin in range(2 * first, 2 * self._levels, at_once):
            stop = min(begin + at_once, 2 * self._levels)
            build_levels(shape, tiles, around, chain, begin, stop, self.scratch)
            level = begin // 2
            its = chain.free[tiles.start[level] : tiles.start[level + 1]]
            self.filled += its.size if level >= self.steps else 0
            if begin % 2 == 0 and stop == begin + 1 and np.isinf(its).all():
                self._empty = level
                return
            if aside is not None and stop == 2 * aside.levels:
                aside.put(aside.key(self.keeps, around), around, chain, self._rows(aside))
            yield

    def _rows(self, aside: Aside) -> slice:
        """The tiles of the levels whose tables are put aside."""
        return slice(int(self.tiles.start[aside.first]), int(self.tiles.start[aside.levels]))

    def _bring_back(self, around: Around, first: int) -> int:
        """Takes the outermost tables back if those put aside serve; the first level to be filled.

        Args:
            around: the assignment that they are to serve.
            first: the outermost level whose tables, as they are, do not.
        """
        aside = self.aside
        if aside is None or not aside.first <= first < aside.levels:
            return first
        found, exact = aside.get(aside.key(self.keeps, around)), self.exact or aside.exact
        if found is None or first_change(found.around, around, aside.first, exact) < aside.levels:
            return first
        bring_back(found, self.chain, self._rows(aside))
        levels = slice(aside.first, aside.levels)
        around.limit[levels] = found.around.limit[levels]
        around.inner[levels] = found.around.inner[levels]
        self._empty = self._levels
        return aside.levels

    def _around_of(
        self, spatial: Array, outer: Array, weight: FloatArray, inside: Array | None,
        limit: FloatArray | None, kept: bool, limited: bool, more: Array | None,
    ) -> Around:  # fmt: skip
        """An assignment as passes read it, with arguments as `fill` has them."""
        credit, ended = self._credits.outwards(outer)
        inner = (products_inside(spatial) if inside is None else inside).copy()
        below = np.full(self._levels, np.inf) if limit is None else limit.copy()
        weight = np.ascontiguousarray(weight)
        said = Around(
            np.ascontiguousarray(spatial), np.ascontiguousarray(outer), weight,
            credit, ended, self._credits.ended_start, inner, paid_inside(weight),
            self._idle(spatial), below,
        )  # fmt: skip
        around = laid_out(said)
        if self.steps:
            around.limit[1 : self.steps] = stepped(around.limit[1 : self.steps])
        settle(around, kept, limited)
        if not self._shape.pair_one.size:
            # Who does not pay for a tensor reads the same where it is followed.
            if more is not None:
                around.follows[: len(more)] |= more
                self.whole = self._shape.cells > FEW
            if self.aside is not None and kept:
                around.follows[: self.aside.levels] = 1
            if self.whole or self.aside is not None:
                # In the outermost slot nothing has cost anything: one table serves everything.
                around.inner[0], around.follows[0] = 1, 1
        return around

    @property
    def least(self) -> float:
        """The energy of all words that enter the tiles of levels at least; inf if no tiles fit."""
        first = self.first_step
        if first < 0 or self._empty < self._levels:
            return np.inf
        return float(self.chain.slot_free[first])

    @property
    def first_step(self) -> int:
        """The tile, in the innermost slot, that all MACs below one buffer hold; -1 if none fits."""
        assert self.around is not None  # the tables are for something
        shape, level = self._shape, self._levels - 1
        key = self.around.spatial[level].tobytes()
        if key not in self._first:
            cell = 0
            for d in range(shape.sizes.size):
                own = shape.divisors[shape.divisor_start[d] : shape.divisor_start[d + 1]]
                at = int(np.searchsorted(own, self.around.spatial[level, d]))
                cell += at * int(shape.stride[d])
            found = int(self.tiles.at[level, cell])
            self._first[key] = -1 if found < 0 else int(self.tiles.start[level]) + found
        return self._first[key]

    def another(self) -> ChainTables:
        """Empty tables of the same tiles, for other prices."""
        made = ChainTables(
            self._shape, self.tiles, self.keeps, self._credits,
            exact=self.exact, scratch=self.scratch,
        )  # fmt: skip
        made.aside, made.steps, made.whole = self.aside, self.steps, self.whole
        made._idled, made._first = self._idled, self._first
        return made


def alike(keeps: tuple[int, ...], others: tuple[int, ...]) -> int:
    """How many levels, from the outermost, keep the same tensors."""
    pairs = zip(keeps, others, strict=True)
    return next((level for level, (one, two) in enumerate(pairs) if one != two), len(keeps))


def turn_all_to(tables: list[ChainTables], lattice: Lattice, keeps: tuple[int, ...]) -> None:
    """Has tables of one lattice serve other kept tensors; nobody else reads their tiles."""
    before = tables[0]
    tiles = lattice.tiles(keeps, before.tiles, alike(before.keeps, keeps))
    for table in tables:
        table.turn_to(tiles, keeps)


def nth_table(tables: list[ChainTables], number: int) -> ChainTables:
    """One of several tables of the same tiles, made where it is not there yet."""
    while len(tables) <= number:
        tables.append(tables[0].another())
    return tables[number]
