"""Curves as IOHprofiler and COCO have them, and the command that writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commands import call
from sample_results import make_results, make_run

from mapspace.errors import ConfigError
from orchestrator.comparison.curve_formats import FORMATS, write_curves
from orchestrator.comparison.results import Bounds, Results
from orchestrator.comparison.results_files import save

LAYER = "gemm:M=8,N=8"
ENTRIES = [
    {"name": name, "label": label, "preset": None, "parameters": {}}
    for name, label in (("random", "random"), ("gradient", "gradient, one epoch"))
]


def results() -> Results:
    """A search that is scored from its first query on, and one from its third; optimum 8."""
    runs = [
        make_run("random", LAYER, 0, [(1, 0.1, 20.0), (4, 0.4, 10.0), (9, 0.9, 10.0)]),
        make_run("random", LAYER, 1, [(1, 0.1, 12.0), (9, 0.9, 8.0)]),
        make_run("gradient, one epoch", LAYER, 0, [(3, 0.3, 16.0), (9, 0.9, 8.0)]),
    ]
    made = make_results(
        name="few", kind="benchmark", accelerator="mm256", workloads=[LAYER],
        searchers=ENTRIES, iterations=9, seeds=[0, 1],
    )  # fmt: skip
    runs = [replace(run, best_code=(1, 2, 3)) for run in runs]
    return replace(made, runs=runs, bounds={LAYER: Bounds(4.0, 6.0, 8.0)})


def test_iohprofiler_by_hand(tmp_path: Path) -> None:
    write_curves(results(), "iohprofiler", tmp_path)
    place = tmp_path / "random"
    text = (place / "data_f1_gemm_M_8_N_8" / "IOHprofiler_f1_DIM3.dat").read_text()
    assert text == ("evaluations raw_y\n1 20\n4 10\n9 10\nevaluations raw_y\n1 12\n9 8\n")
    said = json.loads((place / "IOHprofiler_f1_gemm_M_8_N_8.json").read_text())
    assert said["function_name"] == LAYER
    assert said["algorithm"]["name"] == "random"
    assert {"proven_optimum": "8.0"} in said["experiment_attributes"]
    (scenario,) = said["scenarios"]
    assert (place / scenario["path"]).is_file()
    assert scenario["dimension"] == 3
    assert [run["best"]["evals"] for run in scenario["runs"]] == [4, 9]
    assert [run["instance"] for run in scenario["runs"]] == [1, 2]
    # A run begins with its first query.
    (other,) = (tmp_path / "gradient_one_epoch").rglob("*.dat")
    assert other.read_text() == "evaluations raw_y\n1 inf\n3 16\n9 8\n"


def test_coco_by_hand(tmp_path: Path) -> None:
    write_curves(results(), "coco", tmp_path)
    info = (tmp_path / "random" / "bbobexp_f1.info").read_text().splitlines()
    assert info[0].startswith("suite = 'few', funcId = 1, DIM = 3, Precision = 1.000e-08, algId")
    assert info[1:] == [
        f"% {LAYER}, Fopt: proven_optimum 8.0",
        "data_f1/bbobexp_f1_DIM3.dat, 1:9|2.5e-01, 2:9|0.0e+00",
    ]  # fmt: skip
    rows = (tmp_path / "random" / "data_f1" / "bbobexp_f1_DIM3.dat").read_text().splitlines()
    shares = [[*map(float, row.split()[:3])] for row in rows if not row.startswith("%")]
    assert shares == [[1, 0, 1.5], [4, 0, 0.25], [9, 0, 0.25], [1, 0, 0.5], [9, 0, 0]]
    assert sum(row.startswith("% f evaluations | g evaluations | ") for row in rows) == 2


def test_a_bound_is_called_one(tmp_path: Path) -> None:
    made = replace(results(), bounds={LAYER: Bounds(4.0, 6.0, None, 5.0)})
    write_curves(made, "coco", tmp_path)
    assert "Fopt: lower_bound 6.0" in (tmp_path / "random" / "bbobexp_f1.info").read_text()


def test_the_command_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    save(results(), tmp_path / "run")
    folders = [part for name in FORMATS for part in (f"--{name}", tmp_path / name)]
    assert call("report", tmp_path / "run", *folders) == 0
    assert capsys.readouterr().out.strip().endswith("report.html")
    for name in FORMATS:
        write_curves(results(), name, tmp_path / "again")
    # A method each, and in it a description of the one layer.
    assert len([*(tmp_path / "iohprofiler").glob("*/*.json")]) == 2
    assert len([*(tmp_path / "coco").glob("*/*.info")]) == 2


def test_names_that_would_be_one_file_are_refused(tmp_path: Path) -> None:
    made = results()
    alike = replace(make_run("random!", LAYER, 0, [(1, 0.1, 9.0)]), best_code=(1, 2, 3))
    entries = [*ENTRIES, {**ENTRIES[0], "label": "random!"}]
    made = replace(
        made, runs=[*made.runs, alike], experiment={**made.experiment, "searchers": entries}
    )
    with pytest.raises(ConfigError, match="coco: expected methods whose names differ"):
        write_curves(made, "coco", tmp_path)
