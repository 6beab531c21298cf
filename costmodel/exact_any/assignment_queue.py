"""Assignments by rising bound: which wait, which are bounded by chains, which are settled."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.arrays.tables import Array
from costmodel.exact.progress import (
    MOST_LISTED,
    AnyLevelsProgress,
    Bounded,
    GroupProgress,
    SearchProgress,
    ShareProgress,
)
from costmodel.exact_any.assignments import Assignments, Listed
from costmodel.exact_any.known import Known
from costmodel.exact_any.share import Left, Share
from costmodel.exact_any.tilings import Way
from costmodel.problems.affine import LARGEST_COUNT
from costmodel.tile_chains.tiles import FloatArray
from mapspace.errors import ConfigError

SHARED: Literal["any-levels-2"] = "any-levels-2"
"""Whose shares number the tiles of large lattices among those that an assignment has."""


class State(enum.IntEnum):
    """What waits: spatial factors under all kept tensors that are left, or one assignment."""

    SPREAD = 0
    LISTED = 1
    BOUNDED = 2


class Taken(NamedTuple):
    """An assignment that is taken up, and what all its mappings need.

    group and assignment; known: whether chains have bounded it; energy, pJ, and cycles.
    """

    group: int
    assignment: int
    known: bool
    energy: float
    cycles: int


class Standing(NamedTuple):
    """How assignments of a group stand.

    settled `[A]`; bounded: those that chains have bounded and that are to be searched, ascending;
    begun: those that some of the chains have bounded.
    """

    settled: npt.NDArray[np.bool_]
    bounded: Sequence[int]
    begun: Sequence[int]


class AssignmentQueue:
    """All assignments of a proof.

    Attributes:
        groups: assignments with the same kept tensors, each with the number of its order.
        bounded: those that another proof has bounded, and not settled.
        shares: of these what is still to be searched, where that is not all.
    """

    def __init__(self) -> None:
        """Holds none."""
        self.groups: list[tuple[int, Assignments]] = []
        self._heap: list[tuple[float, float, float, int, int, State, float, int]] = []
        # Every order's: its first group, all assignments, and which `[G, A]` were taken up.
        self._listed_of: dict[int, tuple[int, Listed, npt.NDArray[np.bool_]]] = {}
        # The spatial factors of which the least assignment is in work.
        self._handed: tuple[int, int] | None = None
        self._taken: list[npt.NDArray[np.bool_]] = []
        self.bounded: list[tuple[int, int]] = []
        self.shares: dict[tuple[int, int], list[Left]] = {}
        # Where another proof was in their searches.
        self._ways: dict[tuple[int, int], Way] = {}
        # What is in work: its group, assignments, and whether their tilings are searched.
        self._at: tuple[int, frozenset[int], bool] = (-1, frozenset(), False)

    def add(self, number: int, found: Listed) -> None:
        """Adds the assignments of an order."""
        taken = np.zeros(found.energy.shape, np.bool_)
        self._listed_of[number] = len(self.groups), found, taken
        self.groups += [(number, group) for group in found.groups]
        self._taken += list(taken)

    def listed(self, number: int) -> Listed:
        """The assignments of an order."""
        return self._listed_of[number][1]

    def begin(self, known: Known) -> None:
        """Sorts what waits.

        Args:
            known: says where energy and cycles stand.
        """
        self._known = known
        self._heap = []
        for first, listed, taken in self._listed_of.values():
            state = State.SPREAD if len(listed.groups) > 1 else State.LISTED
            left = np.flatnonzero(~taken.all(axis=0))
            # Of different assignments, perhaps: less than the least of them needs.
            energies = np.where(taken, np.inf, listed.energy).min(axis=0, initial=np.inf)
            cycles = listed.cycles.min(axis=0, initial=LARGEST_COUNT)
            self._heap += [
                (*known.order(energy, least), first, a, state, energy, least)
                for a, energy, least in zip(
                    left.tolist(), energies[left].tolist(), cycles[left].tolist(), strict=True
                )
            ]
        heapq.heapify(self._heap)
        for group, a in self.bounded:
            self.wait(group, a)

    def take(self) -> Taken | None:
        """The assignment with the least bound; None when there is none left."""
        self._at = (-1, frozenset(), False)
        if self._handed is not None:
            group, a = self._handed
            # Where chains have not bounded it, it cannot win.
            self._taken[group][a] = True
            self.again(group, a)
        while self._heap:
            *order, group, a, state, energy, cycles = heapq.heappop(self._heap)
            if state is State.SPREAD:
                least = self._least_left(group, a)
                if least is None:
                    continue
                group, energy, cycles = least
                if self._known.order(energy, cycles) > tuple(order):
                    self.again(group, a)
                    continue
                self._handed = group, a
            known = state is State.BOUNDED
            if known or not self._taken[group][a]:
                self._at = (group, frozenset([a]) if known else frozenset(), known)
                return Taken(group, a, known, energy, cycles)
        return None

    def _least_left(self, group: int, a: int) -> tuple[int, float, int] | None:
        """The least assignment with spatial factors a that no chain has bounded yet.

        Args:
            group: one of the order's.
            a: the spatial factors.

        Returns:
            Its group, energy and cycles; None if there is none.
        """
        first, listed, taken = self._listed_of[self.groups[group][0]]
        energy, cycles = listed.energy[:, a], listed.cycles[:, a]
        if energy.size == 1:  # what follows, in a tenth of the time
            gone = taken[0, a] or energy[0] == np.inf or self._known.passes_by(energy, cycles)[0]
            return None if gone else (first, float(energy[0]), int(cycles[0]))
        left = np.flatnonzero(~taken[:, a] & (energy < np.inf))  # else no tiles fit
        left = left[~self._known.passes_by(energy[left], cycles[left])]
        if not left.size:
            return None
        best = left[self._known.first(energy[left], cycles[left])]
        return first + int(best), float(energy[best]), int(cycles[best])

    def again(self, group: int, a: int) -> None:
        """Puts spatial factors back of which an assignment was taken, for all that is left."""
        self._handed = None
        first, listed, _ = self._listed_of[self.groups[group][0]]
        state = State.SPREAD if len(listed.groups) > 1 else State.LISTED
        least = self._least_left(group, a)
        if least is not None:
            entry = (*self._known.order(*least[1:]), first, a, state, *least[1:])
            heapq.heappush(self._heap, entry)

    def first_group(self, number: int) -> int:
        """The first group of an order."""
        return self._listed_of[number][0]

    def left(self, group: int) -> npt.NDArray[np.bool_]:
        """`[A]` which assignments of a group no chain has bounded yet."""
        return ~self._taken[group]

    def raise_floors(
        self, number: int, groups: Array, chosen: Array, energy: FloatArray, cycles: Array
    ) -> tuple[npt.NDArray[np.bool_], FloatArray, Array]:
        """Raises the floors of assignments of an order that no chain has bounded yet.

        Args:
            number: the order.
            groups: `[B]` the group of each.
            chosen: `[B]` which of the group.
            energy: `[B]` pJ that its mappings need at least.
            cycles: `[B]` that they take at least.

        Returns:
            `[B]` which ones no chain has bounded; their energy and cycles.
        """
        first, listed, taken = self._listed_of[number]
        left = ~taken[groups - first, chosen]
        at = groups[left] - first, chosen[left]
        for floors in (listed.energy, listed.plain):
            floors[at] = np.maximum(floors[at], energy[left])
        listed.cycles[at] = np.maximum(listed.cycles[at], cycles[left])
        return left, listed.energy[at], listed.cycles[at]

    def bounding(self, group: int, chosen: Array) -> None:
        """Notes that chains are to bound assignments of a group."""
        self._taken[group][chosen] = True
        self._at = (group, frozenset(chosen.tolist()), False)

    def wait(self, group: int, a: int) -> None:
        """Puts an assignment back that chains have bounded."""
        found = self.groups[group][1]
        energy, cycles = float(found.energy[a]), int(found.cycles[a])
        entry = (*self._known.order(energy, cycles), group, a, State.BOUNDED, energy, cycles)
        heapq.heappush(self._heap, entry)

    def bounds_left(self) -> tuple[FloatArray, FloatArray]:
        """Energy, pJ, and cycles `[B]` that the mappings of all that is not settled need at least.

        Assignments that could not win are among them until their turn has come.
        """
        waiting = {(group, a) for *_, group, a, state, _, _ in self._heap if state is State.BOUNDED}
        group, in_work, _ = self._at
        waiting |= {(group, a) for a in in_work}
        found = [
            (listed.energy[~taken], listed.cycles[~taken])
            for _, listed, taken in self._listed_of.values()
        ]
        found += [
            (its.energy[[a]], its.cycles[[a]])
            for its, a in ((self.groups[group][1], a) for group, a in waiting)
        ]
        energy, cycles = (
            np.concatenate([np.zeros(0), *column]) for column in zip(*found, strict=True)
        )
        return energy, cycles

    def stands_behind(self, group: int, a: int) -> bool:
        """Whether an assignment needs more than the next one that waits."""
        found = self.groups[group][1]
        order = self._known.order(float(found.energy[a]), int(found.cycles[a]))
        return bool(self._heap) and self._heap[0][:3] < order

    def begun(self, group: int, a: int) -> Way:
        """Where another proof was in the search of an assignment; nothing if it was not in it."""
        return self._ways.get((group, a), ())

    def progress(self, way: Way) -> AnyLevelsProgress:
        """What is settled and bounded.

        Args:
            way: where the search of the assignment in work is.
        """
        at, in_work, searching = self._at
        waiting: dict[int, list[int]] = {}
        for *_, group, a, state, _, _ in self._heap:
            if state is State.BOUNDED:
                waiting.setdefault(group, []).append(a)
        if searching:
            waiting.setdefault(at, []).extend(in_work)
        standings = []
        for group, (_, found) in enumerate(self.groups):
            settled = self._taken[group].copy()
            settled[waiting.get(group, [])] = False
            if group == at:
                # Where no tiles fit there is nothing.
                settled[list(in_work)] = np.isinf(found.energy[list(in_work)])
            begun = []
            if group == at and not searching:
                begun = [a for a in sorted(in_work) if found.chains[a] and not settled[a]]
            standings.append(Standing(settled, sorted(waiting.get(group, [])), begun))
        groups, places, room = self._listed(standings)
        ways = {key: old for key, old in self._ways.items() if key[1] in waiting.get(key[0], [])}
        if searching:
            ways |= {(at, a): way for a in in_work}
        searches: list[SearchProgress] = []
        for (group, a), trail in ways.items():
            size = 1 + sum(len(through) for _, through in trail)
            if trail and group in places and size <= room:
                room -= size
                searches.append(SearchProgress(group=places[group], assignment=a, trail=trail))
        return AnyLevelsProgress(prover="any-levels-1", groups=groups, searches=tuple(searches))

    def progress_of(
        self,
        standings: Sequence[Standing],
        shares: Mapping[tuple[int, int], Sequence[Left]],
    ) -> AnyLevelsProgress:
        """What is settled and bounded of a proof whose searches are shared out.

        Args:
            standings: of every group.
            shares: what is still to be searched of bounded assignments; the rest of those named is
                through.
        """
        groups, places, room = self._listed(standings)
        listed: list[ShareProgress] = []
        for (group, a), left in shares.items():
            size = sum(1 + len(share.path) + len(share.tiles or ()) for _, share in left)
            if group in places and size <= room:
                room -= size
                listed += [
                    ShareProgress(
                        group=places[group],
                        assignment=a,
                        energy=energy,
                        path=share.path,
                        tiles=share.tiles,
                    )
                    for energy, share in left
                ]
        return AnyLevelsProgress(prover=SHARED, groups=groups, shares=tuple(listed))

    def _listed(
        self, standings: Sequence[Standing]
    ) -> tuple[tuple[GroupProgress, ...], dict[int, int], int]:
        """Groups of which anything is known, where each stands, and for how much more is room."""
        groups: list[GroupProgress] = []
        places: dict[int, int] = {}
        room = MOST_LISTED
        for group, ((number, found), of) in enumerate(zip(self.groups, standings, strict=True)):
            ranges = _ranges(of.settled)
            size = len(ranges) + len(of.bounded) + len(of.begun)
            # What has no room is done again.
            if 0 < size <= room:
                room -= size
                places[group] = len(groups)
                groups.append(
                    GroupProgress(
                        order=number,
                        keeps=found.keeps,
                        assignments=len(of.settled),
                        settled=ranges,
                        bounded=tuple(_bounded(found, a) for a in of.bounded),
                        begun=tuple(_bounded(found, a) for a in of.begun),
                    )
                )
        return tuple(groups), places, room

    def resume(self, progress: AnyLevelsProgress) -> None:
        """Takes over what another proof has settled and bounded, before the first is taken.

        Raises:
            ConfigError: it is about other assignments.
        """
        places = {(n, found.keeps): g for g, (n, found) in enumerate(self.groups)}
        for index, part in enumerate(progress.groups):
            group = places.get((part.order, part.keeps), -1)
            if group < 0 or len(self._taken[group]) != part.assignments:
                raise ConfigError("progress: it is that of other assignments than these.")
            taken, found = self._taken[group], self.groups[group][1]
            for first, stop in part.settled:
                taken[first:stop] = True
            for a, energy, cycles, slowest, least, rate, chains in (*part.bounded, *part.begun):
                if a >= len(taken):
                    raise ConfigError("progress: it is that of other assignments than these.")
                found.energy[a], found.cycles[a], found.rate[a] = energy, cycles, rate
                found.slowest[a], found.least[a], found.chains[a] = slowest, least, chains
            for a, *_ in part.bounded:
                taken[a] = True
                self.bounded.append((group, a))
            for search in progress.searches:
                if search.group == index:
                    self._ways[group, search.assignment] = search.trail
            for one in progress.shares:
                # Who numbers tiles otherwise has such an assignment searched from its beginning.
                if one.group == index and progress.prover == SHARED:
                    left = Left(one.energy, Share(one.path, one.tiles))
                    self.shares.setdefault((group, one.assignment), []).append(left)


def _bounded(found: Assignments, a: int) -> Bounded:
    return (
        a, float(found.energy[a]), int(found.cycles[a]), int(found.slowest[a]),
        int(found.least[a]) if found.slowest[a] >= 0 else -1, float(found.rate[a]),
        int(found.chains[a]),
    )  # fmt: skip


def _ranges(chosen: npt.NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    """Runs of what is chosen: the first of each, and the one past its last."""
    edges: Iterable[int] = np.flatnonzero(np.diff(np.pad(chosen.astype(np.int8), 1))).tolist()
    found = list(edges)
    return tuple(zip(found[::2], found[1::2], strict=True))
