"""How Ray Tune runs the searches of a benchmark: whole ones as trials, or in blocks of mappings.

All hosts keep how the searches stand in the run folder and continue from there. Tune's own state
is thrown away: it is pickles, and none is read.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from mapspace.errors import MapspaceError
from mapspace.forks import processors
from mapspace.storage import Place, file_sizes, make_folder
from orchestrator.benchmark.config import Plan
from orchestrator.benchmark.few_searches import are_few, run_here
from orchestrator.benchmark.live_curves import LiveBenchmark
from orchestrator.benchmark.made_runs import MadeRuns
from orchestrator.benchmark.reference_optima import Optima
from orchestrator.benchmark.stored_runs import (
    KNOWN_FILE,
    Search,
    keep_runs,
    known_runs,
    searches_of,
)
from orchestrator.benchmark.tune_blocks import run_blocks
from orchestrator.benchmark.tune_session import budget_text, fit, pool_cpus, quiet_tune, scheduling
from orchestrator.benchmark.warm_starts import WARM_FILE
from orchestrator.comparison.many_runs import MOST_IN_MEMORY
from orchestrator.comparison.results import Run
from orchestrator.store.folder import Store

SEARCHES_FOLDER = "searches"
# Runs that go into the store together: of a million, those of a pair fill the memory ten times.
KEPT_AT_ONCE = 10_000
# Trials that many seeds of a method on a workload are cut into, and the fewest seeds of one.
TRIALS_OF_A_PAIR, FEWEST_SEEDS = 4, 20


def run_searches(
    plan: Plan,
    folder: Place,
    seconds: float,
    live: LiveBenchmark,
    store: Store | None = None,
    *,
    beside: Optima | None = None,
) -> tuple[MadeRuns, dict[str, float]]:
    """Runs or continues the searches of a benchmark on Ray.

    Args:
        plan: the benchmark.
        folder: its run folder; how the searches stand lies in `searches/`.
        seconds: the least time between two writes of the same state.
        live: takes lines for a person, and how the searches stand.
        store: where searches that were made before are read, and new ones kept; None: nowhere.
        beside: proofs that tasks make while the searches run; they are made when this returns,
            unless there was nothing to search.

    Returns:
        The runs, and what they took: `proof_seconds` of what was proven beside them,
        `elapsed_seconds` and `processors`. The second is empty where that cannot be compared with
        the seconds of the searches: in a run that was continued or answered from the store in part,
        in blocks, and where seconds are virtual or a measurement's own.

    Raises:
        ConfigError: the host cannot run a searcher.
        DataError: a state is damaged; the message names the file.
        MapspaceError: trials failed.
    """
    states = folder.resolve() / SEARCHES_FOLDER
    make_folder(states)
    known = known_runs(plan, states, store)
    comparable = plan.benchmark.host == "trials" and not (
        file_sizes(states).keys() - {WARM_FILE}
        or plan.benchmark.query_latency
        or plan.cost_model.measured
    )
    left = _left(plan, known)
    if known:
        count = len(known) + len(left)
        live.say(f"{plan.benchmark.name}: {len(known):,} of {count:,} searches are in the store")
    live.begin(len(known) + len(left), known)
    if not left:
        return MadeRuns(known), {}
    forks = live.limits.of(processors())
    if (beside is None or not beside.left) and are_few(plan, known, left, forks):
        live.say(f"{plan.benchmark.name}: the other {len(left):,} are made in this process")
        made, spent = _run_trials(plan, states, seconds, live, left), dict[str, float]()
    else:
        made, spent = _run_on_ray(plan, states, seconds, live, left, beside, store)
    if store is not None:
        bounds = None if beside is None else beside.known
        for runs in made.batches(KEPT_AT_ONCE):
            keep_runs(plan, runs, store, bounds)
    made.add(known)
    return made, spent if comparable else {}


def _run_on_ray(
    plan: Plan,
    states: Place,
    seconds: float,
    live: LiveBenchmark,
    searches: Sequence[Search],
    beside: Optima | None,
    store: Store | None,
) -> tuple[MadeRuns, dict[str, float]]:
    """Runs searches on Ray, and proofs beside them; see `run_searches`."""
    started = time.monotonic()
    whole_searches = plan.benchmark.host != "blocks"
    needed = max(1, math.ceil(pool_cpus(plan)))
    with quiet_tune(whole_searches, live.limits.cores, needed) as there:
        live.processors = processors = live.limits.of(there)
        callbacks = []
        if beside is not None:
            from orchestrator.benchmark.tune_progress import Looking

            beside.begin()
            callbacks.append(Looking(beside.look))
        if whole_searches:
            made = _run_trials(plan, states, seconds, live, searches, callbacks, store)
        else:
            made = MadeRuns(run_blocks(plan, states, seconds, live, searches, callbacks))
        if beside is not None:
            beside.wait()
        elapsed = time.monotonic() - started
    return made, {
        "proof_seconds": 0.0 if beside is None else beside.seconds,
        "elapsed_seconds": elapsed,
        "processors": processors,
    }


def _left(plan: Plan, known: Sequence[Run]) -> list[Search]:
    """The searches that nobody has made before."""
    there = {(run.searcher, run.workload, run.seed) for run in known}
    return [search for search in searches_of(plan) if search not in there]


def _run_trials(
    plan: Plan,
    states: Place,
    seconds: float,
    live: LiveBenchmark,
    searches: Sequence[Search],
    callbacks: Sequence[Any] | None = None,
    store: Store | None = None,
) -> MadeRuns:
    """Host `trials`: a trial is (searcher, workload, seeds).

    Args:
        plan: the benchmark.
        states: where the trials' files are.
        seconds: the least time between two writes of the same state.
        live: takes lines for a person, and how the searches stand.
        searches: what is to be searched.
        callbacks: of Tune, which schedules the trials; None: they are made in this process.
        store: where single answers of a simulator are read and kept; None: nowhere.
    """
    from orchestrator.benchmark.search_trial import finished_runs

    benchmark = plan.benchmark
    tasks = _tasks(plan, searches)
    there = file_sizes(states).keys() - {KNOWN_FILE, WARM_FILE}
    made, done = MadeRuns(), set[str]()

    def take(tasks: Iterable[dict[str, Any]]) -> Iterator[Run]:
        """Takes trials that are finished; the runs of many stay in their files."""
        for task in tasks:
            file = states / task["file"]
            runs = finished_runs(file, task)
            if runs is None:
                continue
            done.add(task["file"])
            if len(searches) > MOST_IN_MEMORY:
                made.add_trial(file, task)
            else:
                made.add(runs)
            yield from runs

    live.add(take(task for task in tasks if task["file"] in there))
    left = [task for task in tasks if task["file"] not in done]
    if there:
        live.say(f"{benchmark.name}: continuing; {len(done)} of {len(tasks)} trials are finished")
    else:
        live.say(
            f"{benchmark.name}: searchers x workloads x seeds = {len(benchmark.searchers)} x "
            f"{len(plan.workloads)} x {_seed_counts(plan)}"
        )
        live.say(f"  {budget_text(plan)} each, in {len(tasks)} trials")
    if left:
        if callbacks is None:
            run_here(plan, left, states, seconds, live)
        else:
            _tune_trials(plan, left, states, seconds, live, callbacks, store)
        written = file_sizes(states)
        deque(take(task for task in left if task["file"] in written), maxlen=0)
    live.check(task for task in tasks if task["file"] not in done)
    for task in tasks:
        if task["file"] not in done:
            raise MapspaceError(
                f"{states / task['file']}: a trial has ended whose result is not here; the same "
                "command continues it."
            )
    return made


def _tune_trials(
    plan: Plan,
    left: Sequence[dict[str, Any]],
    states: Place,
    seconds: float,
    live: LiveBenchmark,
    callbacks: Sequence[Any],
    store: Store | None,
) -> None:
    """Lets Tune run trials."""
    from ray import tune

    from orchestrator.benchmark.task_list import TaskList
    from orchestrator.benchmark.tune_progress import TrialProgress
    from orchestrator.benchmark.tune_trial import processors_of, tried_once_if_hopeless

    trainable = tune.with_parameters(
        tried_once_if_hopeless,
        plan=plan,
        folder=states,
        checkpoint_seconds=seconds,
        report=tune.report,
        store=store,
    )
    fit(
        tune.with_resources(trainable, partial(processors_of, plan)),
        tune.TuneConfig(search_alg=TaskList(left), num_samples=-1, **scheduling(plan, live)),
        [TrialProgress(len(left), plan.shown, live), *callbacks],
        states.parent,
        live,
    )


def _tasks(plan: Plan, searches: Sequence[Search]) -> list[dict[str, Any]]:
    """What the trials do; each has a file for its state."""
    seeds_of: dict[tuple[str, str], list[int]] = {}
    for searcher, workload, seed in searches:
        seeds_of.setdefault((searcher, workload), []).append(seed)
    # Names of experiments are no names of files; a file itself says whose state it holds.
    told = plan.benchmark.seeds_per_trial
    tasks: list[dict[str, Any]] = []
    for place, ((searcher, workload), seeds) in enumerate(seeds_of.items()):
        size = told or _seeds_of_a_trial(len(seeds))
        for part, batch in enumerate(_batched(seeds, size)):
            name = (
                f"{len(tasks)}" if told else f"{place}" if size == len(seeds) else f"{place}-{part}"
            )
            task = {"searcher": searcher, "workload": workload, "seeds": batch}
            tasks.append({**task, "file": f"{name}.npz"})
    return tasks


def _seeds_of_a_trial(seeds: int) -> int:
    """How many of a method's seeds a trial has, where the experiment does not say.

    Of many it has a part, so that no processor waits long for the last trial of another; to begin
    a trial takes some hundredths of a second.
    """
    return seeds if seeds < 2 * FEWEST_SEEDS else max(FEWEST_SEEDS, -(-seeds // TRIALS_OF_A_PAIR))


def _batched(seeds: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(seeds), size):
        yield seeds[start : start + size]


def _seed_counts(plan: Plan) -> str:
    """How many seeds the methods have: a number, or the least and the most."""
    counts = [len(plan.benchmark.seeds_of(entry)) for entry in plan.benchmark.searchers]
    least, most = min(counts), max(counts)
    return str(most) if least == most else f"{least} to {most}"
