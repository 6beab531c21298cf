"""Studies of training: which runs they are, and their report."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from costmodel.errors import ConfigError
from orchestrator.training_study import (
    TrainingStudy,
    load_training_study,
    run_training_study,
)
from surrogate.options import read_curve

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


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
    study = load_training_study(EXPERIMENTS / "training-study.yaml")
    assert study.rows == (1_000_000, 2_000_000, 5_000_000, 10_000_000)
    assert set(study.losses) == {"huber", "mse", "mae"}
    assert study.training.recipe == "paper"
    assert study.training.views is None  # the recipe's hundred epochs
    small = load_training_study(EXPERIMENTS / "training-study-small.yaml")
    assert small.training.device == "cpu"
    assert [rows / small.rows[-1] for rows in small.rows] == [0.1, 0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "train"}, "kind: expected training-study, got 'train'"),
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
        run_training_study(path, tmp_path / "out")
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


@pytest.mark.slow
def test_a_study_trains_tries_out_and_reports(
    small_data: Path, tmp_path: Path, ray_runtime: None
) -> None:
    search = {"workloads": ["resnet-conv4"], "iterations": 100, "seeds": 2}
    study = TrainingStudy.model_validate(content(small_data, search=search))
    report = run_training_study(study, tmp_path / "study")
    lines = [line for line in report.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[:3] for row in cells[2:]] == [
        ["huber", "4,000", "4,096"],
        ["mae", "4,000", "4,096"],
        ["huber", "2,000", "4,096"],
    ]
    column = cells[0].index("normalised EDP found")
    for row, name in zip(cells[2:], study.trainings(), strict=True):
        folder = tmp_path / "study" / name
        assert [point.views for point in read_curve(folder)] == [2048, 4096]
        found = json.loads((folder / "search.json").read_text())["normalised_edp"]["resnet-conv4"]
        assert len(found) == 2
        assert float(row[column]) == pytest.approx(math.sqrt(found[0] * found[1]), abs=1e-3)
    assert (report.parent / "training.png").read_bytes()[:4] == b"\x89PNG"
    # Again: nothing is trained or searched anew.
    before = {path: path.stat().st_mtime_ns for path in report.parent.glob("*/*")}
    text = report.read_text()
    assert run_training_study(study, tmp_path / "study").read_text() == text
    assert {path: path.stat().st_mtime_ns for path in report.parent.glob("*/*")} == before
