"""Buffers side by side that share one room, each as much of it as its tiles need: enumeration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_side_by_side_proofs import random_group

from costmodel import Codes, LoopNestModel, MapSpace
from costmodel.costs import OBJECTIVES
from costmodel.exact_any.prover import AnyProver
from costmodel.exact_any.tilings import Tilings


def _held(space: MapSpace, one: MapSpace, code: Codes) -> int:
    """The most words that the tiles of a group of buffers hold together."""
    assert space.orders is not None
    levels, work = one.describe(code).levels, space.workload
    extents, words = dict.fromkeys(work.dimension_names, 1), [0] * len(levels)
    for index in reversed(range(len(levels))):
        for loops in (levels[index].spatial, levels[index].temporal):
            for dimension, factor in loops.items():
                extents[dimension] *= factor
        words[index] = sum(
            math.prod(
                1 + sum(step * (extents[d] - 1) for d, step in axis.terms) for axis in tensor.axes
            )
            for tensor in work.tensors
            if tensor.name in levels[index].keep
        )
    return max(sum(words[group.first : group.stop]) for group in space.orders.groups)


def _check(seed: int, most: int) -> tuple[bool, bool]:
    """Whether a random problem is proven wrongly, and whether the room made a difference."""
    rng = np.random.default_rng(seed)
    space, found = random_group(rng, most)
    objective: Any = OBJECTIVES[int(rng.integers(len(OBJECTIVES)))]
    assert space.orders is not None
    values, held, outcomes = [], [], []
    for one, codes in zip(space.orders.spaces, found, strict=True):
        if not len(codes):
            continue
        costs = LoopNestModel().evaluate(one, codes)
        values.append(costs.objective(objective))
        outcomes.append(np.column_stack([costs.energy_pj, costs.latency_cycles]))
        held.append([_held(space, one, code) for code in codes])
    value, words, both = (np.concatenate(each) for each in (values, held, outcomes))
    room = int(rng.integers(words.min(), max(words.min(), words[value.argmin()]) + 1))
    allowed = np.flatnonzero(words <= room)
    best = allowed[value[allowed].argmin()]
    prover = AnyProver(space, objective=objective, room=room)
    prover.run()
    reached = LoopNestModel().evaluate(space, prover.codes()).objective(objective)
    lost = len(reached) != 1 or bool(reached[0] != pytest.approx(value[best], rel=1e-11))
    again = AnyProver(space, objective=objective, room=room)
    energy, cycles = both[best].tolist()
    lost = lost or not again.finds_below((energy * (1 + 1e-9) + 1e-9, cycles))
    return lost, bool(value[best] > value.min() * (1 + 1e-9))


def test_equals_enumeration() -> None:
    found = [_check(seed, 1000) for seed in range(25)]
    assert not any(lost for lost, _ in found)
    assert sum(binds for _, binds in found) >= 6


def test_a_loop_that_crosses_a_network_may_cost_more_outside_a_tile() -> None:
    """Found by enumeration: of a network's hops the loops of the tile that it carries decide."""
    assert not _check(1170, 8000)[0]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_equal_enumeration(block: int) -> None:
    for seed in range(1000 + 30 * block, 1030 + 30 * block):
        assert not _check(seed, 8000)[0], seed


def test_buffers_that_leave_no_room_for_those_outside_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = Tilings._lay_out

    def doubled(self: Any, *arguments: Any) -> Any:
        search = honest(self, *arguments)
        search.kept[:] *= 2
        return search

    monkeypatch.setattr(Tilings, "_lay_out", doubled)
    assert any(_check(seed, 1000)[0] for seed in range(25))
