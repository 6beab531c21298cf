"""Benchmark files are read strictly, and every name is looked up before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from costmodel.errors import ConfigError
from costmodel.loading import validate
from orchestrator.experiment import (
    Benchmark,
    find_experiment,
    load_benchmark,
    prepare,
    shipped_experiments,
)

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
        ({"host": "cloud"}, "host: expected 'trials' or 'blocks'"),
        ({"objective": "speed"}, "objective: expected"),
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


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump(changed(kind="dataset")))
    with pytest.raises(ConfigError, match=r"e\.yaml: kind: expected benchmark, got 'dataset'"):
        load_benchmark(path)


def test_experiments_are_found_by_name_or_path(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    assert find_experiment(str(path)) == path
    assert find_experiment("smoke").name == "smoke.yaml"
    with pytest.raises(ConfigError, match="no such file"):
        find_experiment(str(tmp_path / "f.yaml"))
    with pytest.raises(ConfigError, match="Unknown experiment 'smok'; did you mean smoke"):
        find_experiment("smok")


@pytest.mark.parametrize(
    "name",
    [
        "primitive-annealing",
        "smoke",
        "study-iso-iteration",
        "study-iso-time",
        "study-maestro",
        "table1-grid",
        "table1-iso-iteration",
        "table1-iso-time",
        "table1-iso-time-simulator",
    ],
)
def test_shipped_benchmarks_are_valid(name: str) -> None:
    assert name in shipped_experiments()
    benchmark = load_benchmark(find_experiment(name))
    assert benchmark.name == name
