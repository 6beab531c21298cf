"""Of mappings that are equal in the objective the proof finds the one that wins the tie."""

from __future__ import annotations

import numpy as np
import pytest
from small_hierarchies import check_proof, random_machine, smaller
from small_problems import every_mapping, random_parts

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.arrays.tables import Array
from costmodel.costs import TIE_BREAKERS, Objective
from costmodel.exact.certificate import certify
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover
from costmodel.exact_any.prover import AnyProver
from costmodel.tile_chains.tiles import FloatArray
from mapspace.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore::mapspace.notices.UnusualWarning")

POWERS = {"energy": 0, "edp": 1, "ed2p": 2}


def price_of_ties(energy: FloatArray, cycles: Array, power: int) -> float:
    """The pJ, of every mapping alike, at which the least objective has two mappings; 0: none.

    As it rises from nothing mappings of fewer cycles come to be as good as the best one.
    """
    weight = cycles.astype(float) ** power
    best = int((energy * weight).argmin())
    faster = np.flatnonzero(weight < weight[best])
    if not faster.size:
        return 0.0
    rise = energy[faster] * weight[faster] - energy[best] * weight[best]
    return float((rise / (weight[best] - weight[faster])).min())


def tied(seed: int, most: int) -> tuple[MapSpace, Codes, Objective]:
    """A map space whose best mappings are equal in the objective, and differ otherwise."""
    rng = np.random.default_rng(seed)
    objective: Objective = ("edp", "ed2p", "energy")[seed % 3]
    while True:
        work, _ = random_parts(rng)
        machine = random_machine(rng)
        machine["mac_energy_pj"] = 0.0
        for level in machine["levels"]:
            if objective == "energy":
                level["energy_pj"] = float(rng.choice([0.0, 1.0]))
            elif "fanout" in level:
                level["ingress_pj"] = float(rng.choice([3.0, 50.0]))
        try:
            operation = workload(smaller(rng, work))
            space = MapSpace(operation, accelerator(machine))
            codes = every_mapping(space, most)
            if codes is None or not len(codes):
                continue
            costs = LoopNestModel().evaluate(space, codes)
            if objective != "energy":
                price = price_of_ties(costs.energy_pj, costs.latency_cycles, POWERS[objective])
                machine["mac_energy_pj"] = price / operation.macs
                space = MapSpace(operation, accelerator(machine))
                costs = LoopNestModel().evaluate(space, codes)
        except ConfigError:
            continue
        values = costs.objective(objective)
        equal = values <= values.min() * (1 + 1e-12)
        others = costs.objective(TIE_BREAKERS[objective])[equal]
        if values.min() > 0 and others.max() > others.min() * (1 + 1e-9):
            return space, codes, objective


def check_all(seeds: range, most: int) -> None:
    """Holds proofs against all mappings, and what decides ties with them."""
    for seed in seeds:
        check_proof(*tied(seed, most))


def test_ties_are_decided_as_enumeration_does() -> None:
    check_all(range(6), 1500)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_more_ties_are_decided_as_enumeration_does(block: int) -> None:
    check_all(range(1000 + 20 * block, 1020 + 20 * block), 8000)


def test_certificates_say_who_wins_a_tie() -> None:
    for seed in range(6):
        space, codes, objective = tied(seed, 600)
        prover = AnyProver(space, objective=objective)
        prover.run()
        best = certify(prover, 0.0)
        assert (best.proven, best.tie_proven, best.gap) == (True, True, 0.0)
        assert verify(best, make_prover).holds
        costs = LoopNestModel().evaluate(space, codes)
        values, others = (costs.objective(one) for one in (objective, TIE_BREAKERS[objective]))
        equal = np.flatnonzero(values <= values.min() * (1 + 1e-12))
        loser = certify(prover, 0.0, codes[equal[others[equal].argmax()]])
        assert (loser.proven, loser.tie_proven, loser.gap) == (True, False, 0.0)
        assert verify(loser, make_prover).holds
        its = loser.energy_units, loser.latency_cycles
        claim = {"bound_energy_units": its[0], "bound_cycles": its[1], "tie_proven": True}
        assert not verify(loser.model_copy(update=claim), make_prover).holds
