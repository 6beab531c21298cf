"""`mapspace import` at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import call
from paths import GOLDEN, TESTS

from costmodel.networks.network import load_network

Capture = pytest.CaptureFixture[str]


def test_a_workload_of_zigzag_becomes_a_network(tmp_path: Path, capsys: Capture) -> None:
    network = tmp_path / "network.yaml"
    source = GOLDEN / "zigzag-imports" / "resnet18.yaml"
    assert call("import", source, "-o", network) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "not used: " in told.err
    assert "no multiply-accumulates: layer1 (Pooling) moves " in told.err
    name, layers = load_network(str(network))
    assert (name, len(layers), sum(count for _, count in layers)) == ("resnet18", 9, 21)


def test_a_network_of_maestro_without_what_is_not_modelled(capsys: Capture) -> None:
    source = GOLDEN / "maestro-imports" / "UNet_model.m"
    assert call("import", source) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "UNet_model.m: TRCONV1: Type: TRCONV is not read" in line
    assert call("import", "--lenient", source) == 0
    told = capsys.readouterr()
    assert told.err.count("left out: ") == told.out.count("# left out: ") == 4


@pytest.mark.parametrize("name", ["none.m", "none.yaml", "other.json"])
def test_files_that_are_none(name: str, tmp_path: Path, capsys: Capture) -> None:
    assert call("import", tmp_path / name) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line


def test_mappings_of_maestro_are_scored_and_written(tmp_path: Path, capsys: Capture) -> None:
    records = tmp_path / "records.jsonl"
    files = GOLDEN / "maestro-imports"
    source, hardware = files / "example.m", files / "accelerator_1.m"
    assert call("import", source, "--hardware", hardware, "-o", records) == 0
    assert call("evaluate", "--model", "maestro", records) == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["result"]["macs"] == 64 * 128 * 9 * 222 * 222
    again = tmp_path / "again.m"
    assert call("export", records, "--as", "maestro", "--output", again) == 0
    assert again.read_text().startswith("// num_pes: 256\nNetwork N {\n Layer CONV1 {")
    assert call("import", again, "--hardware", hardware) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(records.read_text())


def test_layers_are_written_for_maestro(capsys: Capture) -> None:
    assert call("export", "gemm:M=4,N=3,K=2", "--as", "maestro") == 0
    assert "Type: GEMM\n  Dimensions { K: 2, M: 4, N: 3 }\n" in capsys.readouterr().out
    assert call("export", "mttkrp:I=2,J=2,K=2,L=2", "--as", "maestro") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "of family mttkrp" in line


def test_an_architecture_of_accelforge_becomes_a_machine(tmp_path: Path, capsys: Capture) -> None:
    machine = tmp_path / "machine.yaml"
    source = TESTS / "benchmarks" / "peers" / "accelforge" / "nvdla.yaml"
    assert call("import", source) == 2
    assert "--word-bits is missing: bits of a value" in capsys.readouterr().err
    assert call("import", source, "--word-bits", "8", "-o", machine) == 0
    assert call("search", "gemm:M=64,N=64,K=64", "--accelerator", machine, "--json") == 0
    assert json.loads(capsys.readouterr().out)["proven"]


def test_a_mapping_of_accelforge_is_evaluated(tmp_path: Path, capsys: Capture) -> None:
    peers = TESTS / "benchmarks" / "peers"
    answers = map(json.loads, (peers / "accelforge" / "answers.jsonl").read_text().splitlines())
    line = next(a for a in answers if (a["machine"], a["layer"]) == ("nvdla", "depthwise"))
    mapping, record = tmp_path / "mapping.txt", tmp_path / "record.jsonl"
    mapping.write_text(line["mapping"])
    machine, layer = peers / "accelforge" / "nvdla.yaml", peers / "layers" / "depthwise.yaml"
    given = ("--architecture", machine, "--word-bits", "8", "--workload", layer)
    assert call("import", mapping, *given, "-o", record) == 0
    assert call("evaluate", "--model", "loopnest", record) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert result["cycles"] == pytest.approx(line["latency_s"] * 1e9, rel=1e-6)
    assert call("import", mapping, *given[:2]) == 2
    assert "--architecture and --workload together" in capsys.readouterr().err
