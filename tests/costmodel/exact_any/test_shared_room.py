"""Buffers side by side that share one room and its ports: enumeration of every order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from small_problems import every_mapping
from test_side_by_side_proofs import random_group

from costmodel import Codes, LoopNestModel, MapSpace, accelerator
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


def _with_one_room(rng: np.random.Generator, space: MapSpace, room: int) -> MapSpace:
    """The problem with all buffers of its group as parts of one memory of so many words."""
    machine = space.accelerator.model_dump()
    ports = {"bandwidth": float(rng.choice([0.5, 2.0]))} if rng.random() < 0.3 else {}
    for level in machine["levels"]:
        if level.get("beside"):
            kept = {k: v for k, v in level.items() if k not in ("bandwidth", "block_words")}
            level.clear()
            level.update({**kept, "capacity_words": room, "shares": "pe", **ports})
    return MapSpace(space.workload, accelerator(machine))


def _check(seed: int, most: int) -> tuple[bool, bool]:
    """Whether a random problem is proven wrongly, and whether the room made a difference."""
    rng = np.random.default_rng(seed)
    lone, found = random_group(rng, most)
    objective: Any = OBJECTIVES[int(rng.integers(len(OBJECTIVES)))]
    assert lone.orders is not None
    words = np.concatenate(
        [
            [_held(lone, one, code) for code in codes]
            for one, codes in zip(lone.orders.spaces, found, strict=True)
            if len(codes)
        ]
    )
    room = max(1, int(rng.integers(words.min(), words.max() + 1)))
    space = _with_one_room(rng, lone, room)
    assert space.orders is not None
    values, outcomes, held = [], [], []
    for one, wide in zip(space.orders.spaces, _unlimited(space), strict=True):
        codes = every_mapping(wide, 4 * most)
        if codes is None:
            return False, False
        words = np.array([_held(space, wide, code) for code in codes], np.int64)
        assert (one.feasible(codes) == (words <= room)).all(), seed
        costs = LoopNestModel().evaluate(one, codes)
        values.append(costs.objective(objective))
        outcomes.append(np.column_stack([costs.energy_pj, costs.latency_cycles]))
        held.append(words)
    value, both = np.concatenate(values), np.concatenate(outcomes)
    best = int(value.argmin())
    if value[best] == np.inf:
        return False, False
    prover = AnyProver(space, objective=objective)
    prover.run()
    reached = LoopNestModel().evaluate(space, prover.codes()).objective(objective)
    lost = len(reached) != 1 or bool(reached[0] != pytest.approx(value[best], rel=1e-11))
    energy, cycles = both[best].tolist()
    again = AnyProver(space, objective=objective)
    lost = lost or not again.finds_below((energy * (1 + 1e-9) + 1e-9, cycles))
    return lost, bool((np.concatenate(held) > room).any())


def _unlimited(space: MapSpace) -> list[MapSpace]:
    """The spaces of all orders, with as much room for each buffer of the group as for all."""
    found = []
    assert space.orders is not None
    for one in space.orders.spaces:
        machine = one.accelerator.model_dump()
        for level in machine["levels"]:
            level["shares"] = None
        found.append(MapSpace(space.workload, accelerator(machine)))
    return found


def test_equals_enumeration() -> None:
    found = [_check(seed, 1000) for seed in range(25)]
    assert not any(lost for lost, _ in found)
    assert sum(binds for _, binds in found) >= 6


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
        search.room[:] *= 2
        return search

    monkeypatch.setattr(Tilings, "_lay_out", doubled)
    assert any(_check(seed, 1000)[0] for seed in range(25))
