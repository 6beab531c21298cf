"""The second program on any hierarchy: its counts are the model's, and it can refute."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import answer, call
from paths import GOLDEN
from small_hierarchies import random_hierarchy

from costmodel import Codes, LoopNestModel, MapSpace, accelerator, workload
from costmodel.exact.certificate import read_certificate
from costmodel.exact_any.choice import prove
from costmodel.independent.check import Claim, look_again
from costmodel.independent.counting import Counter, tiling_of, why_not_counted
from costmodel.independent.mappings import Mappings
from orchestrator.proofs.certificates import verify_certificate

DEEP = """
levels:
- {name: DRAM, energy_pj: {read: 200.0, fill: 180.0, update: 190.0}, bandwidth: 2.0}
- {name: GLB, energy_pj: 6.0, capacity_words: 64, fanout: 4, mesh: [2, 2], leakage_pj: 0.1}
- {name: ROW, energy_pj: 2.0, capacity_words: 24, bypass: [weight], address_pj: 0.5}
- {name: PE, energy_pj: 1.0, capacity_words: 6, fill_latency: 3}
mac_energy_pj: 1.0
"""


def claim_of(space: MapSpace, code: Codes, least: tuple[Fraction, int]) -> Claim:
    """That a mapping costs what the model says, and that none is below some costs."""
    costs = LoopNestModel().evaluate(space, code[None])
    cost = Fraction(float(costs.energy_pj[0])), int(costs.latency_cycles[0])
    mapping = space.describe(code)
    tolerance = Fraction(1, 10**11)
    return Claim(
        space.workload, space.accelerator, None, "edp", mapping, cost, least, tolerance=tolerance
    )


def check(seed: int, most: int, *, networks: bool = False) -> bool:
    """Holds the second program against the model; whether it counts such a machine."""
    rng = np.random.default_rng(seed)
    space, codes, _ = random_hierarchy(rng, most, networks=networks)
    if why_not_counted(space.workload, space.accelerator) is not None:
        return False
    costs = LoopNestModel().evaluate(space, codes)
    counter = Counter(space.workload, space.accelerator)
    where = f"{space.accelerator.model_dump()} of {space.workload}"
    for b in rng.integers(len(codes), size=20):
        tiling, orders = tiling_of(space.describe(codes[b]), space.workload)
        assert counter.why_not(tiling) is None, where
        energy, cycles = counter.cost(tiling, orders, {})
        assert float(energy) == pytest.approx(float(costs.energy_pj[b]), rel=1e-11), where
        assert cycles == costs.latency_cycles[b], where
    best = int(costs.edp.argmin())
    least = Fraction(float(costs.energy_pj[best])), int(costs.latency_cycles[best])
    look = look_again(claim_of(space, codes[best], least))
    assert look.holds, (look.findings, where)
    if Mappings(space.workload, space.accelerator).shape_count() <= 100_000:
        # A bound a little too high is refuted where every mapping is counted.
        wrong = look_again(claim_of(space, codes[best], (least[0] * 10001 / 10000, least[1])))
        assert not wrong.holds or not look.complete, where
    return True


def test_counts_are_the_models() -> None:
    assert sum(check(seed, 300) for seed in range(60_010, 60_030)) > 10
    assert sum(check(seed, 300, networks=True) for seed in range(60_010, 60_030)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_counts_are_the_models(block: int) -> None:
    for seed in range(61_000 + 20 * block, 61_020 + 20 * block):
        check(seed, 2000)


def meshes(rng: np.random.Generator) -> MapSpace:
    """A product on three levels, each perhaps with children on a mesh of its own."""
    levels: list[dict[str, Any]] = [
        {"name": "DRAM", "energy_pj": 100.0},
        {"name": "L1", "energy_pj": 2.0, "capacity_words": int(rng.choice([6, 9, 16]))},
        {"name": "L2", "energy_pj": 1.0, "capacity_words": 3},
    ]
    for level in levels:
        if level["name"] != "L2" or rng.random() < 0.3:
            mesh = [int(side) for side in rng.choice([1, 2, 3, 4], 2)]
            level |= {"mesh": mesh, "fanout": mesh[0] * mesh[1]}
    machine = {"name": "meshes", "levels": levels, "mac_energy_pj": 1.0}
    sizes = {name: int(rng.choice([1, 2, 3])) for name in "MNK"}
    return MapSpace(workload({"gemm": sizes}), accelerator(machine))


def test_no_false_alarm_of_meshes_one_inside_another() -> None:
    several = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        space = meshes(rng)
        found = prove(space, objective=("latency", "edp")[seed % 2])
        mapping = found.record["mapping"]
        spread = [part["spatial"] for part in mapping if part["spatial"]] if (
            isinstance(mapping, list)
        ) else []  # fmt: skip
        several += len(spread) > 1 and any(axis == "Y" for part in spread for _, _, axis in part)
        verdict = verify_certificate(found, independent=True)
        assert verdict.holds, (space.accelerator, verdict.findings)
    assert several > 2


def test_the_first_case_of_such_an_alarm_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "best.jsonl"
    machine = GOLDEN / "wrong-answers" / "fail-05" / "m.yaml"
    for work, cycles in (("gemm:M=3,N=2,K=3", 1), ("gemm:M=6,N=1,K=9", 3)):
        arguments = (work, "--accelerator", machine, "--objective", "latency", "--output", output)
        assert answer(capsys, "search", *arguments)["latency_cycles"] == cycles
        found = answer(capsys, "verify", tmp_path / "best.certificate.json", "--independent")
        assert found["holds"]
        assert found["independent"]["complete"]


def test_the_command_looks_without_the_prover(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine, output = tmp_path / "deep.yaml", tmp_path / "best.jsonl"
    machine.write_text(DEEP)
    arguments = ("gemm:M=4,N=2,K=2", "--accelerator", machine, "--output", output)
    assert answer(capsys, "search", *arguments)["proven"]
    path = tmp_path / "best.certificate.json"
    found = answer(capsys, "verify", path, "--independent")
    assert found["holds"]
    assert found["independent"]["complete"]
    assert found["independent"]["mappings"] > 100
    held = read_certificate(path)
    higher = held.model_copy(update={"bound_energy_units": str(int(held.energy_units) * 2)})
    path.write_text(higher.text())
    assert call("verify", path, "--independent") == 1
    assert "independent: among all" in capsys.readouterr().out


def test_what_is_not_counted_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine, output = tmp_path / "constrained.yaml", tmp_path / "best.jsonl"
    machine.write_text(DEEP + "constraints: [{target: DRAM, type: temporal, factors: K=1}]\n")
    arguments = ("gemm:M=4,N=2,K=2", "--accelerator", machine, "--output", output)
    assert answer(capsys, "search", *arguments)["proven"]
    assert call("verify", tmp_path / "best.certificate.json", "--independent") == 2
    assert "has constraints, which the second program" in capsys.readouterr().err
