"""What passes through an array take, by a walk in plain Python, and random nests for it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from small_hierarchies import random_machine, smaller
from small_problems import every_mapping, random_parts

from costmodel import Codes, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES, Objective
from costmodel.machines.levels import NETWORK_KEYS
from mapspace.errors import ConfigError

Tile = frozenset[tuple[int, ...]]
MOST_MAPPINGS = 8000


def walked_passes(space: MapSpace, code: Codes, position: int) -> int:
    """Words that come to the first element of the array below a level, tile after tile.

    Every step of all temporal loops is taken, outermost first; a word that the tile before had is
    there already.

    Args:
        space: the map space.
        code: `[D]` a feasible mapping.
        position: of the level that has `array`.
    """
    mapping, work = space.describe(code), space.workload
    array = space.accelerator.levels[position].array
    assert array is not None
    passes = 0
    for tensor in work.tensors:
        if not {tensor.name, work.roles[tensor.name]} & set(array.stationary):
            continue
        kept = [
            index
            for index in range(position + 1, len(mapping.levels))
            if tensor.name in mapping.levels[index].keep
        ]
        # Without a level that keeps it every step takes a word of its own.
        stop = kept[0] if kept else len(mapping.levels)
        tile = dict.fromkeys(work.dimensions, 1)
        for level in mapping.levels[stop:]:
            for name in tile:
                tile[name] *= level.temporal[name] * level.spatial.get(name, 1)
        loops = _loops(space, code, stop)
        before: Tile = frozenset()
        for counts in itertools.product(*(range(trips) for _, trips, _ in loops)):
            start = dict.fromkeys(work.dimensions, 0)
            for count, (name, _, step) in zip(counts, loops, strict=True):
                start[name] += count * step
            held = _words(tensor, start, tile)
            passes += len(held) if not kept else len(held - before)
            before = held
    return passes


def walked_tiles(space: MapSpace, code: Codes, level: int, name: str) -> int:
    """How often another tile of a tensor comes to the first instance of a level.

    A tile that comes back after another one comes anew.
    """
    work = space.workload
    tensor = work.tensors[work.tensor_names.index(name)]
    before, tiles = None, 0
    loops = _loops(space, code, level)
    for counts in itertools.product(*(range(trips) for _, trips, _ in loops)):
        start = dict.fromkeys(work.dimensions, 0)
        for count, (dimension, _, step) in zip(counts, loops, strict=True):
            start[dimension] += count * step
        # Where it lies: the indices of its dimensions, of which windows may overlap.
        place = tuple(start[dimension] for dimension in tensor.dimensions)
        tiles += place != before
        before = place
    return tiles


def _loops(space: MapSpace, code: Codes, stop: int) -> list[tuple[str, int, int]]:
    """Dimension, trips and step of the temporal loops outside a level, outermost first."""
    mapping = space.describe(code)
    found = []
    for index, level in enumerate(mapping.levels[:stop]):
        inside = dict.fromkeys(space.workload.dimensions, 1)
        for inner in mapping.levels[index + 1 :]:
            for name in inside:
                inside[name] *= inner.temporal[name] * inner.spatial.get(name, 1)
        for name in inside:
            inside[name] *= level.spatial.get(name, 1)
        steps = dict(inside)
        own = []
        for name in reversed(level.order):
            own.append((name, level.temporal[name], steps[name]))
            steps[name] *= level.temporal[name]
        found += own[::-1]
    return found


def _words(tensor: Any, start: dict[str, int], tile: dict[str, int]) -> Tile:
    axes = []
    for axis in tensor.axes:
        reached = {
            sum(
                factor * (start[name] + offset)
                for (name, factor), offset in zip(axis.terms, offsets, strict=True)
            )
            for offsets in itertools.product(*(range(tile[name]) for name, _ in axis.terms))
        }
        axes.append(sorted(reached))
    return frozenset(itertools.product(*axes))


def draw_transfers(rng: np.random.Generator, levels: list[dict[str, Any]]) -> None:
    """Gives levels start-ups, and buffers that work waits for."""
    roles = ("input", "weight", "output")
    for level in levels[1:]:
        if rng.random() < 0.5:
            some = {str(role): int(rng.integers(0, 9)) for role in rng.choice(roles, 2, False)}
            level["startup"] = int(rng.integers(1, 9)) if rng.random() < 0.5 else some
        if rng.random() < 0.4:
            level["buffering"] = str(rng.choice(["single", "double"]))
        elif rng.random() < 0.3:
            level["buffering"] = {str(rng.choice(roles)): "single"}


def random_array(
    seed: int, most: int = MOST_MAPPINGS, *, transfers: bool = False
) -> tuple[MapSpace, Codes, Objective]:
    """A map space of a machine with arrays, its feasible mappings, and an objective.

    Args:
        seed: decides it.
        most: mappings that it may have.
        transfers: whether levels have start-ups and single buffers, with or without arrays.
    """
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        machine = random_machine(rng)
        fanning = [one for one in machine["levels"][:-1] if one.get("fanout", 1) > 1]
        for level in fanning:
            if rng.random() < 0.8:
                level["array"] = {
                    "stationary": str(rng.choice(["input", "weight", "output"])),
                    "load": int(rng.integers(0, 4)),
                    "fill": "rows + columns - 2",
                    "drain": int(rng.integers(0, 3)),
                }
        if transfers:
            draw_transfers(rng, machine["levels"])
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue
        if not (space.tables.machine.asking if transfers else space.tables.machine.turning):
            continue
        codes = every_mapping(space, most)
        if codes is not None and len(codes):
            return space, codes, OBJECTIVES[int(rng.choice(len(OBJECTIVES)))]


def random_beside(seed: int, most: int = 6000) -> tuple[MapSpace, Codes, Objective]:
    """Likewise, of machines with two buffers side by side, in every order of them."""
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        machine = random_machine(rng)
        levels = machine["levels"]
        if len(levels) < 4:
            continue
        place = int(rng.integers(1, len(levels) - 1))
        for key in NETWORK_KEYS:
            levels[place].pop(key, None)
        levels[place]["beside"] = levels[place + 1]["beside"] = "group"
        for level in levels[:-1]:
            if level.get("fanout", 1) > 1 and rng.random() < 0.6:
                role = str(rng.choice(["input", "weight", "output"]))
                level["array"] = {"stationary": role, "load": 2, "fill": "rows + columns - 2"}
        draw_transfers(rng, levels)
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
        except ConfigError:
            continue
        if space.orders is None:
            continue
        tables = space.orders.spaces[0].tables.machine
        codes = every_mapping(space, most) if tables.turning or tables.asking else None
        if codes is not None and len(codes):
            return space, codes, OBJECTIVES[int(rng.choice(len(OBJECTIVES)))]
