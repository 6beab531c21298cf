"""When each method pays: the searches of a benchmark for any latency of a true query.

Under a budget of iterations no search looks at its clock, so that what it finds does not depend on
how long a query takes; only when it finds it does. A point of a curve that lies at its own seconds
and after so many counted true queries lies, at another latency, at

    own seconds + counted true queries x latency,

queries one after another. So one benchmark answers for every latency. Where a search has spent its
iterations its last value holds.

A surrogate has its *bill* besides: the true costs it was trained on, each at the same latency, and
its training. Spread over so many problems, a share of it is due before each search begins.

Letters: E points of a curve, L latencies, T times, M methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mapspace.errors import ConfigError, DataError
from orchestrator.comparison.results import ROUNDING, Results, Run

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Rows of training data that the native cost model gives per second on two cores, between what
# `mapspace generate` makes of MTTKRP (166,700) and of convolutions (239,500).
ROWS_PER_SECOND = 200_000.0

# Shares above the optimum that a search may be asked to come within.
TARGETS = (0.1, 0.05, 0.01, 0.001)

# Searches whose curves are looked at together.
JOINED = 1000
# Of a share after the point: what is beyond is the rounding of sums.
DIGITS = 11


@dataclass(frozen=True)
class Bill:
    """What the surrogate of a problem cost before any search.

    Attributes:
        rows: true costs that it was trained on.
        training_seconds: its training.
    """

    rows: int
    training_seconds: float

    def seconds(self, latency: npt.ArrayLike) -> FloatArray:
        """The whole bill `[L]` at latencies `[L]`, data made one after another."""
        data = self.rows * (np.asarray(latency, dtype=np.float64) + 1 / ROWS_PER_SECOND)
        return np.asarray(data + self.training_seconds)


Bills = Mapping[str, Bill]
"""By workload."""


@dataclass(frozen=True)
class Method:
    """A searcher as it is compared here.

    Attributes:
        searcher: its label.
        problems: over how many problems its surrogate's bill is spread; None: no bill.
    """

    searcher: str
    problems: float | None = None


@dataclass(frozen=True)
class Reach:
    """When a method's searches come within a share of the optimum.

    Attributes:
        seconds: `[L]` median over problems and seeds; inf unless more than half get there.
        reached: the share of the searches that get there within their iterations.
    """

    seconds: FloatArray
    reached: float


def counted_queries(run: Run) -> IntArray:
    """Counted true queries `[E]` at the points of a run's curve.

    Raises:
        DataError: the run is from before curves had them, and mixed true with surrogate queries.
    """
    if run.counted is not None:
        return run.counted
    if run.surrogate_queries == 0:
        return run.evaluation
    if run.surrogate_queries == run.iterations:
        return np.zeros_like(run.evaluation)
    raise DataError(
        f"{run.searcher} on {run.workload}: the curve does not say how many of its iterations were "
        "true queries; run the benchmark again."
    )


def moments(results: Results, run: Run, latencies: npt.ArrayLike) -> FloatArray:
    """Seconds `[L, E]` of the points of a run's curve if a true query took `latencies` `[L]`."""
    counted = counted_queries(run)
    recorded = float(results.experiment.get("query_latency") or 0.0)
    own = run.time - counted * recorded
    return np.asarray(own + np.multiply.outer(np.asarray(latencies, dtype=np.float64), counted))


def applies(results: Results) -> bool:
    """Whether what a benchmark's searches did is independent of their clock, and replayable."""
    if results.primary_axis == "seconds" or results.measured:
        return False
    try:
        for run in results.runs:
            counted_queries(run)
    except DataError:
        return False
    return True


def replayed(results: Results, latency: float, seconds: float) -> Results:
    """A benchmark under equal iterations as it had been under equal time with slower queries.

    What a search had spent is known where it improved and at its end, so that a run that is cut
    ends at its last improvement. Which mapping it had then is not known (no code).

    Args:
        results: a benchmark under a budget of iterations.
        latency: seconds per true query.
        seconds: of search; a search that has spent its iterations before holds its last value.
    """
    runs = []
    for run in results.runs:
        time = moments(results, run, [latency])[0]
        count = int((time <= seconds * (1 + 1e-12)).sum())
        counted = counted_queries(run)[:count]
        if count == len(time):
            runs.append(replace(run, time=time, seconds=float(time[-1]), counted=counted))
            continue
        # Before its first feasible mapping a search has spent nothing that is known.
        spent, loss = (
            (run.evaluation[:count], run.loss[:count])
            if count
            else (np.zeros(1, np.int64), np.full(1, math.inf))
        )
        counted = counted if count else spent
        runs.append(
            replace(
                run,
                best_loss=float(loss[-1]),
                best_code=(),
                iterations=int(spent[-1]),
                true_queries=int(counted[-1]),
                surrogate_queries=int(spent[-1] - counted[-1]),
                seconds=seconds,
                evaluation=spent,
                time=time[:count] if count else np.full(1, seconds),
                loss=loss,
                counted=counted,
            )
        )
    budget = {"iterations": None, "seconds": seconds, "query_latency": latency}
    return replace(results, experiment={**results.experiment, **budget}, runs=tuple(runs))


