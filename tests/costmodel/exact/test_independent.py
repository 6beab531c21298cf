"""The look without the prover: counted apart, equal where both count, and able to refute."""

from __future__ import annotations

import ast
import dataclasses
import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import printed
from exact_energies import energy_units, exact_outcomes
from paths import GOLDEN
from small_hierarchies import random_hierarchy
from small_problems import random_problem

import costmodel.independent
from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.costs import Objective
from costmodel.exact.certificate import certify
from costmodel.exact_any.choice import prove
from costmodel.exact_any.prover import AnyProver
from costmodel.independent.check import Claim, SecondLook, look_again
from costmodel.independent.counting import Counter, tiling_of, why_not_counted
from costmodel.independent.mappings import Mappings, factorisations, order_count
from costmodel.loop_nest.records import read_mapping
from mapspace.errors import ConfigError

RECORDS = sorted((GOLDEN / "timeloop").glob("*.jsonl.gz"))
OLD = GOLDEN / "certificates"
FORBIDDEN = {
    "costmodel.exact",
    "costmodel.machines.bounds",
    *(
        f"costmodel.loop_nest.{name}"
        for name in (
            "cost_kernel", "feasibility", "machine_tables", "map_space", "model", "moves",
            "nest_records", "nest_tables", "networks", "projections", "scratch", "spatial_groups",
            "tables", "temporal_reuse",
        )
    ),
    "numba",
    "numpy",
}  # fmt: skip


def claim_of(space: MapSpace, objective: Objective = "edp", **options: Any) -> Claim:
    """What the proof of a space claims."""
    prover = AnyProver(space, objective=objective, **options)
    while not prover.finished:
        prover.step()
    certificate = certify(prover, 1.0)
    unit = Fraction(certificate.unit_pj)
    return Claim(
        space.workload,
        space.accelerator,
        certificate.keep,
        objective,
        space.describe(prover.codes()[0]),
        (int(certificate.energy_units) * unit, certificate.latency_cycles),
        (int(certificate.bound_energy_units) * unit, certificate.bound_cycles),
        ties=bool(certificate.tie_proven),
        tolerance=Fraction(1, 10**11),
    )


def worse(claim: Claim, space: MapSpace, code: Any) -> Claim:
    """The claim that another mapping is the optimum."""
    units = energy_units(space.accelerator)
    energy, cycles = exact_outcomes(space, units, code[None])[0] or (0, 0)
    cost = energy * units.unit_pj, cycles
    return dataclasses.replace(claim, mapping=space.describe(code), cost=cost, bound=cost)


