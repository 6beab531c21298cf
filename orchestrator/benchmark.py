"""`mapspace benchmark`: searchers x workloads x seeds under one budget, on Ray Tune, resumable.

The run folder holds `experiment.json` (what is run), `certificates/` (the proven optima), `tune/`
(while it runs), then `curves.parquet` and `summary.json`. The same command again continues an
interrupted run and leaves a finished one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from costmodel.errors import ConfigError, MapspaceError
from orchestrator import results as results_module
from orchestrator.experiment import Plan, SearcherEntry, make_searcher
from orchestrator.lock import Claim, claimed
from orchestrator.peers import entries, run_peers
from orchestrator.places import local_files, ray_storage
from orchestrator.proofs import best_measured, bound_workloads
from orchestrator.results import ROUNDING, Results, Run
from surrogate.storage import Place, file_sizes, place, remove_folder, write_atomically

EXPERIMENT_FILE = "experiment.json"
TUNE_FOLDER = "tune"
TUNE_NAME = "trials"
ERRORS_FILE = "errors.txt"

# Seconds of real time between two checkpoints within a search, and of Tune's own state.
CHECKPOINT_SECONDS = 5.0

# What Ray says of a trial that it cannot continue.
LOST_CHECKPOINT = "Could not recover from checkpoint"

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
    with _quiet_tune():
        if plan.benchmark.host == "trials":
            runs = _run_trials(plan, folder / TUNE_FOLDER, progress)
        else:
            runs = _run_blocks(plan, folder / TUNE_FOLDER, progress)
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
        provenance={**identity["provenance"], **_environment()},
    )
    _check_bounds(results)
    for run in runs:
        if run.failure:
            progress(f"{run.searcher} on {run.workload}, seed {run.seed}: {run.failure}")
    claim.check()
    results_module.save(results, folder)
    # What is needed is in the two files; Tune's folder is for continuing only.
    remove_folder(folder / TUNE_FOLDER)
    return results


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


def _run_trials(plan: Plan, storage: Place, progress: Say) -> list[Run]:
    """Host `trials`: Tune schedules (searcher, workload, seeds), each trial searches."""
    from ray import tune

    from orchestrator.progress import TrialProgress
    from orchestrator.state import load_state
    from orchestrator.trial import STATE_FILE, run_trial, unpack_run

    benchmark = plan.benchmark
    tasks = [
        {
            "searcher": entry.label,
            "workload": workload,
            "seeds": list(seeds),
        }
        for workload in plan.workloads
        for entry in benchmark.searchers
        for seeds in _batched(
            benchmark.seeds_of(entry),
            benchmark.seeds_per_trial or len(benchmark.seeds_of(entry)),
        )
    ]
    trainable = tune.with_resources(
        tune.with_parameters(run_trial, plan=plan, checkpoint_seconds=CHECKPOINT_SECONDS),
        lambda config: _processors(plan.entry(config["task"]["searcher"])),
    )
    tuner = _interrupted(plan, storage, trainable, progress)
    if tuner is None:
        progress(
            f"{benchmark.name}: searchers x workloads x seeds = {len(benchmark.searchers)} x "
            f"{len(plan.workloads)} x {_seed_counts(plan)}, {_budget(plan)} each, "
            f"in {len(tasks)} trials"
        )
        tuner = tune.Tuner(
            trainable,
            param_space={"task": tune.grid_search(tasks)},
            tune_config=tune.TuneConfig(
                max_concurrent_trials=benchmark.concurrency,
                reuse_actors=True,
                trial_dirname_creator=_trial_folder,
            ),
            run_config=_run_config(
                storage, tune.CheckpointConfig(num_to_keep=1), [TrialProgress(len(tasks))]
            ),
        )
    runs = []
    grid = tuner.fit()
    if any(LOST_CHECKPOINT in str(result.error) for result in grid if result.error is not None):
        # The driver died between a trial's new checkpoint and Tune's note of it.
        progress(f"{benchmark.name}: starting anew the trials whose checkpoint was being replaced")
        grid = _restored(storage, trainable, restart_errored=True).fit()
    for result in _checked(grid, storage.parent):
        task = result.config["task"]
        with result.checkpoint.as_directory() as checkpoint:
            finished = load_state(Path(checkpoint) / STATE_FILE)["finished"]
        for seed, packed in zip(task["seeds"], finished, strict=True):
            runs.append(unpack_run(packed, task["searcher"], task["workload"], seed))
    return runs


def _batched(seeds: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(seeds), size):
        yield seeds[start : start + size]


def _seed_counts(plan: Plan) -> str:
    """How many seeds the methods have: a number, or the least and the most."""
    counts = [len(plan.benchmark.seeds_of(entry)) for entry in plan.benchmark.searchers]
    least, most = min(counts), max(counts)
    return str(most) if least == most else f"{least} to {most}"


def _processors(entry: SearcherEntry) -> Any:
    """What a trial takes of Ray: a processor, and one for every remote runner of its searcher."""
    from ray import tune

    runners = int(entry.parameters.get("runners", 0))
    return tune.PlacementGroupFactory([{"CPU": 1}] * (1 + runners))


def _run_blocks(plan: Plan, storage: Place, progress: Say) -> list[Run]:
    """Host `blocks`: Tune schedules blocks of mappings, all searches run side by side.

    Raises:
        ConfigError: a searcher wants remote runners.
    """
    from ray import tune

    from orchestrator.progress import BlockProgress
    from orchestrator.trial import make_evaluator, pack_result, unpack_run
    from orchestrator.tune_search import BlockSearch, DeliveredCosts, EvaluateBlock, TuneSearch

    benchmark = plan.benchmark
    for entry in benchmark.searchers:
        if entry.parameters.get("runners", 0):
            raise ConfigError(
                f"searchers.{entry.label}.parameters.runners: expected 0 with host: blocks, got "
                f"{entry.parameters['runners']}; the blocks take Ray's processors, and the runners "
                "would wait for them for ever."
            )
    model = plan.model()
    spaces = {name: plan.space(name) for name in plan.workloads}
    tasks = [
        (entry, workload, seed)
        for workload in plan.workloads
        for entry in benchmark.searchers
        for seed in benchmark.seeds_of(entry)
    ]
    trainable = tune.with_parameters(
        EvaluateBlock,
        model=model,
        spaces=[spaces[workload] for _, workload, _ in tasks],
        objective=benchmark.objective,
    )
    search = TuneSearch(
        [
            BlockSearch(
                make_searcher(plan, entry, spaces[workload], seed=seed),
                make_evaluator(
                    plan, DeliveredCosts(model.name, model.version), spaces[workload], entry
                ),
                benchmark.block_size,
            )
            for entry, workload, seed in tasks
        ]
    )
    tuner = _interrupted(plan, storage, trainable, progress)
    if tuner is None:
        progress(
            f"{benchmark.name}: {len(tasks)} searches, {_budget(plan)} each, "
            f"in blocks of {benchmark.block_size} mappings"
        )
        tuner = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=search,
                num_samples=-1,
                max_concurrent_trials=benchmark.concurrency,
                reuse_actors=True,
                trial_dirname_creator=_trial_folder,
            ),
            # A block that is lost is evaluated again from its configuration.
            run_config=_run_config(
                storage,
                tune.CheckpointConfig(checkpoint_at_end=False),
                [BlockProgress(len(tasks))],
            ),
        )
    _checked(tuner.fit(), storage.parent)
    # A continued run searched with the copy that Tune restored; the final state is saved.
    with local_files(storage / TUNE_NAME) as state:
        search.restore_from_dir(str(state))
    return [
        unpack_run(
            pack_result(done.evaluator.result(), done.searcher.failure), entry.label, workload, seed
        )
        for (entry, workload, seed), done in zip(tasks, search.searches, strict=True)
    ]


def _interrupted(plan: Plan, storage: Place, trainable: Any, progress: Say) -> Any:
    """The tuner of a run that was interrupted; None where none was."""
    from ray import tune

    where = ray_storage(storage / TUNE_NAME)
    path = where.pop("storage_path")
    if not tune.Tuner.can_restore(path, **where):
        return None
    progress(f"{plan.benchmark.name}: continuing")
    return _restored(storage, trainable, resume_errored=True)


def _restored(storage: Place, trainable: Any, **options: bool) -> Any:
    from ray import tune

    where = ray_storage(storage / TUNE_NAME)
    path = where.pop("storage_path")
    return tune.Tuner.restore(path, trainable=trainable, **options, **where)


def _checked(grid: Any, folder: Place) -> Any:
    """The results of a tuner.

    Raises:
        MapspaceError: trials failed, after retries; the message has the first error.
    """
    errors = [str(result.error) for result in grid if result.error is not None]
    if errors:
        log = folder / ERRORS_FILE
        write_atomically(log, ("\n\n".join(errors) + "\n").encode())
        lines = [line for line in errors[0].splitlines() if re.match(r"[\w.]+(Error|Died)\b", line)]
        cause = lines[-1] if lines else errors[0].strip().splitlines()[-1]
        raise MapspaceError(
            f"{len(errors)} of {len(grid)} trials failed; the first: {cause} (all in {log}). "
            "The same command tries them again."
        )
    return grid


def _run_config(storage: Place, checkpoints: Any, callbacks: list[Any]) -> Any:
    from ray import tune

    return tune.RunConfig(
        name=TUNE_NAME,
        **ray_storage(storage),
        verbose=0,
        callbacks=callbacks,
        checkpoint_config=checkpoints,
        # A worker that dies costs its work since the last checkpoint, not the benchmark.
        failure_config=tune.FailureConfig(max_failures=2),
    )


@contextlib.contextmanager
def _quiet_tune() -> Iterator[None]:
    """Starts Ray if nobody has, and sets what Tune reads from the environment meanwhile."""
    from orchestrator.runtime import ray_runtime

    settings = {
        # Tune's own CSV, JSON and TensorBoard files cost 40 % of the throughput and are not read.
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        # Ctrl-C ends the command like any other; what was saved is continued later.
        "TUNE_DISABLE_SIGINT_HANDLER": "1",
        "TUNE_GLOBAL_CHECKPOINT_S": str(CHECKPOINT_SECONDS),
        # The new output prints a banner even where it is told to be silent.
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    }
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    # Failed trials are reported once, in one line, when all are done.
    logger = logging.getLogger("ray.tune")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with ray_runtime():
            yield
    finally:
        logger.setLevel(level)
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _trial_folder(trial: Any) -> str:
    return str(trial.trial_id)


def _budget(plan: Plan) -> str:
    benchmark = plan.benchmark
    if benchmark.visited is not None:
        return f"{100 * benchmark.visited:g} % of the space"
    if benchmark.iterations is not None:
        return f"{benchmark.iterations:,} iterations"
    return f"{benchmark.seconds:g} s"


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
