"""Timeloop's files at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import answer, call, printed
from paths import GOLDEN

import mapspace as ms
from costmodel.timeloop.reading import from_timeloop

SETS = GOLDEN / "timeloop-imports"


def inputs(name: str) -> list[str]:
    return [str(path) for path in sorted((SETS / name / "input").iterdir())]


Capture = pytest.CaptureFixture[str]


def test_evaluate_prints_one_object_in_the_keys_of_records(capsys: Capture) -> None:
    result = answer(capsys, "evaluate", "--timeloop", *reversed(inputs("ispass04-cp")))
    told = json.loads((SETS / "ispass04-cp" / "expected.json").read_text())["ert"]
    assert result["cycles"] == told["cycles"]
    assert result["energy_pj"] == pytest.approx(told["energy_pj"], rel=1e-9)
    assert result["utilization"] == told["utilization"]


def test_evaluate_reads_libconfig_and_prints_a_table(capsys: Capture) -> None:
    text = printed(capsys, "evaluate", "--timeloop", *inputs("nv-model-sample-cfg"))
    assert "100,352 cycles" in text
    assert "GlobalBuffer  Weights" in text


def test_what_has_no_effect_is_said(capsys: Capture) -> None:
    assert call("evaluate", "--timeloop", *inputs("ispass04-cp")) == 0
    assert "left out: " in capsys.readouterr().err


def test_what_timeloop_rejects_ends_with_2(tmp_path: Path, capsys: Capture) -> None:
    mapping = tmp_path / "map.yaml"
    mapping.write_text("mapping: [{target: Buffer, type: temporal, factors: R=2 P=16}]\n")
    files = [file for file in inputs("ispass00-conv1d-1level") if "map" not in Path(file).name]
    assert call("evaluate", "--timeloop", *files, mapping) == 2
    assert "the factors of R multiply to 2 (2), but its size is 3." in capsys.readouterr().err


def test_the_best_mapping_is_proven_and_written_as_timeloops(
    tmp_path: Path, capsys: Capture
) -> None:
    best = tmp_path / "best.timeloop.yaml"
    files = inputs("nv-sample")
    found = answer(capsys, "search", "--timeloop", *files, "--output", best)
    assert found["proven"]
    assert found["objective"] == "energy", "the first metric of the files' mapper"
    told = json.loads((SETS / "nv-sample" / "expected.json").read_text())["pat"]
    assert found["energy_pj"] < told["energy_pj"], "a short run of Timeloop's mapper found more"
    result = answer(capsys, "evaluate", "--timeloop", *files, best)
    assert result["energy_pj"] == pytest.approx(found["energy_pj"], rel=1e-12)
    assert result["cycles"] == found["latency_cycles"]


@pytest.mark.parametrize(
    ("mapper", "objective"),
    [
        ("{optimization-metric: delay}", "latency"),
        ("{optimization_metrics: [energy, delay], optimization_metric: []}", "energy"),
        ("{optimization_metrics: [], num_threads: 4}", "edp"),
    ],
)
def test_the_metric_is_read_in_both_spellings(
    mapper: str, objective: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "mapper.yaml"
    file.write_text(f"mapper: {mapper}\n")
    files = [path for path in inputs("ispass04-cp") if ".map." not in path]
    assert answer(capsys, "search", "--timeloop", *files, file)["objective"] == objective


@pytest.mark.parametrize(
    ("mapper", "status", "said"),
    [
        ("{optimization-metricz: [delay]}", 2, "did you mean optimization-metric"),
        ("{timeout: 5, foo: 3}", 0, "says how Timeloop searches: mapper.timeout\n"),
        ("{timeout: 5, foo: 3}", 0, "mapper.foo\n"),
    ],
)
def test_keys_of_the_mapper_are_known_or_said(
    mapper: str, status: int, said: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "mapper.yaml"
    file.write_text(f"mapper: {mapper}\n")
    files = [path for path in inputs("ispass04-cp") if ".map." not in path]
    assert call("search", "--timeloop", *files, file) == status
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "--timeloop"), "--timeloop needs files"),
        (("search", "gemm-512", "--lenient"), "--lenient is for --timeloop"),
        (("search", "gemm-512", "gemm-1024"), "unexpected extra argument"),
        (("evaluate", "--model", "loopnest", "a.jsonl", "b.jsonl"), "unexpected extra argument"),
    ],
)
def test_misuse_is_one_line(arguments: tuple[str, ...], message: str, capsys: Capture) -> None:
    assert call(*arguments) == 2
    assert message in capsys.readouterr().err


def test_from_python() -> None:
    read = ms.from_timeloop(inputs("eyeriss-like-alexnet1"))
    assert read.record == from_timeloop(inputs("eyeriss-like-alexnet1")).record
    work, machine = read.problem()
    assert work.macs == 105_415_200
    assert machine.level_names[1] == "shared_glb"
