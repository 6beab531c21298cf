"""Commands prove on any hierarchy with the words, JSON and certificates of three levels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import answer, call

from costmodel import MapSpace, accelerator, workload
from costmodel.exact.certificate import FORMAT, certify, read_certificate
from costmodel.exact.verification import verify
from costmodel.exact_any.choice import make_prover, why_not
from costmodel.exact_any.prover import AnyProver
from costmodel.loop_nest.nest_coding import nest_code
from costmodel.loop_nest.records import mapping_record
from mapspace import evaluate
from mapspace.errors import ConfigError

MACHINE = """
name: four-levels
mac_energy_pj: 1.0
levels:
  - {name: DRAM, energy_pj: {read: 100, fill: 90, update: 90}}
  - {name: L2, energy_pj: 6, capacity_words: 256, fanout: 4, mesh: [2, 2]}
  - {name: inputs, energy_pj: 1, capacity_words: 8, bypass: [weight, output]}
  - {name: sums, energy_pj: 1, capacity_words: 16, bypass: [input, weight], fanout: 2}
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    path = tmp_path / "four-levels.yaml"
    path.write_text(MACHINE)
    return path


def test_pareto_proves_the_front(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = ("gemm:M=12,N=8,K=6", "--accelerator", str(machine))
    assert call("pareto", *problem, "--json") == 0
    front = json.loads(capsys.readouterr().out)["front"]
    assert [point["elements"] for point in front] == sorted({p["elements"] for p in front})[::-1]
    scored = evaluate([point["record"] for point in front])
    assert [row["result"]["cycles"] for row in scored] == [p["latency_cycles"] for p in front]
    assert [r["result"]["energy_pj"] for r in scored] == [p["energy_pj"] for p in front]
    assert call("search", *problem, "--json") == 0
    best = json.loads(capsys.readouterr().out)
    assert best["edp"] == pytest.approx(min(p["edp"] for p in front), rel=1e-12)


def test_a_front_that_time_ends_says_what_is_left(
    machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "front.svg"
    problem = ("gemm:M=12,N=8,K=6", "--accelerator", str(machine), "--seconds", "1e-6")
    assert call("pareto", *problem, "--json", "--plot", str(plot)) == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["proven"]
    assert found["bounds"] == [{"latency_cycles": 0, "energy_pj": 0.0}]
    assert [point["energy_bound_pj"] for point in found["front"]] == [0.0] * len(found["front"])
    assert "no mapping is below" in plot.read_text()
    assert call("pareto", *problem) == 0
    text = capsys.readouterr().out
    assert "as far as it is known: not proven" in text
    assert "100.00 %" in text
    assert "no mapping takes fewer than 0 cycles" in text


def test_bypass_proves_what_skipping_is_worth(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Roles that a level bypasses anyway are not skipped; both mappings are those of `search`."""
    arguments = ("bypass", "gemm:M=12,N=8,K=6", "--accelerator", str(machine), "--json")
    assert call(*arguments) == 0
    row = json.loads(capsys.readouterr().out)["layers"][0]
    assert row["kept"]["skips"] == {"L2": [], "inputs": [], "sums": []}
    for key, bypass in (("kept", "none"), ("searched", "searched")):
        assert row[key]["proven"]
        machine.write_text(f"{MACHINE}bypass: {bypass}\n")
        assert call("search", *arguments[1:]) == 0
        found = json.loads(capsys.readouterr().out)
        assert row[key]["edp"] == pytest.approx(found["edp"], rel=1e-12)
    assert row["searched"]["edp"] < row["kept"]["edp"]


def test_space_says_how_far_samples_are_from_the_optimum(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("gemm:M=12,N=8,K=6", "--accelerator", str(machine), "--json")
    assert call("space", *arguments, "--samples", "500") == 0
    (entry,) = json.loads(capsys.readouterr().out)["spaces"]
    assert call("search", *arguments) == 0
    best = json.loads(capsys.readouterr().out)
    assert entry["optimum"]["edp"] == pytest.approx(best["edp"], rel=1e-12)


def test_search_proves_and_verify_proves_again(
    machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tmp_path / "best.jsonl"
    arguments = ("search", "gemm:M=12,N=8,K=6", "--accelerator", str(machine))
    assert call(*arguments, "--output", str(found), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["proven"] is True
    assert result["tie_proven"] is True
    assert result["gap_to_optimum"] == 0
    assert result["lower_bound"] == pytest.approx(result["edp"], rel=1e-12)
    certificate = tmp_path / "best.certificate.json"
    assert call("verify", str(certificate)) == 0
    assert "the certificate holds" in capsys.readouterr().out
    assert read_certificate(certificate).format == FORMAT
    assert call("verify", str(certificate), "--independent", "--seconds", "2") in (0, 3)
    assert "counted without the cost model's code" in capsys.readouterr().out


def test_a_false_certificate_does_not_hold(machine: Path) -> None:
    space = MapSpace(workload("gemm:M=12,N=8,K=6"), accelerator(str(machine)))
    prover = AnyProver(space)
    prover.run()
    true = certify(prover, 1.0)
    assert true.tie_proven is True
    assert verify(true, make_prover).holds
    higher = str(int(true.bound_energy_units) + int(true.bound_energy_units) // 100)
    assert not verify(true.model_copy(update={"bound_energy_units": higher}), make_prover).holds
    other = space.sample(np.random.default_rng(0), 1, feasible=True)[0]
    worse = true.model_copy(update={"record": mapping_record(space, other)})
    assert not verify(worse, make_prover).holds


def test_a_restriction_is_named(machine: Path) -> None:
    searched = {**accelerator(str(machine)).model_dump(mode="json"), "bypass": "searched"}
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), accelerator(searched))
    prover = make_prover(space, keep={"sums": ["Z"]})
    prover.run()
    assert prover.keep == {"sums": ("Z",)}
    found = certify(prover, 1.0)
    assert found.proven is False
    assert found.proven_under_restriction is True
    assert verify(found, make_prover).holds
    with pytest.raises(ConfigError, match="does not leave it open"):
        make_prover(space, keep={"inputs": ["Z"]})


def test_records_of_whole_nests_are_read_back(machine: Path) -> None:
    space = MapSpace(workload("gemm:M=12,N=8,K=6"), accelerator(str(machine)))
    codes = space.sample(np.random.default_rng(1), 20, feasible=True)
    for code in codes:
        record = mapping_record(space, code)
        again = nest_code(space, record["mapping"])
        assert mapping_record(space, again) == record
    with pytest.raises(ConfigError, match="expected the levels"):
        nest_code(space, record["mapping"][1:])


def test_several_mappings_are_found(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), accelerator(str(machine)))
    assert why_not(space) is None
    with pytest.raises(ConfigError, match="top must be 1 to"):
        make_prover(space, top=10**6)
    arguments = ("search", "gemm:M=4,N=4,K=4", "--accelerator", str(machine), "--top", "3")
    found = answer(capsys, *arguments)
    assert found["proven"]
    values = [entry["edp"] for entry in found["top"]]
    assert len(values) == 3
    assert values == sorted(values)
    assert values[0] == found["edp"]