def deployable(results: Results, searcher: str) -> bool:
    """Whether a searcher could return what its curve shows: it paid for some true query itself."""
    return any(
        counted_queries(run)[-1] > 0 or run.surrogate_queries == 0
        for run in results.runs
        if run.searcher == searcher
    )


def asks_surrogate(results: Results, searcher: str) -> bool:
    """Whether a searcher asks a surrogate that was trained beforehand."""
    return any(run.surrogate_queries > 0 for run in results.runs if run.searcher == searcher)


def above_after(
    results: Results,
    method: Method,
    latencies: npt.ArrayLike,
    times: npt.ArrayLike,
    bills: Bills | None = None,
) -> FloatArray:
    """How far above the optimum a method is after a time, geometric mean over seeds and problems.

    Args:
        results: a benchmark under a budget of iterations.
        method: the method; its bill counts where it has one to share.
        latencies: `[L]` seconds per true query.
        times: `[T]` seconds of search, ascending.
        bills: by workload; needed where the method has `problems`.

    Returns:
        `[L, T]` share above the workloads' references, inf where a search has no mapping yet.
    """
    latency, time = (np.asarray(axis, dtype=np.float64) for axis in (latencies, times))
    logs = np.zeros((len(latency), len(time)))
    # A moment is not past its time for a rounding.
    limits = time * (1 + 1e-12)
    bins = len(time) + 1
    rows = bins * np.arange(len(latency))[:, None]
    size = bins * len(latency)
    for workload in results.workloads:
        count = len(results.of(method.searcher, workload))
        due = _due(method, workload, latency, bills)[:, None]
        change, begun = np.zeros(size), np.zeros(size)
        for own in _joined(results, method.searcher, workload):
            # Of every moment the first time that is not before it.
            first = rows + np.searchsorted(limits, own.moments(latency) + due)
            steps = np.broadcast_to(own.steps, first.shape).ravel()
            change += np.bincount(first.ravel(), steps, minlength=size)
            begun += np.bincount(first[:, own.begins].ravel(), minlength=size)
        sums = [part.reshape(len(latency), bins).cumsum(axis=1)[:, :-1] for part in (change, begun)]
        logs += np.where(sums[1] < count, np.inf, sums[0] / count)
    # Methods that have found the same are equal, in whatever order their sums were made.
    share = np.round(np.expm1(logs / len(results.workloads)), DIGITS)
    return np.where(np.abs(share) < ROUNDING, 0.0, share)


def end_after(
    results: Results, method: Method, latencies: npt.ArrayLike, bills: Bills | None = None
) -> FloatArray:
    """Seconds `[L]` after which all of a method's searches have spent their iterations."""
    latency = np.asarray(latencies, dtype=np.float64)
    found = []
    for workload in results.workloads:
        due = _due(method, workload, latency, bills)
        found += [
            own.moments(latency)[:, own.ends].max(axis=1) + due
            for own in _joined(results, method.searcher, workload)
        ]
    return np.asarray(np.max(found, axis=0))


def reach(
    results: Results,
    method: Method,
    latencies: npt.ArrayLike,
    share: float,
    bills: Bills | None = None,
) -> Reach:
    """When a method comes within a share above the optimum, median over all of its searches."""
    latency = np.asarray(latencies, dtype=np.float64)
    seconds, hits = [], 0
    for workload in results.workloads:
        limit = results.bounds[workload].reference * (1 + share + ROUNDING)
        due = _due(method, workload, latency, bills)[:, None]
        for own in _joined(results, method.searcher, workload):
            there = np.flatnonzero(own.loss <= limit)
            _, first = np.unique(own.search[there], return_index=True)
            hits += len(first)
            seconds.append(own.moments(latency, there[first]) + due)
            never = len(own.ends) - len(first)
            seconds.append(np.full((len(latency), never), math.inf))
    found = np.concatenate(seconds, axis=1)
    return Reach(np.asarray(np.median(found, axis=1)), hits / found.shape[1])


def best_of(
    results: Results,
    methods: Sequence[Method],
    latencies: npt.ArrayLike,
    times: npt.ArrayLike,
    bills: Bills | None = None,
    known: dict[Method, FloatArray] | None = None,
) -> tuple[IntArray, FloatArray]:
    """The best method at every latency and time.

    Args:
        results: a benchmark under a budget of iterations.
        methods: which are compared.
        latencies: `[L]` seconds per true query.
        times: `[T]` seconds of search.
        bills: as in `above_after`.
        known: what `above_after` has said of methods at these latencies and times; what it says now
            is added.

    Returns:
        `[L, T]` its index among the methods, the first of equals, -1 where none has a mapping of
        every problem yet; and `[L, T]` its share above the references.
    """
    known = {} if known is None else known
    for method in methods:
        if method not in known:
            known[method] = above_after(results, method, latencies, times, bills)
    shares = np.stack([known[method] for method in methods])
    least = shares.min(axis=0)
    return np.where(np.isfinite(least), shares.argmin(axis=0), -1), least


