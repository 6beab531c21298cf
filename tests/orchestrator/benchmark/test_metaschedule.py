"""TVM's MetaSchedule as the peer of our tuners."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from costmodel import ConfigError
from costmodel.tiling import measurement_runner as runner_module
from orchestrator.benchmark import metaschedule
from orchestrator.benchmark.metaschedule import tune


def test_bad_arguments_are_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metaschedule, "tvm_version", lambda: "0")
    with pytest.raises(ConfigError, match="trials must be at least 1, got 0"):
        next(tune((8, 8, 8), trials=0, seed=0))
    with pytest.raises(ConfigError, match="seed must be at least 0, got -1"):
        next(tune((8, 8, 8), trials=1, seed=-1))
    with pytest.raises(ConfigError, match=r"at least 1, got \(8, 0, 8\)"):
        next(tune((8, 0, 8), trials=1, seed=0))
    with pytest.raises(ConfigError, match="Unknown predictor 'mlp'; known: xgb, random"):
        next(tune((8, 8, 8), trials=1, seed=0, predictor="mlp"))  # type: ignore[arg-type]
    monkeypatch.setattr(metaschedule, "find_spec", lambda name: None)
    assert metaschedule.default_predictor() == "random"
    with pytest.raises(ConfigError, match="needs xgboost, which is not installed"):
        next(tune((8, 8, 8), trials=1, seed=0, predictor="xgb"))


def test_without_tvm_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(runner_module, "version", absent)
    with pytest.raises(ConfigError, match=r"pip install 'mapspace\[tvm\]'"):
        next(tune((8, 8, 8), trials=1, seed=0))


@pytest.mark.slow
@pytest.mark.tvm
@pytest.mark.timeout(900)
def test_trials_are_checked_timed_and_counted() -> None:
    """Slow because TVM parses its intrinsics; the 6 trials take a second."""
    trials = list(tune((32, 32, 32), trials=6, seed=0, per_round=3))
    assert [t.trial for t in trials] == [1, 2, 3, 4, 5, 6]
    assert all(0 < t.latency < 1 for t in trials), [t.explanation for t in trials]
    best = np.minimum.accumulate([t.latency for t in trials])
    np.testing.assert_array_equal([t.best for t in trials], best)
    assert (np.diff([t.seconds for t in trials]) > 0).all()
