"""A trial goes on however often its node is lost, and fails of itself three times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray import tune

from orchestrator.benchmark.tune_progress import LostNodes

pytestmark = pytest.mark.usefixtures("ray_runtime")

LOST = "The actor died because its node has died."


def fitted(folder: Path, times: int, message: str) -> Any:
    """The one result of a trial that fails so often before it ends."""
    begun = folder / "begun"

    def trial(config: dict[str, Any]) -> None:
        with begun.open("a") as file:
            file.write("x")
        if begun.stat().st_size <= times:
            raise RuntimeError(message)
        tune.report({"loss": 1.0})

    # Errors reach Tune's storage with the state of the experiment, which is written now and then.
    run = tune.RunConfig(
        storage_path=str(folder / "storage"),
        verbose=0,
        callbacks=[LostNodes()],
        failure_config=tune.FailureConfig(max_failures=2),
    )
    (result,) = tune.Tuner(trial, run_config=run).fit()
    return result


def test_nodes_that_are_lost_are_not_counted(tmp_path: Path) -> None:
    result = fitted(tmp_path, 5, LOST)
    assert result.error is None
    assert result.metrics["loss"] == 1.0


def test_what_fails_of_itself_is_tried_three_times(tmp_path: Path) -> None:
    assert fitted(tmp_path, 5, "no number").error is not None
    assert (tmp_path / "begun").stat().st_size == 3
