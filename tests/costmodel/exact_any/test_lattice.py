"""Tiles of a lattice: those that fit, and those between spatial factors, counted one by one."""

from __future__ import annotations

import itertools

import numpy as np

from costmodel import MapSpace, accelerator, workload
from costmodel.exact_any.layout import lay_out

SIZES = {"M": 12, "N": 4, "K": 9}
CAPACITY = 30
MACHINE = {
    "name": "m",
    "mac_energy_pj": 1.0,
    "levels": [
        {"name": "DRAM", "energy_pj": 200},
        {"name": "L1", "energy_pj": 6, "capacity_words": CAPACITY, "fanout": 4},
        {"name": "L0", "energy_pj": 1, "capacity_words": 6},
    ],
}


def expected(inside: list[int], outer: list[int], capacities: list[int]) -> list[list[int]]:
    """Extents of tiles that hold so many words at most, are multiples, and leave so much."""
    found = []
    for extents in itertools.product(*(range(1, size + 1) for size in SIZES.values())):
        m, n, k = extents
        divides = all(
            size % (extent * out) == 0 and extent % own == 0
            for size, extent, own, out in zip(SIZES.values(), extents, inside, outer, strict=True)
        )
        if divides and all(m * k + k * n + m * n <= most for most in capacities):
            found.append(list(extents))
    return found


def test_tiles_leave_room_for_spatial_factors_and_are_multiples() -> None:
    lattice = lay_out(0, MapSpace(workload({"gemm": SIZES}), accelerator(MACHINE)), None).lattice
    inside = np.array([[2, 1, 3], [2, 1, 1], [1, 1, 1]])
    outer = np.array([[1, 2, 1], [1, 1, 3], [3, 2, 1]])
    keeps = (7, 7, 7)
    tiles = lattice.tiles_between(keeps, inside, outer)
    capacities = [10**9, CAPACITY, 6]
    for level in range(3):
        listed = tiles.extent[tiles.start[level] : tiles.start[level + 1]].tolist()
        right = expected(inside[level].tolist(), outer[level].tolist(), capacities[: level + 1])
        assert right
        assert listed == right


def test_tiles_of_levels_outside_stay() -> None:
    lattice = lay_out(0, MapSpace(workload({"gemm": SIZES}), accelerator(MACHINE)), None).lattice
    one = np.ones((3, 3), np.int64)
    over = lattice.room(3, 3 * 54)
    first = lattice.tiles_between((7, 7, 7), one, one, over)
    outside = first.extent[: first.start[2]].tolist()
    inside = one.copy()
    inside[2, 0] = 2
    again = lattice.tiles_between((7, 7, 7), inside, one, first, 2)
    assert again.extent is first.extent  # written over
    assert again.extent[: again.start[2]].tolist() == outside
    last = again.extent[again.start[2] : again.start[3]].tolist()
    assert last == expected([2, 1, 1], [1, 1, 1], [CAPACITY, 6]) != []
    # Where there is no room for them they are listed anew, all of them.
    small = lattice.tiles_between((7, 7, 7), inside, one, lattice.room(3, 1))
    assert small.extent[: small.start[3]].tolist() == [*outside, *last]


def test_tiles_are_written_over_where_there_is_just_room() -> None:
    """Level by level what fits it and all outside it; those outside level 2 stay."""
    lattice = lay_out(0, MapSpace(workload({"gemm": SIZES}), accelerator(MACHINE)), None).lattice
    one = np.ones((3, 3), np.int64)
    every = lattice.tiles_between((7, 7, 7), one, one)
    stop = int(every.start[3])
    cells = [expected([1, 1, 1], [1, 1, 1], most) for most in ([10**9], [CAPACITY], [CAPACITY, 6])]
    assert every.start.tolist() == [0, *np.cumsum([len(level) for level in cells])]
    fresh = lattice.tiles((7, 7, 7))
    assert fresh.extent[:stop].tolist() == [*cells[0], *cells[1], *cells[2]]
    # The innermost level keeps less, so that more fits; outside it nothing changes.
    for keeps, capacity in (((7, 7, 7), 6), ((7, 7, 1), 6)):
        need = int(lattice.tiles(keeps).start[3])
        for room in (need, need - 1):
            over = lattice.tiles((7, 7, 7), lattice.room(3, room)) if room >= stop else None
            if over is None:
                continue
            again = lattice.tiles(keeps, over, 2)
            assert (again.extent is over.extent) is (room == need)
            kept = [
                [m, n, k]
                for m, n, k in cells[1]
                if (m * k if keeps[2] == 1 else m * k + k * n + m * n) <= capacity
            ]
            assert again.extent[again.start[2] : again.start[3]].tolist() == kept
            assert again.extent[: again.start[2]].tolist() == cells[0] + cells[1]
            given = lattice.room(3, room)
            full = lattice.tiles_between(keeps, one, one, given)
            assert (full.extent is given.extent) is (room == need)
            assert full.extent[: full.start[3]].tolist() == cells[0] + cells[1] + kept
