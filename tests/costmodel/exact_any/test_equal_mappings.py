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


def at_no_energy(seed: int, most: int) -> tuple[MapSpace, Codes, Objective]:
    """A map space with mappings that need no energy, of several cycles."""
    rng = np.random.default_rng(seed)
    while True:
        work, _ = random_parts(rng)
        machine = random_machine(rng)
        machine["mac_energy_pj"] = 0.0
        for level in machine["levels"]:
            level["energy_pj"] = float(rng.choice([0.0, 0.0, 1.0]))
            for key in ("hop_energy_pj", "router_pj", "ingress_pj", "leakage_pj", "address_pj"):
                level.pop(key, None)
        try:
            space = MapSpace(workload(smaller(rng, work)), accelerator(machine))
            codes = every_mapping(space, most)
        except ConfigError:
            continue
        if codes is None or not len(codes):
            continue
        costs = LoopNestModel().evaluate(space, codes)
        cycles = costs.latency_cycles[costs.energy_pj == 0]
        if cycles.size and cycles.max() > cycles.min():
            return space, codes, ("energy", "edp", "ed2p")[seed % 3]


def check_nothing(seeds: range, most: int) -> None:
    """Of mappings that need no energy the fastest is found, from the slowest on, too."""
    for seed in seeds:
        space, codes, objective = at_no_energy(seed, most)
        costs = LoopNestModel().evaluate(space, codes)
        cycles = np.where(costs.energy_pj == 0, costs.latency_cycles, 0)
        least = costs.latency_cycles[costs.energy_pj == 0].min()
        for first in (None, codes[[cycles.argmax()]]):
            prover = AnyProver(space, objective=objective)
            if first is not None:
                prover.offer(first)
            prover.run()
            assert prover.best_outcome == (0, least), seed
            assert certify(prover, 0.0).tie_proven, seed


def test_where_nothing_needs_energy_the_fastest_wins() -> None:
    check_nothing(range(6), 1500)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_where_nothing_needs_energy_the_fastest_of_many_wins(block: int) -> None:
    check_nothing(range(1000 + 30 * block, 1030 + 30 * block), 8000)


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
