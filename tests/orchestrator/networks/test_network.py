"""`mapspace search --network`: layers, totals, records, what fails and what is interrupted."""

from __future__ import annotations

import io
import json
import math
import os
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from commands import call, interrupted

import mapspace as ms
from costmodel.networks.moves import Moved
from costmodel.networks.network import load_network
from costmodel.problems.workloads import network, network_names
from mapspace.errors import ConfigError
from mapspace.strict_yaml import load_yaml
from orchestrator.answers.request import Request
from orchestrator.networks.result import NetworkResult, _totals
from orchestrator.networks.search import search_network
from orchestrator.runs.ray_runtime import completed

# 1.3e15 tilings: no machine that runs tests proves it within seconds.
LARGE = "cnn:N=64,K=1440,C=720,P=120,Q=60,R=4,S=4"
# Two distinct layers, six in all.
TINY = """
name: tiny
layers:
  - "gemm:M=8,N=4,K=2"
  - {gemm: {M: 4, N: 4, K: 4}, name: square, count: 2}
  - {workload: "gemm:M=8,N=4,K=2", count: 3, name: again}
"""
# Energies that count: DRAM's words and MACs. Everything fits into the buffers.
UNIT_MACHINE = """
name: unit
levels:
  - {name: DRAM, energy_pj: 1}
  - {name: L2, capacity_words: 4096, energy_pj: 0, fanout: 4}
  - {name: L1, capacity_words: 4096, energy_pj: 0}
mac_energy_pj: 10
"""


