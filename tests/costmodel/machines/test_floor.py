"""The floor of a machine of the first kind: no mapping undercuts it, wherever levels fan out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_hierarchies import smaller
from small_problems import every_mapping, random_parts

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from costmodel.machines.bounds import floor
from mapspace.errors import ConfigError


def random_plain_machine(rng: np.random.Generator) -> dict[str, Any]:
    """A machine of 2 to 4 levels without a key beyond those of the first machines."""
    levels: list[dict[str, Any]] = []
    for index in range(int(rng.integers(2, 5))):
        level: dict[str, Any] = {
            "name": f"L{index}",
            "energy_pj": float(rng.choice([200.0, 6.0, 1.0, 0.0])),
        }
        if index:
            level["capacity_words"] = int(rng.choice([4, 8, 24, 200]))
        if rng.random() < 0.4:
            level["fanout"] = int(rng.choice([2, 3, 4, 6]))
            level["hop_energy_pj"] = float(rng.choice([0.0, 0.5]))
        if index == 0 and rng.random() < 0.4:
            level["read_bandwidth"] = level["write_bandwidth"] = float(rng.choice([0.25, 1.0]))
        levels.append(level)
    return {
        "name": "plain",
        "mac_energy_pj": 1.0,
        "levels": levels,
        "bypass": str(rng.choice(["none", "none", "searched"])),
    }


def random_space(seed: int, most: int) -> tuple[MapSpace, Codes]:
    """A map space of such a machine, and its feasible mappings."""
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        try:
            machine = accelerator(random_plain_machine(rng))
            space = MapSpace(workload(smaller(rng, work)), machine)
        except ConfigError:
            continue
        codes = every_mapping(space, most)
        if machine.further_key is None and codes is not None and len(codes):
            return space, codes


def check(seed: int, most: int) -> bool:
    """Holds a floor against all mappings; whether some mapping reaches one of its objectives."""
    space, codes = random_space(seed, most)
    least, costs = floor(space.workload, space.accelerator), LoopNestModel().evaluate(space, codes)
    where = f"{space.accelerator.model_dump(exclude_defaults=True)} of {space.workload}"
    reached = False
    for objective in OBJECTIVES:
        found = float(costs.objective(objective).min())
        assert found >= least.objective(objective) * (1 - 1e-12), f"{objective}, {where}"
        reached = reached or found <= least.objective(objective) * (1 + 1e-12)
    return reached


@pytest.mark.parametrize("block", range(3))
def test_no_mapping_is_below_the_floor(block: int) -> None:
    reached = [check(seed, 3000) for seed in range(50 * block, 50 * block + 50)]
    assert sum(reached) > 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_no_mapping_of_more_spaces_is_below_the_floor(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check(seed, 30_000)


def test_multiply_accumulate_units_that_share_a_word_read_it_once() -> None:
    """Counted by hand: M and K run over the units, N in time.

    L0 has 8 words read and 4 updated, of L1 8 are filled; of A each unit reads its own word twice,
    of B two units share a word, and the sums of two units are one update.
    """
    machine = {
        "name": "shared",
        "mac_energy_pj": 1.0,
        "levels": [
            {"name": "L0", "energy_pj": 2.5},
            {"name": "L1", "energy_pj": 6.0, "capacity_words": 48, "fanout": 4},
        ],
    }
    space = MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator(machine))
    codes = every_mapping(space, 10_000)
    least = LoopNestModel().evaluate(space, codes).energy_pj.min()
    assert least >= floor(space.workload, space.accelerator).energy_pj
    assert least == 8 + 2.5 * (8 + 4) + 6 * (8 + 8 + 4 + 4)
