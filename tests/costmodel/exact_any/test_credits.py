"""What is charged of windows whose run ends in a slot with known loops, counted by hand."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from costmodel import MapSpace, accelerator
from costmodel.problems.workload_families import cnn
from costmodel.tile_chains.credits import Credits
from costmodel.tile_chains.shape import build_shape

Loops = tuple[tuple[int, int], ...]
"""From the inside out: which of P and R, and its trips."""

# Extents of P and R in the slot's step and in its tile, and the tiles along P + R that are charged.
# A loop is free where it steps as far as all loops inside together. P's 7 step 6 times in each of 6
# passes, R's 3 outside are free, but P's 2, which step by 7, are charged, and before R they would
# not let R be free: with the first tile 1 + 36 + 1. Where both stand in the slot R may stand
# inside: 2 steps in each of 14 passes, P's 7 are free, P's 2 are charged: 1 + 28 + 1. With no loop
# in the slot P's 2 may come first, with one step in 21 passes: R's 3 are free, and P's 7, which
# step by 2 as both do: 1 + 21.
BY_HAND = [((1, 1), (7, 1), 38), ((1, 1), (7, 3), 30), ((1, 1), (1, 1), 22), ((14, 1), (14, 3), 3)]


@pytest.mark.parametrize(("step", "tile", "charged"), BY_HAND)
def test_charged_where_a_run_ends(
    step: tuple[int, int], tile: tuple[int, int], charged: int
) -> None:
    shape = build_shape(MapSpace(cnn(N=1, K=2, C=2, P=14, Q=1, R=3, S=1), accelerator("mm256")))
    found = Credits(shape)
    _, ended = found.outwards(np.ones((4, 7), np.int64))
    (axis,) = np.flatnonzero((found.ended_start >= 0) & (shape.credit_cells == 8))
    terms = slice(shape.term_start[axis], shape.term_start[axis + 1])
    sizes = shape.sizes[shape.term_dimension[terms]].tolist()
    assert sizes == [14, 3]
    places = [[(1, 2, 7, 14).index(p), (1, 3).index(r)] for p, r in (step, tile)]
    cells = np.array(places) @ shape.credit_stride[terms]
    assert ended[0, found.ended_start[axis] + cells[0] * 8 + cells[1]] == charged


def _sequences(sizes: tuple[int, int]) -> Iterator[Loops]:
    """All loops over P and R of these sizes, neighbours of one dimension among them."""
    if sizes == (1, 1):
        yield ()
    for d, size in enumerate(sizes):
        for trips in range(2, size + 1):
            if size % trips == 0:
                left = (size // trips, sizes[1]) if d == 0 else (sizes[0], size // trips)
                yield from (((d, trips), *rest) for rest in _sequences(left))


def _charged(loops: Loops, *, rests: bool) -> int:
    """Tiles that are charged, step by step: the first, and those of steps that are not credited."""
    steps, extent = list[int](), [1, 1]
    for d, trips in loops:
        steps.append(extent[d])
        extent[d] *= trips
    charged = 1
    for now in itertools.islice(itertools.product(*(range(t) for _, t in loops[::-1])), 1, None):
        # The loop that moves: those inside it begin again.
        i = next(place for place, at in enumerate(now[::-1]) if at)
        fresh = 0 if rests else steps[0]
        is_first = i == 0 and not rests
        charged += not (is_first or (i > 0 and steps[i] == fresh + sum(steps[:i])))
    return charged


@pytest.mark.parametrize(("p", "r"), [(12, 4), (8, 9), (6, 6)])
def test_charged_at_least_step_by_step(p: int, r: int) -> None:
    """The least over all loops over P and R, each counted step by step."""
    shape = build_shape(MapSpace(cnn(N=1, K=2, C=2, P=p, Q=1, R=r, S=1), accelerator("mm256")))
    credit, _ = Credits(shape).outwards(np.ones((4, 7), np.int64))
    (axis,) = np.flatnonzero((shape.credit_start >= 0) & (shape.credit_cells > 2))
    rows = credit[0, shape.credit_start[axis] :][: 3 * shape.credit_cells[axis]].reshape(3, -1)
    found = [(loops, math.prod(t for _, t in loops)) for loops in _sequences((p, r))]
    assert {trips for _, trips in found} == {p * r}
    assert rows[2, 0] == min(_charged(loops, rests=True) for loops, _ in found)
    for d in range(2):
        first = [loops for loops, _ in found if loops[0][0] == d]
        assert rows[d, 0] == min(_charged(loops, rests=False) for loops in first)


# Interpreted: in compiled code the limit is a constant.
LIMITED = """
import itertools
import numpy as np
from costmodel import MapSpace, accelerator
from costmodel.tile_chains import credits
from costmodel.tile_chains.shape import build_shape
from costmodel.problems.workload_families import cnn

shape = build_shape(MapSpace(cnn(N=1, K=2, C=2, P=12, Q=1, R=4, S=1), accelerator("mm256")))
(axis,) = np.flatnonzero((shape.credit_start >= 0) & (shape.credit_cells > 2))
terms = slice(shape.term_start[axis], shape.term_start[axis + 1])
for first, jump in itertools.product(range(3), itertools.product((1, 2, 3), (1, 2))):
    extent = np.ones(2, np.int64)
    begin = credits.Begin(int(axis), first, extent, np.array(jump), extent.copy())
    found = []
    for most in (1, 10**9):
        credits.MOST_LOOKED = most
        found.append(credits.least_uncredited(shape, begin, np.zeros((credits.DEPTH, 8), np.int64)))
    print(*found)
"""


def test_the_bound_beyond_a_limit_of_looks_is_below_what_all_looks_find() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, env=environment, check=True
    )
    found = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert len(found) == 18
    assert all(bound <= least for bound, least in found)
    # Half of all steps, where a loop that does not move the axis is innermost: no more would do.
    assert any(1 < bound == least for bound, least in found)
