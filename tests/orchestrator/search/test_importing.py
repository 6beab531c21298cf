"""`mapspace import` at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import call
from paths import GOLDEN

from costmodel.networks import load_network

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
