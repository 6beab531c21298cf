"""Host one: a Tune trial is whole searches, one searcher on one workload, seed after seed.

A trial keeps its state in a file of the run folder while it searches, with the clock stopped, and
continues from it, in the middle of a seed; under a budget of iterations its result equals an
undisturbed one's. That serves Tune, which tries a trial again whose worker died, and the same
command after its driver died.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import searchers
from costmodel.space import CostModel, Space
from mapspace.errors import ConfigError, DataError
from mapspace.storage import Place
from orchestrator.benchmark.config import Plan, SearcherEntry, make_searcher
from orchestrator.benchmark.curve_sums import sum_of
from orchestrator.comparison.results import TIMED, Clock, Run
from orchestrator.runs.checkpoints import load_state, save_state
from searchers import Evaluator, Searcher, TrialResult
from searchers.shared.warm_start import begin_from

if TYPE_CHECKING:
    from orchestrator.pool.stored_answers import StoredAnswers
    from orchestrator.store.folder import Store

WARM_UP_ITERATIONS = 512
CLOCKS: Mapping[Clock, Callable[[], float]] = {
    "processor": time.process_time,
    "wall": time.perf_counter,
}
# The kinds of searches whose code this process has loaded.
_warm: set[tuple[str, ...]] = set()

Making = Callable[[Plan, Mapping[str, Any], Place], "Searches"]
"""Makes the searches of a trial of a benchmark whose file lies in a folder."""


class HopelessError(ConfigError):
    """A search has ended that would end alike if it were tried again: its simulator hangs."""


def run_trial(
    config: Mapping[str, Any],
    plan: Plan,
    folder: Place,
    checkpoint_seconds: float,
    report: Callable[[dict[str, Any]], None] | None = None,
    make: Making | None = None,
    store: Store | None = None,
) -> dict[str, Any]:
    """Runs the searches of a trial, or what is left of them.

    Args:
        config: `{"task": {"file": name, "searcher": label, "workload": name, "seeds": [...]}}`; the
            file holds the task's state.
        plan: the benchmark.
        folder: where the files lie, the same for all nodes.
        checkpoint_seconds: the least time between two writes of the file within the searches.
        report: takes how far the searches are, whenever the file was written.
        make: makes the searches; None: such as ask and answer in this process.
        store: where single answers of a simulator are read and kept; None: nowhere.

    Returns:
        What Tune is told: see `Searches.told`.

    Raises:
        ConfigError: this node cannot see the folder.
        HopelessError: what is searched is wrong, such as a simulator that answers nothing.
        DataError: the file holds something else, or is damaged.
    """
    task = config["task"]
    if isinstance(folder, Path) and not folder.is_dir():
        raise ConfigError(
            f"{folder}: not there on a node that searches: on several nodes the run folder has to "
            "be one that all of them share, or a URI."
        )
    searches = (make or whole_searches)(plan, task, folder)
    path = folder / task["file"]
    if path.exists():
        searches.load(path)
    if store is not None:
        searches.remember(store)
    last = time.monotonic()

    def after_step(_: Searcher) -> None:
        nonlocal last
        if time.monotonic() - last >= checkpoint_seconds:
            with searches.evaluator.paused():
                searches.save(path)
                if report is not None:
                    report(searches.told())
            last = time.monotonic()

    try:
        searches.warm_up()
        while searches.search(after_step, checkpoint_seconds):
            pass
        searches.save(path)
    except ConfigError as error:
        raise HopelessError(str(error)) from error
    finally:
        searches.close()
    return searches.told()


def whole_searches(plan: Plan, task: Mapping[str, Any], folder: Place) -> Searches:
    """The searches of a trial.

    Args:
        plan: the benchmark.
        task: of the trial.
        folder: where its file lies.
    """
    return Searches(plan, task["searcher"], task["workload"], list(task["seeds"]))


class Searches:
    """The searches of one trial: those that are finished and the one that is under way.

    Attributes:
        searcher: the current one.
        evaluator: the current one.
        finished: results so far, in the order of the seeds.
    """

    searcher: Searcher
    evaluator: Evaluator
    # Whether the search that is under way is in the trial's state.
    _is_saved = True

    def __init__(self, plan: Plan, label: str, workload: str, seeds: list[int]) -> None:
        self.plan = plan
        self.entry: SearcherEntry = plan.entry(label)
        self.workload = workload
        self.seeds = seeds
        self.space = plan.space(workload)
        self.model = plan.model()
        self.finished: list[dict[str, Any]] = []
        self.memory: StoredAnswers | None = None
        self._under_way = False
        self._resumed: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        """Whether every seed is finished."""
        return len(self.finished) == len(self.seeds)

    def told(self) -> dict[str, Any]:
        """How far they are, for those who look on.

        Returns:
            `best_loss`, of any search so far; `share` of the budget that is spent; `logs`, the
            sums over the finished searches as `curve_sums.Sum` has them.
        """
        label = self.entry.label
        runs = [
            unpack_run(packed, label, self.workload, seed)
            for packed, seed in zip(self.finished, self.seeds, strict=False)
        ]
        losses, share = [run.best_loss for run in runs], float(len(runs))
        if self._under_way:
            evaluator = self.evaluator
            losses.append(evaluator.best_loss)
            if evaluator.iterations is not None:
                share += evaluator.iterations_used / evaluator.iterations
            elif evaluator.seconds is not None:
                share += min(1.0, evaluator.elapsed / evaluator.seconds)
        return {
            "best_loss": min(losses, default=math.inf),
            "share": share / len(self.seeds),
            "logs": sum_of(self.plan, runs).logs.tolist(),
        }

    def remember(self, store: Store) -> None:
        """Lets a store answer what a simulator has answered before, and keep what it answers.

        Every answer counts as a query, wherever it comes from. Where time is the budget the store
        is left alone: with it a search would get further.
        """
        from costmodel.command.own_model import OwnModel, record_of
        from orchestrator.pool.stored_answers import StoredAnswers

        model, benchmark, space = self.model, self.plan.benchmark, self.space
        if not isinstance(model, OwnModel) or benchmark.seconds is not None or self.done:
            return
        self.memory = model.memory = StoredAnswers(
            store,
            benchmark.model,
            model,
            space,
            lambda code: record_of(space, code),
            reads=self._reads_store(),
        )

    def _reads_store(self) -> bool:
        """Whether what the store knows may answer."""
        return True

    def warm_up(self) -> None:
        """Compiles and loads on a throwaway search, so that no search pays for it in time."""
        if self.plan.cost_model.measured:
            return  # a measurement does not count what its preparation took
        plan, space, entry = self.plan, self.space, self.entry
        evaluator = Evaluator(
            self.model,
            space,
            objective=plan.benchmark.objective,
            iterations=WARM_UP_ITERATIONS,
        )
        # What a surrogate needs is made for a space; all else but the space's tables for any.
        surrogate = "predictor" in searchers.searcher_class(entry.name).USES
        kind = (
            entry.model_dump_json(exclude={"label", "seeds", "iterations"}, fallback=str),
            self.model.name,
            plan.accelerator.hash,
        )
        if kind in _warm and not surrogate:
            rng = np.random.default_rng(self.seeds[0])
            evaluator(space.sample(rng, 1, feasible=True))
            return
        make_searcher(plan, entry, space, seed=self.seeds[0]).run(evaluator)
        _warm.add(kind)

    def search(self, after_step: Callable[[Searcher], None], seconds: float) -> bool:
        """Makes the search of the next seed, or goes on with it; False where none is left.

        Args:
            after_step: called after every step.
            seconds: the least time between two writes of what a search writes by itself.
        """
        if not self.start_next():
            return False
        self.searcher.run(self.evaluator, after_step)
        self.finish()
        return True

    def start_next(self) -> bool:
        """Makes the searcher and evaluator of the next seed, or continues the loaded one."""
        if self.done:
            return False
        seed = self.seeds[len(self.finished)]
        self.evaluator = make_evaluator(self.plan, self.model, self.space, self.entry)
        self.searcher = make_searcher(
            self.plan, self.entry, self.space, seed=seed, evaluator=self.evaluator
        )
        begins = self.plan.begins_of(self.entry, self.workload)
        if self._resumed is not None:
            self.searcher.load_state_dict(self._resumed["searcher"])
            self.evaluator.load_state_dict(self._resumed["evaluator"])
            self._resumed = None
        elif begins:
            begin_from(self.searcher, self.evaluator, np.array(begins, np.int32))
        self._under_way = True
        return True

    def finish(self) -> None:
        """Takes the result of the current seed."""
        self.finished.append(pack_search(self.plan, self.evaluator, self.searcher.failure))
        self._under_way = False

    def close(self) -> None:
        """Ends the processes of a model that has any; Tune's worker goes on to other trials."""
        if self.memory is not None:
            self.memory.write()
        if self.plan.cost_model.measured:
            self.model.close()

    def save(self, path: Place) -> None:
        """Writes everything that decides how the trial continues, whole or not at all."""
        current = None
        if self._under_way and self._is_saved:
            current = {
                "searcher": self.searcher.state_dict(),
                "evaluator": self.evaluator.state_dict(),
            }
        name = {"searcher": self.entry.label, "workload": self.workload, "seeds": self.seeds}
        save_searches(path, name, self.finished, current)

    def load(self, path: Place) -> None:
        """Continues from what `save` wrote.

        Raises:
            DataError: it is damaged, or the state of other searches.
        """
        state = _load(path, self.entry.label, self.workload, self.seeds)
        self.finished = state["finished"]
        self._resumed = state["current"]


