"""`ms.tune.MappingSearch` in a Tuner: the page's example, batches, failures, Tune's own restore."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import ROOT

import mapspace as ms
from mapspace.errors import ConfigError
from searchers import SEARCHERS, searcher_class

PAGE = (ROOT / "docs" / "own-model.md").read_text()
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
        ({"mode": "least"}, "expected min or max"),
        ({"at_once": 0}, "at least 1"),
        ({"searcher": "genetic", "populations": 3}, "populations"),
    ],
)
def test_misuse_is_one_line(made: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        ms.tune.MappingSearch(SPACE, **made)
    assert "\n" not in str(raised.value)


def test_negative_values_need_signed() -> None:
    search = ms.tune.MappingSearch(SPACE, "random")
    search.suggest("a")
    with pytest.raises(ConfigError, match="signed=True"):
        search.on_trial_complete("a", {"loss": -1.0})


def test_a_restore_of_another_search_is_refused(tmp_path: Path) -> None:
    ms.tune.MappingSearch(SPACE, "random").save(str(tmp_path / "state"))
    with pytest.raises(ConfigError, match="another search"):
        ms.tune.MappingSearch(SPACE, "genetic").restore(str(tmp_path / "state"))


@pytest.mark.slow
def test_the_example_of_the_page_runs(tmp_path: Path, ray_runtime: None) -> None:
    (block,) = re.findall(
        r"^```python\n(import mapspace as ms\nfrom ray.*?)^```$", PAGE, re.M | re.S
    )
    assert len(block.splitlines()) <= 32
    names: dict[str, Any] = {}
    code = block.replace("/tmp/tune", str(tmp_path))
    exec(compile(code, "docs/own-model.md", "exec"), names)
    results = names["results"]
    assert len(results) == 12
    assert names["search"].failed == len(results.errors)
    assert list(tmp_path.glob("words/*/result.json"))  # Tune's own logger


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
