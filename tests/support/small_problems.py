"""Small random problems of every kind that the exact search treats, and their whole map spaces."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES, TIE_BREAKERS, Objective
from costmodel.exact.infeasible import why_infeasible
from costmodel.exact_any.prover import AnyProver
from costmodel.map_space.moves import order_index

# Mappings that one problem may have at the most.
MOST_MAPPINGS = 120_000


def random_problem(
    rng: np.random.Generator, most: int = MOST_MAPPINGS
) -> tuple[MapSpace, Codes, Objective]:
    """A map space of at most so many mappings, all of them, and an objective."""
    return _small(rng, most, hops=False)


def random_mesh(
    rng: np.random.Generator, most: int = MOST_MAPPINGS
) -> tuple[MapSpace, Codes, Objective]:
    """As `random_problem`, on a mesh whose hops cost energy."""
    return _small(rng, most, hops=True)


def _small(rng: np.random.Generator, most: int, *, hops: bool) -> tuple[MapSpace, Codes, Objective]:
    while True:
        work, machine = random_parts(rng)
        if hops:
            # Windows, so that two loops along an axis may be spatial, and tiles that they share.
            if rng.random() < 0.7:
                sizes = {"P": [4, 8], "R": [2, 4, 4], "stride": [1, 2, 2]}
                work = {"conv1d": {name: int(rng.choice(sizes[name])) for name in sizes}}
            mesh = [int(side) for side in rng.choice([2, 4], 2)]
            hop = float(rng.choice([0.5, 2.0, 10.0, 1000.0]))
            more = {"mesh": mesh, "fanout": mesh[0] * mesh[1], "hop_energy_pj": hop}
            machine["levels"][1] |= more
        space = MapSpace(workload(work), accelerator(machine))
        codes = every_mapping(space, most)
        if codes is not None:
            return space, codes, OBJECTIVES[int(rng.choice(len(OBJECTIVES)))]


def random_parts(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """A small workload and an accelerator, as an experiment's file says them."""
    return _workload(rng), _accelerator(rng)


def _sizes(rng: np.random.Generator, names: str) -> dict[str, int]:
    return {name: int(rng.choice([1, 1, 2, 2, 3, 4, 5, 6, 8])) for name in names}


def _workload(rng: np.random.Generator) -> dict[str, Any]:
    kind = rng.choice(["cnn", "conv1d", "gemm", "mttkrp", "einsum"])
    stride = int(rng.integers(1, 4))
    if kind == "cnn":
        sizes = _sizes(rng, "NKCPQ") | {
            name: int(rng.choice([1, 2, 3, 4, 5, 7, 8])) for name in "RS"
        }
        return {"cnn": {**sizes, "stride": stride, "dilation": int(rng.integers(1, 3))}}
    if kind == "conv1d":
        sizes = {"P": int(rng.choice([4, 6, 8, 12, 16])), "R": int(rng.choice([2, 3, 4, 6, 8]))}
        more = {"K": int(rng.choice([1, 1, 2, 4])), "N": int(rng.choice([1, 1, 2, 3]))}
        return {"conv1d": {**sizes, **more, "stride": stride}}
    if kind == "gemm":
        return {"gemm": {name: int(rng.choice([1, 2, 4, 6, 8, 12])) for name in "MNK"}}
    if kind == "mttkrp":
        return {"mttkrp": _sizes(rng, "IJKL")}
    a, b = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    sizes = {name: int(rng.choice([1, 2, 3, 4, 6, 8])) for name in "ABCD"}
    axes = [f"{a}*A + {b}*B + C", "D"] if rng.random() < 0.5 else [f"{a}*A + C", f"{b}*B + D"]
    return {
        "dimensions": sizes,
        "tensors": {"X": axes, "Y": ["B", "C"], "Z": ["A", "D"]},
        "output": "Z",
    }


