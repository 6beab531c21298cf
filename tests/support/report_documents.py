"""A page of every kind of run, as data, with a name in it that is no markup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from marvel_rows import REMAINDERS, joint, row, sampled, second
from paths import ROOT
from sample_results import make_results

import mapspace as ms
from costmodel.loop_nest.record_forms import as_nest
from orchestrator.answers.mapping_page import facts_section, search_document
from orchestrator.comparison.page import benchmark_document
from orchestrator.explain.text import compared_document, explained_document
from orchestrator.marvel.numbers import Study
from orchestrator.marvel.sections import sections
from orchestrator.report.document import Document
from orchestrator.sweep.config import Sweep
from orchestrator.sweep.plan import prepare_sweep
from orchestrator.sweep.proofs import Proof
from orchestrator.sweep.report import sweep_document
from orchestrator.sweep.results import collect, problems_of
from orchestrator.training.study_config import Outcome, TrainingStudy
from orchestrator.training.study_report import study_document
from orchestrator.training.surrogate_report import surrogate_document
from surrogate.options import CurvePoint, FitOptions
from surrogate.predictor import Card, read_card

OWN = as_nest(
    {
        "workload": "gemm:M=4,N=2,K=2",
        "accelerator": "mm256-bw",
        "mapping": [{"level": "L1", "temporal": [["M", 4], ["N", 2], ["K", 2]]}],
    }
)
CURVE = tuple(
    CurvePoint(
        views=views, seconds=1.0, loss=1 / views, held_out_loss=2 / views, rmse=0.3, spearman=found
    )
    for views, found in ((1000, 0.8), (2000, 0.9))
)


def benchmark(folder: Path, name: str) -> Document:
    results = make_results(description=name)
    lost = replace(results.runs[0], failure=name)
    results = replace(results, runs=(lost, *results.runs[1:]))
    timed = make_results(name="timed", seconds=1.0, iterations=None)
    return benchmark_document({folder / "a": results, folder / "b": timed}, folder)


def sweep(folder: Path, name: str) -> Document:
    content = {
        "kind": "sweep",
        "name": "test",
        "description": name,
        "grid": {"L1.capacity_words": [16, 64], "L2.fanout": [4, 8]},
        "workloads": ["gemm:M=16,N=16,K=16"],
    }
    plan = prepare_sweep(Sweep.model_validate(content), "test.yaml")
    proofs = {
        problem.key: Proof(
            key=problem.key,
            status="proven",
            energy_pj=1e9 / (1 + place),
            latency_cycles=1000,
            gap=0.0,
            record={},
            lower_bound=1e12,
            seconds=1.0,
            limit_seconds=1.0,
        )
        for place, problem in enumerate(problems_of(plan))
    }
    return sweep_document(collect(plan, proofs))


def marvel(folder: Path, name: str) -> Document:
    runs = [sampled("random", 0, 100.0, 4.0), joint(40.0, complete=True)]
    rows = [row(baselines=runs, remainders=REMAINDERS), second()]
    study = Study(name, "What for.", rows, [("marvel-l9", "edge-1024", name)])
    return Document(study.name, study.description, sections(study))


def training(folder: Path, name: str) -> Document:
    return surrogate_document(_card(), CURVE, "cnn", name)


def training_study(folder: Path, name: str) -> Document:
    study = TrainingStudy.model_validate(
        {
            "kind": "training-study",
            "name": "test",
            "description": name,
            "training": {"data": str(folder)},
            "losses": ["huber", "mae"],
            "rows": [2000, 4000],
        }
    )
    outcomes = {
        key: Outcome(FitOptions(loss=options.loss, rows=options.rows), _card(), CURVE, 1.25)
        for key, options in study.trainings().items()
    }
    return study_document(study, outcomes)


def search(folder: Path, name: str) -> Document:
    layer = ms.workload("gemm:M=4,N=2,K=2").model_copy(update={"name": name})
    result = ms.search(layer, "mm256-bw")
    return search_document(result, [facts_section("Further", [("label", name)])])


def explained(folder: Path, name: str) -> Document:
    return explained_document(ms.explain_mapping(OWN | {"arch_name": name}))


def compared(folder: Path, name: str) -> Document:
    return compared_document(ms.diff(OWN | {"arch_name": name}, OWN))


def _card() -> Card:
    return read_card(ROOT / "surrogate" / "weights" / "cnn-mm256.json")


DOCUMENTS: dict[str, Callable[[Path, str], Document]] = {
    "benchmark": benchmark,
    "sweep": sweep,
    "marvel": marvel,
    "train": training,
    "training-study": training_study,
    "search": search,
    "explain": explained,
    "diff": compared,
}
