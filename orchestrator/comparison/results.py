"""Results of a benchmark: its runs, and the statistics over seeds.

Letters: E points of a curve, G points of a grid, S seeds.

All averages are geometric: losses are ratios to a bound, and a factor of two counts the same
wherever it occurs. A confidence interval is Student's t on the logarithms over the seeds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Axis = Literal["evaluation", "seconds"]
Clock = Literal["processor", "wall"]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CONFIDENCE = 0.95

# Stands where searches have no mean, as some of them found no mapping at all.
NOT_COMPARABLE = "n/a"

# The cost model sums energies in floating point, a proof in whole units: a share above the optimum
# below this is their rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Run:
    """One search: a searcher on a workload with a seed.

    Attributes:
        searcher: label of the searcher in the experiment.
        workload: name of the workload.
        seed: the seed.
        best_loss: objective of the best mapping (pJ x cycles for EDP), inf if none was feasible.
        best_code: the best mapping's code, `[D]`, empty if none was feasible.
        iterations: surrogate queries plus counted true queries.
        true_queries: mappings that the cost model scored, counted or only recorded.
        surrogate_queries: queries of the surrogate.
        seconds: search time by the benchmark's clock, virtual query latency included.
        evaluation: `[E]` iterations spent at each improvement and at the end.
        time: `[E]` seconds at the same moments.
        loss: `[E]` best objective at the same moments.
        failure: why the search ended before its budget, empty where nothing failed.
        counted: `[E]` counted true queries at the same moments; None in a run from before curves
            had them.
        processor_seconds: search time in processor time, without latency; None where it was not
            taken, as it is other processes' or of before runs had it.
        wall_seconds: the same by the wall.
    """

    searcher: str
    workload: str
    seed: int
    best_loss: float
    best_code: tuple[int, ...]
    iterations: int
    true_queries: int
    surrogate_queries: int
    seconds: float
    evaluation: IntArray
    time: FloatArray
    loss: FloatArray
    failure: str = ""
    counted: IntArray | None = None
    processor_seconds: float | None = None
    wall_seconds: float | None = None

    def at(self, grid: npt.ArrayLike, axis: Axis) -> FloatArray:
        """Best objective so far at points of an axis.

        Args:
            grid: `[G]` evaluations or seconds.
            axis: which of the two.

        Returns:
            `[G]` objective, inf before the first feasible mapping.
        """
        moments = self.evaluation if axis == "evaluation" else self.time
        index = np.searchsorted(moments, np.asarray(grid), side="right") - 1
        return np.where(index >= 0, self.loss[np.maximum(index, 0)], np.inf)


def best_so_far(runs: Sequence[Run], grid: npt.ArrayLike, axis: Axis) -> FloatArray:
    """`[R, G]`, as `Run.at` has it of every run, in a fifth of the time where there are many."""
    points, back = np.unique(np.asarray(grid, dtype=np.float64), return_inverse=True)
    lengths = np.array([len(run.loss) for run in runs])
    moments = [run.evaluation if axis == "evaluation" else run.time for run in runs]
    # The first point that has an entry of a curve, then how many of them every point has.
    first = np.searchsorted(points, np.concatenate(moments))
    width = len(points) + 1
    places = np.repeat(np.arange(len(runs)) * width, lengths) + first
    entries = np.bincount(places, minlength=len(runs) * width).reshape(len(runs), width)
    counts = entries[:, :-1].cumsum(axis=1)
    begins = (np.cumsum(lengths) - lengths)[:, None]
    loss = np.concatenate([run.loss for run in runs])
    best = np.where(counts > 0, loss[begins + np.maximum(counts, 1) - 1], np.inf)
    return np.asarray(best[:, back])


Timed = Literal["processor_seconds", "wall_seconds"]
"""What a run may have, or not."""
TIMED: tuple[Timed, ...] = ("processor_seconds", "wall_seconds")
Column = (
    Literal[
        "seed", "best_loss", "iterations", "true_queries", "surrogate_queries", "seconds", "failure"
    ]
    | Timed
)
"""What a run has one value of; a time that was not taken is nan."""


class PairedRuns(Sequence[Run], ABC):
    """Runs that are found by searcher and workload, in memory or in files."""

    @property
    @abstractmethod
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Searcher and workload, in the order of the runs."""

    @abstractmethod
    def of(self, searcher: str, workload: str) -> Sequence[Run]:
        """The runs of one searcher on one workload; none where there are none."""

    @abstractmethod
    def column(self, name: Column, searcher: str, workload: str) -> npt.NDArray[Any]:
        """`[S]` one value of each of them, without their curves."""


