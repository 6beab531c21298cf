"""What is kept in memory of a trial that is finished."""

from __future__ import annotations

from typing import Any

from orchestrator.benchmark.curve_sums import HOPELESS
from orchestrator.benchmark.tune_progress import FinishedTrials


def test_a_finished_trial_keeps_how_it_ended_and_no_more() -> None:
    from ray.tune.experiment import Trial

    trial: Any = Trial("nothing", stub=True, config={"task": {"seeds": list(range(1000))}})
    told = {"best_loss": 1.0, "share": 0.5, "logs": [0.0] * 40, HOPELESS: "hangs"}
    trial.update_last_result({**told, "training_iteration": 1, "done": True})
    assert trial.run_metadata.metric_n_steps
    assert sum(map(len, trial.get_json_state())) > 5000
    FinishedTrials().on_trial_complete(1, [trial], trial)
    assert trial.last_result["share"] == 0.5
    assert trial.last_result[HOPELESS] == "hangs"
    assert "logs" not in trial.last_result
    assert not trial.run_metadata.metric_n_steps
    assert not trial.run_metadata.metric_analysis
    # Nor when Tune writes its own state at the end, whatever was changed meanwhile.
    trial.set_status(Trial.TERMINATED)
    assert trial.get_json_state() == ("{}", "{}")