def break_even(
    results: Results,
    surrogate: str,
    rivals: Sequence[str],
    latencies: npt.ArrayLike,
    share: float,
    bills: Bills,
) -> FloatArray:
    """Over how many problems a surrogate has to be used until its bill is saved again.

    A problem saves what the fastest rival takes to come within the share longer than the search
    through the surrogate does, medians over all searches; the bill is the problems' mean.

    Returns:
        `[L]` problems; inf where the surrogate is no faster or does not get there, nan where only
        it gets there, so that no time can be compared.
    """
    own = reach(results, Method(surrogate), latencies, share).seconds
    fastest = np.min(
        [reach(results, Method(rival), latencies, share).seconds for rival in rivals], axis=0
    )
    bill = np.mean([bills[workload].seconds(latencies) for workload in results.workloads], axis=0)
    count = np.full(len(own), math.inf)
    saves = np.isfinite(own) & (fastest > own)
    count[saves] = bill[saves] / (fastest[saves] - own[saves])
    count[saves & np.isinf(fastest)] = math.nan
    return count


def bills_of(results: Results) -> dict[str, Bill]:
    """The bills of the surrogates of a benchmark, read from their cards, by workload.

    Returns:
        Nothing where no searcher asks a surrogate, or a card is not to be had any more.
    """
    from costmodel.machines.accelerators import accelerator
    from costmodel.models import entry_of
    from costmodel.problems.workloads import workload
    from surrogate.for_space import predictor

    if not any(asks_surrogate(results, label) for label in results.searchers):
        return {}
    experiment = results.experiment
    folders = experiment.get("surrogates") or {}
    bills = {}
    make_space = entry_of(experiment).space
    assert make_space is not None  # what was benchmarked had one
    try:
        device = accelerator(experiment["accelerator"])
        for source in experiment.get("workloads", results.workloads):
            found = workload(source)
            space = make_space(found, device)
            training = predictor(space, folders.get(found.family)).card.training
            bills[found.name] = Bill(int(training["rows"]), float(training["seconds"]))
    except (ConfigError, DataError, KeyError):
        return {}
    return bills if set(results.workloads) <= set(bills) else {}


@dataclass(frozen=True)
class _Joined:
    """The curves of S searches of one method on one workload, end to end.

    Attributes:
        search: `[E]` which of the searches a point is of.
        own: `[E]` seconds without what true queries took.
        counted: `[E]` counted true queries.
        loss: `[E]` best objective.
        steps: `[E]` by how much the logarithm of it above the reference changes there; 0 while
            there is no mapping yet.
        begins: points at which searches have a mapping for the first time.
        ends: `[S]` last points.
    """

    search: IntArray
    own: FloatArray
    counted: IntArray
    loss: FloatArray
    steps: FloatArray
    begins: IntArray
    ends: IntArray

    def moments(self, latency: FloatArray, points: IntArray | slice = slice(None)) -> FloatArray:
        """As the function of this name, of some points or of all."""
        counted = np.multiply.outer(latency, self.counted[points])
        return np.asarray(self.own[points] + counted)


def _joined(results: Results, searcher: str, workload: str) -> Iterator[_Joined]:
    """The curves of a method on a workload, many searches at a time.

    Search after search would take ten times as long as what is to be done with each.
    """
    runs = results.of(searcher, workload)
    recorded = float(results.experiment.get("query_latency") or 0.0)
    reference = results.bounds[workload].reference
    for start in range(0, len(runs), JOINED):
        some = runs[start : start + JOINED]
        lengths = [len(run.loss) for run in some]
        ends = np.cumsum(lengths) - 1
        counted = np.concatenate([counted_queries(run) for run in some])
        loss = np.concatenate([run.loss for run in some])
        found = np.isfinite(loss)
        # Before its first mapping a search has added nothing.
        logs = np.log(np.where(found, loss, reference) / reference)
        before, found_before = np.roll(logs, 1), np.roll(found, 1)
        before[ends[:-1] + 1], found_before[ends[:-1] + 1] = 0.0, False
        before[0], found_before[0] = 0.0, False
        yield _Joined(
            search=np.repeat(np.arange(len(some)), lengths),
            own=np.concatenate([run.time for run in some]) - counted * recorded,
            counted=counted,
            loss=loss,
            steps=np.where(found, logs - before, 0.0),
            begins=np.flatnonzero(found & ~found_before),
            ends=ends,
        )


def _due(method: Method, workload: str, latency: FloatArray, bills: Bills | None) -> FloatArray:
    """Seconds `[L]` of the bill that one search of a method has to wait for."""
    if method.problems is None:
        return np.zeros(len(latency))
    return (bills or {})[workload].seconds(latency) / method.problems
