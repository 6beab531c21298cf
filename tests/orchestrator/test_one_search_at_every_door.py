"""One name is one method: every door runs the same search of a searcher, preset and seed.

What a door knows of a run (objective, budget, surrogate) once chose another method than the
documented one, and nothing noticed, since tests made searchers themselves.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from paths import ROOT

import mapspace as ms
import searchers
from costmodel.costs import OBJECTIVES
from mapspace.strict_yaml import validate
from orchestrator.answers.request import Request
from orchestrator.benchmark import stored_runs
from orchestrator.benchmark.config import Benchmark, make_searcher, prepare
from orchestrator.benchmark.run import BenchmarkExperiment, run_benchmark
from orchestrator.benchmark.stored_runs import Questions, searches_of
from orchestrator.cli import main
from orchestrator.comparison.results import Run
from orchestrator.mapping_search import BATCH, MappingSearch
from orchestrator.mind_mappings import BENCHMARKS, FULL, resized
from orchestrator.search.one_workload import asked_of
from orchestrator.store import address
from searchers import SEARCHERS, Evaluator, TrialResult, searcher_class
from searchers.queries import Queries
from surrogate.for_space import predictor

LAYER = "cnn:N=1,K=32,C=16,P=14,Q=14,R=3,S=3"
SPACE = ms.MapSpace(ms.workload(LAYER), ms.accelerator("mm256"))
MODEL = ms.LoopNestModel()
ITERATIONS, SEED = 120, 3

Case = tuple[str, str | None]
EVERY: list[Case] = [
    (name, preset)
    for name in sorted(SEARCHERS)
    if searcher_class(name).SPACES == () or ms.MapSpace in searcher_class(name).SPACES
    for preset in (None, *sorted(searcher_class(name).OPTIONS.PRESETS))
]
# A batch of it takes 300 steps of many chains through the surrogate.
PATIENT = ("surrogate-guided", "patient")


def slow(case: Case) -> bool:
    return searcher_class(case[0]).SLOW or case == PATIENT


CASES = [pytest.param(*case, marks=pytest.mark.slow if slow(case) else ()) for case in EVERY]
# A proof walks by the clock, and in several threads where a door lets it.
PLAIN = [param for param in CASES if param.values[0] != "exact"]


def told(name: str, preset: str | None) -> dict[str, Any]:
    """What a user writes besides: what only costs time is turned down, a preset left as it is."""
    cls = searcher_class(name)
    stated = cls.OPTIONS.PRESETS[preset] if preset else {}
    return {key: value for key, value in cls.QUICK.items() if key not in stated}


@cache
def made(name: str, preset: str | None, objective: Any = "edp") -> searchers.Searcher:
    """The searcher as `searchers.make` has it, with the shipped surrogate; it is used up once."""
    follows = "predictor" in searcher_class(name).USES
    context = searchers.Context(objective, predictor=predictor(SPACE, None) if follows else None)
    return searchers.make(
        name, SPACE, seed=SEED, preset=preset, context=context, **told(name, preset)
    )


@cache
def reference(name: str, preset: str | None, objective: Any = "edp") -> TrialResult:
    evaluator = Evaluator(MODEL, SPACE, objective=objective, iterations=ITERATIONS)
    made(name, preset, objective).run(evaluator)
    return evaluator.result()


def same(result: TrialResult | Run, name: str, preset: str | None) -> None:
    expected = reference(name, preset)
    assert result.best_loss == expected.best_loss
    assert [*result.best_code] == [*expected.best_code]  # type: ignore[misc]
    for count in ("iterations", "true_queries", "surrogate_queries"):
        assert getattr(result, count) == getattr(expected, count), count


@pytest.mark.parametrize(("name", "preset"), PLAIN)
def test_python(name: str, preset: str | None) -> None:
    result = ms.search(
        LAYER,
        searcher=name,
        preset=preset,
        parameters=told(name, preset),
        iterations=ITERATIONS,
        seed=SEED,
        store=False,
    )
    same(result.trial, name, preset)
    assert result.hyperparameters == made(name, preset).options.resolved()


@pytest.mark.parametrize(("name", "preset"), PLAIN)
def test_the_command(name: str, preset: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["search", LAYER, "--searcher", name, "--iterations", str(ITERATIONS), "--json"]
    line += ["--seed", str(SEED), "--no-store", *(("--preset", preset) if preset else ())]
    for key, value in told(name, preset).items():
        line += ["--set", f"{key}={json.dumps(value)}"]
    with pytest.raises(SystemExit) as ended:
        main(line)
    assert ended.value.code == 0
    answer, expected = json.loads(capsys.readouterr().out), reference(name, preset)
    assert answer["edp"] == expected.best_loss
    for count in ("iterations", "true_queries", "surrogate_queries"):
        assert answer[count] == getattr(expected, count), count
    assert answer["hyperparameters"] == made(name, preset).options.resolved()


def benchmark(cases: list[Case], **changes: Any) -> Benchmark:
    entries = {
        f"{name} {preset}": {"name": name, "preset": preset, "parameters": told(name, preset)}
        for name, preset in cases
    }
    content = {
        "kind": "benchmark", "name": "doors", "accelerator": "mm256", "workloads": [LAYER],
        "searchers": entries, "seeds": [SEED], "iterations": ITERATIONS, "proof_seconds": 0,
    }  # fmt: skip
    # As a file has it.
    return validate(Benchmark, yaml.safe_load(yaml.safe_dump({**content, **changes})), "doors")


@pytest.mark.parametrize(
    "host",
    [
        "trials",
        pytest.param("blocks", marks=pytest.mark.slow),
        pytest.param("pool", marks=pytest.mark.slow),
    ],
)
def test_a_benchmark(host: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """On a pool, who can be told every answer is; the others wait for all of what they asked."""
    cases = [case for case in EVERY if case[0] != "exact" and not slow(case)]
    if host == "pool":
        cases = [case for case in cases if not searcher_class(case[0]).ASYNCHRONOUS]
    plan = prepare(benchmark(cases, host=host, workers=2 if host == "pool" else None), "doors")
    results = run_benchmark(plan, tmp_path)
    assert len(results.runs) == len(cases)
    for case, run in zip(cases, results.runs, strict=True):
        same(run, *case)
        noted = results.provenance["hyperparameters"][run.searcher]
        assert noted == made(*case).options.resolved()


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_tune(name: str, preset: str | None) -> None:
    """Mapping by mapping, as a trial has one."""
    uses = searcher_class(name).USES
    follows = {"predictor": predictor(SPACE, None)} if "predictor" in uses else {}
    options = {"seed": SEED, "preset": preset, **told(name, preset)}
    search = MappingSearch(SPACE, name, **options)
    made = searchers.make(name, SPACE, **options, **follows)
    here = Queries(made, lambda codes, answers, queries: np.array(answers))
    for trial in range(40):
        expected, found = here.more(1, BATCH), search.suggest(str(trial))
        if not expected:
            break
        assert isinstance(found, dict)
        assert found["code"] == [*expected[0].code]
        loss = float(MODEL.evaluate(SPACE, expected[0].code[None]).edp[0])
        here.answer(expected[0].ticket, loss)
        search.on_trial_complete(str(trial), {"loss": loss})


def test_the_main_job() -> None:
    """Its benchmarks are those that are shipped, with the methods of their names."""
    for name in BENCHMARKS:
        run = resized(name, FULL.budgets[name], {})
        methods = {
            e.label: searchers.resolved(e.name, e.preset, e.parameters) for e in run.searchers
        }
        assert methods["gradient"] == searchers.resolved("gradient", None, {})
        assert methods["gradient"]["method"] == "screened"
        assert methods["projected descent"]["method"] == "descent"


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("parameters", [{}, {"method": "descent"}, {"method": "screened"}])
def test_the_gradient_search_follows_every_objective(objective: Any, parameters: Any) -> None:
    method = parameters.get("method", "screened")
    result = ms.search(
        LAYER, searcher="gradient", parameters=parameters, objective=objective, iterations=300,
        seed=0, store=False,
    )  # fmt: skip
    assert result.hyperparameters["method"] == method
    assert f"gradient (method {method})" in dict(result.facts())["search"]
    best = ms.prove(LAYER, objective=objective, store=False)
    assert result.trial.best_loss <= best.trial.best_loss * (1.1 if method == "screened" else 2)


@pytest.mark.parametrize("name", ["gradient", "surrogate-guided", "exact", "multi-fidelity"])
def test_the_objective_reaches_who_follows_it(name: str) -> None:
    """Of a benchmark; another objective is another search."""
    plan = prepare(benchmark([(name, None)], objective="energy"), "doors")
    searcher = make_searcher(plan, plan.benchmark.searchers[0], SPACE, seed=0)
    assert searcher.context.objective == "energy"
    assert searcher.context.iterations == ITERATIONS


def test_what_a_store_has_of_another_method_is_not_served(tmp_path: Path) -> None:
    """It was written when every door ran projected descent as `gradient`: 60 queries, seed 0."""
    store = tmp_path / "store"
    shutil.copytree(ROOT / "tests/golden/store-before-contexts", store)

    def again(name: str, **options: Any) -> Any:
        return ms.search(LAYER, searcher=name, iterations=60, store=str(store), **options)

    assert again("annealing").from_store  # it is read
    found = again("gradient")
    assert not found.from_store
    assert found.hyperparameters["method"] == "screened"
    assert again("gradient").from_store
    # What it has is what descent finds.
    old = again("gradient", parameters={"method": "descent"})
    assert not old.from_store
    assert old.trial.best_loss == pytest.approx(3.54791e10, rel=1e-5)
    assert found.trial.best_loss != old.trial.best_loss


def test_a_folder_of_another_method_is_not_gone_on_with() -> None:
    plan = prepare(benchmark([("gradient", None)]), "doors")
    others = prepare(benchmark([("gradient", "paper"), ("genetic", None)]), "doors")
    for searched, ran_otherwise in ((plan, True), (others, False)):
        experiment = BenchmarkExperiment(searched)
        noted = experiment.identity()
        assert experiment.other_run(noted) == ""
        noted["provenance"].pop("hyperparameters")  # folders had none
        assert bool(experiment.other_run(noted)) == ran_otherwise


def test_other_shipped_weights_are_another_run_and_another_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = prepare(benchmark([("gradient", None), ("genetic", None)]), "doors")

    def addresses() -> dict[str, str]:
        request = Request(LAYER, "mm256", searcher="gradient", iterations=100)
        found = {label: Questions(plan).of((label, *rest)).address for label, *rest in searches}
        return {
            **found,
            "search": asked_of(request, SPACE.workload, request.device).question.address,
        }

    searches, noted = list(searches_of(plan)), BenchmarkExperiment(plan).identity()
    before = addresses()
    for file in address.SHIPPED.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes() + b" ")
    monkeypatch.setattr(address, "SHIPPED", tmp_path)
    stored_runs._surrogate.cache_clear()
    assert "other surrogates" in BenchmarkExperiment(plan).other_run(noted)
    noted["provenance"].pop("weights")  # folders had none
    assert BenchmarkExperiment(plan).other_run(noted) == ""
    changed = {name for name, found in addresses().items() if found != before[name]}
    stored_runs._surrogate.cache_clear()
    assert changed == {"gradient None", "search"}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["--set", "populaton=64"], "populaton of searcher genetic; known: .*Did you mean popul"),
        (["--set", "population=many"], "genetic: population: expected a whole number, got 'many'"),
        (["--set", "population"], "--set: expected NAME=VALUE once per name, got 'population'"),
        (["--set", "elite=1", "--set", "elite=2"], "once per name, got 'elite=2'"),
        (["--preset", "papr"], "Unknown preset 'papr' of searcher genetic; known: paper. Did you"),
    ],
)
def test_wrong_hyperparameters_are_one_line(
    written: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["search", LAYER], ["tile", "gemm:M=64,N=64,K=64", "--model", "tiling"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--searcher", "genetic", *written, "--no-store"])
        assert ended.value.code == 2
        assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("name", sorted(SEARCHERS))
def test_a_searcher_describes_itself(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["describe", "searcher", name, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in answer["hyperparameters"]] == [*searchers.hyperparameters(name)]
    assert all(one["meaning"] and one["allowed"] for one in answer["hyperparameters"])
    assert set(answer["presets"]) == set(searcher_class(name).OPTIONS.PRESETS)
    assert all(answer["presets"].values())  # each says where its values come from
    with pytest.raises(SystemExit):
        main(["describe", "searcher", name])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