def save_searches(
    path: Place,
    task: Mapping[str, Any],
    finished: Sequence[Mapping[str, Any]],
    current: Mapping[str, Any] | None,
) -> None:
    """Writes the state of a trial.

    Args:
        path: its file.
        task: its searcher, workload and seeds.
        finished: what `pack_result` made of those that are finished.
        current: how the one stands that is under way.
    """
    name = {key: task[key] for key in ("searcher", "workload", "seeds")}
    save_state(path, {**name, "finished": list(finished), "current": current})


def finished_runs(path: Place, task: Mapping[str, Any]) -> list[Run] | None:
    """The runs of a trial, in the order of its seeds; None where it is not finished.

    Raises:
        DataError: the file is damaged, or the state of other searches.
    """
    state = _load(path, task["searcher"], task["workload"], task["seeds"])
    if len(state["finished"]) < len(task["seeds"]):
        return None
    return [
        unpack_run(packed, task["searcher"], task["workload"], seed)
        for seed, packed in zip(task["seeds"], state["finished"], strict=True)
    ]


def _load(path: Place, searcher: str, workload: str, seeds: list[int]) -> dict[str, Any]:
    state = load_state(path)
    expected = {"searcher": searcher, "workload": workload, "seeds": seeds}
    found = {key: state.get(key) for key in expected}
    if found != expected:
        raise DataError(f"{path}: expected the state of {expected}, got that of {found}.")
    return state


