"""`mapspace search`, `verify` and `pareto` where a proof is possible, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import answer, call, interrupted

from costmodel import MapSpace, accelerator, workload
from costmodel.costs import OBJECTIVES
from orchestrator.report.units import percent
from orchestrator.search.one_workload import _so_far
from searchers import make

# Its proof takes ten seconds; after two it is within a few per cent.
LARGE = ("vgg-conv2", "--accelerator", "cluster4x64bw")


def test_search_proves_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "search", "alexnet-conv4")
    assert found["searcher"] == "exact"
    assert found["proven"] is True
    assert found["gap"] == found["gap_to_optimum"] == 0
    assert found["lower_bound"] == pytest.approx(found["edp"], rel=1e-15)
    # The optimum of the literature's layer, proven elsewhere to seven digits.
    assert found["edp"] == pytest.approx(7.395732e16, rel=1e-6)


def test_the_certificate_lies_beside_the_mapping(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mapping.jsonl"
    found = answer(capsys, "search", "gemm-512", "--output", str(output))
    path = tmp_path / "mapping.certificate.json"
    assert sorted(tmp_path.iterdir()) == [path, output]
    certificate = json.loads(path.read_text())
    assert certificate["proven"] is True
    assert certificate["record"] == found["record"] == json.loads(output.read_text())
    assert call("verify", str(path)) == 0
    text = capsys.readouterr().out
    assert "it is optimal" in text
    assert "the certificate holds" in text


@pytest.mark.parametrize(
    ("key", "value", "finding"),
    [
        ("energy_units", "17", "the mapping takes"),
        ("bound_energy_units", "17", "apart"),
        ("accelerator_hash", "0123456789abcdef", "accelerator hash"),
        ("model_version", "0", "made for loopnest 0"),
        ("gap", 0.5, "apart, not 50 %"),
    ],
)
def test_a_certificate_that_was_tampered_with_is_refused(
    key: str, value: Any, finding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mapping.jsonl"
    assert call("search", "gemm:M=32,N=32,K=32", "--output", str(output)) == 0
    path = tmp_path / "mapping.certificate.json"
    certificate = json.loads(path.read_text())
    path.write_text(json.dumps({**certificate, key: value}))
    capsys.readouterr()
    assert call("verify", str(path)) == 1
    output_text = capsys.readouterr()
    assert any("WRONG" in line and finding in line for line in output_text.out.splitlines())
    assert "does not hold" in output_text.err


def test_a_bound_that_is_too_high_is_refuted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worse mapping that claims to be optimal: the search below its bound finds a better one."""
    output = tmp_path / "mapping.jsonl"
    arguments = ("search", "gemm:M=64,N=64,K=64", "--searcher", "random", "--iterations", "5")
    assert call(*arguments, "--output", str(output)) == 0
    path = tmp_path / "mapping.certificate.json"
    certificate = json.loads(path.read_text())
    certificate |= {
        "proven": True,
        "gap": 0.0,
        "bound_energy_units": certificate["energy_units"],
        "bound_cycles": certificate["latency_cycles"],
    }
    path.write_text(json.dumps(certificate))
    capsys.readouterr()
    assert call("verify", str(path)) == 1
    assert "WRONG: a mapping of" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', "{"])
def test_what_is_no_certificate_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    assert call("verify", str(path)) == 2
    assert "certificate" in capsys.readouterr().err
    assert call("verify", str(tmp_path / "absent.json")) == 2


def test_a_search_too_large_for_its_time_prints_the_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mapping.jsonl"
    found = answer(capsys, "search", *LARGE, "--seconds", "2", "--output", str(output))
    assert found["proven"] is False
    assert 0 < found["gap"] < 2
    assert found["lower_bound"] * (1 + found["gap"]) == pytest.approx(found["edp"])
    certificate = json.loads((tmp_path / "mapping.certificate.json").read_text())
    assert certificate["proven"] is False
    assert certificate["gap"] == pytest.approx(found["gap"])


def test_the_last_line_of_progress_says_proven(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("search", "gemm:M=4,N=4,K=4") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].endswith("proven optimal")
    assert "-0.00" not in "".join(lines)


