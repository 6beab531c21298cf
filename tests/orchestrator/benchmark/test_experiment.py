"""Benchmark files are read strictly, and every name is looked up before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import searchers
from costmodel.problems.workloads import workload
from mapspace.errors import ConfigError
from mapspace.strict_yaml import load_yaml, validate
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.runs.experiments import find_experiment, load_experiment, shipped_experiments
from searchers import SEARCHERS, searcher_class

GOOD: dict[str, Any] = {
    "kind": "benchmark",
    "name": "small",
    "workloads": ["resnet-conv4"],
    "searchers": {"random": {}, "slow": {"name": "annealing", "preset": "paper"}},
    "seeds": 3,
    "iterations": 50,
}


def changed(**changes: Any) -> dict[str, Any]:
    data = {**GOOD, **changes}
    return {key: value for key, value in data.items() if value is not None}


def test_labels_seeds_and_defaults() -> None:
    benchmark = validate(Benchmark, GOOD, "x")
    assert [(entry.label, entry.name) for entry in benchmark.searchers] == [
        ("random", "random"),
        ("slow", "annealing"),
    ]
    assert benchmark.seeds == (0, 1, 2)
    assert benchmark.accelerator == "mm256"
    assert benchmark.host == "trials"


def test_a_method_may_have_fewer_iterations() -> None:
    data = changed(searchers={"random": {}, "slow": {"name": "annealing", "iterations": 20}})
    benchmark = validate(Benchmark, data, "x")
    assert [benchmark.iterations_in(None, entry) for entry in benchmark.searchers] == [50, 20]
    assert benchmark.iterations_in(None) == 50


def test_a_list_of_searchers_is_labelled_by_name() -> None:
    data = changed(searchers=[{"name": "random"}, {"name": "random", "label": "again"}], seeds=[7])
    benchmark = validate(Benchmark, data, "x")
    assert [entry.label for entry in benchmark.searchers] == ["random", "again"]
    assert benchmark.seeds == (7,)


def test_what_is_written_is_read_back() -> None:
    benchmark = validate(Benchmark, GOOD, "x")
    assert validate(Benchmark, benchmark.model_dump(mode="json"), "x") == benchmark


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iteratons": 5}, r"iteratons: unknown key; did you mean iterations\?"),
        ({"iterations": None}, "exactly one budget"),
        ({"seconds": 1.0}, "exactly one budget"),
        ({"iterations": 0}, "iterations: expected at least 1, got 0"),
        ({"iterations": 2.5}, "iterations: expected a whole number"),
        ({"seeds": 0}, "at least 1 seed, got 0"),
        ({"seeds": []}, "seeds"),
        ({"searchers": {"random": {"seeds": 0}}}, "at least 1 seed, got 0"),
        ({"searchers": {"random": {"seeds": [2, 2]}}}, "seed 2 is given twice"),
        ({"searchers": {"random": {"iterations": 51}}}, r"at most the benchmark's \(50\), got 51"),
        (
            {"searchers": {"random": {"iterations": 5}}, "iterations": None, "seconds": 1.0},
            r"at most the benchmark's \(none\), got 5",
        ),
        ({"seeds": [1, 1]}, "seed 1 is given twice"),
        ({"seeds": [-1]}, "at least 0, got -1"),
        ({"workloads": []}, "workloads: expected 1 or more"),
        ({"searchers": {}}, "searchers: expected 1 or more"),
        ({"searchers": [{"name": "random"}, {"name": "random"}]}, "label random is given twice"),
        ({"searchers": {"random": {"sed": 1}}}, "sed: unknown key"),
        ({"searchers": {"random": 3}}, "searchers"),
        ({"host": "cloud"}, "host: expected 'trials', 'blocks' or 'pool'"),
        ({"objective": "speed"}, "objective: expected"),
        ({"objective": "edpp"}, r"got 'edpp'; did you mean edp\?"),
        ({"query_latency": -1.0}, "query_latency: expected at least 0"),
        ({"surrogates": {"rnn": "x"}}, "unknown workload family 'rnn'"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(Benchmark, changed(**changes), "x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workloads": ["resnet-conv99"]}, "Unknown workload 'resnet-conv99'"),
        ({"accelerator": "mm257"}, "Unknown accelerator 'mm257'"),
        ({"searchers": {"radnom": {}}}, "Unknown searcher 'radnom'"),
        ({"searchers": {"annealing": {"preset": "papr"}}}, "Unknown preset 'papr'"),
        (
            {"searchers": {"random": {"parameters": {"chains": 2}}}},
            "Unknown hyperparameter chains of searcher random",
        ),
        ({"surrogates": {"cnn": "nowhere"}}, "nowhere: there is no such file"),
    ],
)
def test_names_are_looked_up_before_anything_runs(changes: dict[str, Any], message: str) -> None:
    benchmark = validate(Benchmark, changed(**changes), "x")
    with pytest.raises(ConfigError, match=rf"^here\.yaml: .*{message}"):
        prepare(benchmark, "here.yaml")


@pytest.mark.parametrize(
    ("name", "preset"),
    [(name, preset) for name in SEARCHERS for preset in searcher_class(name).OPTIONS.PRESETS],
)
def test_hyperparameters_are_what_the_user_wrote(
    name: str, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a benchmark knows of its run once chose another method than the documented one."""
    given: dict[str, Any] = {}

    def make(_: str, __: Any, *, context: searchers.Context, **told: Any) -> None:
        given.update(told, context=context)

    monkeypatch.setattr(searchers, "make", make)
    method = {"name": name, "preset": preset}
    benchmark = validate(Benchmark, changed(searchers={"it": method}), "x")
    prepare(benchmark, "here.yaml")
    context = given.pop("context")
    assert given == {"seed": 0, "preset": preset}
    assert (context.objective, context.threads) == (benchmark.objective, 1)
    assert context.iterations == benchmark.iterations
    follows = "predictor" in searcher_class(name).USES
    assert (context.predictor is not None) == follows


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump(changed(kind="dataset")))
    with pytest.raises(ConfigError, match=r"e\.yaml: kind: expected benchmark, got 'dataset'"):
        load_experiment(path, Benchmark)


def test_experiments_are_found_by_name_or_path(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    assert find_experiment(str(path)) == path
    assert find_experiment("smoke").name == "smoke.yaml"
    with pytest.raises(ConfigError, match="no such file"):
        find_experiment(str(tmp_path / "f.yaml"))
    with pytest.raises(ConfigError, match="Unknown experiment 'smok'; did you mean smoke"):
        find_experiment("smok")


BENCHMARKS = [
    name
    for name in shipped_experiments()
    if load_yaml(find_experiment(name))["kind"] == "benchmark"
]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_shipped_benchmarks_are_valid(name: str) -> None:
    benchmark = load_experiment(find_experiment(name), Benchmark)
    assert benchmark.name == name


def test_held_out_layers_are_in_no_other_benchmark_or_sweep() -> None:
    def shapes(name: str) -> set[str]:
        return {workload(source).hash for source in load_yaml(find_experiment(name))["workloads"]}

    held_out = shapes("held-out")
    assert len(held_out) == 20
    for name in shipped_experiments():
        data = load_yaml(find_experiment(name))
        if name != "held-out" and data["kind"] in ("benchmark", "sweep") and "workloads" in data:
            assert not shapes(name) & held_out, name
