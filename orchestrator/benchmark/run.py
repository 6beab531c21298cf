"""`mapspace benchmark`: searchers x workloads x seeds under one budget, on Ray Tune, resumable.

The run folder holds `experiment.json` (what is run), `certificates/` (the proven optima),
`searches/` (how the searches stand, while it runs), `events/` (with a pool, what was asked and
answered), then `best.jsonl` (the best mapping of every searcher on every workload),
`curves.parquet` and `summary.json`. The same command again continues an interrupted run and leaves
a finished one. Nothing that Tune writes is read again.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from costmodel.models import COST_MODELS
from mapspace.errors import MapspaceError
from mapspace.extras import EXTRA_OF
from mapspace.storage import Place, make_folder, remove_folder
from orchestrator.benchmark.best_records import save_best
from orchestrator.benchmark.config import Benchmark, Plan, prepare
from orchestrator.benchmark.external_tuners import entries, run_peers
from orchestrator.benchmark.live_curves import LiveBenchmark
from orchestrator.benchmark.made_runs import MadeRuns
from orchestrator.benchmark.reference_optima import Optima, best_measured
from orchestrator.benchmark.tune_runner import SEARCHES_FOLDER, run_searches
from orchestrator.benchmark.warm_starts import check_store, warm_starts
from orchestrator.comparison import results_files as results_module
from orchestrator.comparison.many_runs import MOST_IN_MEMORY, Pair, write_runs
from orchestrator.comparison.page import (
    REPORT_FILE,
    draw_report,
    is_result,
    text_table,
    write_report,
)
from orchestrator.comparison.results import ROUNDING, Results, Run
from orchestrator.comparison.search_time import shared_text
from orchestrator.runs.lock import Claim
from orchestrator.runs.ray_runtime import code_version
from orchestrator.runs.run_folder import Experiment, Say, say
from orchestrator.runs.tables_file import environment
from orchestrator.store.address import surrogate_digest
from orchestrator.store.folder import Store
from searchers import SEARCHERS, resolved, searcher_class

# Seconds of real time between two states of the same searches in the run folder.
CHECKPOINT_SECONDS = 5.0
# About what Ray and its workers take to start and stop.
START_UP_SECONDS = 15.0


class BenchmarkExperiment(Experiment[Plan, Results]):
    """A benchmark in its run folder."""

    command = "benchmark"
    words = "a benchmark"
    config = Benchmark
    file = "experiment.json"
    result_file = results_module.SUMMARY_FILE
    page = REPORT_FILE
    tracked = True
    quick: ClassVar = {
        "kind": "benchmark",
        "name": "quick",
        "workloads": ["gemm:M=4,N=4,K=256"],
        "searchers": {"random": {}},
        "seeds": 1,
        "iterations": 50,
    }

    @classmethod
    def prepare(cls, config: Benchmark, where: str) -> Plan:
        """Looks up every name, and tries every searcher on every workload."""
        return prepare(config, where)

    @classmethod
    def libraries(cls, config: Benchmark) -> tuple[str, ...]:
        """Those of its searchers."""
        found: set[str] = set()
        for entry in config.searchers:
            if entry.name not in SEARCHERS:
                continue  # `prepare` says where it stands
            found |= {*searcher_class(entry.name).libraries()}
        return tuple(sorted(found & set(EXTRA_OF)))

    @property
    def settings(self) -> Benchmark:
        """As the file has it."""
        return self.plan.benchmark

    def identity(self) -> dict[str, Any]:
        """What decides the results."""
        return describe(self.plan)

    def other_run(self, there: Any) -> str:
        """A run of anything else."""
        mine, noted = self.identity(), there.get("provenance", {})
        if "hyperparameters" not in noted and not _ran_otherwise(self.settings):
            mine["provenance"].pop("hyperparameters")
        if "weights" not in noted:
            mine["provenance"].pop("weights", None)
        if there == mine:
            return ""
        # Folders of before there was a choice say no clock.
        by_wall = {**mine, "experiment": {**mine["experiment"], "clock": "wall"}}
        experiment = there.get("experiment", {})
        if {**there, "experiment": {"clock": "wall", **experiment}} != by_wall:
            return "holds another experiment or other surrogates"
        if self.settings.clock == "wall":
            return ""
        return "holds searches timed by the wall; clock: wall in the experiment goes on with them"

    def check(self, folder: Place) -> None:
        """Refuses a warm start without a store."""
        if self.plan.benchmark.warm_start:
            check_store(folder / SEARCHES_FOLDER, self.store)

    def work(self, folder: Place, claim: Claim) -> Results:
        """Runs the searches, proves the optima beside them and saves the results."""
        plan, warm = self.plan, dict[str, Any]()
        if plan.benchmark.warm_start:
            states = folder.resolve() / SEARCHES_FOLDER
            make_folder(states)
            begins = warm_starts(plan, states, self.store)
            codes = {name: [c for one in own for c in one.codes] for name, own in begins.items()}
            plan = replace(plan, begins=codes)
            warm = {name: [one.workload for one in own] for name, own in begins.items()}
            warm = {"warm_start": warm}
        self.progress.stage("proving the optima", unit="workloads", total=len(plan.workloads))
        optima = Optima(plan, folder, self.say, self.store)
        live = LiveBenchmark(plan, self.progress, self.say, optima.known, self.limits)
        made, spent = run_searches(
            plan, folder, CHECKPOINT_SECONDS, live, self.store, beside=optima
        )
        self.taken += live.taken
        self.made += live.total - live.taken
        bounds = optima.bounds()
        # Once more, as optima may have come after the last search.
        self.progress.show(live.looks, now=True)
        if plan.cost_model.measured:
            made.add(run_peers(plan, folder, self.say))
        labels = [*(entry.label for entry in plan.benchmark.searchers), *plan.benchmark.peers]
        runs = _together(made, itertools.product(labels, plan.workloads), folder)
        if not bounds:
            bounds = {name: best_measured(runs, name) for name in plan.workloads}
        identity = self.identity()
        results = Results(
            experiment={
                **identity["experiment"],
                "searchers": [*identity["experiment"]["searchers"], *entries(plan)],
            },
            bounds=bounds,
            runs=runs,
            provenance={**identity["provenance"], **_environment(plan), **warm},
        )
        if spent:
            # By the wall, as all that they are held against.
            seconds = sum(float(results.column("wall_seconds", name).sum()) for name in labels)
            spent = {"search_seconds": seconds, **spent}
            self.say(f"{self.name}: {overhead(len(runs), **spent)}")
            results = replace(results, provenance={**results.provenance, **spent})
        shared = shared_text(results)
        if shared:
            results = replace(results, provenance={**results.provenance, "shared": shared})
        _check_bounds(results)
        self._tell_failures(results)
        claim.check()
        # First the records: a folder with a summary is finished.
        save_best(plan, runs, folder)
        results_module.save(results, folder)
        # What is needed is in the two files; the states are for continuing only.
        remove_folder(folder / SEARCHES_FOLDER)
        return results

    def _tell_failures(self, results: Results) -> None:
        """Says which searches failed or found nothing."""
        for pair in itertools.product(results.searchers, results.workloads):
            lost = ~np.isfinite(results.column("best_loss", *pair))
            if not lost.any() and not results.column("failure", *pair).any():
                continue
            for run in results.of(*pair):
                reasons = [run.failure] if run.failure else []
                if not math.isfinite(run.best_loss):
                    reasons.append("found no mapping within its budget")
                if reasons:
                    line = f"{run.searcher} on {run.workload}, seed {run.seed}"
                    self.progress.fail(f"{line}: {'; '.join(reasons)}")
                    self.say(f"{line}: {'; '.join(reasons)}")

    def load(self, folder: Place) -> Results:
        """Reads the results."""
        return results_module.load(folder)

    def text(self, result: Results, folder: Path) -> str:
        """The table of what every method ends with."""
        return text_table(result)

    def draw(self, result: Results, folder: Path) -> None:
        """Writes the page and its figures."""
        draw_report({folder: result}, folder)

    def log(self, result: Results, folder: Path, tracking_uri: str) -> Mapping[str, str]:
        """A parent run, and a child per method and workload."""
        from orchestrator.benchmark.mlflow_log import log_results

        logged = log_results(result, folder, tracking_uri)
        return {"curves": logged.curves, "compare": logged.compare}

    def live_tags(self) -> Mapping[str, str]:
        """Those of the parent run."""
        from orchestrator.benchmark.mlflow_log import parent_tags

        return parent_tags(self.name, self.settings.description, code_version())

    @classmethod
    def is_needed(cls, name: str) -> bool:
        """Curves, summary and certificates."""
        return is_result(name)

    @classmethod
    def report(cls, folder: Place, *, tracking_uri: str | None = None) -> Path:
        """Draws the page of a benchmark, or of several in a folder."""
        return write_report(folder, tracking_uri=tracking_uri)


def run_benchmark(
    plan: Plan, folder: Place | str, *, progress: Say = say, store: Store | None = None
) -> Results:
    """Runs a benchmark, continues it, or reads it where it is finished, as `Experiment.run` does.

    Args:
        plan: what to run.
        folder: the run folder, a path or a URI, made if it is not there.
        progress: takes lines for a person.
        store: where searches that were made before are read, and new ones kept; None: nowhere.
    """
    return BenchmarkExperiment(plan, say=progress, store=store).run(folder)


def _together(made: MadeRuns, pairs: Iterable[Pair], folder: Place) -> Sequence[Run]:
    """All runs in the order of their pairs; many are written to their files meanwhile."""
    batches = filter(None, map(made.of, pairs))
    if len(made) > MOST_IN_MEMORY:
        return write_runs(batches, folder)
    return tuple(run for runs in batches for run in runs)


def overhead(
    searches: int,
    search_seconds: float,
    elapsed_seconds: float,
    processors: float,
    proof_seconds: float = 0.0,
) -> str:
    """In words, which share of the processors' time went into no searcher, cost model or proof."""
    share = 1 - (search_seconds + proof_seconds) / (elapsed_seconds * processors)
    # Of searches this short a share would tell how long Ray takes to start.
    tiny = search_seconds < START_UP_SECONDS * processors
    rest = "the rest is start-up" if tiny else f"{100 * share:.1f} % overhead"
    proofs = f" and {proof_seconds:,.1f} s of proofs" if proof_seconds else ""
    return (
        f"{searches:,} searches: {search_seconds:,.1f} s of search{proofs} in "
        f"{elapsed_seconds:,.1f} s on "
        f"{processors} processors; {rest}"
    )


