"""Lower hulls of (trips, cost), against those of all points, and joined points by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from costmodel.tile_chains import hulls

Points = list[tuple[float, float]]


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of compiled code are called by that alone; here they are Python's."""
    for name in ("insert_point", "_join_points", "least_on_hull"):
        function = getattr(hulls, name)
        monkeypatch.setattr(hulls, name, getattr(function, "py_func", function))


def inserted(points: Points, room: int) -> Points:
    """What a hull with so much room keeps of points that come one after another."""
    us, cs, count = np.full(room, math.nan), np.full(room, math.nan), 0
    for u, c in points:
        count = hulls.insert_point(us, cs, count, u, c)
    return list(zip(us[:count].tolist(), cs[:count].tolist(), strict=True))


def lower_hull(points: Points) -> Points:
    """The corners of what lies above and to the right of points: none between two others."""
    corners = []
    for u, c in sorted(set(points)):
        beaten = any((v <= u and d <= c) for v, d in points if (v, d) != (u, c))
        under = any(
            (c - b) * (v - a) >= (d - b) * (u - a)
            for (a, b), (v, d) in itertools.permutations(points, 2)
            if a < u < v
        )
        if not (beaten or under):
            corners.append((u, c))
    return corners


def test_a_hull_has_the_corners_of_all_points() -> None:
    most = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(1, 9))
        drawn = rng.integers(0, [4, 8, 12][seed % 3], (size, 2)).astype(float)
        if seed % 3 == 2:  # along a curve, so that many are corners
            drawn[:, 1] = drawn[:, 1] // 8 + np.floor(60 / (drawn[:, 0] + 1))
        points = [(u / 4, c / 4) for u, c in drawn.tolist()]
        found = inserted(points, 9)
        assert found == lower_hull(points), points
        most = max(most, len(found))
    assert most > 4


FULL = [(0.0, 8.0), (4.0, 4.0), (8.0, 3.0)]


@pytest.mark.parametrize(
    ("point", "hull"),
    [
        # What is joined lies below both: of two neighbours the one that gives up less area.
        ((2.0, 5.0), [(0.0, 8.0), (2.0, 4.0), (8.0, 3.0)]),
        ((0.5, 6.0), [(0.0, 6.0), (4.0, 4.0), (8.0, 3.0)]),
        # As much of either: the one before.
        ((1.0, 5.0), [(0.0, 5.0), (4.0, 4.0), (8.0, 3.0)]),
        # Ends have one neighbour.
        ((-1.0, 12.0), [(-1.0, 8.0), (4.0, 4.0), (8.0, 3.0)]),
        ((10.0, 2.75), [(0.0, 8.0), (4.0, 4.0), (8.0, 2.75)]),
        # Another point leaves, so that there is room.
        ((4.0, 2.0), [(0.0, 8.0), (4.0, 2.0)]),
        ((-4.0, 8.5), [(-4.0, 8.5), (4.0, 4.0), (8.0, 3.0)]),
        ((6.0, 3.25), [(0.0, 8.0), (4.0, 4.0), (6.0, 3.0)]),
        ((9.0, 0.0), [(0.0, 8.0), (4.0, 4.0), (9.0, 0.0)]),
    ],
)
def test_a_full_hull_joins_points(point: tuple[float, float], hull: Points) -> None:
    assert inserted([*FULL, point], 3) == hull


def test_the_least_at_a_price() -> None:
    us, cs = np.array([0.0, 4.0, 8.0, 0.0]), np.array([8.0, 4.0, 3.0, -9.0])
    assert [hulls.least_on_hull(us, cs, 3, price) for price in (0.0, 0.5, 3.0)] == [3.0, 6.0, 8.0]
    assert hulls.least_on_hull(us, cs, 0, 1.0) == math.inf
