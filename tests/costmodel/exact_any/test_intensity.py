"""Floors by arithmetic intensity against all mappings of each assignment, and with broken rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mutations import broken_copy, checked
from small_problems import random_parts
from test_levels_apart import _enumerated, _listed_as, _random_space

from costmodel import MapSpace, accelerator, workload
from costmodel.exact_any.assignments import list_assignments
from costmodel.exact_any.intensity import Intensity, _looked_at
from costmodel.exact_any.layout import lay_out
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains.ports import ports
from costmodel.tile_chains.spatial import keep_choices

# What a broken rule would claim: (function, what it says there, what it becomes).
BREAKS = {
    "all tensors move": ("_class", "not rest >> t & 1", "rest >= 0"),
    "tiles are as large as the operation": (
        "_look",
        "lattice.fits(level, mask)",
        "(lattice.place == lattice.place.max(axis=0)).all(axis=1)",
    ),
    "steps of a window are paid in full": ("_share", "np.minimum(1, moved / width)", "1"),
    "the first corner is the least": (
        "list_undominated",
        "points[other, column] > points[one, column]",
        "points[other, column] < 0",
    ),
    "no loop moves nothing that is kept": ("_least", "np.where(idle, 0, more)", "more"),
    "instances do all of the work": (
        "_beyond",
        "shape.sizes // spread",
        "shape.sizes + 0 * spread",
    ),
}

CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
from test_intensity import check
for seed in range(150):
    check(seed, 600)
print("all below")
"""


def _floors(space: MapSpace) -> dict[tuple[object, ...], tuple[float, float, float, float]]:
    """Of every assignment energy and cycles that it is listed with, and its floors by intensity."""
    one, keeps = lay_out(0, space, None), keep_choices(space)
    limited, waiting = ports(space), int(space.tables.machine.waiting)
    *_, listed = list_assignments(space, one.spreads, keeps, limited)
    assert listed is not None
    found: dict[tuple[object, ...], tuple[float, float, float, float]] = {}
    for group in listed.groups:
        spatial = one.spreads.spatial(group.choice)
        intensity = Intensity(one, group.keeps)
        floors, busy = intensity.floors(spatial), intensity.cycles(spatial, limited) + waiting
        if not space.tables.machine.leakage.any():  # which is more while ports work
            assert (floors >= group.plain * (1 - 1e-9)).all()
        for a in range(len(spatial)):
            listed_with = float(group.plain[a]), float(group.cycles[a])
            found[group.keeps, spatial[a].tobytes()] = (*listed_with, floors[a], busy[a])
    return found


def check(seed: int, most: int) -> tuple[int, int, int]:
    """Holds the floors of a random problem against its mappings.

    Returns:
        How many assignments have mappings, of how many floors are raised, and cycles.
    """
    rng = np.random.default_rng(seed)
    while True:
        if seed % 3:
            space = _random_space(rng, seed)
        else:
            work, machine = random_parts(rng)
            space = MapSpace(workload(work), accelerator(machine))
        exact = _enumerated(space, most)
        if exact is not None:
            break
    floors, raised = _floors(space), 0
    slower = 0
    for one, (energy, cycles) in exact.items():
        key = one if one in floors else _listed_as(space, one, floors)
        listed, steps, floor, busy = floors[key]
        assert floor <= energy * (1 + 1e-9) + 1e-9, f"{seed}: {key}"
        assert busy <= cycles * (1 + 1e-9), f"{seed}: {key}"
        raised += floor > listed * (1 + 1e-9)
        slower += busy > steps * (1 + 1e-9)
    return len(exact), raised, slower


def test_no_mapping_is_below() -> None:
    found = np.array([check(seed, 600) for seed in range(60)]).sum(axis=0)
    assignments, raised, slower = found.tolist()
    assert assignments > 500
    assert raised > 60
    assert slower > 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_no_mapping_of_more_is_below(block: int) -> None:
    for seed in range(1000 + 60 * block, 1060 + 60 * block):
        check(seed, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, *BREAKS])
def test_a_broken_rule_is_caught(name: str | None, tmp_path: Path) -> None:
    changes = [] if name is None else [("exact_any/intensity.py", *BREAKS[name])]
    broken_copy(tmp_path, *changes)
    done = checked(tmp_path, CHECK, Path(__file__).parent)
    if name is None:
        assert done.stdout == "all below\n", done.stderr
    else:
        assert "in check\n    assert" in done.stderr, done.stderr


def test_counted_by_hand() -> None:
    """A product of 4 x 4 x 4 with three words at L1: a tile is one word of each tensor.

    Of 64 steps all but one in the class of the innermost loop bring two words anew, so that one
    tensor enters once, 16 words, and two enter 64 times: 96 words more than once each. The least
    that is so is of A and B, 100 pJ a read and 1 pJ a fill: 96 x 101. DRAM reads 2 x 64 words then,
    and where Z moves, of which the first 16 are not read, 16 + 64 + 64 - 16.
    """
    machine = {
        "name": "two",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "DRAM", "energy_pj": 100.0, "read_bandwidth": 0.5},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 3},
        ],
    }
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), accelerator(machine))
    ((listed, _, floor, busy),) = _floors(space).values()
    assert floor - listed == pytest.approx(96 * 101)
    assert busy == pytest.approx(128 / 0.5)


def test_machines_share_what_is_known_of_equal_tiles_alone() -> None:
    """Other energies, capacities and workloads in turn: the floors that each has by itself."""
    buffer = {"name": "L1", "energy_pj": 1.0, "capacity_words": 12, "fanout": 4}
    levels = [{"name": "DRAM", "energy_pj": 100.0, "read_bandwidth": 0.5}, buffer]
    cheaper, larger = buffer | {"energy_pj": 0.5}, buffer | {"capacity_words": 40}
    # The same tiles fit of both, but other loops move other tensors.
    other = {
        "dimensions": {"M": 8, "N": 8, "K": 8},
        "tensors": {"A": ["M", "N"], "B": ["N", "K"], "Z": ["M", "K"]},
        "output": "Z",
    }
    spaces = [
        MapSpace(workload(work), accelerator({"name": "m", "mac_energy_pj": 1.0, "levels": its}))
        for work in ("gemm:M=8,N=8,K=8", other)
        for its in ([levels[0], one] for one in (buffer, larger, cheaper))
    ]
    alone = []
    for space in spaces:
        _looked_at.cache_clear()
        alone.append(_floors(space))
    assert [_floors(space) for space in spaces] == alone
    # Of either workload the second buffer of twelve words has nothing to look for.
    assert _looked_at.cache_info().currsize == 4
    assert len({str(floors) for floors in alone}) == len(spaces)


def test_few_assignments_are_bounded_where_floors_say_enough() -> None:
    """Hundreds of spatial factors, of which a handful could be the best by their floors."""
    space = MapSpace(workload("cnn:N=1,K=64,C=64,P=14,Q=14,R=3,S=3"), accelerator("mm256"))
    prover = AnyProver(space, objective="energy")
    prover.offer(space.sample(np.random.default_rng(0), 4096, feasible=True))
    prover.run()
    assert prover.counts["chains"] < prover.counts["assignments"] / 3


def test_no_floor_is_raised_of_no_assignment() -> None:
    """What another search finds can end all that were to be bounded together."""
    prover = AnyProver(MapSpace(workload("gemm:M=8,N=8,K=8"), accelerator("mm256")))
    assert list(prover._raise_floors(prover._orders[0], np.zeros(0, np.int64))) == []
    prover.run()
    assert prover.finished