class RunsInMemory(PairedRuns):
    """Runs that are all at hand."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        # Of many, looking for them takes longest.
        found: dict[tuple[str, str], list[Run]] = {}
        for run in runs:
            found.setdefault((run.searcher, run.workload), []).append(run)
        self._by_pair = {pair: tuple(own) for pair, own in found.items()}
        self._columns: dict[tuple[Column, str, str], npt.NDArray[Any]] = {}

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Searcher and workload, in the order of the runs."""
        return tuple(self._by_pair)

    def of(self, searcher: str, workload: str) -> tuple[Run, ...]:
        """The runs of one searcher on one workload."""
        return self._by_pair.get((searcher, workload), ())

    def column(self, name: Column, searcher: str, workload: str) -> npt.NDArray[Any]:
        """`[S]` one value of each of them, not to be changed: tables ask dozens of times."""
        key = name, searcher, workload
        if key not in self._columns:
            values = [getattr(run, name) for run in self.of(searcher, workload)]
            column = np.array(values, np.float64 if name in TIMED else None)
            column.flags.writeable = False
            self._columns[key] = column
        return self._columns[key]

    def __len__(self) -> int:
        return len(self._runs)

    def __getitem__(self, index: Any) -> Any:
        return self._runs[index]


@dataclass(frozen=True)
class Bounds:
    """What the objective of a workload is measured against, in the objective's unit.

    Attributes:
        minimum: the paper's algorithmic minimum; losses divided by it are "normalised".
        floor: what every mapping must pay; tighter than the minimum.
        optimum: the least value where it is proven, else None.
        lower_bound: what no mapping undercuts by a proof that was not finished, else None.
        proof_seconds: how long the proof took; None where there is none.
        certificate: the proof's file within the run folder; None where there is none.
        note: why no optimum was proven in this run, empty where one was.
        measured: whether costs are measurements, of which nothing bounds the least: minimum, floor
            and lower bound are then the best that any search of this run found.
    """

    minimum: float
    floor: float
    optimum: float | None
    # Summaries from before there were proofs end here; their optima are those of `known_optimum`.
    lower_bound: float | None = None
    proof_seconds: float | None = None
    certificate: str | None = None
    note: str = ""
    measured: bool = False

    @property
    def proven(self) -> bool:
        """Whether the optimum is known for certain."""
        return self.optimum is not None

    @property
    def reference(self) -> float:
        """What results are compared with: the proven optimum, else the greatest lower bound."""
        if self.optimum is not None:
            return self.optimum
        return max(self.floor, self.lower_bound or 0.0)


@dataclass(frozen=True)
class Interval:
    """A geometric mean with its confidence interval, one number or `[G]` each."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


def geometric_interval(values: npt.ArrayLike) -> Interval:
    """Geometric mean over the first axis and the 95 % t-interval of it.

    Args:
        values: `[S]` or `[S, G]`, above 0. A column with an infinite entry has no mean.

    Returns:
        The mean (nan where there is none); with one seed the interval is the mean itself.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.asarray(values, dtype=np.float64))
        logs = np.where(np.isfinite(logs), logs, np.nan)
        mean = logs.mean(axis=0)
        count = logs.shape[0]
        if count < 2:
            half = np.zeros_like(mean)
        else:
            half = t_quantile(count - 1) * logs.std(axis=0, ddof=1) / math.sqrt(count)
        return Interval(np.exp(mean), np.exp(mean - half), np.exp(mean + half))


@cache
def t_quantile(freedom: float) -> float:
    """Student's t below which a two-sided interval of `CONFIDENCE` ends."""
    # `scipy.stats`, which says the same, takes half a second to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))