def make_evaluator(
    plan: Plan,
    model: CostModel,
    space: Space,
    entry: SearcherEntry | None = None,
    *,
    clock: Callable[[], float] | None = None,
    largest_batch: int | None = None,
) -> Evaluator:
    """The evaluator with the benchmark's budget, or that of a method.

    Args:
        plan: the benchmark.
        model: scores.
        space: where the mappings live.
        entry: the method.
        clock: None: the model's own, or that of this process.
        largest_batch: as in `Evaluator`; None: the model's.
    """
    benchmark = plan.benchmark
    own = clock or getattr(model, "clock", None)
    beside: Clock = "wall" if benchmark.clock == "processor" else "processor"
    return Evaluator(
        model,
        space,
        objective=benchmark.objective,
        iterations=benchmark.iterations_in(space, entry),
        seconds=benchmark.seconds,
        query_latency=benchmark.query_latency,
        largest_batch=largest_batch or plan.cost_model.largest_batch,
        clock=own or CLOCKS[benchmark.clock],
        beside=CLOCKS[beside] if benchmark.host == "trials" else None,
    )


def pack_search(plan: Plan, evaluator: Evaluator, failure: str | None) -> dict[str, Any]:
    """A search's result, and why it ended early, as `orchestrator.runs.checkpoints` holds it."""
    with evaluator.paused():
        own, beside = evaluator.elapsed - evaluator.virtual_seconds, evaluator.seconds_beside
        times = (own, beside) if plan.benchmark.clock == "processor" else (beside, own)
        return {**pack_result(evaluator.result(), failure), **dict(zip(TIMED, times, strict=True))}


def pack_result(result: TrialResult, failure: str | None) -> dict[str, Any]:
    """As `pack_search`, of what was not clocked beside."""
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
        **{name: packed.get(name) for name in TIMED},
    )
