"""The best order of every tiling where routers and children that are passed by decide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from small_hierarchies import ROLES, smaller
from small_problems import every_mapping, random_parts
from tilings_by_value import least_by_tiling

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact.progress import MOST_TOP
from costmodel.exact_any.leaves import Assignment, Leaves
from costmodel.exact_any.prover import AnyProver
from mapspace.errors import ConfigError

SEEDS = range(20, 40)


def random_routers(seed: int, most: int) -> tuple[MapSpace, Codes, Objective]:
    """A map space in which networks cost most, its feasible mappings, and an objective."""
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        count = int(rng.integers(3, 5))
        fans_out = int(rng.integers(0, count - 1))
        levels: list[dict[str, Any]] = []
        for index in range(count):
            level: dict[str, Any] = {"name": f"L{index}"}
            level["energy_pj"] = float(rng.choice([0.0, 0.01, 1.0]))
            if index:
                level["capacity_words"] = int(rng.choice([4, 8, 12, 24, 48, 200]))
            if index == fans_out:
                level["fanout"] = int(rng.choice([2, 3, 4, 6]))
                level["router_pj"] = float(rng.choice([3.0, 50.0]))
                level["hop_energy_pj"] = float(rng.choice([0.0, 0.5]))
            if index == fans_out + 1 and rng.random() < 0.8:
                roles = rng.choice(ROLES, int(rng.integers(1, 3)), False)
                level["bypass"] = [str(role) for role in roles]
            levels.append(level)
        try:
            machine = accelerator({"name": "routed", "mac_energy_pj": 0.0, "levels": levels})
            space = MapSpace(workload(smaller(rng, work)), machine)
        except ConfigError:
            continue
        codes = every_mapping(space, most)
        if codes is not None and len(codes) > most / 10:
            return space, codes, ("energy", "edp")[seed % 2]


def check(seed: int, most: int) -> None:
    """Holds the best order of every tiling against all of its orders."""
    space, codes, objective = random_routers(seed, most)
    values = LoopNestModel().evaluate(space, codes).objective(objective)
    true = least_by_tiling(space, codes, values)[:MOST_TOP]
    prover = AnyProver(space, objective=objective, top=MOST_TOP)
    prover.run()
    reached = LoopNestModel().evaluate(space, prover.codes()).objective(objective)
    where = f"{objective} on {space.accelerator.model_dump()} of {space.workload}"
    np.testing.assert_allclose(reached, true, rtol=5e-12, err_msg=where)


def check_all(seeds: Iterable[int], most: int) -> None:
    """As `check`, of several."""
    for seed in seeds:
        check(seed, most)


def test_every_tiling_has_its_best_order() -> None:
    check_all(SEEDS, 3000)


def test_routers_tell_places_apart_where_hops_are_free() -> None:
    check(1029, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_tilings_have_their_best_order(block: int) -> None:
    check_all(range(1000 + 20 * block, 1020 + 20 * block), 10_000)


def test_what_passes_by_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept_alone(self: Leaves, assignment: Assignment) -> Any:
        tensors = np.arange(self._space.tables.sliding.size)
        return np.array(assignment.keeps)[:, None] >> tensors & 1

    monkeypatch.setattr(Leaves, "_matters", kept_alone)
    with pytest.raises(AssertionError):
        check_all(SEEDS, 3000)


@pytest.mark.parametrize(
    ("machine", "rough"),
    [
        # Inputs pass the children of the router by; outputs are read before they are written.
        ({"L0": {"router_pj": 1.0, "fanout": 2}, "L1": {"bypass": ["input"]}}, {"input", "output"}),
        ({"L0": {"router_pj": 1.0, "fanout": 2}}, {"output"}),
        ({"L1": {"router_pj": 1.0, "fanout": 2}}, set()),
        ({"L1": {"router_pj": 1.0, "fanout": 2}, "L2": {"bypass": ["weight"]}}, {"weight"}),
        ({"L0": {"hop_energy_pj": 1.0, "fanout": 2}, "L1": {"bypass": ["input"]}}, set()),
    ],
)
def test_tensors_of_which_fewer_words_can_cost_more(machine: Any, rough: set[str]) -> None:
    """Counted by hand: what is spread is the first dimension, over two children."""
    levels: list[dict[str, Any]] = [
        {
            "name": f"L{index}",
            "energy_pj": 1.0,
            "capacity_words": 64,
            **machine.get(f"L{index}", {}),
        }
        for index in range(3)
    ]
    del levels[0]["capacity_words"]
    said = {"name": "routed", "mac_energy_pj": 1.0, "levels": levels}
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), accelerator(said))
    spatial = np.ones((3, 3), np.int64)
    spatial[:, 0] = [level.get("fanout", 1) for level in levels]
    kept = [
        sum(1 << t for t, r in enumerate(ROLES) if r not in one.get("bypass", [])) for one in levels
    ]
    leaves = AnyProver(space)._orders[0].leaves
    found = leaves._rough(Assignment(tuple(kept), spatial, 1, 0.0))
    assert {role for t, role in enumerate(ROLES) if (found >> t) & 1} == rough