def describe(plan: Plan) -> dict[str, Any]:
    """What decides the results of a benchmark, as JSON types: two equal ones are the same run."""
    model = plan.model()
    return {
        # How long a proof may take decides nothing that a search does.
        "experiment": json.loads(plan.benchmark.model_dump_json(exclude={"proof_seconds"})),
        "provenance": {
            "model": model.name,
            "model_version": model.version,
            "accelerator": plan.accelerator.hash,
            "workloads": {name: found.hash for name, found in plan.workloads.items()},
            "surrogates": {name: surrogate_digest(path) for name, path in plan.surrogates.items()},
            **_shipped_weights(plan),
            # A default that has changed is another run.
            "hyperparameters": {
                entry.label: resolved(entry.name, entry.preset, entry.parameters)
                for entry in plan.benchmark.searchers
            },
        },
    }


def _shipped_weights(plan: Plan) -> dict[str, str]:
    """The digest of the shipped surrogates, where a search follows one of them."""
    follows = any("predictor" in searcher_class(e.name).USES for e in plan.benchmark.searchers)
    families = {found.family for found in plan.workloads.values()}
    return {"weights": surrogate_digest(None)} if follows and families - {*plan.surrogates} else {}


def _ran_otherwise(benchmark: Benchmark) -> bool:
    """Whether folders that note no hyperparameters have other searches than their file says.

    They ran projected descent where the gradient search was not told its method.
    """
    untold = [e for e in benchmark.searchers if e.name == "gradient" and e.preset is None]
    return any("method" not in entry.parameters for entry in untold)


