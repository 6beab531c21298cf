"""Benchmarks on the other cost models: their optima are the least of all, found before the runs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel import models
from mapspace.errors import ConfigError
from orchestrator.benchmark import config
from orchestrator.benchmark.config import Benchmark, prepare
from orchestrator.benchmark.reference_optima import Optima
from orchestrator.benchmark.run import run_benchmark


def benchmark(**changes: Any) -> Benchmark:
    settings = {
        "kind": "benchmark",
        "name": "small",
        "model": "tiling",
        "workloads": ["gemm:M=8,N=6,K=4"],
        "searchers": {"random": {}, "annealing": {}},
        "seeds": 2,
        "iterations": 60,
    }
    return Benchmark.model_validate({**settings, **changes})


def test_every_model_has_its_accelerator() -> None:
    assert benchmark().accelerator == "cpu-avx512"
    assert benchmark(model="loopnest").accelerator == "mm256"
    assert benchmark(model="maestro", accelerator="edge-1024").accelerator == "edge-1024"


def test_the_optimum_of_tilings_is_the_least_of_all(tmp_path: Path) -> None:
    plan = prepare(benchmark(), "here")
    (name,) = plan.workloads
    space = plan.space(name)
    codes = np.stack(np.unravel_index(np.arange(space.size()), space.cardinality), axis=1)
    least = plan.model().evaluate(space, codes.astype(np.int32)).edp.min()
    assert Optima(plan, tmp_path, print).bounds()[name].optimum == least


@pytest.mark.parametrize("objective", ["edp", "energy", "latency"])
def test_no_sample_on_chip_is_below_the_optimum(tmp_path: Path, objective: str) -> None:
    small = "cnn:N=1,K=4,C=4,P=6,Q=6,R=3,S=3"
    plan = prepare(benchmark(model="maestro", workloads=[small], objective=objective), "here")
    (name,) = plan.workloads
    space = plan.space(name)
    codes = space.sample(np.random.default_rng(0), 20_000, feasible=True)
    losses = plan.model().evaluate(space, codes).objective(objective)
    optimum = Optima(plan, tmp_path, print).bounds()[name].optimum
    assert optimum is not None
    assert optimum <= losses.min() <= 1.5 * optimum


def test_a_benchmark_of_tilings_runs(tmp_path: Path, ray_runtime: None) -> None:
    plan = prepare(benchmark(), "here")
    results = run_benchmark(plan, tmp_path, progress=lambda _: None)
    assert results.proven
    assert {
        len(results.of(label, name)) for label in results.searchers for name in plan.workloads
    } == {2}
    assert (
        min(run.best_loss for run in results.runs) >= results.bounds[results.workloads[0]].reference
    )


def test_a_share_of_the_space_is_a_budget() -> None:
    plan = prepare(benchmark(iterations=None, visited=0.1), "here")
    (name,) = plan.workloads
    space = plan.space(name)
    assert plan.benchmark.iterations_in(space) == -(-space.size() // 10)
    with pytest.raises(ValueError, match="exactly one budget"):
        benchmark(visited=0.1)


def test_what_a_model_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="model maestro has edp, energy, latency; got ed2p"):
        benchmark(model="maestro", objective="ed2p")
    with pytest.raises(ConfigError, match="There are surrogates of loop nests only; got a TilingS"):
        prepare(benchmark(searchers={"gradient": {}}), "here")
    with pytest.raises(ConfigError, match="TilingSpace"):
        prepare(benchmark(searchers={"exact": {}}), "here")
    with pytest.raises(ConfigError, match="gemm"):
        prepare(benchmark(workloads=["resnet-conv3"]), "here")


def test_a_model_without_a_space_is_no_benchmark() -> None:
    with pytest.raises(ValueError, match="a space to search, got maestro-corrected"):
        benchmark(model="maestro-corrected")
    with pytest.raises(ValueError, match="Unknown cost model 'tilling'; did you mean tiling"):
        benchmark(model="tilling")


def test_a_model_that_nothing_bounds_is_held_against_the_best_of_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ray_runtime: None
) -> None:
    """The proof is of the loop-nest model: no other model's runs are held against it."""
    unbounded = replace(models.cost_model_entry("tiling"), optimum=None)
    monkeypatch.setattr(config, "cost_model_entry", lambda name: unbounded)
    plan = prepare(benchmark(), "here")
    assert Optima(plan, tmp_path, print).bounds() == {}
    results = run_benchmark(plan, tmp_path, progress=lambda _: None)
    assert not results.proven
    assert results.bounds[results.workloads[0]].reference == min(r.best_loss for r in results.runs)


def test_names_of_the_public_api_are_there_without_tvm() -> None:
    code = (
        "import sys, costmodel\n"
        "first = {*sys.modules}\n"
        "costmodel.TilingSpace, costmodel.MaestroModel\n"
        "assert 'costmodel.tiling' not in first and 'costmodel.maestro' not in first\n"
        "assert 'tvm' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