def test_a_rounded_share_is_neither_below_nothing_nor_too_low() -> None:
    assert percent(-1e-9) == percent(0.0) == percent(1e-9) == "0.00 %"
    assert percent(-0.25) == "-25.00 %"
    assert percent(1e-9, up=True) == "0.01 %"
    assert percent(0.0123, up=True) == "1.23 %"
    assert percent(0.01231, up=True) == "1.24 %"
    assert percent(0.0, up=True) == "0.00 %"


def test_a_wanted_gap_ends_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "search", "inception-conv2", "--gap", "20%")
    assert found["gap"] <= 0.2
    assert found["proven"] is False


def test_the_best_tilings_come_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "search", "gemm-512", "--top", "5")
    values = [entry["edp"] for entry in found["top"]]
    assert values == sorted(values)
    assert values[0] == found["edp"]
    records = [json.dumps(entry["record"]["mapping"], sort_keys=True) for entry in found["top"]]
    assert len(set(records)) == 5


def test_the_best_tilings_are_shown_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "best.jsonl"
    assert call("search", "gemm-512", "--top", "5", "--output", str(output)) == 0
    _, _, table = capsys.readouterr().out.partition("the 5 best tilings")
    shown = [line.partition(" %  ")[2] for line in table.splitlines()[1:6]]
    assert len(set(shown)) == 5
    written = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(written) == 5
    for line, record in zip(shown, written, strict=True):
        for name, factors in (("L2", "temporal"), ("L2", "spatial"), ("L1", "temporal")):
            loops = [f"{d}{n}" for d, n in record["mapping"][name][factors].items() if n > 1]
            assert not loops or " ".join(loops) in line
    first = json.loads((tmp_path / "best.certificate.json").read_text())["record"]
    assert written[0] == first
    assert call("evaluate", "--model", "loopnest", str(output)) == 0


