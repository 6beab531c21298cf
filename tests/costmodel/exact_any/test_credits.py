"""What is charged of windows whose run ends in a slot with known loops, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import MapSpace, accelerator
from costmodel.tile_chains.credits import Credits
from costmodel.tile_chains.shape import build_shape
from costmodel.workload_families import cnn

# Extents of P and R in the slot's step and in its tile, and the trips along P + R that are charged.
# A loop is free where it steps as far as all loops inside together. P's 7 and then R's 3 outside
# are 7, but P's 2, which steps by 7, is charged, and before R it would not let R be free: 14.
# Where both stand in the slot R may stand inside: 3, P's 7 are free, P's 2 are charged: 6. With no
# loop in the slot P's 2 may come first: R's 3 are free, and P's 7, which step by 2 as both do: 2.
BY_HAND = [((1, 1), (7, 1), 14), ((1, 1), (7, 3), 6), ((1, 1), (1, 1), 2), ((14, 1), (14, 3), 3)]


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
