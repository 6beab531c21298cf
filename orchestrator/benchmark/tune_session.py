"""One session of Ray Tune: quiet, on the processors it may have, with nothing kept."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mapspace.errors import MapspaceError
from mapspace.left_behind import scratch_folder
from mapspace.storage import Place, write_atomically
from orchestrator.benchmark.config import Plan
from orchestrator.benchmark.curve_sums import HOPELESS
from orchestrator.benchmark.live_curves import LiveBenchmark
from orchestrator.pool.making import cpus_of

ERRORS_FILE = "errors.txt"


@contextlib.contextmanager
def quiet_tune(trials: bool, cores: int | None, needed: int = 1) -> Iterator[int]:
    """Starts Ray if nobody has, and sets what Tune reads from the environment meanwhile.

    Args:
        trials: whether trials are whole searches, which all are known beforehand.
        cores: that a Ray which starts here has; None: all.
        needed: processors that one trial takes.

    Yields:
        How many processors Ray has.
    """
    from orchestrator.runs.ray_runtime import ray_runtime

    settings = {
        # Tune's own CSV, JSON and TensorBoard files cost 40 % of the throughput and are not read.
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        # Ctrl-C ends the command like any other; what was saved is continued later.
        "TUNE_DISABLE_SIGINT_HANDLER": "1",
        # Nobody reads Tune's own state.
        "TUNE_GLOBAL_CHECKPOINT_S": "inf",
        # The new output prints a banner even where it is told to be silent.
        "RAY_AIR_NEW_OUTPUT": "0",
        "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    }
    if trials:
        # Otherwise one worker starts after another.
        settings["TUNE_MAX_PENDING_TRIALS_PG"] = "16"
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    # Failed trials are reported once, in one line, when all are done.
    logger = logging.getLogger("ray.tune")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with ray_runtime(cpus=cores, needed=needed):
            import ray

            yield int(ray.cluster_resources().get("CPU", 1))
    finally:
        logger.setLevel(level)
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def fit(
    trainable: Any, config: Any, callbacks: Sequence[Any], folder: Place, live: LiveBenchmark
) -> None:
    """Lets Tune run its trials; what it writes for itself is thrown away.

    Raises:
        MapspaceError: trials failed, after retries; the message has the first error.
    """
    from ray import tune

    from orchestrator.benchmark.tune_progress import FinishedTrials, LostNodes, StopAtLimit

    with scratch_folder("tune") as storage:
        grid = tune.Tuner(
            trainable,
            tune_config=config,
            run_config=tune.RunConfig(
                storage_path=str(storage),
                verbose=0,
                stop=StopAtLimit(live),
                callbacks=[*callbacks, LostNodes(), FinishedTrials()],
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                # A worker that dies costs its work since the last state, not the benchmark.
                failure_config=tune.FailureConfig(max_failures=2),
            ),
        ).fit()
        ended = [result.error or (result.metrics or {}).get(HOPELESS) for result in grid]
        errors = [str(error) for error in ended if error is not None]
    if errors:
        log = folder / ERRORS_FILE
        write_atomically(log, ("\n\n".join(errors) + "\n").encode())
        lines = [line for line in errors[0].splitlines() if re.match(r"[\w.]+(Error|Died)\b", line)]
        cause = lines[-1] if lines else errors[0].strip().splitlines()[-1]
        raise MapspaceError(
            f"{len(errors)} of {len(grid)} trials failed; the first: {cause} (all in {log}). "
            "The same command tries them again."
        )


def scheduling(plan: Plan, live: LiveBenchmark) -> dict[str, Any]:
    """How Tune runs the trials of any host."""
    cores, each = live.limits.cores, pool_cpus(plan) or 1.0
    trials = None if cores is None else max(1, int(cores / each))
    most = [n for n in (plan.benchmark.concurrency, trials) if n is not None]
    return {
        "max_concurrent_trials": min(most, default=None),
        "reuse_actors": True,
        # Names of experiments are no names of folders.
        "trial_dirname_creator": lambda trial: str(trial.trial_id),
    }


def pool_cpus(plan: Plan) -> float:
    """Processors of Ray that a trial's evaluators take; 0 where it has none."""
    if plan.benchmark.host != "pool":
        return 0.0
    return (plan.benchmark.workers or 1) * cpus_of(plan.benchmark.measurement)


def budget_text(plan: Plan) -> str:
    """What each search of a benchmark has, for a person."""
    benchmark = plan.benchmark
    if benchmark.visited is not None:
        return f"{100 * benchmark.visited:g} % of the space"
    if benchmark.iterations is not None:
        return f"{benchmark.iterations:,} iterations"
    what = "processor time" if benchmark.clock == "processor" else "time"
    return f"{benchmark.seconds:g} s of {what}"
