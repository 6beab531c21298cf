"""What chains say of assignments: of energy, of every port's cycles, and of both together.

Assignments that share outer tables are bounded one after another. The port that is slowest even if
every word enters once comes first; what is left then is bounded by the others.

Letters: B assignments, L levels, n dimensions, T tensors, P ports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.exact.objective import ENERGY, LATENCY, objective_kind
from costmodel.exact_any.assignments import Assignments
from costmodel.exact_any.known import SLACK, Known
from costmodel.exact_any.layout import OneOrder
from costmodel.exact_any.leaves import Assignment
from costmodel.exact_any.runs import levels_outside
from costmodel.exact_any.weighing import Priced, Weighed, inside_of, weigh
from costmodel.map_space.map_space import MapSpace
from costmodel.tile_chains.ports import Port, Prices, leakage, ports
from costmodel.tile_chains.sights import ENERGY as ENERGY_ALONE
from costmodel.tile_chains.sights import LEAKING, PORT, Sight
from costmodel.tile_chains.tables import ChainTables, nth_table, paid_inside
from costmodel.tile_chains.tiles import FloatArray
from costmodel.tile_chains.views import Sum, view_of

Opened = tuple[Assignment, list[Sight]]
"""What is kept and spread, and what bounds its tilings: of energy first; nothing: none can win."""

FEW_CELLS = 100_000
"""Larger lattices have tables for ports that are mixed alone, for memory."""

SMALL, MOST_PORTS, FEW_PORTS = 50_000, 6, 3
"""Of more limited ports so many have tables of their own, those that take the most cycles: six on
lattices of so many cells, three on larger ones, for memory."""

PLAIN = 2 + MOST_PORTS
"""Where the tables of mixed cycles without energy stand."""

FAR = 2
"""A port is passed whose cycles are so many times below the least if every word enters once: it
hardly ever decides anything, and has tables of its own to fill."""

ROUNDING = 1e-9
"""Tables leave out what is further above the limit than this share."""

SHARES = 32
"""Two ports are mixed in whole shares of so many."""


class Outside(NamedTuple):
    """What the sets of a piece, bounded in a row, ask of energy's tables outside all fan-outs.

    inside `[l, n]` what tiles of these levels are multiples of; limit `[l]` what words that enter
    them cost less than where it can win, None: whatever they cost; follows `[l, T]` 1 where a level
    further in pays for a tensor.
    """

    inside: Array
    limit: FloatArray | None
    follows: Array


def _unknown(one: OneOrder, found: Assignments, a: int) -> FloatArray | None:
    return None


class ChainBounds:
    """Raises what all mappings of assignments need, and opens one for its search."""

    def __init__(self, known: Known, counts: dict[str, int]) -> None:
        """Notes whose bounds are wanted.

        Args:
            known: the best mappings.
            counts: of chains; counted on.
        """
        self._kind = objective_kind(known.objective)
        self._known, self._counts = known, counts
        self._mixtures: dict[tuple[int, tuple[int, ...], int, Prices], Prices] = {}
        # What entering the tiles of each level needs by itself, where that is known (lemma 11).
        self.entering: Callable[[OneOrder, Assignments, int], FloatArray | None] = _unknown

    def limited(self, space: MapSpace) -> list[Port]:
        """The ports whose cycles matter: for energy alone those of machines that leak."""
        if self._kind == ENERGY and not space.tables.machine.leakage.any():
            return []
        return ports(space)

    def weigh(self, one: OneOrder, found: Assignments, mates: Array, *, shared: bool) -> Weighed:
        """Weighs assignments by energy and by the ports whose cycles matter."""
        return weigh(one, found, mates, self.limited(one.space), shared=shared)

    def bound(
        self, one: OneOrder, tables: list[ChainTables], found: Assignments, of: Weighed,
        outside: Outside | None = None, enough: Callable[[], bool] = lambda: False,
    ) -> Generator[None, None, bool]:  # fmt: skip
        """Raises the floors of assignments that share outer tables.

        Args:
            one: the order of buffers.
            tables: the tables.
            found: all assignments.
            of: those that share outer tables.
            outside: of several such sets that share tables outside all fan-outs; None: of one.
            enough: whether to leave further price lists to a later call.

        Returns:
            Whether any are left.
        """
        tables[0].asked += 1
        mates = of.mates
        if outside is not None and of.inside is not None:
            levels = len(outside.inside)
            of = of._replace(inside=np.concatenate([outside.inside, of.inside[levels:]]))
        everyone = np.arange(len(mates))
        yield from self._by(one, tables, found, of, everyone, (-1, Prices()), 1, outside)
        limited, leaks = of.limited, self._kind == ENERGY
        if not limited or enough():
            return bool(limited)
        least = of.least_cycles()
        turns = np.argsort(-least, axis=0, kind="stable")
        for turn, numbers in enumerate(turns):
            before = found.slowest[mates]
            for number in sorted(set(numbers.tolist())):
                now = (numbers == number) & (least[number] * FAR >= found.cycles[mates])
                prices = Prices(limited[number], leaks=leaks)
                rows = np.flatnonzero(now)
                yield from self._by(one, tables, found, of, rows, (number, prices), turn + 2)
            changed = found.slowest[mates] != before
            yield from self._together(one, nth_table(tables, 1), found, of, changed)
            if turn + 1 < len(turns) and enough():
                return True
        return False

    def outside(self, one: OneOrder, run: Sequence[tuple[Assignments, Weighed]]) -> Outside | None:
        """What tables outside all fan-outs are to serve of a run; None where it is one set."""
        if len(run) < 2:
            return None
        levels, limit = levels_outside(one), None
        follows = np.max([paid_inside(of.found.weight[0])[:levels] for _, of in run], axis=0)
        inside = np.gcd.reduce([of.inside[:levels] for _, of in run if of.inside is not None])
        for found, of in run:
            its = self._limit(one, found, of, np.arange(len(of.mates)), of.at(Prices()))
            if its is not None:
                limit = its[:levels] if limit is None else np.maximum(limit, its[:levels])
        return Outside(inside, limit, follows)

    def _by(
        self, one: OneOrder, tables: list[ChainTables], found: Assignments, of: Weighed,
        rows: Array, listed: tuple[int, Prices], chains: int, outside: Outside | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """Raises the floors of some of the assignments by one price list.

        Args:
            one: the order of buffers.
            tables: the tables.
            found: all assignments.
            of: those that share outer tables.
            rows: which of these.
            listed: which port, -1 for none, and what counts.
            chains: how many price lists have bounded them then.
            outside: what tables outside all fan-outs are to serve beside; None: nothing.
        """
        if not len(rows):
            return
        (number, prices), waiting = listed, int(one.space.tables.machine.waiting)
        # Where there is room, in the table in which a search looks for it.
        most = _own_ports(one)
        own = number if len(of.limited) <= most else chains - 2
        beside = one.shape.cells <= FEW_CELLS and own < most and not prices.leaks
        table = nth_table(tables, 0 if number < 0 else 2 + own if beside else 1)
        # What an exact table of its own keeps for later must not depend on who asks.
        lasting = number < 0 or beside
        kept, limited = tables[0].serves_others, not (table.exact and lasting)
        kept = kept and (lasting or not table.exact)
        priced = of.at(prices)
        limits = self._limits(one, found, of, rows, priced)
        if limits is not None:
            # Tables of levels that all share must serve the one that may cost most.
            shared = 1 + _first_different(of.spatial[rows])
            limits[:, :shared] = limits[:, :shared].max(axis=0)
            if outside is not None and outside.limit is not None:
                levels = len(outside.inside)
                limits[:, :levels] = np.maximum(limits[:, :levels], outside.limit)
        for place, row in enumerate(rows.tolist()):
            mate = int(of.mates[row])
            if found.chains[mate] >= chains or not self._could_win(found, mate):
                continue  # by a proof before this one, or it is settled
            follows = None if outside is None else outside.follows
            limit = None if limits is None else limits[place]
            yield from self._fill(
                table, of, row, priced, limit, kept=kept, limited=limited, follows=follows
            )
            least = (float(priced.fixed[row]) + table.least) * (1 - SLACK)
            if number < 0 or prices.leaks:
                if number >= 0 and (found.slowest[mate] < 0 or least > found.energy[mate]):
                    found.slowest[mate] = number
                found.plain[mate] = max(found.plain[mate], least)
                found.energy[mate] = max(found.energy[mate], least)
            elif least < math.inf:
                least = math.ceil(least) + waiting
                if found.slowest[mate] < 0 or least > found.least[mate]:
                    found.slowest[mate], found.least[mate] = number, least
                self._raise_cycles(found, mate, least)
            else:
                found.energy[mate] = math.inf  # no tiles are left
            found.chains[mate] = chains
            yield

    def _together(
        self, one: OneOrder, table: ChainTables, found: Assignments, of: Weighed,
        changed: npt.NDArray[np.bool_],
    ) -> Iterator[None]:  # fmt: skip
        """Raises the floors of assignments to what energy and the slowest port need together.

        Args:
            one: the order of buffers.
            table: the tables.
            found: all assignments.
            of: those that share outer tables.
            changed: `[B]` those whose slowest port is another one than before.
        """
        if self._kind in (ENERGY, LATENCY):
            return
        for number, port in enumerate(of.limited):
            left = [
                row
                for row, mate in enumerate(of.mates.tolist())
                if found.slowest[mate] == number
                and self._could_win(found, mate)
                and (changed[row] or found.rate[mate] == 0)
            ]
            if not left:
                continue
            # One rate for all, so that they share outer tables.
            mates = of.mates[left].tolist()
            outcomes = [(float(found.energy[mate]), int(found.cycles[mate])) for mate in mates]
            rate = self._known.rate_for(outcomes)
            if rate == 0:
                continue
            priced, together = of.at(Prices(port, rate)), self._known.together(rate)
            limit = self._limit(one, found, of, np.array(left), priced)
            for row, mate in zip(left, mates, strict=True):
                yield from self._fill(table, of, row, priced, limit, kept=False)
                self._raise_together(found, mate, together, priced.fixed[row] + table.least)
                found.rate[mate] = rate
                yield

    def _raise_cycles(self, found: Assignments, mate: int, least: int) -> None:
        """Raises the cycles that an assignment needs; its objective's bound stays what it was."""
        before = int(found.cycles[mate])
        if least > before:
            same = found.energy[mate] * (before / least) ** self._known.power * (1 - SLACK)
            found.energy[mate] = max(found.plain[mate], same)
            found.cycles[mate] = least

    def raise_busy(self, one: OneOrder, found: Assignments, mates: Array, busy: FloatArray) -> None:
        """Raises the cycles that assignments need to those `[B]` that a port is busy for."""
        whole = np.ceil(busy * (1 - SLACK)).astype(np.int64)
        for mate, least in zip(mates.tolist(), whole.tolist(), strict=True):
            self._raise_cycles(found, mate, least + int(one.space.tables.machine.waiting))

    def _could_win(self, found: Assignments, mate: int) -> bool:
        plain = float(found.plain[mate])
        return self._known.beats(float(found.energy[mate]), int(found.cycles[mate]), plain)

    def _limit(
        self, one: OneOrder, found: Assignments, of: Weighed, rows: Array, priced: Priced
    ) -> FloatArray | None:
        """`[L]` the largest of `_limits`."""
        limits = self._limits(one, found, of, rows, priced)
        return None if limits is None else np.asarray(limits.max(axis=0))

    def _limits(
        self, one: OneOrder, found: Assignments, of: Weighed, rows: Array, priced: Priced
    ) -> FloatArray | None:
        """`[B, L]` what entering the tiles of a level and of those outside costs where it can win.

        What no tile decides, and every word once for the levels further in, come on top.

        Args:
            one: the order of buffers.
            found: all assignments.
            of: those that share outer tables.
            rows: which of these it is for.
            priced: what costs.

        Returns:
            Of each of them; None where there is none.
        """
        if not self._known.full or not len(rows):
            return None
        prices, mates = priced.prices, of.mates[rows].tolist()
        entering = np.zeros((len(rows), len(found.keeps)))
        if prices.port is None or prices.rate > 0 or prices.leaks:
            for place, mate in enumerate(mates):
                its = self.entering(one, found, mate)
                if its is not None:
                    entering[place] = its * (1 - SLACK)
        inside = inside_of(of, rows, priced.weight, entering)
        most = [self._most(found, mate, prices) for mate in mates]
        fixed = priced.fixed[rows][:, None]
        left = np.array(most)[:, None] - fixed - inside
        # What outputs save at first may be nearly as much as the rest.
        limits = left + (np.abs(fixed) + inside) * ROUNDING
        limits[:, 0] = math.inf  # nothing enters it, and its tables serve everything
        return np.asarray(limits)

    def _most(self, found: Assignments, mate: int, prices: Prices) -> float:
        """What a mapping of an assignment that wins can cost at most; inf if anything."""
        energy, cycles = float(found.plain[mate]), float(found.cycles[mate])
        if prices.port is None or prices.leaks:
            most = self._known.limit(cycles)
        elif prices.rate == 0:
            most = self._known.most_cycles(energy, cycles)
        else:
            most = self._known.most_sum(energy, cycles, prices.rate)
        return most * (1 + ROUNDING)

    def _fill(
        self, table: ChainTables, of: Weighed, row: int, priced: Priced,
        limit: FloatArray | None, *, kept: bool = True, limited: bool = True,
        follows: Array | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """Fills tables for one of the assignments, with prices of words."""
        spatial, outer = of.spatial[row], of.found.outer[row]
        yield from table.fill(
            spatial,
            outer,
            priced.weight[row],
            of.inside,
            limit,
            kept=kept,
            limited=limited,
            more=follows,
        )
        self._counts["chains"] += 1

    def open(
        self, one: OneOrder, tables: list[ChainTables], found: Assignments, a: int
    ) -> Generator[None, None, Opened]:
        """Views of an assignment: of energy and, where a port is limited, together with it."""
        of = self.weigh(one, found, np.array([a]), shared=False)
        limited = of.limited
        assignment = Assignment(
            found.keeps, of.spatial[0], int(of.found.cycles[0]),
            float(leakage(one.space, of.found)[0]),
        )  # fmt: skip
        views: list[Sight] = []
        is_left = True

        def view(at: int, prices: Prices, together: Sum | None = None) -> Iterator[None]:
            nonlocal is_left
            table = nth_table(tables, at)
            fixed = yield from self._price(one, table, found, of, prices, tables[0].serves_others)
            if prices.port is not None and not prices.leaks and together is None:
                fixed += float(one.space.tables.machine.waiting)
            kind = LEAKING if prices.leaks else ENERGY_ALONE if prices.port is None else PORT
            views.append(view_of(table, fixed, together, kind=kind))
            # Else what stands further in is of whatever was filled before.
            is_left = is_left and table.least < math.inf

        yield from view(0, Prices())
        if not is_left:
            return assignment, []
        slowest, rate = int(found.slowest[a]), float(found.rate[a])
        if self._kind == ENERGY and slowest >= 0:
            yield from view(1, Prices(limited[slowest], leaks=True))
        prices = Prices()
        if rate > 0:
            prices = yield from self.mix(one, tables, found, a)
        plain = Prices()
        if slowest >= 0 and self._known.needs_cycles(int(found.cycles[a])):
            plain = yield from self.mix(one, tables, found, a, plain=True)
        least = of.least_cycles()[:, 0]
        others = prices.other, plain.other
        mixed = [n for n, port in enumerate(limited) if n == slowest or port in others]
        for own, number in self._views(one, least, mixed):
            if least[number] * FAR >= found.cycles[a]:
                yield from view(2 + own, Prices(limited[number]))
        if plain.other is not None:
            yield from view(PLAIN, plain)
        if rate > 0:
            yield from view(1, prices, self._known.together(rate))
        return assignment, views if is_left else []

    def _views(self, one: OneOrder, least: FloatArray, mixed: list[int]) -> list[tuple[int, int]]:
        """The ports whose cycles bound tilings, each after the place of its tables.

        Args:
            one: the order of buffers.
            least: `[P]` cycles of ports if every word enters once.
            mixed: those whose cycles are added to energy; where there is room others are beside.
        """
        large, most = one.shape.cells > FEW_CELLS, _own_ports(one)
        if len(least) <= most:
            return [(n, n) for n in range(len(least)) if not large or n in mixed]
        turns = np.argsort(-least, kind="stable").tolist()
        first = sorted(turns, key=lambda n: n not in mixed)
        chosen = mixed if large else first[:most]
        return list(enumerate(n for n in turns if n in chosen))

    def _price(
        self, one: OneOrder, table: ChainTables, found: Assignments, of: Weighed, prices: Prices,
        serves: bool = False,
    ) -> Generator[None, None, float]:  # fmt: skip
        """Fills tables for the first of the assignments; returns what no tile decides."""
        priced = of.at(prices)
        limit = self._limit(one, found, of, np.array([0]), priced)
        kept = serves and prices.rate == 0 and not table.exact
        yield from self._fill(table, of, 0, priced, limit, kept=kept)
        return float(priced.fixed[0])

    def mix(
        self, one: OneOrder, tables: list[ChainTables], found: Assignments, a: int,
        *, plain: bool = False,
    ) -> Generator[None, None, Prices]:  # fmt: skip
        """Raises what an assignment needs to what energy and the cycles of two ports need together.

        Mixed are the cycles of the slowest port and of another one, which helps if that one is the
        slower of the two where the sum is least. The least sum is concave in the share, so that
        doubling and halving steps come near the largest.

        Args:
            one: the order of buffers.
            tables: the tables.
            found: all assignments.
            a: which of them.
            plain: whether cycles are bounded by themselves, without energy.

        Returns:
            The prices of energy and mixed cycles that raise it most.
        """
        key = self._mixture(one, found, a, plain=plain)
        if key in self._mixtures:
            return self._mixtures[key]
        alone = key[-1]
        of = self.weigh(one, found, np.array([a]), shared=False)
        limited = of.limited
        table = nth_table(tables, PLAIN if plain else 1)
        best, most = alone, -math.inf

        def better(prices: Prices) -> Generator[None, None, bool]:
            nonlocal best, most
            fixed = yield from self._price(one, table, found, of, prices)
            more = fixed + table.least > most
            if more:
                best, most = prices, fixed + table.least
                self._raise_mixed(one, found, a, prices.rate, most)
            return more

        near = of.least_cycles()[:, 0] * FAR >= found.cycles[a]
        others = [port for port, is_near in zip(limited, near, strict=True) if is_near]
        others = [port for port in others if port != alone.port]
        if others:
            yield from better(alone)
        for port in others:
            if self._could_win(found, a):
                yield from better(alone._replace(other=port, share=1 / SHARES))
        step, growing = round(best.share * SHARES), True
        while step and self._could_win(found, a):
            shares = [
                best.share + step / SHARES,
                *([] if growing else [best.share - step / SHARES]),
            ]
            for share in shares:
                if 0 < share < 1 and (yield from better(best._replace(share=share))):
                    break
            else:
                growing = False
            step = step * 2 if growing else step // 2
        self._mixtures[key] = best
        return best

    def mixed(self, one: OneOrder, found: Assignments, a: int, prices: Prices | None) -> None:
        """Takes over the prices that somebody mixed for an assignment; None: nobody has yet."""
        key = self._mixture(one, found, a)
        if prices is None:
            self._mixtures.pop(key, None)
        else:
            self._mixtures[key] = prices

    def _mixture(
        self, one: OneOrder, found: Assignments, a: int, *, plain: bool = False
    ) -> tuple[int, tuple[int, ...], int, Prices]:
        rate = 0.0 if plain else float(found.rate[a])
        alone = Prices(self.limited(one.space)[int(found.slowest[a])], rate)
        return one.number, found.keeps, a, alone

    def _raise_mixed(
        self, one: OneOrder, found: Assignments, a: int, rate: float, least: float
    ) -> None:
        """Raises what an assignment needs by its least sum, at a rate, 0 for cycles alone."""
        if rate > 0:
            self._raise_together(found, a, self._known.together(rate), least)
        elif least == math.inf:
            found.energy[a] = math.inf  # no tiles are left
        else:
            whole = math.ceil(least * (1 - SLACK))
            self._raise_cycles(found, a, whole + int(one.space.tables.machine.waiting))

    def _raise_together(self, found: Assignments, mate: int, together: Sum, least: float) -> None:
        """Raises the energy that an assignment needs to what its sum with the cycles says."""
        energy, cycles = found.plain[mate : mate + 1], float(found.cycles[mate])
        both, slow = np.array([least]), np.array([cycles])
        raised = together.energy(energy, slow, both, cycles) * (1 - SLACK)
        found.energy[mate] = max(found.energy[mate], float(raised[0]))


def _own_ports(one: OneOrder) -> int:
    """How many ports have tables of their own."""
    return MOST_PORTS if one.shape.cells <= SMALL else FEW_PORTS


def _first_different(spatial: Array) -> int:
    """The first level below which spatial factors `[B, L, n]` are not all the same, or the last."""
    differ = (spatial != spatial[0]).any(axis=(0, 2))
    return int(np.argmax(differ)) if differ.any() else differ.size - 1
