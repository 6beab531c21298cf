"""Tensors of one memory at loops of their own: complete enumeration by a literal walk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flat_nests import Problem, cost, nests

from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from costmodel.exact_any.prover import AnyProver


def _problem(rng: np.random.Generator) -> Problem:
    sizes = dict(zip("MNK", rng.permutation([2, 2, int(rng.choice([1, 2, 3, 4]))]), strict=True))
    tensors = {"A": ("M", "K"), "B": ("K", "N"), "Z": ("M", "N")}
    if rng.random() < 0.3:
        tensors["A"] = ("M", "N", "K")
    return Problem({name: int(size) for name, size in sizes.items()}, tensors)


def _levels(rng: np.random.Generator) -> list[dict[str, Any]]:
    levels: list[dict[str, Any]] = [{"name": "DRAM", "energy_pj": 100.0}]
    for name in ("GB", "RF")[: 1 + int(rng.random() < 0.25)]:
        level = {"name": name, "energy_pj": float(rng.choice([0.5, 3.0, 6.0]))}
        level |= {"capacity_words": int(rng.integers(3, 14)), "apart": bool(rng.random() < 0.8)}
        levels.append(level)
    for level in levels:
        if rng.random() < 0.3:
            level["fanout"] = 2
        if rng.random() < 0.3:
            level["bandwidth"] = float(rng.choice([0.5, 1.0, 3.0]))
    levels[-1]["free"] = bool(rng.random() < 0.2)
    return levels


def _space(problem: Problem, levels: list[dict[str, Any]]) -> MapSpace:
    said = []
    for level in levels:
        keys = {key: value for key, value in level.items() if key not in ("apart", "free")}
        if level.get("apart"):
            keys["tiles"] = "apart"
        if any(other.get("free") for other in levels) and not level.get("free"):
            keys["keep"] = list(problem.tensors)
        said.append(keys)
    machine = {"name": "m", "mac_energy_pj": 1.0, "levels": said}
    if any(level.get("free") for level in levels):
        machine["bypass"] = "searched"
    return MapSpace(
        workload(
            {
                "dimensions": problem.sizes,
                "tensors": {name: list(dims) for name, dims in problem.tensors.items()},
                "output": "Z",
            }
        ),
        accelerator(machine),
    )


def _value(objective: str, found: tuple[float, float]) -> float:
    energy, cycles = found
    values = {"edp": energy * cycles, "energy": energy, "latency": cycles}
    return values.get(objective, energy * cycles**2)


def check(seed: int) -> float | None:
    """Holds a proof against all nests; how much tiles of one place would lose, None if unknown."""
    rng = np.random.default_rng(seed)
    problem, levels = _problem(rng), _levels(rng)
    objective: Any = OBJECTIVES[int(rng.integers(len(OBJECTIVES)))]
    space = _space(problem, levels)
    if space.size() > 3e7:
        return None
    least, lone = np.inf, np.inf
    for nest in nests(problem, levels):
        found = cost(problem, levels, nest)
        if found is None:
            continue
        value = _value(objective, found)
        least = min(least, value)
        together = all(
            len({place for index, _, place in nest.nodes if index == level}) < 2
            for level in range(len(levels))
        )
        lone = min(lone, value) if together else lone
    prover = AnyProver(space, objective=objective)
    prover.run()
    where = f"{seed}: {objective}, {problem}, {levels}"
    if least == np.inf:
        assert prover.best_outcome is None, where
        return None
    costs = LoopNestModel().evaluate(space, prover.codes(1))
    assert float(costs.objective(objective)[0]) == pytest.approx(least, rel=1e-11), where
    return float(lone / least)


def test_equals_enumeration_by_a_walk() -> None:
    gains = [gain for seed in range(30) if (gain := check(seed)) is not None]
    assert len(gains) >= 15
    assert sum(gain > 1 + 1e-9 for gain in gains) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_equal_enumeration_by_a_walk(block: int) -> None:
    for seed in range(1000 + 60 * block, 1060 + 60 * block):
        check(seed)