def untimed(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what differs from run to run: times, and what fitted into them."""
    varying = ("seconds", "wall_seconds", "iterations", "true_queries")
    return {key: value for key, value in row.items() if key not in varying}


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert call("search", *arguments, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def search(
    source: Path | str,
    *,
    accelerator: str = "mm256",
    here_seconds: float = 60.0,
    stream: io.StringIO | None = None,
    **changes: Any,
) -> NetworkResult:
    defaults: dict[str, Any] = {
        "searcher": None,
        "seconds": None,
        "iterations": None,
        "objective": "edp",
        "seed": 0,
    }
    request = Request(str(source), accelerator, **{**defaults, **changes})
    return search_network(request, stream or io.StringIO(), here_seconds=here_seconds)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


def test_equal_layers_are_merged_and_counted(tiny: Path) -> None:
    name, layers = load_network(str(tiny))
    assert name == "tiny"
    assert [(layer.name, count) for layer, count in layers] == [
        ("gemm:M=8,N=4,K=2", 4),
        ("square", 2),
    ]
    for preset in network_names():
        assert load_network(preset.upper()) == (preset, network(preset))
    # Presets, and workloads' files beside the network's.
    (tiny.parent / "beside.yaml").write_text("gemm: {M: 3, N: 4, K: 5}")
    tiny.write_text("layers: [beside.yaml, resnet50-conv1, {workload: ResNet50_conv1, count: 2}]")
    assert [(layer.name, count) for layer, count in load_network(str(tiny))[1]] == [
        ("beside", 1),
        ("resnet50-conv1", 3),
    ]


def test_a_network_may_be_the_content_of_a_file(tiny: Path) -> None:
    content = load_yaml(tiny)
    assert load_network(content) == load_network(tiny)
    unnamed = {"layers": content["layers"]}
    found = ms.search_network(unnamed, accelerator="mm256", store=False)
    assert (found.network, len(found.layers)) == ("network", 2)
    with pytest.raises(ConfigError, match=r"^network: layer: unknown key; did you mean layers"):
        load_network({"layer": content["layers"]})


def test_totals_are_those_counted_by_hand(tiny: Path, tmp_path: Path) -> None:
    machine = tmp_path / "unit.yaml"
    machine.write_text(UNIT_MACHINE)
    found = search(tiny, accelerator=str(machine)).to_dict()
    # 64 MACs of 10 pJ each on 4 elements; everything fits, so DRAM moves each tensor once:
    # 8x2 + 2x4 + 8x4 = 56 words and 4x4 three times = 48 words.
    first, square = found["layers"]
    assert (first["energy_pj"], first["latency_cycles"], first["count"]) == (696, 16, 4)
    assert (square["energy_pj"], square["latency_cycles"], square["count"]) == (688, 16, 2)
    totals = found["totals"]
    assert totals["energy_pj"] == 4 * 696 + 2 * 688
    assert totals["latency_cycles"] == 6 * 16
    assert totals["edp"] == totals["energy_pj"] * totals["latency_cycles"]
    assert totals["utilisation"] == 1
    assert (totals["layers"], totals["distinct_layers"], totals["proven_layers"]) == (6, 2, 2)
    assert totals["complete"] is True
    # No mappings have less than the squared sum of the roots of the layers' own least EDPs.
    bound = (4 * math.sqrt(696 * 16) + 2 * math.sqrt(688 * 16)) ** 2
    assert totals["lower_bound"] == pytest.approx(bound)
    assert 0 < totals["gap"] == pytest.approx(totals["edp"] / bound - 1)
    assert totals["proven"] is False
    # Sums of least energies are least; so is the EDP of one layer that is repeated.
    energy = search(tiny, accelerator=str(machine), objective="energy").to_dict()["totals"]
    assert (energy["proven"], energy["gap"]) == (True, 0)
    assert energy["energy_pj"] == energy["lower_bound"] == 4160
    tiny.write_text('layers: ["gemm:M=8,N=4,K=2", {workload: "gemm:M=8,N=4,K=2", count: 2}]')
    repeated = search(tiny, accelerator=str(machine)).to_dict()["totals"]
    assert repeated["proven"] is True
    assert repeated["edp"] == repeated["lower_bound"] == 3 * 696 * 3 * 16


def test_every_layer_is_what_its_own_search_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "alexnet.jsonl"
    found = answer(capsys, "--network", "alexnet", "--output", str(output))
    assert (found["network"], found["accelerator"]) == ("alexnet", "mm256")
    assert found["interrupted"] is False
    for row in found["layers"]:
        alone = answer(capsys, row["workload"])
        assert row["failure"] is None
        assert row["standing"] == "proven"
        assert set(row) - set(alone) == {"count", "standing", "failure"}
        assert {key: row[key] for key in untimed(alone)} == untimed(alone)
    # The records keep the layer's name and count, and score to the same figures.
    assert call("evaluate", "--model", "loopnest", str(output)) == 0
    scored = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for row, record in zip(found["layers"], scored, strict=True):
        assert (record["layer"], record["count"]) == (row["workload"], row["count"])
        assert record["result"]["energy_pj"] == row["energy_pj"]
        assert record["result"]["cycles"] == row["latency_cycles"]


def test_ray_and_this_process_find_the_same(tiny: Path, ray_runtime: None) -> None:
    here, there = search(tiny).to_dict(), search(tiny, here_seconds=0.0).to_dict()
    assert list(map(untimed, here["layers"])) == list(map(untimed, there["layers"]))
    assert here["totals"] == there["totals"]


def test_another_searcher_on_ray(tiny: Path, ray_runtime: None) -> None:
    options = {"searcher": "random", "iterations": 200, "seed": 3}
    first, second = (search(tiny, **options).to_dict() for _ in range(2))
    assert [row["searcher"] for row in first["layers"]] == ["random", "random"]
    assert [row["iterations"] for row in first["layers"]] == [200, 200]
    assert first["totals"] == second["totals"]
    # Bounded by a proof, as a single search is.
    assert all(row["gap_to_optimum"] is not None for row in first["layers"])


def test_where_no_proof_is_possible_the_best_known_is_a_row(
    tiny: Path, ray_runtime: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("search", "--network", str(tiny), "--accelerator", "mindmappings-released")
    assert call(*arguments, "--iterations", "300") == 0
    text = capsys.readouterr().out
    assert text.count("best known\n") == 2
    assert "no proof is possible: " in text
    assert call(*arguments, "--searcher", "exact") == 2


def test_a_layer_without_a_mapping_is_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, machine = tmp_path / "mixed.yaml", tmp_path / "small.yaml"
    # A word of each tensor at a time: four in the first layer, three in the other.
    wide = "{name: wide, dimensions: {i: 4}, output: Z, tensors: {A: [i], B: [i], C: [i], Z: [i]}}"
    source.write_text(f'layers:\n  - {wide}\n  - "gemm:M=8,N=4,K=2"\n')
    machine.write_text("extends: mm256\nlevels:\n  - {name: L1, capacity_words: 3}\n")
    arguments = ("search", "--network", str(source), "--accelerator", str(machine))
    assert call(*arguments) == 1
    output = capsys.readouterr()
    assert "Error: 1 of 2 layers failed" in output.err.splitlines()[-1]
    lines = output.out.splitlines()
    row = next(index for index, line in enumerate(lines) if line.startswith("wide"))
    assert lines[row].endswith("no mapping")
    assert "L1 holds 3 words" in lines[row + 1]
    assert "of the layers above that have a mapping" in output.out
    assert max(map(len, lines)) <= 100
    assert call(*arguments, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert "L1 holds 3 words" in found["layers"][0]["failure"]
    assert found["totals"]["complete"] is False
    assert found["totals"]["edp"] == found["layers"][1]["edp"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "layer: [gemm-512]",
            "layer: unknown key; did you mean layers? Known keys: name, layers, left_out.",
        ),
        ("layers: []", "layers: expected 1 or more entries"),
        ("layers: [7]", "layers[0]: expected a preset's name, inline text"),
        (
            "layers: [{workload: gemm-512, name: a}, {workload: gemm-1024, input: b}]",
            "layers[gemm-1024].input: expected the name of a layer before it, got 'b'",
        ),
        (
            "layers: [{workload: {gemm: {M: 1}}}]",
            "what that holds stands in the entry itself: {gemm: ..., count: 1}",
        ),
        ("layers: [gemm-51]", "layers[0]: Unknown workload 'gemm-51'; did you mean gemm-512"),
        ('layers: ["conv:K=1"]', "layers[0]: conv:K=1: expected one of cnn, conv1d, gemm, mttkrp"),
        (
            "layers: [{gem: {M: 1}}]",
            "layers[0].gem: unknown layer type; did you mean gemm? Known types: cnn, ",
        ),
        (
            "layers: [gemm-512, {name: a, lstm: {M: 1}}]",
            "layers[a].lstm: unknown layer type. Known types: cnn, conv1d, gemm, mttkrp, or",
        ),
        ("layers: [{tensor: {A: [i]}}]", "layers[0].tensor: unknown key; did you mean tensors?"),
        ("layers: [{name: a, gemm: {M: 1, N: 2}}]", "layers[a].gemm: missing K"),
        ("layers: [{workload: gemm-512, count: 0}]", "layers[0].count: expected"),
        ("layers: [{count: 2}]", "layers[0]: expected either one of cnn"),
        ("layers: [{workload: gemm-512, gemm: {M: 1, N: 1, K: 1}}]", "not both"),
        (
            "layers: [{workload: gemm-512, name: a}, {workload: gemm-1024, name: a}]",
            "two different layers are called 'a'",
        ),
    ],
)
def test_a_wrong_file_is_one_line(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    assert call("search", "--network", str(path)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"Error: {path}: ")
    assert message in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'WORKLOAD' (or --network)"),
        (("gemm-512", "--network", "alexnet"), "either WORKLOAD or --network, got both"),
        (("--network", "resnet5"), "Unknown network 'resnet5'; did you mean resnet50"),
        (("--network", "absent.yaml"), "absent.yaml: cannot be read"),
        (("--network", "alexnet", "--searcher", "luck"), "Unknown searcher 'luck'"),
        (("--network", "alexnet", "--seed", "-1"), "-1 is not in the range x>=0"),
        (("--network", "alexnet", "--seconds", "nan"), "above 0 seconds"),
        (("--network", "alexnet", "--top", "2"), "--top is for a single WORKLOAD"),
        (("--network", "alexnet", "--output", "no/such/file"), "does not exist"),
    ],
)
def test_wrong_options_are_one_line(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("search", *arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err.splitlines()[-1]


def test_an_interruption_prints_what_is_finished(tmp_path: Path) -> None:
    source = tmp_path / "slow.yaml"
    source.write_text(f'layers: ["gemm:M=8,N=4,K=2", "{LARGE}", "{LARGE.replace("120", "240")}"]')
    options = ("--network", str(source), "--seconds", "600")
    status, out, err = interrupted("1 of 3 layers", "search", *options)
    assert status == 130, err
    assert "interrupted" in err.splitlines()[-1]
    assert "layers are missing from the totals" in out
    assert any(line.startswith("gemm:M=8,N=4,K=2") for line in out.splitlines())
    assert "total" in out


def test_a_worker_that_keeps_dying_is_an_answer(ray_runtime: None) -> None:
    def work(number: int) -> int:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * number

    assert sorted(completed(work, [0, 1, 2], retries=0)) == [(0, 0), (1, None), (2, 20)]
    assert list(completed(work, [0, 2], stop=lambda: True)) == []


def test_an_interruption_on_ray_keeps_what_is_finished(tmp_path: Path, ray_runtime: None) -> None:
    source = tmp_path / "slow.yaml"
    slow = [f"cnn:N=64,K=720,C=720,P={width},Q=60,R=4,S=4" for width in (60, 120)]
    source.write_text(json.dumps({"layers": ["gemm:M=8,N=4,K=2", *slow]}))

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if "1 of 3 layers" in text:
                os.kill(os.getpid(), signal.SIGINT)
            return super().write(text)

    found = search(source, here_seconds=0.0, seconds=60.0, stream=Stream())
    assert found.interrupted
    assert found.to_dict()["unfinished"] == slow
    assert [row["standing"] for row in found.to_dict()["layers"]] == ["proven"]
    assert found.to_dict()["totals"]["complete"] is False
    assert found.failure == "interrupted: 2 of 3 layers are missing from the totals."


def test_a_product_of_sums_with_moves_is_not_proven() -> None:
    """The mapping that is the best by itself need not be the best beside what moves cost."""
    result = ms.search("gemm:M=4,N=4,K=4", "mm256", store=False)
    still, moving = Moved(Fraction(0), 0), Moved(Fraction(5), 7)
    for objective, moves, proven in (
        ("edp", still, True), ("edp", moving, False), ("ed2p", moving, False),
        ("energy", moving, True), ("latency", moving, True),
    ):  # fmt: skip
        found = [(1, ms.search("gemm:M=4,N=4,K=4", "mm256", objective=objective, store=False))]
        assert _totals(objective, found, moves, complete=True).overall.proven == proven
    assert not _totals("edp", [(1, result), (1, result)], still, complete=True).overall.proven
