"""What files are, whatever tool they are of; SCALE-Sim's topologies as networks."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import call, printed
from paths import GOLDEN, TESTS

from costmodel.networks.network import load_network
from costmodel.networks.scalesim_topology import read_scalesim_network
from mapspace.errors import ConfigError
from orchestrator.records.recognising import recognised

Capture = pytest.CaptureFixture[str]
PUBLIC = TESTS / "public"
SIMBA = PUBLIC / "21-cosa-simba"

FILES = {
    "memories: {dram: {size: 1}}\noperational_array: {}\n": "ZigZag's hardware, which is not read",
    "- name: default\n  core_allocation: [1]\n": "ZigZag's mapping, which is not read",
    "[general]\nrun_name = x\n": "SCALE-Sim's configuration",
    "K,C,Y,X,R,S\n1,2,3,4,5,6\n": "a table, not SCALE-Sim's topology",
    "{{include_text('x')}}\nproblem: {}\n": "a template of Timeloop's problem",
    "shape: {name: x}\n": "a shape of Timeloop's",
    "kind: sweep\n": "an experiment",
    "workload: gemm\naccelerator: mm256\nmapping: []\n": "a mapping record",
    "a: 1\n": "not known (at its top: a)",
}


@pytest.mark.parametrize(("text", "what"), FILES.items())
def test_what_is_not_imported_is_named(
    text: str, what: str, tmp_path: Path, capsys: Capture
) -> None:
    suffix = ".cfg" if text.startswith("[") else ".csv" if text.startswith("K,") else ".yaml"
    file = tmp_path / f"file{suffix}"
    file.write_text(text)
    assert recognised(file).what == what
    assert call("import", file) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {file}: this is {what}: ")


def test_files_of_all_tools_at_once(capsys: Capture) -> None:
    files = [
        GOLDEN / "zigzag-imports" / "resnet18.yaml",
        GOLDEN / "maestro-imports" / "vgg16_model.m",
        GOLDEN / "maestro-imports" / "accelerator_1.m",
        GOLDEN / "accelforge-imports" / "simple.yaml",
        GOLDEN / "accelforge-imports" / "vgg16.yaml",
        *(SIMBA / name for name in ("arch.yaml", "mapspace.yaml", "fc.yaml")),
    ]
    text = printed(capsys, "check", *files, "--size", "BATCH_SIZE=1")
    flat = " ".join(text.split())
    for said in (
        "ZigZag's workload",
        "21 layers, 9 of them distinct: 1,968,214,016 multiply-accumulates",
        "MAESTRO's hardware",
        "AccelForge's architecture",
        "Timeloop's 3 files together machine DRAM x 1, GlobalBuffer x 1, InputBuffer x",
        "problem R=1 S=1 P=1 Q=1 C=2,048 K=1,000 N=1",
        "mapping none: search",
        "no effect 11: num-ports; num-banks; network-word-bits",
    ):
        assert said in flat, said
    assert "refused" not in text


def test_what_is_refused_is_said_and_what_would_be_left_out(capsys: Capture) -> None:
    dosa = PUBLIC / "15-dosa-shapes"
    assert call("check", dosa / "gemmini-arch.yaml", dosa / "conv_transpose_0.yaml") == 2
    flat = " ".join(capsys.readouterr().out.split())
    assert "refused" in flat
    assert "problem.shape: missing" in flat
    assert flat.endswith("not modelled problem.name")


HEAD = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter,"


def test_a_topology_of_scale_sim_is_a_network(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "net.csv"
    # SCALE-Sim rounds the output up: (12 - 3 + 2) / 2 = 5.5.
    file.write_text(
        f"{HEAD} Strides,\nConv1, 12, 9, 3, 1, 4, 8, 2,\n\nFC, 1, 1, 1, 1, 64, 10, 1,\n"
    )
    written = tmp_path / "network.yaml"
    assert call("import", file, "-o", written) == 0
    assert "read: net.csv: SCALE-Sim's topology: 2 layers, 2 of them" in capsys.readouterr().err
    (conv, _), (full, _) = load_network(written)[1]
    assert conv.dimensions == {"N": 1, "K": 8, "C": 4, "P": 5, "Q": 6, "R": 1, "S": 3}
    assert full.macs == 640
    file.write_text("Layer,M,N,K,\nfirst,4,5,6,\n")
    (layer,) = read_scalesim_network(file).layers
    assert layer.content == {"gemm": {"M": 4, "N": 5, "K": 6}}


def test_a_configuration_of_scale_sim_is_checked(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "scale.cfg"
    keys = "ArrayHeight=4\nArrayWidth=8\nIfmapSramSzkB=1\nFilterSramSzkB=1\nOfmapSramSzkB=1\n"
    file.write_text(f"[general]\nrun_name=x\n[architecture_presets]\n{keys}Dataflow=is\n")
    text = printed(capsys, "check", file)
    assert "4 x 8 elements, dataflow is" in text
    assert "general.run_name" in text
    assert f"mapspace search --scalesim {file} topology.csv" in text
    file.write_text(f"[architecture_presets]\n{keys}")
    assert call("check", file) == 2
    assert "missing: Dataflow" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("Conv1, 12, 9, 3, 1, 4, 0, 2,", "line 2: filters: expected a whole number of at least 1"),
        ("Conv1, 12, 9, 3, 1, 4", "line 2: filters: expected a whole number"),
        ("Conv1, 2, 9, 3, 1, 4, 1, 2,", "line 2: a filter of 3 x 1 exceeds 2 x 9"),
    ],
)
def test_topologies_that_are_none(row: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "net.csv"
    file.write_text(f"{HEAD} Strides,\n{row}\n")
    with pytest.raises(ConfigError, match=message):
        read_scalesim_network(file)
