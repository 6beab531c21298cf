"""`ms.tune.MappingSearch` in a Tuner: the page's script, batches, failures, Tune's own restore."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import ROOT
from ray import tune
from ray.tune.search import ConcurrencyLimiter

import mapspace as ms
from mapspace.errors import ConfigError
from orchestrator.tune_logging import shortened
from searchers import SEARCHERS, searcher_class

SPACE = ms.MapSpace(ms.workload("gemm:M=64,N=64,K=64"), ms.accelerator("mm256"))
MODEL = ms.LoopNestModel()


def value(config: Any) -> float:
    code = np.array(config["code"], np.int32)
    return float(MODEL.evaluate(SPACE, code[None]).edp[0])


def converse(search: Any, trials: int, at_once: int = 1) -> list[Any]:
    """Trials as Tune makes them, `at_once` out, the oldest back first; their configurations."""
    out: list[tuple[str, Any]] = []
    configs: list[Any] = []
    while len(configs) < trials or out:
        told = search.suggest(f"trial {len(configs)}") if len(configs) < trials else None
        if told == "FINISHED":
            break
        if told is not None:
            out.append((f"trial {len(configs)}", told))
            configs.append(told)
        if told is None or len(out) == at_once:
            name, config = out.pop(0)
            search.on_trial_complete(name, {"loss": value(config)})
    return configs


@pytest.mark.parametrize(
    "name", sorted(name for name in SEARCHERS if not searcher_class(name).SLOW)
)
def test_every_searcher_proposes(name: str, tmp_path: Path) -> None:
    """Decoded mappings, the same ones again after a restore."""
    space, search, again = SPACE, None, None
    if searcher_class(name).SPACES not in ((), (ms.MapSpace,)):
        space = ms.TilingSpace(ms.workload("gemm:M=64,N=64,K=64"))
    if name in ("gradient", "surrogate-guided", "marvel"):
        space = ms.MapSpace(ms.workload("resnet-conv4"), ms.accelerator("mm256"))
    quick = searcher_class(name).QUICK
    search, again = (ms.tune.MappingSearch(space, name, at_once=3, **quick) for _ in range(2))
    configs = []
    for trial in range(7):
        config = search.suggest(str(trial))
        if not isinstance(config, dict):
            break
        search.on_trial_complete(str(trial), {"loss": 1.0 + trial})
        configs.append(config)
    assert configs
    assert {"code", "factors", "record"} <= set(configs[0])
    search.suggest("out")
    search.save(str(tmp_path / "state.pkl"))
    again.restore(str(tmp_path / "state.pkl"))
    for one in (search, again):
        one.on_trial_complete("out", {"loss": 0.5})
    assert [search.suggest(str(i)) for i in range(9, 12)] == [
        again.suggest(str(i)) for i in range(9, 12)
    ]


def test_a_configuration_says_one_mapping() -> None:
    config = ms.tune.MappingSearch(SPACE, "random").suggest("a")
    for dimension in "MNK":
        factors = [
            level[part][dimension]
            for level in config["factors"].values()
            for part in ("temporal", "spatial")
        ]
        assert math.prod(factors) == 64
    assert {name: sorted(order) for name, order in config["orders"].items()} == {
        name: ["K", "M", "N"] for name in config["factors"]
    }
    (scored,) = ms.evaluate([json.loads(json.dumps(config["record"]))])
    assert scored["result"]["energy_pj"] * scored["result"]["cycles"] == value(config)


def test_batches_are_those_of_one_process() -> None:
    """Two at a time of a searcher that waits for its batch: as in one process."""
    search = ms.tune.MappingSearch(SPACE, "optuna", at_once=4)
    asked = [config["code"] for config in converse(search, 16, at_once=4)]
    alone, expected = ms.make("optuna", SPACE, seed=0), []
    while len(expected) < 16:
        codes = alone.ask(4)
        expected += codes.tolist()
        alone.tell(MODEL.evaluate(SPACE, codes).edp)
    assert asked == expected[:16]


def test_failures_are_data() -> None:
    search = ms.tune.MappingSearch(SPACE, "genetic", metric="loss", population=4)
    results = [None, {}, {"loss": "much"}, {"loss": math.nan}, {"loss": math.inf}, {"loss": 3.0}]
    for index, result in enumerate(results):
        search.suggest(str(index))
        search.on_trial_complete(str(index), result, error=result is None)
    assert search.failed == 5
    assert isinstance(search.suggest("further"), dict)


@pytest.mark.parametrize(("mode", "signed"), [("min", False), ("max", False), ("max", True)])
def test_better_is_less_for_the_searcher(mode: Any, signed: bool) -> None:
    search = ms.tune.MappingSearch(SPACE, "random", mode=mode, signed=signed)
    values = [1e-9, 0.5, 2.0, 1e12] if not signed else [-1e12, -2.0, 0.0, 1e-3, 1e12]
    losses = [search._loss(one) for one in values]
    assert losses == sorted(losses, reverse=mode == "max")
    assert len(set(losses)) == len(losses)
    assert all(0 < loss < math.inf for loss in losses)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"searcher": "genetics"}, "Unknown searcher"),
        ({"mode": "least"}, "mode: expected 'min', 'max' or None, got 'least'"),
        ({"at_once": 0}, "at least 1"),
        ({"searcher": "genetic", "populations": 3}, "populations"),
    ],
)
def test_misuse_is_one_line(made: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        ms.tune.MappingSearch(SPACE, **made)
    assert "\n" not in str(raised.value)


def answered(search: Any, result: dict[str, Any], told: tuple[Any, Any] = (None, None)) -> Any:
    """A trial's answer to a search in a Tuner whose TuneConfig has a metric and a mode."""
    search.set_search_properties(*told, {})
    search.suggest("a")
    search.on_trial_complete("a", {"training_iteration": 1, "config/factors/M": 8, **result})
    return search.suggest("b")


