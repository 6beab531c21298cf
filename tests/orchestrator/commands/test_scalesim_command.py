"""`mapspace search --scalesim`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import answer, call, printed

import mapspace as ms

CONFIGURATION = """[general]
run_name = mine
[architecture_presets]
ArrayHeight: 32
ArrayWidth: 32
IfmapSramSzkB: 512
FilterSramSzkB: 512
OfmapSramSzkB: 256
Dataflow: ws
[run_presets]
InterfaceBandwidth: CALC
"""
TOPOLOGY = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv, 9, 9, 3, 3, 128, 128, 1,
DP, 9, 9, 3, 3, 128, 1, 1,
"""  # noqa: E501
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "scale.cfg", tmp_path / "net.csv"]
    found[0].write_text(CONFIGURATION)
    found[1].write_text(TOPOLOGY)
    return found


def test_the_dataflows_stand_side_by_side(
    files: list[Path], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert call("search", "--scalesim", *files) == 0
    output = capsys.readouterr()
    assert output.err == f"changes no cycle: {files[0]}: run_name\n"
    assert all(len(line) <= 80 for line in output.out.splitlines())
    rows = {line.split("  ")[0]: line.split() for line in output.out.splitlines() if line}
    assert rows["Conv"] == ["Conv", "9,711", "20,591", "15,983", "os", "2.12"]
    assert rows["DP x 128"][3:] == ["18,048", "18,176", "24,192", "os", "1.01"]
    assert rows["total"] == ["total", "27,759", "38,767", "40,175", "os", "1.40"]
    flat = " ".join(output.out.split())
    assert (
        "Conv: weight stationary takes 2.12 times as long as output stationary. It needs 144 "
        "folds: computing 7,056 cycles, loading weights 4,608, filling and draining the array "
        "8,927. The other needs 8 folds: computing 9,216 cycles, filling and draining the array "
        "495."
    ) in flat


def test_json_says_the_same(files: list[Path], capsys: Capture) -> None:
    found = answer(capsys, "search", "--scalesim", *files)
    conv, apart = found["layers"]
    assert [one["cycles"] for one in conv["dataflows"].values()] == [9711, 20591, 15983]
    assert (conv["fastest"], conv["times"], apart["times"]) == ("os", 1, 128)
    for layer in found["layers"]:
        for one in layer["dataflows"].values():
            assert one["cycles"] == one["computing"] + one["loading"] + one["filling"]
    assert found["totals"] == {
        flow: sum(layer["times"] * layer["dataflows"][flow]["cycles"] for layer in found["layers"])
        for flow in ("os", "ws", "is")
    }
    assert (found["rows"], found["dataflow"], found["fastest"]) == (32, "ws", "os")


def test_the_fastest_mapping_is_proven_beside(
    files: list[Path], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = files[0].with_name("best.jsonl")
    text = printed(capsys, "search", "--scalesim", *files, "--prove", "--output", output)
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines() if line}
    # From 1, where SCALE-Sim counts from 0.
    assert rows["Conv"][-1] == "9,712"
    assert rows["DP x 128"][-1] == f"{128 * 142:,}"
    assert rows["total"][-1] == f"{9712 + 128 * 142:,}"
    flat = " ".join(text.split())
    assert "proven: whichever operand is stationary, no order and no tiles of the layers" in flat
    assert all(len(line) <= 80 for line in text.splitlines())
    records = [json.loads(line) for line in output.read_text().splitlines()]
    cycles = [one["result"]["cycles"] for one in ms.evaluate(records)]
    assert cycles == [9712, 142]
    found = answer(capsys, "search", "--scalesim", *files, "--prove", "--seconds", "9")
    for layer, record in zip(found["layers"], records, strict=True):
        fastest = layer["dataflows"][layer["fastest"]]["cycles"]
        assert layer["best"]["cycles"] == layer["best"]["lower_bound"] == fastest + 1
        assert layer["best"]["proven"]
        assert layer["best"]["record"]["mapping"] == record["mapping"]


def test_what_is_for_proofs_is_refused_without(files: list[Path], capsys: Capture) -> None:
    assert call("search", "gemm:M=4,N=4,K=4", "--prove") == 2
    assert "--prove is for --scalesim" in capsys.readouterr().err
    assert call("search", "--scalesim", *files, "--output", "x.jsonl") == 2
    assert "--output of --scalesim is for --prove" in capsys.readouterr().err
    notes = files[0].with_name("notes.txt")
    notes.write_text("mine")
    assert call("search", "--scalesim", *files, "--prove", "--output", notes) == 2
    assert "expected a new file" in capsys.readouterr().err


def test_dataflows_of_one_speed(files: list[Path], capsys: Capture) -> None:
    files[0].write_text(CONFIGURATION.replace("32", "1"))
    files[1].write_text("Layer, M, N, K,\nx, 1, 1, 1,\n")
    assert "x: " in printed(capsys, "search", "--scalesim", *files)
    assert call("search", "--scalesim", *files, "--prove") == 2
    assert "expected several elements, got one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [("--gap", "3%"), ("--network", "alexnet"), ("--timeloop",), ("--jointly",)]
)
def test_options_without_a_part_are_refused(
    option: tuple[str, ...], files: list[Path], capsys: Capture
) -> None:
    assert call("search", "--scalesim", *files, *option) == 2
    assert f"{option[0]} is not for --scalesim" in capsys.readouterr().err


def test_files_are_needed(files: list[Path], capsys: Capture) -> None:
    assert call("search", "--scalesim") == 2
    assert "--scalesim needs files: a configuration and a topology" in capsys.readouterr().err
    assert call("search", "--scalesim", files[0]) == 2
    assert "expected SCALE-Sim's configuration (.cfg) and its topology" in capsys.readouterr().err
    files[0].write_text(CONFIGURATION + "Speed: 3\n")
    assert call("search", "--scalesim", *files) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {files[0]}: run_presets.speed: unknown")