def _check_bounds(results: Results) -> None:
    """Holds every search against the bounds.

    Raises:
        MapspaceError: one found less than the least: cost model and proof contradict each other.
    """
    for searcher, workload in itertools.product(results.searchers, results.workloads):
        least = results.bounds[workload].reference
        if (results.column("best_loss", searcher, workload) < least * (1 - ROUNDING)).any():
            run = min(results.of(searcher, workload), key=lambda run: run.best_loss)
            raise MapspaceError(
                f"{run.workload}: expected no {results.objective_name} below {least!r}, which is "
                f"certified as the least, but {run.searcher} with seed {run.seed} found "
                f"{run.best_loss!r}: an error in the proof or the cost model, please report it. "
                "With proof_seconds: 0 the same command goes on without proofs."
            )


def _environment(plan: Plan) -> dict[str, Any]:
    """What computed the results, without naming the machine."""
    import platform
    from importlib.metadata import version

    return {
        **environment(),
        "python": platform.python_version(),
        "ray": version("ray"),
        "clock_ghz": plan.accelerator.clock_ghz,
        "plugins": _plugins(plan),
    }


def _plugins(plan: Plan) -> dict[str, str]:
    """The packages, with their versions, whose searchers or cost model a benchmark uses."""
    used = [
        (COST_MODELS, plan.benchmark.model),
        *((SEARCHERS, entry.name) for entry in plan.benchmark.searchers),
    ]
    packages = {f"{table.what} {name}": table.package(name) for table, name in used}
    return {what: package for what, package in packages.items() if package is not None}