@pytest.mark.parametrize(
    ("made", "told", "metric", "mode"),
    [
        ({}, ("edp", "min"), "edp", "min"),
        ({}, ("frames", "max"), "frames", "max"),
        ({"metric": "edp"}, (None, None), "edp", None),
        ({"metric": "edp", "mode": "min"}, ("edp", "min"), "edp", "min"),
        ({"metric": "edp"}, (None, "min"), "edp", "min"),
        ({}, (None, None), "loss", None),
    ],
)
def test_metric_and_mode_are_said_once(
    made: dict[str, Any], told: Any, metric: str, mode: str | None
) -> None:
    search = ms.tune.MappingSearch(SPACE, "random", **made)
    assert answered(search, {"edp": 3.0, "frames": 2.0, "loss": 1.0}, told)
    assert (search._goal.metric, search._goal.mode) == (metric, mode)
    assert search.failed == 0


def test_the_only_number_that_trials_report_is_the_metric() -> None:
    search = ms.tune.MappingSearch(SPACE, "random")
    assert answered(search, {"words": np.float32(3), "name": "x", "fits": True})
    assert (search._goal.metric, search.failed) == ("words", 0)


@pytest.mark.parametrize(
    ("made", "told", "words"),
    [
        ({}, ("edp", "max"), "mode: expected min with edp.*got max"),
        ({"metric": "loss", "mode": "max"}, (None, None), "mode: expected min with loss"),
        ({"mode": "max"}, ("energy", None), "mode: expected min with energy"),
        ({"metric": "edp"}, ("frames", None), "MappingSearch has edp, TuneConfig has frames"),
        ({"mode": "max"}, ("frames", "min"), "MappingSearch has max, TuneConfig has min"),
        ({}, (None, None), "trials report frames, words; expected one of them"),
        ({"metric": "frame"}, (None, None), "trials report frames, words; got 'frame'"),
    ],
)
def test_a_metric_or_mode_that_cannot_be_meant_is_an_error(
    made: dict[str, Any], told: Any, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        answered(
            ms.tune.MappingSearch(SPACE, "random", **made), {"frames": 2.0, "words": 3.0}, told
        )


def test_an_error_that_tune_has_swallowed_is_raised_again() -> None:
    search = ms.tune.MappingSearch(SPACE, "random", metric="frame")
    for trial in ("a", "b"):
        search.suggest(trial)
    with pytest.raises(ConfigError):
        search.on_trial_complete("a", {"frames": 2.0})
    with pytest.raises(ConfigError, match="trials report frames"):
        search.suggest("c")


def test_a_trial_that_lacks_a_metric_which_others_have_has_failed() -> None:
    search = ms.tune.MappingSearch(SPACE, "random", metric="edp")
    for trial, result in (("a", {"edp": 1.0}), ("b", {"step": 1})):
        search.suggest(trial)
        search.on_trial_complete(trial, result)
    assert search.failed == 1


@pytest.mark.parametrize("mode", ["min", "max"])
def test_what_tune_runs_with_is_heard_without_a_param_space(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray calls `set_search_properties` where there is one alone; this asks its call of `run`."""

    def run(search: Any, metric: str, mode: str) -> Any:
        return ConcurrencyLimiter(search, max_concurrent=2).suggest("a")

    monkeypatch.setattr(tune, "run", run)
    search = ms.tune.MappingSearch(SPACE, "random")
    run(search, "frames", mode)
    assert (search._goal.metric, search._goal.mode) == ("frames", mode)
    with pytest.raises(ConfigError, match="expected min with edp"):
        run(ms.tune.MappingSearch(SPACE, "random"), "edp", "max")


def test_a_mapping_is_one_line_in_mlflow() -> None:
    config = ms.tune.MappingSearch(SPACE, "random").suggest("a")
    assert shortened({**config, "own": {"deep": 1}}) == {
        "own": {"deep": 1},
        "mapping": "DRAM M8 K2 N4 | L2 M4 K4, spatial N16 K8 | L1 M2",
        "code": config["code"],
    }
    tiling = ms.tune.MappingSearch(ms.TilingSpace(ms.workload("gemm:M=64,N=64,K=64")), "random")
    assert shortened(tiling.suggest("a"))["mapping"] == "M 8x4x1x2 | K 16x4 | N 2x4x8x1"
    assert shortened({"lr": 0.1}) == {"lr": 0.1}


def test_negative_values_need_signed() -> None:
    search = ms.tune.MappingSearch(SPACE, "random")
    search.suggest("a")
    with pytest.raises(ConfigError, match=r"loss: .*signed=True"):
        search.on_trial_complete("a", {"loss": -1.0})


def test_a_restore_of_another_search_is_refused(tmp_path: Path) -> None:
    ms.tune.MappingSearch(SPACE, "random").save(str(tmp_path / "state"))
    with pytest.raises(ConfigError, match="another search"):
        ms.tune.MappingSearch(SPACE, "genetic").restore(str(tmp_path / "state"))


@pytest.mark.slow
def test_failed_trials_are_learnt_from(tmp_path: Path, ray_runtime: None) -> None:
    def words(config: Any) -> dict[str, float]:
        """The words that L1 takes in; more than fit are a failed trial."""
        inner = config["factors"]["L1"]["temporal"]
        held = inner["M"] * inner["K"] + inner["K"] * inner["N"] + inner["M"] * inner["N"]
        if held > 400:
            raise RuntimeError("does not fit")
        return {"words": held * 64**3 / (inner["M"] * inner["N"] * inner["K"])}

    search = ms.tune.MappingSearch(SPACE, "annealing", seed=0)
    tuner = tune.Tuner(
        tune.with_resources(words, {"cpu": 1}),
        tune_config=tune.TuneConfig(
            metric="words", mode="min", search_alg=search, num_samples=12, max_concurrent_trials=2
        ),
        run_config=tune.RunConfig(name="words", storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert len(results) == 12
    assert search.failed == len(results.errors) > 0
    best = results.get_best_result()
    (scored,) = ms.evaluate([best.config["record"]])  # the same mapping by the loop-nest model
    assert scored["result"]["cycles"] > 0
    assert list(tmp_path.glob("words/*/result.json"))  # Tune's own logger


def logged(database: Path) -> tuple[set[str], set[str], list[str]]:
    """Parameters and reported metrics of the runs in an MLflow database, and their states."""
    with sqlite3.connect(database) as connection:
        names = [
            {name for (name,) in connection.execute(f"SELECT DISTINCT key FROM {table}")}
            for table in ("params", "latest_metrics")
        ]
        states = [state for (state,) in connection.execute("SELECT status FROM runs")]
    return names[0], names[1], states


@pytest.mark.slow
def test_the_script_of_the_guide_runs_as_it_stands(tmp_path: Path) -> None:
    """TuneConfig, ASHA, a limiter, MLflow and actors that stay; the second time it restores."""
    page = (ROOT / "docs" / "guide" / "tune.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    script = tmp_path / "script.py"
    script.write_text(block)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = [
        subprocess.run(
            [sys.executable, str(script)], env=environment, cwd=tmp_path, check=True,
            capture_output=True, text=True,
        ).stdout.splitlines()[-1]
        for _ in range(2)
    ]  # fmt: skip
    assert said[0].startswith("12 ")
    assert said[0] == said[1]
    results = list(tmp_path.glob("tune/gemm/*/result.json"))
    # ASHA has ended some of twelve early.
    steps = [len(path.read_text().splitlines()) for path in results]
    assert len(steps) == 12
    assert 1 in steps
    assert 4 in steps
    parameters, metrics, states = logged(tmp_path / "tune.db")
    assert parameters == {"mapping", "code"}
    assert {"edp", "step"} <= metrics
    assert not any(name.startswith("config") for name in metrics)
    assert states == ["FINISHED"] * 12


RUN = """
import sys, time
import numpy as np
import mapspace as ms
from mapspace.ray_start import start_ray
from ray import tune

space = ms.MapSpace(ms.workload("gemm:M=64,N=64,K=64"), ms.accelerator("mm256"))

def measure(config, model=ms.LoopNestModel(), space=space):
    code = np.array(config["code"], np.int32)[None]
    return {"edp": float(model.evaluate(space, code).edp[0])}

if __name__ == "__main__":
    start_ray("local", cpus=1)
    folder, kill = sys.argv[1:]
    search = ms.tune.MappingSearch(space, "genetic", metric="edp", population=4, offspring=4)
    if kill == "restore":
        tuner = tune.Tuner.restore(folder + "/run", measure)
    else:
        tuner = tune.Tuner(
            measure,
            tune_config=tune.TuneConfig(search_alg=search, num_samples=12, max_concurrent_trials=1),
            run_config=tune.RunConfig(name="run", storage_path=folder, verbose=0),
        )
    for result in tuner.fit():
        print(result.config["code"], result.metrics["edp"], flush=True)
"""


@pytest.mark.slow
def test_tunes_own_restore_after_a_kill(tmp_path: Path) -> None:
    """A driver is killed with its Ray; the restored run proposes what an undisturbed one does."""
    script = tmp_path / "own.py"
    script.write_text(RUN)
    environment = {**os.environ, "TUNE_GLOBAL_CHECKPOINT_S": "0", "PYTHONPATH": str(ROOT)}

    def command(folder: str, what: str) -> list[str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        return [sys.executable, str(script), str(tmp_path / folder), what]

    def lines(folder: str, what: str) -> list[str]:
        run = subprocess.run(
            command(folder, what), env=environment, capture_output=True, text=True, check=True
        )
        return sorted(line for line in run.stdout.splitlines() if line.startswith("["))

    undisturbed = lines("whole", "")
    assert len(undisturbed) == 12
    killed = subprocess.Popen(
        command("cut", ""), env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "cut").glob("run/*/result.json"))) < 5:
        assert killed.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert lines("cut", "restore") == undisturbed
