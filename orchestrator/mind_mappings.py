"""`mapspace run`: the Mind Mappings experiment from nothing to a report, resumable stage by stage.

Data sets are generated and surrogates trained for both of the paper's algorithms; then all methods
search the eight problems of its Table 1: under equal iterations, under equal time with our cost
model, and under equal time with one as slow as the paper's. Every stage leaves what is finished
alone, so the same command continues an interrupted run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mapspace.errors import ConfigError
from mapspace.extras import install, is_installed
from mapspace.storage import Place, make_folder, place, write_atomically
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.benchmark.mlflow_log import log_results
from orchestrator.benchmark.run import BenchmarkExperiment
from orchestrator.comparison.page import is_result, text_table, write_report
from orchestrator.comparison.results import Results
from orchestrator.report.text_table import fitted, labelled
from orchestrator.runs.experiments import find_experiment, load_experiment
from orchestrator.runs.locations import local_view
from orchestrator.runs.mlflow_client import default_uri, open_mlflow
from orchestrator.runs.ray_runtime import ray_runtime
from orchestrator.runs.run_folder import Experiment, Say, say
from orchestrator.store.folder import Store
from orchestrator.training.generate import GenerateConfig, GenerateExperiment
from orchestrator.training.train import TrainConfig, TrainExperiment
from searchers import searcher_class
from surrogate.problems import ProblemRanges

BENCHMARKS = ("table1-iso-iteration", "table1-iso-time", "table1-iso-time-simulator")


@dataclass(frozen=True)
class Size:
    """How much of everything.

    Attributes:
        rows: samples per data set, by family.
        views: length of training, by family.
        problems_per_shard: problems in one shard of data.
        held_out_problems: problems that are never trained on.
        budgets: changes to the benchmarks' own budgets and seeds.
    """

    rows: dict[str, int]
    views: dict[str, int]
    problems_per_shard: int
    held_out_problems: int
    budgets: dict[str, dict[str, Any]]


# Sized for less than 10 minutes on 2 cores.
FULL = Size(
    rows={"cnn": 600_000, "mttkrp": 300_000},
    views={"cnn": 2_000_000, "mttkrp": 1_000_000},
    problems_per_shard=100,
    held_out_problems=100,
    budgets={
        "table1-iso-iteration": {"seeds": 5, "iterations": 5000},
        "table1-iso-time": {"seeds": 5, "seconds": 1.0},
        "table1-iso-time-simulator": {"seeds": 2, "seconds": 5.0},
    },
)
QUICK = Size(
    rows={"cnn": 20_000, "mttkrp": 20_000},
    views={"cnn": 40_000, "mttkrp": 40_000},
    problems_per_shard=10,
    held_out_problems=5,
    budgets={
        "table1-iso-iteration": {"seeds": 2, "iterations": 300},
        "table1-iso-time": {"seeds": 2, "seconds": 0.1},
        "table1-iso-time-simulator": {"seeds": 2, "seconds": 1.0},
    },
)


def main_job(
    output: Place, *, quick: bool = False, echo: Say = click.echo, store: Store | None = None
) -> tuple[Path, bool]:
    """Runs or continues the experiment.

    Args:
        output: folder for all of it, a path or a URI.
        quick: little data and small budgets, to test an installation; the results mean nothing.
        echo: takes the summary.
        store: where data, surrogates, proofs and searches of before are read, and new ones kept.

    Returns:
        The report's page, and whether this call took everything from the store.

    Raises:
        ConfigError: the folder holds a run of the other size, or something else.
    """
    size = QUICK if quick else FULL
    _claim(output, "quick" if quick else "full")
    stages = _Stages(total=2 * len(size.rows) + len(BENCHMARKS) + 1)
    tracked = is_installed("mlflow")
    if not tracked:
        say(f"not tracked: MLflow is not installed ({install('tracking')})")
    found: list[Results] = []
    taken: list[bool] = []
    with ray_runtime():
        surrogates = {}
        for family in size.rows:
            data = output / f"data-{family}"
            name = f"data set: {family}"
            taken.append(stages.run(name, _generate, size, family, data, store))
            surrogates[family] = str((output / f"surrogate-{family}").resolve())
            into = surrogates[family]
            name = f"surrogate: {family}"
            taken.append(stages.run(name, _train, size, family, data, into, store))
        for name in BENCHMARKS:
            benchmark = resized(name, size.budgets[name], surrogates)
            stage = f"benchmark: {name}"
            results, was_there = stages.run(
                stage, _benchmark, benchmark, output, name, tracked, store
            )
            found.append(results)
            taken.append(was_there)
    page: Path = stages.run("report", write_report, output)
    for results in found:
        echo(f"\n{results.experiment['name']}\n{fitted(text_table(results))}")
    echo(f"\n{stages.table()}")
    echo(f"\nreport  {page.resolve()}")
    if tracked:
        echo(labelled("MLflow  ", open_mlflow(default_uri(page.parent))))
    return page, all(taken)


def _claim(output: Place, size: str) -> None:
    """Marks the folder with the size of its run."""
    path = output / "size"
    if path.exists():
        before = path.read_text().strip()
        if before != size:
            raise ConfigError(
                f"{output}: holds a {before} run; choose another --output for a {size} one."
            )
        return
    make_folder(output)
    write_atomically(path, f"{size}\n".encode())


def _generate(size: Size, family: str, folder: Place, store: Store | None) -> bool:
    config = GenerateConfig(
        kind="generate",
        name=f"table1-{family}",
        problems=ProblemRanges.model_validate({"family": family}),
        rows=size.rows[family],
        problems_per_shard=size.problems_per_shard,
    )
    return _stage(GenerateExperiment, config, folder, store)


def _train(size: Size, family: str, data: Place, folder: str, store: Store | None) -> bool:
    config = TrainConfig(
        kind="train",
        name=f"table1-{family}",
        data=str(data),
        views=size.views[family],
        held_out_problems=size.held_out_problems,
    )
    return _stage(TrainExperiment, config, place(folder), store)


def _stage(
    kind: type[Experiment[Any, Any]], config: Any, folder: Place, store: Store | None
) -> bool:
    """Runs a stage; whether all of it came from the store."""
    experiment = kind(kind.prepare(config, config.name), say=say, bars=True, store=store)
    told = experiment.close(experiment.run(folder), folder, None, say)
    return bool(told["from_store"])


def resized(name: str, budget: dict[str, Any], surrogates: dict[str, str]) -> Benchmark:
    """A shipped benchmark with this run's budget, seeds and surrogates, less what is left out."""
    shipped = load_experiment(find_experiment(name), Benchmark).model_dump(mode="json")
    # Minutes of learning for a row each: left to `mapspace benchmark` of the same experiments.
    searchers = [
        {**entry, "seeds": None}
        for entry in shipped["searchers"]
        if not searcher_class(entry["name"]).SLOW
    ]
    changes = {**budget, "surrogates": surrogates, "searchers": searchers}
    return Benchmark.model_validate({**shipped, **changes})


def _benchmark(
    benchmark: Benchmark, output: Place, name: str, tracked: bool, store: Store | None
) -> tuple[Results, bool]:
    plan = prepare(benchmark, benchmark.name)
    experiment = BenchmarkExperiment(plan, say=say, store=store)
    results = experiment.run(output / name)
    if tracked:
        with local_view(output, is_result) as copy:
            log_results(results, copy / name, default_uri(copy))
    return results, experiment.taken > 0 and not experiment.made


class _Stages:
    """Announces stages on standard error and remembers how long they took."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.started = time.monotonic()
        self.done: list[tuple[str, float]] = []

    def run(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a stage."""
        number = len(self.done) + 1
        print(f"\n[{number}/{self.total}] {name}", file=sys.stderr, flush=True)
        started = time.monotonic()
        result = function(*arguments)
        self.done.append((name, time.monotonic() - started))
        return result

    def table(self) -> str:
        """Stages with their times."""
        rows = [*self.done, ("all", time.monotonic() - self.started)]
        width = max(len(name) for name, _ in rows)
        lines = (f"{name:<{width}}  {seconds:7.1f} s" for name, seconds in rows)
        return "\n".join(lines)
