"""Timeloop's files at every command that takes a workload, a mapping or an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import answer, call

from costmodel import accelerator, workload
from costmodel.timeloop.reading import from_timeloop
from orchestrator.records.timeloop_experiment import experiment_of

Capture = pytest.CaptureFixture[str]
FILE = """
architecture:
  version: 0.3
  subtree:
    - name: system
      local:
        - {name: DRAM, class: DRAM, attributes: {word-bits: 8}}
        - {name: Buffer, class: SRAM, attributes: {entries: 64, word-bits: 8}}
        - {name: MAC, class: intmac, attributes: {datawidth: 8}}
problem: {shape: gemm-ABZ, M: 4, N: 2, K: 3}
mapping:
  - {target: DRAM, type: temporal, factors: M=2 N=1 K=1, permutation: MNK}
  - {target: Buffer, type: temporal, factors: M=2 N2 K0, permutation: KNM}
mapspace: [{target: Buffer, type: temporal, factors: "M<=2"}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "all.yaml"
    found.write_text(FILE)
    return found


def test_commands_of_a_workload(file: Path, capsys: Capture) -> None:
    found = answer(capsys, "search", "--timeloop", file, "--objective", "edp", "--no-store")
    space = answer(capsys, "space", "--timeloop", file, "--samples", 20)
    assert space["spaces"][0]["workload"] == "gemm-ABZ"
    front = answer(capsys, "pareto", "--timeloop", file)
    assert min(point["edp"] for point in front["front"]) == pytest.approx(found["edp"])
    both = answer(capsys, "bypass", "--timeloop", file)
    assert both["accelerator"] == "system"
    told = answer(capsys, "explain", "--timeloop", file)
    evaluated = answer(capsys, "evaluate", "--timeloop", file)
    assert told["energy_pj"] == pytest.approx(evaluated["energy_pj"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pareto", "--timeloop", "{file}", "--accelerator", "simba"), "--accelerator: Timeloop's"),
        (("pareto", "gemm-512", "{file}"), "Got unexpected extra argument"),
        (("pareto",), "Missing argument 'WORKLOAD'"),
        (("space", "gemm-512", "--lenient"), "--lenient is for --timeloop"),
        (("explain", "{file}", "--timeloop", "--record", 2), "--record is not for --timeloop"),
        (("explain", "{file}", "{file}"), "Got unexpected extra argument"),
        (("sweep", "sweep-buffers", "{file}"), "Got unexpected extra argument"),
        (("design", "x.yaml", "--timeloop"), "--timeloop needs files"),
    ],
)
def test_what_does_not_go_together(
    words: tuple[Any, ...], message: str, file: Path, capsys: Capture
) -> None:
    assert call(*(str(word).format(file=file) for word in words)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ({"kind": "sweep", "base": "mm256", "workloads": ["gemm-512"]}, "base"),
        ({"kind": "sweep", "accelerators": ["mm256"], "workloads": ["gemm-512"]}, "accelerators"),
        ({"kind": "benchmark", "accelerator": "mm256", "workloads": ["gemm-512"]}, "accelerator"),
    ],
)
def test_experiments_take_the_machine_and_the_problem(
    said: dict[str, Any], key: str, file: Path, tmp_path: Path
) -> None:
    source = tmp_path / "own.yaml"
    source.write_text(yaml.safe_dump({"name": "own", **said}))
    written, folder = experiment_of(str(source), [str(file)], tmp_path / "run", lenient=False)
    assert folder == tmp_path / "run"
    content = yaml.safe_load(Path(written).read_text())
    named = content[key][0] if key == "accelerators" else content[key]
    work, machine = from_timeloop(file).problem()
    assert accelerator(named) == machine
    assert workload(content["workloads"][0]).dimensions == work.dimensions
    assert str(workload(content["workloads"][0])) == str(work)
