"""Host one: a Tune trial is whole searches, one searcher on one workload, seed after seed.

The trial reports and checkpoints while it searches, with the clock stopped. A trial that is killed
continues from its checkpoint, in the middle of a seed; under a budget of iterations its result
equals an undisturbed one's.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from orchestrator.experiment import Plan, SearcherEntry, make_searcher
from orchestrator.results import Run
from orchestrator.state import load_state, save_state
from searchers import Evaluator, Searcher, TrialResult

STATE_FILE = "searches.npz"
WARM_UP_ITERATIONS = 512


def run_trial(config: Mapping[str, Any], plan: Plan, checkpoint_seconds: float) -> None:
    """The function that Tune runs.

    Args:
        config: `{"task": {"searcher": label, "workload": name, "seeds": [...]}}`.
        plan: the benchmark.
        checkpoint_seconds: the least time between two checkpoints within a search.
    """
    task = config["task"]
    searches = Searches(plan, task["searcher"], task["workload"], list(task["seeds"]))
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            searches.load(Path(folder) / STATE_FILE)
    searches.warm_up()
    last = time.monotonic()

    def report() -> None:
        nonlocal last
        with tempfile.TemporaryDirectory() as folder:
            searches.save(Path(folder) / STATE_FILE)
            tune.report(searches.progress(), checkpoint=tune.Checkpoint.from_directory(folder))
        last = time.monotonic()

    def after_step(_: Searcher) -> None:
        if time.monotonic() - last >= checkpoint_seconds:
            with searches.evaluator.paused():
                report()

    try:
        while searches.start_next():
            searches.searcher.run(searches.evaluator, after_step)
            searches.finish()
            if not searches.done and time.monotonic() - last >= checkpoint_seconds:
                report()
        report()
    finally:
        searches.close()


class Searches:
    """The searches of one trial: those that are finished and the one that is under way.

    Attributes:
        searcher: the current one.
        evaluator: the current one.
        finished: results so far, in the order of the seeds.
    """

    searcher: Searcher
    evaluator: Evaluator

    def __init__(self, plan: Plan, label: str, workload: str, seeds: list[int]) -> None:
        self.plan = plan
        self.entry: SearcherEntry = plan.entry(label)
        self.workload = workload
        self.seeds = seeds
        self.space = plan.space(workload)
        self.model = plan.model()
        self.finished: list[dict[str, Any]] = []
        self._under_way = False
        self._resumed: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        """Whether every seed is finished."""
        return len(self.finished) == len(self.seeds)

    def warm_up(self) -> None:
        """Compiles and loads on a throwaway search, so that no search pays for it in time."""
        if self.plan.world.measured:
            return  # a measurement does not count what its preparation took
        evaluator = Evaluator(
            self.model,
            self.space,
            objective=self.plan.benchmark.objective,
            iterations=WARM_UP_ITERATIONS,
        )
        make_searcher(self.plan, self.entry, self.space, seed=self.seeds[0]).run(evaluator)

    def start_next(self) -> bool:
        """Makes the searcher and evaluator of the next seed, or continues the loaded one."""
        if self.done:
            return False
        seed = self.seeds[len(self.finished)]
        self.searcher = make_searcher(self.plan, self.entry, self.space, seed=seed)
        self.evaluator = make_evaluator(self.plan, self.model, self.space, self.entry)
        if self._resumed is not None:
            self.searcher.load_state_dict(self._resumed["searcher"])
            self.evaluator.load_state_dict(self._resumed["evaluator"])
            self._resumed = None
        self._under_way = True
        return True

    def finish(self) -> None:
        """Takes the result of the current seed."""
        self.finished.append(pack_result(self.evaluator.result(), self.searcher.failure))
        self._under_way = False

    def progress(self) -> dict[str, float]:
        """Metrics for Tune: seeds done, and the best objective found by any of them."""
        best = [float(result["best_loss"]) for result in self.finished]
        if self._under_way:
            best.append(self.evaluator.best_loss)
        return {"seeds_done": len(self.finished), "best_loss": min(best)}

    def close(self) -> None:
        """Ends the processes of a model that has any; Tune's worker goes on to other trials."""
        if self.plan.world.measured:
            self.model.close()

    def save(self, path: Path) -> None:
        """Writes everything that decides how the trial continues."""
        current = None
        if self._under_way:
            current = {
                "searcher": self.searcher.state_dict(),
                "evaluator": self.evaluator.state_dict(),
            }
        save_state(path, {"finished": self.finished, "current": current})

    def load(self, path: Path) -> None:
        """Continues from what `save` wrote."""
        state = load_state(path)
        self.finished = list(state["finished"])
        self._resumed = state["current"]


def make_evaluator(
    plan: Plan, model: Any, space: Any, entry: SearcherEntry | None = None
) -> Evaluator:
    """The evaluator with the benchmark's budget, or that of a method."""
    benchmark = plan.benchmark
    return Evaluator(
        model,
        space,
        objective=benchmark.objective,
        iterations=benchmark.iterations_in(space, entry),
        seconds=benchmark.seconds,
        query_latency=benchmark.query_latency,
        largest_batch=plan.world.largest_batch,
        clock=getattr(model, "clock", time.perf_counter),
    )


def pack_result(result: TrialResult, failure: str | None) -> dict[str, Any]:
    """A search's result, and why it ended early if it did, as `orchestrator.state` holds it."""
    return {
        "failure": failure,
        "best_code": None if result.best_code is None else np.asarray(result.best_code),
        "best_loss": result.best_loss,
        "iterations": result.iterations,
        "true_queries": result.true_queries,
        "surrogate_queries": result.surrogate_queries,
        "seconds": result.seconds,
        "curve_iteration": result.curve_iteration,
        "curve_seconds": result.curve_seconds,
        "curve_loss": result.curve_loss,
        "curve_counted": result.curve_counted,
    }


def unpack_run(packed: Mapping[str, Any], searcher: str, workload: str, seed: int) -> Run:
    """What `pack_result` made, as a run of the benchmark."""
    code = packed["best_code"]
    return Run(
        searcher=searcher,
        workload=workload,
        seed=seed,
        best_loss=float(packed["best_loss"]),
        best_code=() if code is None else tuple(int(value) for value in code),
        iterations=int(packed["iterations"]),
        true_queries=int(packed["true_queries"]),
        surrogate_queries=int(packed["surrogate_queries"]),
        seconds=float(packed["seconds"]),
        failure=packed["failure"] or "",
        evaluation=packed["curve_iteration"],
        time=packed["curve_seconds"],
        loss=packed["curve_loss"],
        counted=packed["curve_counted"],
    )
