"""Studies of training: which runs they are, and their report."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml
from paths import EXPERIMENTS

import searchers
import surrogate
from costmodel import LoopNestModel, MapSpace, accelerator, workload
from costmodel.machines.bounds import algorithmic_minimum
from mapspace.errors import ConfigError
from orchestrator.report.page import write_page
from orchestrator.runs.command import run_experiment
from orchestrator.runs.experiments import load_experiment
from orchestrator.training import study_report
from orchestrator.training.study import StudyExperiment, run_training_study
from orchestrator.training.study_config import TrainingStudy
from surrogate.options import CurvePoint, read_curve


def content(data: Path, **changes: object) -> dict[str, object]:
    return {
        "kind": "training-study",
        "name": "test",
        "description": "A test.",
        "training": {
            "data": str(data),
            "views": 4096,
            "held_out_problems": 5,
            "checkpoint_views": 2048,
        },
        "losses": ["huber", "mae"],
        "rows": [2000, 4000],
        **changes,
    }


def test_the_most_rows_meet_every_loss_and_the_first_loss_all_rows(small_data: Path) -> None:
    changes = {"losses": ["mse", "huber", "mae"], "rows": [1000, 2000, 4000]}
    study = TrainingStudy.model_validate(content(small_data, **changes))
    trainings = study.trainings()
    assert list(trainings) == ["mse-4000", "huber-4000", "mae-4000", "mse-2000", "mse-1000"]
    assert [(t.loss, t.rows) for t in trainings.values()] == [
        ("mse", 4000),
        ("huber", 4000),
        ("mae", 4000),
        ("mse", 2000),
        ("mse", 1000),
    ]
    assert {training.views for training in trainings.values()} == {4096}


def test_shipped_studies_are_valid_and_of_the_papers_sizes() -> None:
    study = load_experiment(EXPERIMENTS / "training-study.yaml", TrainingStudy)
    assert study.rows == (1_000_000, 2_000_000, 5_000_000, 10_000_000)
    assert set(study.losses) == {"huber", "mse", "mae"}
    assert study.training.recipe == "paper"
    assert study.training.views is None  # the recipe's hundred epochs
    small = load_experiment(EXPERIMENTS / "training-study-small.yaml", TrainingStudy)
    assert small.training.device == "cpu"
    assert [rows / small.rows[-1] for rows in small.rows] == [0.1, 0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kind": "sweep"},
            "kind: expected train or train-machines or training-study, got 'sweep'",
        ),
        ({"training": {"data": "d", "loss": "mae"}}, "training.loss: varies"),
        ({"training": {"data": "d", "rows": 5}}, "training.rows: varies"),
        ({"training": {"data": "d", "viewz": 5}}, "viewz: unknown key"),
        ({"losses": ["huber", "huber"]}, "losses: expected different ones"),
        ({"losses": ["l1"]}, "'huber', 'mse' or 'mae'"),
        ({"losses": []}, "losses"),
        ({"rows": [4000, 2000]}, "rows: expected ascending"),
        ({"search": {"workloads": []}}, "workloads"),
    ],
)
def test_a_wrong_study_is_one_clear_line(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content(tmp_path, **changes)))
    with pytest.raises(ConfigError, match=message) as caught:
        run_experiment(str(path), tmp_path / "out", command="train")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_what_a_later_training_needs_is_found_before_the_first(
    small_data: Path, tmp_path: Path
) -> None:
    for changes, message in (
        ({"rows": [2000, 5000]}, "at most the 4000 rows"),
        ({"rows": [1000, 4000], "training": {"data": str(small_data)}}, "held_out_problems"),
        ({"search": {"workloads": ["mttkrp-0"]}}, "got mttkrp-0 with I J K L"),
    ):
        study = TrainingStudy.model_validate(content(small_data, **changes))
        with pytest.raises(ConfigError, match=message):
            run_training_study(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _descended(folder: Path, seed: int) -> float:
    """Normalised EDP by the paper's method through a surrogate, as the page on training has it."""
    space = MapSpace(workload("resnet-conv4"), accelerator("mm256"))
    evaluate = searchers.Evaluator(LoopNestModel(), space, iterations=100)
    predictor = surrogate.load(folder)
    descent = searchers.make("gradient", space, seed=seed, method="descent", predictor=predictor)
    descent.run(evaluate)
    return evaluate.best_loss / algorithmic_minimum(space.workload, space.accelerator).edp


@pytest.mark.slow
def test_a_study_trains_tries_out_and_reports(
    small_data: Path, tmp_path: Path, ray_runtime: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = {"workloads": ["resnet-conv4"], "iterations": 100, "seeds": 2}
    study = TrainingStudy.model_validate(content(small_data, search=search))
    report = tmp_path / "study" / StudyExperiment.page
    tables = []
    monkeypatch.setattr(
        study_report,
        "write_page",
        lambda document, *paths: tables.append(document) or write_page(document, *paths),
    )

    def run() -> str:
        outcomes = run_training_study(study, report.parent)
        StudyExperiment(study).draw(outcomes, report.parent)
        return report.read_text()

    run()
    (table,) = tables[-1].sections[0].tables
    assert [row[:3] for row in table.cells()] == [
        ["huber", "4,000", "4,096"],
        ["mae", "4,000", "4,096"],
        ["huber", "2,000", "4,096"],
    ]
    column = table.header.index("normalised EDP found")
    for row, name in zip(table.cells(), study.trainings(), strict=True):
        folder = tmp_path / "study" / name
        assert [point.views for point in read_curve(folder)] == [2048, 4096]
        assert f'href="{name}/training.html"' in report.read_text()
        assert (folder / "training.html").exists()
        found = json.loads((folder / "search.json").read_text())["normalised_edp"]["resnet-conv4"]
        assert found == [_descended(folder, seed) for seed in range(2)]
        assert float(row[column]) == pytest.approx(math.sqrt(found[0] * found[1]), abs=1e-3)
    assert (report.parent / "training.png").read_bytes()[:4] == b"\x89PNG"
    # Again: nothing is trained or searched anew.
    before = {path: path.stat().st_mtime_ns for path in report.parent.glob("*/*")}
    text = report.read_text()
    assert run() == text
    assert {path: path.stat().st_mtime_ns for path in report.parent.glob("*/*")} == before


def test_a_training_with_one_checkpoint_has_dots() -> None:
    from orchestrator.report.figure_style import plain_figure
    from orchestrator.training.surrogate_report import draw_loss, draw_ranking

    kept = {"views": 1000, "seconds": 1.0, "rmse": 0.1, "loss": 0.1, "held_out_loss": 0.2}
    point = CurvePoint(**kept, spearman=0.9)
    for points, marker in (([point], "o"), ([point, point], "")):
        panel = plain_figure(2, 2).subplots()
        draw_loss(panel, points)
        draw_ranking(panel, points, "red", "held out")
        assert [line.get_marker() for line in panel.lines] == [marker] * 3