def _accelerator(rng: np.random.Generator) -> dict[str, Any]:
    energies = [
        (200.0, 2.2, 1.12, 1.0),
        (100.0, 10.0, 0.5, 0.25),
        (6.0, 5.0, 4.0, 0.0),
        (1.0, 1.0, 1.0, 1.0),
        (2.0, 30.0, 1.0, 0.5),
        (0.0, 1.0, 2.0, 0.0),
        (64.0, 0.001, 12.5, 1.0),
    ][int(rng.integers(7))]
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": energies[0]},
        {
            "name": "L2",
            "energy_pj": energies[1],
            "capacity_words": int(rng.choice([8, 16, 32, 48, 96, 192, 1024])),
            "fanout": int(rng.choice([1, 2, 3, 4, 6, 8, 12])),
        },
        {
            "name": "L1",
            "energy_pj": energies[2],
            "capacity_words": int(rng.choice([4, 6, 8, 12, 24, 48, 96])),
        },
    ]
    if rng.random() < 0.25:
        for level in levels[1:]:
            banks = int(rng.choice([4, 8]))
            level["banks"] = banks
            level["capacity_words"] = banks * max(1, level["capacity_words"] // banks)
    if rng.random() < 0.3:
        for level in levels:
            for key in ("read_bandwidth", "write_bandwidth"):
                if rng.random() < 0.7:
                    level[key] = float(rng.choice([0.5, 1.0, 2.0, 3.0, 0.7, 8.0]))
    if rng.random() < 0.2 and levels[1]["fanout"] > 3:
        width = int(rng.choice([w for w in (2, 3, 4) if levels[1]["fanout"] % w == 0] or [1]))
        levels[1]["mesh"] = [width, levels[1]["fanout"] // width]
    if rng.random() < 0.15:
        levels[1]["hop_energy_pj"] = float(rng.choice([0.5, 3.0]))
    return {
        "name": "random",
        "levels": levels,
        "mac_energy_pj": energies[3],
        "bypass": "searched" if rng.random() < 0.3 else "none",
    }


def every_mapping(space: MapSpace, most: int) -> Codes | None:
    """`[B, D]` every feasible mapping once; None if there are more than so many.

    Loops of one iteration do not exist, so of the orders that differ by them only one is listed.
    """
    tables = space.tables
    orders = [int(c) for c in tables.order_column]
    others = [c for c in range(space.cardinality.size) if c not in orders]
    if np.prod(space.cardinality[others].astype(float)) > most:
        return None
    grid = np.array(list(itertools.product(*(range(space.cardinality[c]) for c in others))))
    codes = np.zeros((len(grid), space.cardinality.size), np.int32)
    codes[:, others] = grid
    codes = codes[space.feasible(codes)]
    # Inside the innermost tile no loop makes a difference, unless MACs hand words to each other.
    machine = space.accelerator
    handed = machine.link_transfers and machine.levels[-1].fanout > 1
    for level in range(len(orders) - (not handed)):
        codes = _with_orders(space, codes, level, most)
        if codes is None:
            return None
    return codes


def _with_orders(space: MapSpace, codes: Codes, level: int, most: int) -> Codes | None:
    tables = space.tables
    n = tables.sizes.size
    rows = codes[:, :n] + tables.row_start[:-1]
    looped = tables.factors[rows, tables.temporal_slot[level]] > 1
    patterns, group = np.unique(looped, axis=0, return_inverse=True)
    group = group.ravel()
    parts, total = [], 0
    for index, pattern in enumerate(patterns):
        members = codes[group == index]
        moving = np.flatnonzero(pattern).tolist()
        total += len(members) * math.factorial(len(moving))
        if total > most:
            return None
        still = [d for d in range(n) if d not in moving]
        for order in itertools.permutations(moving):
            part = members.copy()
            part[:, tables.order_column[level]] = order_index(np.array([*order, *still]))
            parts.append(part)
    return np.concatenate(parts) if parts else codes


def best_outcome(space: MapSpace, codes: Codes, objective: Objective) -> tuple[float, float]:
    """Energy, pJ, and cycles of the best mapping: least objective, then what breaks ties.

    Args:
        space: the map space.
        codes: `[B, D]` all of its feasible mappings.
        objective: what is minimised.
    """
    costs = LoopNestModel().evaluate(space, codes)
    near = np.ones(len(codes), bool)
    # Of equal energy and objective the fewest cycles count, where both are nothing.
    for name in (objective, TIE_BREAKERS[objective], "latency"):
        values = costs.objective(name)
        near &= values <= values[near].min() * (1 + 1e-12)
    first = np.flatnonzero(near)[0]
    return float(costs.energy_pj[first]), float(costs.latency_cycles[first])


def check_problem(seed: int, most: int = MOST_MAPPINGS) -> int:
    """Holds the proof of one random problem against all of its mappings.

    Args:
        seed: decides the problem.
        most: mappings that it may have.

    Returns:
        How many mappings it has.
    """
    return check_space(*random_problem(np.random.default_rng(seed), most))


def check_space(space: MapSpace, codes: Codes, objective: Objective) -> int:
    """As `check_problem`, of a space and all its mappings: the best of equal ones is proven."""
    prover = AnyProver(space, objective=objective)
    prover.run()
    assert (len(codes) == 0) == (prover.best_outcome is None)
    if len(codes) == 0:
        return 0
    assert why_infeasible(space) is None
    assert prover.lower_outcome == prover.best_outcome
    winner = prover.codes(1)
    assert prover.outcomes(winner)[0] == prover.best_outcome, "the winner costs something else"
    costs = LoopNestModel().evaluate(space, winner)
    found = float(costs.energy_pj[0]), float(costs.latency_cycles[0])
    best = best_outcome(space, codes, objective)
    np.testing.assert_allclose(found, best, rtol=2e-12, err_msg=objective)
    return len(codes)