def test_it_shares_no_code_with_the_proof() -> None:
    for path in Path(costmodel.independent.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                assert not any(name == no or name.startswith(f"{no}.") for no in FORBIDDEN), path


@pytest.mark.parametrize("seed", range(60))
def test_it_counts_what_the_model_counts(seed: int) -> None:
    """Energies as fractions and cycles, exactly, on random problems of every kind."""
    space, codes, _ = random_problem(np.random.default_rng(seed), 3_000)
    units = energy_units(space.accelerator)
    counter = Counter(space.workload, space.accelerator)
    some = np.random.default_rng(seed).permutation(codes)[:30]
    for code, outcome in zip(some, exact_outcomes(space, units, some), strict=True):
        mapping = space.describe(code)
        tiling, orders = tiling_of(mapping, space.workload)
        assert outcome is not None
        assert counter.why_not(tiling, [level.banks for level in mapping.levels]) is None
        assert counter.cost(tiling, orders, {}) == (outcome[0] * units.unit_pj, outcome[1])


def test_hops_on_meshes_are_counted_as_the_model_has_them() -> None:
    counted = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mesh = [int(side) for side in rng.choice([2, 3, 4], 2)]
        levels: list[dict[str, Any]] = [
            {"name": "DRAM", "energy_pj": 9.0},
            {"name": "L2", "energy_pj": 3.0, "capacity_words": 99, "hop_energy_pj": 2.0},
            {"name": "L1", "energy_pj": 1.0, "capacity_words": 30},
        ]
        levels[1] |= {"mesh": mesh, "fanout": mesh[0] * mesh[1]}
        work = [{"gemm": {"M": 8, "N": 6, "K": 4}}, {"conv1d": {"P": 8, "R": 4, "K": 3}}][seed % 2]
        machine = {"name": "mesh", "mac_energy_pj": 1.0, "levels": levels}
        space = MapSpace(workload(work), accelerator(machine))
        codes = space.sample(rng, 200)
        some = codes[space.feasible(codes)][:20]
        counter = Counter(space.workload, space.accelerator)
        costs = LoopNestModel().evaluate(space, some)
        for b, code in enumerate(some):
            energy, cycles = counter.cost(*tiling_of(space.describe(code), space.workload), {})
            assert float(energy) == pytest.approx(costs.energy_pj[b], rel=1e-12)
            assert cycles == costs.latency_cycles[b]
            counted += 1
    assert counted > 200


def test_it_counts_what_the_model_counts_of_leakage_and_addresses() -> None:
    met = {"leakage_pj": 0, "address_pj": 0}
    for seed in range(60):
        space, codes, _ = random_hierarchy(np.random.default_rng(seed), 2000)
        if not len(codes) or why_not_counted(space.workload, space.accelerator) is not None:
            continue
        counter, some = Counter(space.workload, space.accelerator), codes[:: len(codes) // 5 + 1]
        costs = LoopNestModel().evaluate(space, some)
        for b, code in enumerate(some):
            energy, cycles = counter.cost(*tiling_of(space.describe(code), space.workload), {})
            assert float(energy) == pytest.approx(costs.energy_pj[b], rel=1e-12)
            assert cycles == costs.latency_cycles[b]
        for key in met:
            met[key] += any(getattr(level, key) > 0 for level in space.accelerator.levels)
    assert min(met.values()) >= 5, met


@pytest.mark.parametrize("path", RECORDS, ids=[path.name.split(".")[0] for path in RECORDS])
def test_it_counts_what_timeloop_counts(path: Path) -> None:
    with gzip.open(path, "rt") as lines:
        records = [json.loads(line) for line in lines][::20]
    for record in records:
        space, code = read_mapping(record)
        tiling, orders = tiling_of(space.describe(code), space.workload)
        counter = Counter(space.workload, space.accelerator)
        energy, cycles = counter.cost(tiling, orders, {})
        assert counter.why_not(tiling) is None
        assert cycles == record["result"]["cycles"]
        # Timeloop adds energies in floating point.
        assert float(energy) == pytest.approx(record["result"]["energy_pj"], rel=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_it_lists_every_mapping_once(seed: int) -> None:
    space, codes, _ = random_problem(np.random.default_rng(seed), 3_000)
    if {"banks", "spatial-order", "spatial-axis"} & set(space.attribute_kinds):
        return  # the model's codes tell apart what costs the same
    counter = Counter(space.workload, space.accelerator)
    listed = Mappings(space.workload, space.accelerator)
    assert listed.shape_count() == len(list(listed.shapes()))
    count = sum(
        order_count(tiling)
        for shape in listed.shapes()
        for tiling in listed.tilings(shape)
        if counter.why_not(tiling) is None
    )
    assert count == len(codes)


def test_factorisations_are_all_products() -> None:
    assert list(factorisations(4, 2)) == [(1, 4), (2, 2), (4, 1)]
    assert len(list(factorisations(12, 3))) == 18


@pytest.mark.parametrize("seed", [1, 2, 7, 14, 17, 22, 25, 30])
def test_a_small_space_is_settled(seed: int) -> None:
    """The true optimum holds; the second best of all, offered as optimal, does not."""
    space, codes, objective = random_problem(np.random.default_rng(seed), 1_500)
    claim = claim_of(space, objective)  # type: ignore[arg-type]
    look = look_again(claim)
    assert look.holds, look.findings
    assert look.complete
    assert look.not_shown is None
    units = energy_units(space.accelerator)
    outcomes = [outcome for outcome in exact_outcomes(space, units, codes) if outcome is not None]
    prover = AnyProver(space, objective=objective)
    values = [prover.value_of(outcome) for outcome in outcomes]
    others = [index for index, value in enumerate(values) if value > min(values)]
    if not others:
        return
    second = min(others, key=lambda index: values[index])
    look = look_again(worse(claim, space, codes[second]))
    assert not look.holds
    assert any("WRONG: independent: among all" in line for line in look.findings)


def test_a_tie_that_is_claimed_is_looked_at() -> None:
    space = MapSpace(workload("gemm:M=4,N=2,K=2"), accelerator("mm256"))
    claim = claim_of(space, "latency")
    assert claim.ties
    assert look_again(claim).holds
    energy, cycles = claim.cost
    wasteful = dataclasses.replace(claim, bound=(energy + 1, cycles))
    assert not look_again(wasteful).holds
    assert look_again(dataclasses.replace(wasteful, ties=False)).holds


def test_a_restriction_is_looked_at_too() -> None:
    space = MapSpace(workload("gemm:M=2,N=2,K=2"), accelerator("mm256-bypass"))
    free, kept = claim_of(space), claim_of(space, keep={"L1": ("Z",), "L2": ()})
    assert kept.bound[0] * kept.bound[1] > free.bound[0] * free.bound[1]
    look = look_again(kept)
    assert look.holds
    assert look.complete
    assert not look_again(dataclasses.replace(kept, keep=None)).holds


def large() -> tuple[MapSpace, Claim]:
    space = MapSpace(workload("gemm:M=64,N=64,K=64"), accelerator("mm256"))
    return space, claim_of(space)


def sampled(claim: Claim, seed: int = 0) -> SecondLook:
    look = look_again(claim, tilings=100, seed=seed)
    assert not look.complete
    return look


def test_a_sample_refutes_a_bound_that_is_too_high() -> None:
    space, claim = large()
    honest = sampled(claim)
    assert honest.holds
    assert "rests on the prover" in str(honest.not_shown)
    assert honest.mappings > 500
    codes = space.sample(np.random.default_rng(0), 500)
    for code in codes[space.feasible(codes)][:3]:
        look = sampled(worse(claim, space, code))
        assert not look.holds
        assert any("WRONG: independent: there is a mapping of" in line for line in look.findings)


def test_a_cost_that_is_not_the_mapping_s_is_refuted() -> None:
    _, claim = large()
    energy, cycles = claim.cost
    for cost in ((energy + Fraction(1, 25), cycles), (energy, cycles + 1)):
        look = look_again(dataclasses.replace(claim, cost=cost), most=0, tilings=0)
        assert any("WRONG: independent: the mapping takes" in line for line in look.findings)


def test_an_infeasible_mapping_is_refuted() -> None:
    space, claim = large()
    codes = space.sample(np.random.default_rng(0), 2_000)
    for code in codes[~space.feasible(codes)][:5]:
        other = dataclasses.replace(claim, mapping=space.describe(code))
        look = look_again(other, most=0, tilings=0)
        assert any("the mapping is infeasible" in line for line in look.findings)
    with pytest.raises(ConfigError, match="the factors of M multiply to"):
        look_again(dataclasses.replace(claim, workload=workload("gemm:M=32,N=64,K=64")))


@pytest.mark.parametrize(
    ("name", "complete"), [("first-conv.json", True), ("first-kept.json", False)]
)
def test_the_command_says_what_was_shown_and_what_was_not(
    name: str, complete: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*options: str) -> str:
        return printed(capsys, "verify", OLD / name, *options)

    text = call("--independent")
    assert "independent: counted without the cost model's code, the mapping takes the same" in text
    assert ("settled without the prover" in text) is complete
    assert ("not verified: independently, that none of the other mappings" in text) is not complete
    found = json.loads(call("--independent", "--json"))
    assert found["independent"]["complete"] is complete
    assert found["independent"]["holds"] is found["holds"] is True
    assert json.loads(call("--json"))["independent"] is None


def test_a_proof_of_a_mesh_with_hops_and_banks_is_settled() -> None:
    machine = {
        "name": "mesh",
        "levels": [
            {"name": "DRAM", "energy_pj": 100.0, "read_bandwidth": 0.7},
            {
                "name": "L2",
                "energy_pj": 2.2,
                "capacity_words": 24,
                "banks": 6,
                "fanout": 4,
                "mesh": [2, 2],
                "hop_energy_pj": 0.5,
            },
            {"name": "L1", "energy_pj": 1.12, "capacity_words": 8},
        ],
        "mac_energy_pj": 0.3,
    }
    space = MapSpace(workload("gemm:M=4,N=2,K=2"), accelerator(machine))
    assert prove(space).proven
    look = look_again(claim_of(space))
    assert look.holds, look.findings
    assert look.complete