@dataclass(frozen=True)
class Ratio:
    """How many times larger one searcher's final loss is than another's, over all workloads."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Fruitless:
    """How many of some searches found no mapping within their budget.

    A geometric mean over the others would be no measure of the method: it has none then.

    Attributes:
        count: the searches that found nothing.
        searches: all of them.
    """

    count: int
    searches: int

    @property
    def text(self) -> str:
        """What a report says of them, empty where every search found something."""
        return f"{self.count} of {self.searches} found nothing" if self.count else ""


@dataclass(frozen=True)
class Results:
    """A whole benchmark.

    Attributes:
        experiment: the experiment as it was run, JSON types only.
        bounds: per workload.
        runs: in the experiment's order: searcher, then workload, then seed; of many those that are
            asked for are read from files.
        provenance: what computed it: model, versions, processors.
    """

    experiment: Mapping[str, Any]
    bounds: Mapping[str, Bounds]
    runs: Sequence[Run]
    provenance: Mapping[str, Any]

    @cached_property
    def searchers(self) -> tuple[str, ...]:
        """Labels, in the experiment's order."""
        return tuple(dict.fromkeys(searcher for searcher, _ in self._paired.pairs))

    @cached_property
    def workloads(self) -> tuple[str, ...]:
        """Names, in the experiment's order."""
        return tuple(dict.fromkeys(workload for _, workload in self._paired.pairs))

    def entry(self, searcher: str) -> Mapping[str, Any]:
        """What the experiment says of a method, by its label."""
        entries: list[dict[str, Any]] = list(self.experiment["searchers"])
        return next(entry for entry in entries if entry["label"] == searcher)

    def hyperparameters(self, searcher: str) -> Mapping[str, Any]:
        """All that a method ran with; of runs that did not note it, what the experiment says."""
        noted = self.provenance.get("hyperparameters", {})
        found: Mapping[str, Any] = noted.get(searcher, self.entry(searcher)["parameters"])
        return found

    def method(self, searcher: str) -> str:
        """A method's searcher, preset and method, and what the experiment says besides."""
        entry = self.entry(searcher)
        told = dict(entry["parameters"])
        if "method" in self.hyperparameters(searcher):
            told = {"method": self.hyperparameters(searcher)["method"], **told}
        preset = [f"preset={entry['preset']}"] if entry["preset"] else []
        return " ".join([entry["name"], *preset, *(f"{key}={told[key]}" for key in told)])

    @property
    def objective_name(self) -> str:
        """The objective as it is written: EDP, energy."""
        objective = str(self.experiment["objective"])
        return objective.upper() if objective in ("edp", "ed2p") else objective

    @property
    def proven(self) -> bool:
        """Whether the optimum of every workload is proven."""
        return all(self.bounds[name].proven for name in self.workloads)

    @property
    def measured(self) -> bool:
        """Whether costs are measurements."""
        return all(self.bounds[name].measured for name in self.workloads)

    @property
    def reference_name(self) -> str:
        """What per cent are above: the optimum, the best found, or also lower bounds."""
        if self.proven:
            return "the proven optimum"
        if self.measured:
            return "the best in this run"
        if any(self.bounds[name].proven for name in self.workloads):
            return "the optimum or a lower bound"
        return "a lower bound"

    @property
    def primary_axis(self) -> Axis:
        """What the budget limits."""
        return "seconds" if self.experiment.get("seconds") is not None else "evaluation"

    @property
    def clock(self) -> Clock:
        """What seconds of search are; runs from before there was a choice have the wall's."""
        return "processor" if self.experiment.get("clock") == "processor" else "wall"

    @cached_property
    def _paired(self) -> PairedRuns:
        return self.runs if isinstance(self.runs, PairedRuns) else RunsInMemory(self.runs)

    @cached_property
    def _finals(self) -> dict[tuple[str, str], Interval]:
        """What `final` has answered: tables and figures ask it dozens of times."""
        return {}

    def of(self, searcher: str, workload: str) -> Sequence[Run]:
        """The runs of one searcher on one workload, one per seed."""
        return self._paired.of(searcher, workload)

    def column(self, name: Column, searcher: str, workload: str | None = None) -> npt.NDArray[Any]:
        """`[S]` one value of each run of a searcher on one workload or on all."""
        workloads = self.workloads if workload is None else (workload,)
        return np.concatenate([self._paired.column(name, searcher, own) for own in workloads])

    def fruitless(self, searcher: str, workload: str | None = None) -> Fruitless:
        """How many of a searcher's runs found no mapping, of one workload or of all."""
        losses = self.column("best_loss", searcher, workload)
        return Fruitless(int((~np.isfinite(losses)).sum()), len(losses))

    def grid(self, workload: str, axis: Axis, points: int = 160) -> FloatArray:
        """`[G]` logarithmic grid over an axis, from the first result to the last spending."""
        if axis == "evaluation":
            spent = self._most("iterations", workload)
            return np.unique(np.round(np.geomspace(1.0, max(spent, 2), points)))
        last = self._most("seconds", workload)
        begins = (run.time[0] for name in self.searchers for run in self.of(name, workload))
        first = min((float(begin) for begin in begins if begin > 0), default=last)
        return np.geomspace(min(max(first, last * 1e-4), last * 0.5), last, points)

    def _most(self, name: Column, workload: str) -> float:
        """The greatest value of a workload's runs."""
        values = [self.column(name, own, workload) for own in self.searchers]
        return float(np.concatenate(values).max())

    def curve(self, searcher: str, workload: str, axis: Axis, grid: npt.ArrayLike) -> Interval:
        """Normalised best-so-far over the seeds, `[G]`.

        Before every seed has a feasible mapping there is no mean (nan); beyond the last spending
        of all seeds the curve ends (nan), so that no method is drawn further than it went.
        """
        runs = self.of(searcher, workload)
        points = np.asarray(grid, dtype=np.float64)
        values = best_so_far(runs, points, axis)
        interval = geometric_interval(values / self.bounds[workload].minimum)
        end = max(run.iterations if axis == "evaluation" else run.seconds for run in runs)
        beyond = points > end * (1 + 1e-9)
        return Interval(*(np.where(beyond, np.nan, part) for part in asdict(interval).values()))

    def curve_above(
        self, searcher: str, workload: str, axis: Axis, grid: npt.ArrayLike
    ) -> Interval:
        """The same as shares above the workload's reference, `[G]`."""
        return self.as_above(self.curve(searcher, workload, axis, grid), workload)

    def final(self, searcher: str, workload: str) -> Interval:
        """Normalised final loss over the seeds; nan where one of them found nothing."""
        pair = searcher, workload
        if pair not in self._finals:
            losses = [run.best_loss for run in self.of(searcher, workload)]
            self._finals[pair] = geometric_interval(
                np.array(losses) / self.bounds[workload].minimum
            )
        return self._finals[pair]

    def above(self, searcher: str, workload: str) -> Interval:
        """Final loss over the seeds as a share above the workload's reference.

        Where the optimum is proven, this is how far above it a search ends; else it ends at most so
        far above it.
        """
        return self.as_above(self.final(searcher, workload), workload)

    def as_above(self, normalised: Interval, workload: str) -> Interval:
        """What `curve` or `final` said as shares above the workload's reference."""
        bounds = self.bounds[workload]
        mean, low, high = (
            np.asarray(part) * (bounds.minimum / bounds.reference) - 1
            for part in (normalised.mean, normalised.low, normalised.high)
        )
        # An interval knows nothing of the bound below which nothing lies.
        low = np.where(low < 0, 0.0, low)
        return Interval(
            *(np.where(np.abs(part) < ROUNDING, 0.0, part) for part in (mean, low, high))
        )

    def ratio(self, searcher: str, reference: str) -> Ratio:
        """Final loss of a searcher over that of a reference, geometric mean over the workloads.

        The interval is about the searches' own randomness on these workloads, not about other
        workloads: the variances of the per-workload means add. Where a run found nothing there is
        no ratio (nan).
        """
        if searcher == reference and not self.fruitless(searcher).count:
            return Ratio(1.0, 1.0, 1.0)
        return self._mean_loss({searcher: 1.0, reference: -1.0})

    def _mean_loss(self, powers: Mapping[str, float]) -> Ratio:
        """The product of searchers' final losses to some powers, as `ratio` averages it."""
        if any(self.fruitless(name).count for name in powers):
            return Ratio(math.nan, math.nan, math.nan)
        logs, variances, freedoms = [], [], []
        for workload in self.workloads:
            for name, power in powers.items():
                losses = np.log(self.column("best_loss", name, workload))
                logs.append(power * float(losses.mean()))
                if len(losses) > 1:
                    variances.append(float(losses.var(ddof=1)) / len(losses))
                    freedoms.append(len(losses) - 1)
        count = len(self.workloads)
        mean = sum(logs) / count
        total = sum(variances)
        if total == 0:
            return Ratio(math.exp(mean), math.exp(mean), math.exp(mean))
        # Welch and Satterthwaite: the freedom of a sum of estimated variances.
        freedom = total**2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
        half = t_quantile(freedom) * math.sqrt(total) / count
        return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))

    def overall(self, searcher: str) -> float:
        """Geometric mean over the workloads of the normalised final loss; nan if one has none."""
        finals = [float(self.final(searcher, workload).mean) for workload in self.workloads]
        return float(np.exp(np.mean(np.log(finals))))

    def overall_interval(self, searcher: str, *, above: bool = False) -> Interval:
        """`overall`, or `overall_above`, with the interval that `ratio` has of its own."""
        mean = self.overall_above(searcher) if above else self.overall(searcher)
        found, less = self._mean_loss({searcher: 1.0}), 1.0 if above else 0.0
        low, high = ((mean + less) * end / found.mean - less for end in (found.low, found.high))
        # As of a workload by itself: nothing lies below what all is above.
        return Interval(*map(np.asarray, (mean, max(low, 0.0) if above else low, high)))

    def overall_above(self, searcher: str) -> float:
        """The same as a share above the workloads' references."""
        shares = [float(self.above(searcher, workload).mean) for workload in self.workloads]
        return float(np.expm1(np.mean(np.log1p(shares))))


def percent_name(proven: bool, measured: bool = False) -> str:
    """How files and MLflow call per cent above a reference."""
    return f"percent_above_{'optimum' if proven else 'best_in_run' if measured else 'lower_bound'}"
