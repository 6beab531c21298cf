"""Small random problems with imperfect factors, held against all of their mappings."""

from __future__ import annotations

import numpy as np
from small_hierarchies import random_machine, smaller
from small_problems import every_mapping, random_parts

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES, STATUS_OK
from costmodel.exact_any.imperfect_prover import CELLS, ImperfectProver
from costmodel.exact_imperfect.boxes import Piece, narrowed
from costmodel.exact_imperfect.prices import Box
from mapspace.errors import ConfigError


def random_imperfect(rng: np.random.Generator, most: int) -> tuple[MapSpace, Codes]:
    """A map space with remainders of at most so many mappings, and the feasible ones."""
    while True:
        work, _ = random_parts(rng)
        machine = random_machine(rng) | {"factors": "imperfect"}
        if rng.random() < 0.3:
            machine["counting"] = "true"
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
            codes = every_mapping(space, most)
            if codes is None or not len(codes):
                continue
            costs = LoopNestModel().evaluate(space, codes)
        except ConfigError:
            continue
        codes = codes[costs.status == STATUS_OK]
        if len(codes):
            return space, codes


def boxes_of(space: MapSpace, codes: Codes) -> dict[tuple[object, ...], list[int]]:
    """Rows of codes by the kept tensors and spatial factors that they have."""
    names = space.workload.tensor_names
    found: dict[tuple[object, ...], list[int]] = {}
    for row, code in enumerate(codes):
        levels = space.describe(code).levels
        kept = tuple(sum(1 << names.index(n) for n in level.keep) for level in levels)
        names_of = space.workload.dimension_names
        spread = tuple(tuple(level.spatial.get(d, 1) for d in names_of) for level in levels)
        found.setdefault((kept, spread), []).append(row)
    return found


def check_imperfect(seed: int, most: int) -> float:
    """Holds all bounds of one random problem against all of its mappings.

    Args:
        seed: decides the problem.
        most: mappings that it may have.

    Returns:
        The bound that is reached in the end, as a share of the optimum.
    """
    rng = np.random.default_rng(seed)
    space, codes = random_imperfect(rng, most)
    objective = OBJECTIVES[int(rng.choice(len(OBJECTIVES)))]
    costs = LoopNestModel().evaluate(space, codes)
    where = f"{objective} on {space.accelerator.model_dump()} of {space.workload}"
    prover = ImperfectProver(space, objective=objective)
    (order,) = prover._orders
    for (kept, spread), rows in boxes_of(space, codes).items():
        factors = np.array(spread, np.int64)
        box = narrowed(Box(factors, factors), space.tables.fanout)
        assert box is not None, where
        piece = Piece(0, order.keeps.index(kept), box, 0.0, 0, 0)
        for grids in range(len(CELLS)):
            energy = order.energy(piece, grids)
            least = float(costs.energy_pj[rows].min())
            assert energy <= least * (1 + 1e-11) + 1e-9, f"{energy} is above {least}: {where}"
            assert order.cycles(box) <= costs.latency_cycles[rows].min(), where
    values = costs.objective(objective)
    best = int(values.argmin())
    prover.offer(codes[[best]])
    prover.run()
    assert len(prover.codes()) == 1
    assert prover.value_of(prover.lower_outcome) <= prover.value_of(prover.best_outcome or (0, 0))
    # Without a mapping to beat no box is cut off, so that a bound that is too high shows.
    alone = ImperfectProver(space, objective=objective)
    before = alone.lower_outcome
    while not alone.finished and not alone._stuck:
        alone.step()
        assert alone.rank_of(before) <= alone.rank_of(alone.lower_outcome), "the bound fell"
        before = alone.lower_outcome
    unit = 1 if objective == "latency" else float(alone.unit_pj)
    bound = float(alone.value_of(alone.lower_outcome)) * unit
    least = float(values[best])
    assert bound <= least * (1 + 1e-9) + 1e-9, f"{bound} is above {least}: {where}"
    return bound / least if least > 0 else 1.0
