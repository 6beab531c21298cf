"""`mapspace benchmark`: searchers x workloads x seeds under one budget, on Ray Tune, resumable.

The run folder holds `experiment.json` (what is run), `certificates/` (the proven optima),
`searches/` (how the searches stand, while it runs), then `curves.parquet` and `summary.json`. The
same command again continues an interrupted run and leaves a finished one. Nothing that Tune writes
is read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from costmodel.errors import ConfigError, MapspaceError
from orchestrator import results as results_module
from orchestrator.experiment import Plan
from orchestrator.hosts import SEARCHES_FOLDER, run_searches
from orchestrator.lock import Claim, claimed
from orchestrator.peers import entries, run_peers
from orchestrator.proofs import best_measured, bound_workloads
from orchestrator.results import ROUNDING, Results
from surrogate.storage import Place, file_sizes, place, remove_folder, write_atomically

EXPERIMENT_FILE = "experiment.json"

# Seconds of real time between two states of the same searches in the run folder.
CHECKPOINT_SECONDS = 5.0

Say = Callable[[str], None]


def say(line: str) -> None:
    """Prints a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def run_benchmark(plan: Plan, folder: Place | str, *, progress: Say = say) -> Results:
    """Runs a benchmark, continues it, or reads it where it is finished.

    Args:
        plan: what to run.
        folder: the run folder, a path or a URI, made if it is not there.
        progress: takes lines for a person.

    Returns:
        The results, which then also lie in the folder.

    Raises:
        ConfigError: the folder holds another experiment, or another run writes to it.
        MapspaceError: trials failed, or found what is proven not to exist.
    """
    folder = place(folder)
    identity = describe(plan)
    finished = (folder / results_module.SUMMARY_FILE).exists() and _begin(folder, identity)
    if not finished:
        with claimed(folder) as claim:
            finished = _begin(folder, identity)
            if not finished:
                return _run(plan, folder, identity, claim, progress)
    progress(f"{plan.benchmark.name}: already finished in {folder}")
    return results_module.load(folder)


def _run(
    plan: Plan, folder: Place, identity: dict[str, Any], claim: Claim, progress: Say
) -> Results:
    """Runs or continues what is not finished, and saves the results."""
    # Before Ray starts: a proof takes memory and a processor, and no search shall wait for it.
    bounds = bound_workloads(plan, folder, progress)
    runs, spent = run_searches(plan, folder, CHECKPOINT_SECONDS, progress)
    if spent:
        progress(f"{plan.benchmark.name}: {overhead(len(runs), **spent)}")
    order = {
        (label, workload): position
        for position, (label, workload) in enumerate(
            (label, workload)
            for label in (
                *(entry.label for entry in plan.benchmark.searchers),
                *plan.benchmark.peers,
            )
            for workload in plan.workloads
        )
    }
    if plan.world.measured:
        runs += run_peers(plan, folder, progress)
        bounds = {name: best_measured(runs, name) for name in plan.workloads}
    runs.sort(key=lambda run: (order[run.searcher, run.workload], run.seed))
    results = Results(
        experiment={
            **identity["experiment"],
            "searchers": [*identity["experiment"]["searchers"], *entries(plan)],
        },
        bounds=bounds,
        runs=tuple(runs),
        provenance={**identity["provenance"], **_environment(), **spent},
    )
    _check_bounds(results)
    for run in runs:
        if run.failure:
            progress(f"{run.searcher} on {run.workload}, seed {run.seed}: {run.failure}")
    claim.check()
    results_module.save(results, folder)
    # What is needed is in the two files; the states are for continuing only.
    remove_folder(folder / SEARCHES_FOLDER)
    return results


def overhead(
    searches: int, search_seconds: float, elapsed_seconds: float, processors: float
) -> str:
    """In words, which share of the processors' time went neither into searchers nor cost models."""
    share = 1 - search_seconds / (elapsed_seconds * processors)
    return (
        f"{searches:,} searches: {search_seconds:,.1f} s of search in {elapsed_seconds:,.1f} s on "
        f"{processors} processors; {100 * share:.1f} % overhead"
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
            "surrogates": {name: _digest(place(path)) for name, path in plan.surrogates.items()},
        },
    }


def _check_bounds(results: Results) -> None:
    """Holds every search against the bounds.

    Raises:
        MapspaceError: one found less than the least: cost model and proof contradict each other.
    """
    for run in results.runs:
        least = results.bounds[run.workload].reference
        if run.best_loss < least * (1 - ROUNDING):
            raise MapspaceError(
                f"{run.workload}: expected no {results.objective_name} below {least!r}, which is "
                f"certified as the least, but {run.searcher} with seed {run.seed} found "
                f"{run.best_loss!r}: an error in the proof or the cost model, please report it. "
                "With proof_seconds: 0 the same command goes on without proofs."
            )


def _begin(folder: Place, identity: dict[str, Any]) -> bool:
    """Claims the folder for an experiment; True if it is already finished there.

    Raises:
        ConfigError: the folder holds another experiment.
    """
    path = folder / EXPERIMENT_FILE
    if path.exists():
        try:
            before = json.loads(path.read_text())
        except ValueError:
            before = None
        if before != identity:
            raise ConfigError(
                f"{folder}: holds another experiment or other surrogates; choose another --output "
                "or remove the folder."
            )
        return (folder / results_module.SUMMARY_FILE).exists()
    write_atomically(path, (json.dumps(identity, indent=1) + "\n").encode())
    return False


def _digest(source: Place) -> str:
    """SHA-256 over the files of a surrogate, 16 digits."""
    digest = hashlib.sha256()
    files: list[Place]
    if not source.is_dir():
        files = [source]
    elif isinstance(source, Path):
        files = [file for file in sorted(source.rglob("*")) if file.is_file()]
    else:
        files = [source / name for name in sorted(file_sizes(source))]
    for file in files:
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _environment() -> dict[str, Any]:
    """What computed the results, without naming the machine."""
    import platform
    from importlib.metadata import version

    return {
        "mapspace": version("mapspace"),
        "python": platform.python_version(),
        "ray": version("ray"),
        "processors": os.cpu_count(),
        "finished": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
    }