def test_a_fixed_keep_set_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("search", "resnet-conv4", "--accelerator", "mm256-bypass")
    free = answer(capsys, *arguments)
    fixed = answer(capsys, *arguments, "--keep", "L1=Outputs", "--keep", "L2=Weights,Inputs")
    assert fixed["proven_under_restriction"] is True
    assert fixed["record"]["mapping"]["keep"]["L1"] == ["Outputs"]
    assert fixed["record"]["mapping"]["keep"]["L2"] == ["Weights", "Inputs"]
    assert free["edp"] < fixed["edp"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gap", "near"), "--gap: expected a share"),
        (("--gap", "1.5"), "got '1.5'; did you mean 1.5%?"),
        (("--gap", "-1%"), "--gap: expected a share"),
        (("--keep", "L1"), "--keep: expected LEVEL=TENSOR"),
        (("--keep", "L9=A"), "unknown level 'L9'; known: L2, L1"),
        (("--keep", "L1=X"), "unknown tensor 'X'; known: A, B, Z"),
        (("--keep", "L1=A"), "mm256 keeps every tensor there"),
        (("--searcher", "random", "--top", "2"), "--top is for the exact searcher"),
        (("--searcher", "random", "--gap", "1%"), "--gap is for the exact searcher"),
    ],
)
def test_wrong_options_are_explained(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("search", "gemm-512", *arguments) == 2
    assert message in capsys.readouterr().err


def test_no_feasible_mapping_says_what_would_admit_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "tiny.yaml"
    machine.write_text("extends: mm256\nlevels:\n  - {name: L1, capacity_words: 2}\n")
    for searcher in ((), ("--searcher", "random")):
        assert call("search", "gemm-512", "--accelerator", str(machine), *searcher) == 2
        error = capsys.readouterr().err
        assert "L1 holds 2 words" in error
        assert "A capacity of 3 words would admit one" in error
        assert "The mapping that comes closest needs just that: DRAM" in error
    machine.write_text("extends: mm256\nlevels:\n  - {name: L1, capacity_words: 3}\n")
    assert call("search", "gemm-512", "--accelerator", str(machine)) == 0


def test_where_no_proof_is_possible_a_heuristic_searches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("search", "gemm-512", "--accelerator", "mindmappings-released")
    assert call(*arguments, "--iterations", "500", "--json") == 0
    output = capsys.readouterr()
    assert "no proof is possible" in output.err
    found = json.loads(output.out)
    assert found["searcher"] == "structured"
    assert found["gap_to_optimum"] is None
    assert call(*arguments, "--searcher", "exact") == 2
    assert "overflow" in capsys.readouterr().err


def test_an_interrupted_proof_keeps_what_is_certain() -> None:
    options = ("--seconds", "600", "--json")
    status, out, err = interrupted("certainly within", "search", *LARGE, *options)
    assert status == 130, err
    found = json.loads(out)
    assert found["interrupted"] is True
    assert found["proven"] is False
    assert found["gap"] > 0
    assert found["lower_bound"] * (1 + found["gap"]) == pytest.approx(found["edp"])
    # The time that it took, not the one that it was given.
    assert found["seconds"] < found["wall_seconds"] < 500


def test_the_front_is_proven_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "front.png"
    found = answer(capsys, "pareto", "resnet-conv4", "--plot", str(plot))
    front = found["front"]
    assert plot.stat().st_size > 10_000
    cycles = [point["latency_cycles"] for point in front]
    energy = [point["energy_pj"] for point in front]
    assert cycles == sorted(set(cycles))
    assert energy == sorted(set(energy), reverse=True)
    # Both ends, and the least EDP, are what the single searches prove.
    for objective, value in (
        ("latency", cycles[0]),
        ("energy", energy[-1]),
        ("edp", min(point["edp"] for point in front)),
    ):
        single = answer(capsys, "search", "resnet-conv4", "--objective", objective)
        assert single["lower_bound"] == pytest.approx(value, rel=1e-12)
    assert call("pareto", "gemm-512") == 0
    assert "proven energy-latency front of gemm-512" in capsys.readouterr().out


def test_a_front_under_bandwidth_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """Its ends, and its least EDP, are what the single searches prove."""
    problem = ("gemm:M=64,N=64,K=64", "--accelerator", "mm256-bw")
    front = answer(capsys, "pareto", *problem)["front"]
    assert len(front) > 1
    for objective, key in (("latency", "latency_cycles"), ("energy", "energy_pj"), ("edp", "edp")):
        single = answer(capsys, "search", *problem, "--objective", objective)
        assert single["lower_bound"] == pytest.approx(min(p[key] for p in front), rel=1e-12)


def test_a_proof_without_a_bound_yet_speaks_of_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bound is 0 until the first one is made."""
    space = MapSpace(workload("gemm:M=4,N=4,K=4"), accelerator("mm256"))
    searcher = make("random", space)
    assert _so_far(searcher, 2.0, 1.0) == "100.00 % above the bound"
    monkeypatch.setattr(type(searcher), "lower_bound", 0.0)
    assert _so_far(searcher, 2.0, 1.0) == "100.00 % above the bound"
    monkeypatch.setattr(type(searcher), "lower_bound", 1.6)
    assert _so_far(searcher, 2.0, 1.0) == "certainly within 25.00 %"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_progress_fits_a_terminal_of_eighty_columns(
    objective: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("resnet-conv4", "--objective", objective, "--no-store")
    for options in (
        ("--searcher", "random", "--iterations", "20"),
        ("--seconds", "0.2", "--accelerator", "mm256-bw-bypass", "--keep", "L1=Weights"),
    ):
        assert call("search", *arguments, *options) == 0
        lines = [line for line in capsys.readouterr().err.splitlines() if " iterations" in line]
        assert lines
        assert max(map(len, lines)) <= 80, lines


def test_a_machine_on_which_nothing_costs_energy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "free.yaml"
    levels = "[{name: D, energy_pj: 0}, {name: L, energy_pj: 0, capacity_words: 64}]"
    machine.write_text(f"mac_energy_pj: 0\nlevels: {levels}\n")
    problem = ("gemm:M=4,N=4,K=4", "--accelerator", machine)
    found = answer(capsys, "search", *problem)
    assert (found["proven"], found["energy_pj"], found["normalised_edp"]) == (True, 0, 1)
    assert call("search", *problem, "--explain") == 0
    assert call("pareto", *problem) == 0
    assert "0.0 %" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--seed", "--iterations"])
def test_what_no_row_can_hold_is_refused_at_once(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("search", "gemm:M=4,N=4,K=4", option, 1 << 63) == 2
    assert f"{option}: expected less than 2^63" in capsys.readouterr().err
