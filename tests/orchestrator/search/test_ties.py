"""Equal objectives: every way to an answer keeps, and proves, the same one of several mappings."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES, TIE_BREAKERS, Objective
from costmodel.exact.certificate import Certificate, certify
from costmodel.exact.objective import KINDS, rank
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover
from costmodel.exact_any.front import prove_front
from costmodel.exact_any.prover import AnyProver
from orchestrator.answers.request import Request
from orchestrator.networks.search import search_network
from orchestrator.sweep.proofs import Problem, prove_problem

# Both of the first two answered with more energy than they need at the same cycles.
PROBLEMS = [
    ("gemm-512", "mm256"),
    ("resnet-conv4", "mm256"),
    ("gemm:M=96,N=36,K=60", "mindmappings"),
    ("cnn:N=2,K=12,C=8,P=14,Q=7,R=3,S=3,stride=2", "mm256-bypass"),
    ("gemm:M=96,N=36,K=60", "eyeriss-168"),
]


def answer(
    capsys: pytest.CaptureFixture[str], name: str, machine: str, objective: str, *more: str
) -> Any:
    options = ("--accelerator", machine, "--objective", objective)
    return commands.answer(capsys, "search", name, *options, *more)


@pytest.mark.parametrize(("name", "machine"), PROBLEMS)
def test_search_sweep_network_and_front_agree(
    name: str, machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nest, device = workload(name), accelerator(machine)
    front = [
        {"energy": point.energy_pj, "latency": point.latency_cycles}
        for point in prove_front(MapSpace(nest, device))
    ]
    for point in front:
        point["edp"] = point["energy"] * point["latency"]
        point["ed2p"] = point["edp"] * point["latency"]
    file = tmp_path / "network.yaml"
    file.write_text(f"name: one\nlayers: [{json.dumps(name)}]\n")
    for objective in OBJECTIVES:
        found = answer(capsys, name, machine, objective)
        assert found["proven"] is found["tie_proven"] is True
        proof = prove_problem(Problem(nest, device, objective), 60.0)
        assert proof.energy_pj is not None
        best = min(
            front,
            key=lambda point: (point[objective], point[TIE_BREAKERS[objective]]),
        )
        request = Request(str(file), machine, None, None, None, objective, 0)
        (layer,) = search_network(request, io.StringIO()).to_dict()["layers"]
        for energy, cycles in (
            (found["energy_pj"], found["latency_cycles"]),
            (proof.energy_pj, proof.latency_cycles),
            (layer["energy_pj"], layer["latency_cycles"]),
        ):
            assert cycles == best["latency"]
            assert energy == pytest.approx(best["energy"], rel=1e-12)


def test_the_fastest_mapping_wastes_no_energy(capsys: pytest.CaptureFixture[str]) -> None:
    """The first one that is as fast, which was kept once, takes 1.0752 mJ."""
    found = answer(capsys, "gemm-512", "mm256", "latency")
    assert found["latency_cycles"] == 524_288
    assert found["energy_pj"] == pytest.approx(8.7498e8, rel=1e-4)
    text = commands.printed(capsys, "search", "gemm-512", "--objective", "LATENCY")
    assert "proven optimal  no mapping has a lower latency" in text
    assert "and none of equal latency has less energy" in text


def tied() -> tuple[AnyProver, Codes]:
    """A finished proof of the least latency, and a mapping as fast that takes more energy."""
    space = MapSpace(workload("gemm:M=64,N=64,K=64"), accelerator("mm256"))
    prover = AnyProver(space, objective="latency")
    while not prover.finished:
        prover.step()
    assert prover.best_outcome is not None
    codes = space.sample(np.random.default_rng(0), 20_000, feasible=True)
    cycles = LoopNestModel().evaluate(space, codes).latency_cycles
    codes = codes[cycles == prover.best_outcome[1]]
    outcomes = prover.outcomes(codes)
    worst = max(range(len(codes)), key=lambda i: outcomes[i] or (0, 0))
    assert prover.rank_of(outcomes[worst] or (0, 0)) > prover.rank_of(prover.best_outcome)
    return prover, codes[worst]


def test_a_certificate_says_whether_the_tie_is_proven() -> None:
    prover, code = tied()
    best = certify(prover, 0.0)
    assert best.proven
    assert best.tie_proven
    verdict = verify(best, make_prover)
    assert verdict.holds
    assert "none of equal latency has less energy" in verdict.findings
    wasteful = certify(prover, 0.0, code)
    assert wasteful.proven
    assert wasteful.tie_proven is False
    verdict = verify(wasteful, make_prover)
    assert verdict.holds
    assert "whether one of equal latency has less energy is left open" in verdict.findings

    def changed(**fields: Any) -> Certificate:
        return Certificate.model_validate({**wasteful.model_dump(), **fields})

    own = {"bound_energy_units": wasteful.energy_units, "bound_cycles": wasteful.latency_cycles}
    for claim, finding in (
        (changed(tie_proven=True), "WRONG: bound and mapping differ in energy or cycles"),
        (changed(tie_proven=True, **own), "WRONG: a mapping of"),
        (changed(**own), "WRONG: bound and mapping are equal in energy and cycles"),
    ):
        verdict = verify(claim, make_prover)
        assert not verdict.holds
        assert any(line.startswith(finding) for line in verdict.findings)
    # Certificates of before that claim the objective only, and hold.
    assert verify(changed(tie_proven=None, **own), make_prover).holds
    assert verify(changed(tie_proven=None), make_prover).holds


@pytest.mark.parametrize("objective", ["edp", "ed2p"])
def test_an_equal_product_of_less_energy_is_found(objective: Objective) -> None:
    """Hops are priced so that two elements, in half the time, take just as much of the product."""

    def space(hop: float) -> MapSpace:
        levels = [
            {"name": "DRAM", "energy_pj": 8.0},
            {"name": "L2", "energy_pj": 2.0, "capacity_words": 64, "fanout": 2, "mesh": [2, 1]},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 64},
        ]
        levels[1]["hop_energy_pj"] = hop
        return MapSpace(
            workload("gemm:M=2,N=1,K=1"),
            accelerator({"name": "hops", "levels": levels, "mac_energy_pj": 1.0}),
        )

    def least(of: MapSpace) -> list[tuple[float, float, Codes]]:
        codes = of.sample(np.random.default_rng(0), 4000, feasible=True)
        costs = LoopNestModel().evaluate(of, codes)
        best = []
        for cycles in (1, 2):
            rows = np.flatnonzero(costs.latency_cycles == cycles)
            row = rows[np.argmin(costs.energy_pj[rows])]
            best.append((float(costs.energy_pj[row]), float(cycles), codes[[row]]))
        return best

    (cheap, _, _), (slow, _, _) = least(space(0.0))
    per_hop = (least(space(64.0))[0][0] - cheap) / 64
    power = {"edp": 1, "ed2p": 2}[objective]
    tied_space = space((slow * 2**power - cheap) / per_hop)
    (fast_energy, _, fast), (slow_energy, _, _) = least(tied_space)
    assert fast_energy == slow_energy * 2**power
    for offered in (False, True):
        prover = AnyProver(tied_space, objective=objective)
        if offered:
            prover.offer(fast)
        while not prover.finished:
            prover.step()
        assert prover.best_outcome is not None
        assert prover.best_outcome[1] == 2
        assert float(prover.best_outcome[0] * prover.unit_pj) == slow_energy


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_ranks_are_one_order_that_bounds_may_prune(objective: Objective) -> None:
    """Every pair of a grid full of equal products."""
    kind = KINDS[objective]
    outcomes = [(energy, cycles) for energy in range(13) for cycles in range(1, 13)]
    # And large ones that floating point cannot tell apart.
    outcomes += [(2**61, 2**60), (2**60, 2**61), (2**61 - 1, 2**60), (2**59, 2**60)]
    for ours in outcomes:
        for its in outcomes:
            below = rank(kind, *ours) < rank(kind, *its)
            assert below == (order(objective, *ours) < order(objective, *its))
            if ours[0] >= its[0] and ours[1] >= its[1]:
                assert not below


def order(objective: Objective, energy: int, cycles: int) -> tuple[int, ...]:
    return {
        "edp": (energy * cycles, energy, cycles),
        "energy": (energy, cycles),
        "latency": (cycles, energy),
        "ed2p": (energy * cycles**2, energy, cycles),
    }[objective]
