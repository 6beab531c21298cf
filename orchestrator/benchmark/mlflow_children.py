"""What MLflow gets of a benchmark's searches: a run per searcher and workload, and per searcher.

The mean best-so-far of a searcher on a workload is a metric with the evaluation as `step` and the
search time as `timestamp`; that over all workloads is two, with queries and with milliseconds as
`step`. MLflow's pages draw the iso-iteration and the iso-time chart of either.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.loop_nest.nest_loops import nest_of
from costmodel.loop_nest.nest_texts import pseudo_text
from costmodel.loop_nest.record_forms import as_nest
from mapspace.bounded_reading import json_lines, read_text
from mapspace.errors import MapspaceError
from orchestrator.comparison.figures import styles
from orchestrator.comparison.results import TIMED, Axis, Interval, Results, percent_name
from orchestrator.comparison.results_files import RECORDS_FILE
from orchestrator.comparison.statistics_section import sure_metrics
from orchestrator.runs.mlflow_record import NOTE_TAG, Entry, FinishedRun, origin_tags

POINTS = 60
# MLflow takes 0.1 s of a run: of more pairs those over all workloads are all, and the pairs are in
# the parent's files.
MOST_PAIRS = 300
RECORD_FILE, NEST_FILE, CERTIFICATE_FILE = "best.json", "loop-nest.txt", "certificate.json"

Pair = tuple[str, str]
"""Label of the searcher, name of the workload; empty: over all workloads."""


class Children:
    """The runs below the parent of a benchmark."""

    def __init__(self, results: Results, parent: str, folder: Path) -> None:
        """Prepares them.

        Args:
            results: of the benchmark.
            parent: the id of the parent's run.
            folder: the run folder, with best mappings and certificates.
        """
        self.results = results
        self.parent = parent
        self.folder = folder
        name = str(results.experiment["name"])
        self._origin = origin_tags("benchmark", name, results.provenance)
        self._entries = {entry["label"]: entry for entry in results.experiment["searchers"]}
        several = len(results.workloads) > 1
        # Of a single workload its pairs are the methods.
        self.level, only = ("method", "") if several else ("search", results.workloads[0])
        self.methods = tuple((searcher, only) for searcher in results.searchers)

    def missing(self, there: set[Pair]) -> Iterator[tuple[Pair, FinishedRun]]:
        """The runs but for those that are there, made as they are asked for."""
        results = self.results
        pairs: Iterable[Pair] = itertools.product(results.searchers, results.workloads)
        if len(results.searchers) * len(results.workloads) > MOST_PAIRS:
            pairs = ()
        for key in dict.fromkeys((*self.methods, *pairs)):
            if key not in there:
                yield key, self._pair(*key) if key[1] else self._method(key[0])

    def _pair(self, searcher: str, workload: str) -> FinishedRun:
        """A searcher on a workload."""
        results, started = self.results, _now()
        params = {
            **self._params(searcher),
            "workload": workload,
            **_bound_params(results, workload),
        }
        metrics = [
            (name, value, step, started + round(1000 * seconds))
            for name, value, seconds, step in _curve_metrics(results, searcher, workload)
        ]
        # Relative time counts from a metric's first entry, which must be the start of the search
        # for every method alike: an entry without a value, that no chart draws.
        origin = dict.fromkeys(name for name, *_ in metrics)
        metrics[:0] = [(name, math.nan, 0, started) for name in origin]
        final = _final_metrics(results, searcher, workload)
        texts = self._texts(searcher, workload)
        tags = {
            "mapspace.level": "search",
            "mapspace.workload": workload,
            "mapspace.optimum_proven": json.dumps(results.bounds[workload].proven),
            NOTE_TAG: self._note(searcher, workload, texts.get(NEST_FILE, "")),
        }
        return self._run(searcher, tags, params, metrics, final, texts, started)

    def _method(self, searcher: str) -> FinishedRun:
        """A searcher over all workloads: the mean of its curves, and its end on every workload."""
        results, started = self.results, _now()
        percent = percent_name(results.proven, results.measured)
        metrics = [
            (f"{percent}_by_{unit}", value, step, started + (step if unit == "ms" else 0))
            for axis, unit, scale in AXES
            for step, value in _mean_curve(results, searcher, axis, scale)
        ]
        for step, workload in enumerate(results.workloads):
            value = 100 * float(results.above(searcher, workload).mean)
            if math.isfinite(value):
                metrics.append((f"{percent}_by_workload", value, step, started))
        final = {f"normalised_{results.experiment['objective']}": results.overall(searcher)}
        if lost := results.fruitless(searcher).count:
            final["found_nothing"] = float(lost)
        overall = results.overall_interval(searcher, above=True)
        final |= {f"{percent}{end}": value for end, value in in_percent(overall)}
        final |= sure_metrics(results, searcher)
        note = (
            f"**{searcher}** over {len(results.workloads):,} workloads of the benchmark "
            f"{results.experiment['name']}: {_percents(final[percent])} above "
            f"{results.reference_name}, geometric mean."
        )
        tags = {"mapspace.level": "method", NOTE_TAG: note}
        params = {**self._params(searcher), "workloads": len(results.workloads)}
        return self._run(searcher, tags, params, metrics, final, {}, started)

    def _run(
        self,
        searcher: str,
        tags: Mapping[str, str],
        params: Mapping[str, Any],
        metrics: Sequence[Entry],
        final: Mapping[str, float],
        texts: Mapping[str, str],
        started: int,
    ) -> FinishedRun:
        experiment = self.results.experiment
        # A last point, so that single numbers show in MLflow's tables.
        end = max((when for *_, when in metrics), default=started)
        last = [(name, value, 0, end) for name, value in final.items() if math.isfinite(value)]
        common = {
            "mlflow.parentRunId": self.parent,
            "mlflow.runColor": styles(self.results)[searcher].colour,
            **self._origin,
            "mapspace.kind": "search",
            "mapspace.benchmark": str(experiment["name"]),
            "mapspace.searcher": searcher,
            "mapspace.accelerator": str(experiment["accelerator"]),
            "mapspace.objective": str(experiment["objective"]),
        }
        return FinishedRun(
            f"{searcher} / {tags.get('mapspace.workload', 'all')}",
            {**common, **tags},
            params,
            (*metrics, *last),
            started,
            end,
            texts,
        )

    def _params(self, searcher: str) -> dict[str, Any]:
        entry = self._entries[searcher]
        budget = {
            key: self.results.experiment[key]
            for key in ("iterations", "seconds", "query_latency", "seeds", "accelerator", "host")
        }
        budget["clock"] = self.results.clock
        told = self.results.hyperparameters(searcher)
        parameters = {f"parameters.{key}": value for key, value in told.items()}
        own = {key: value for key, value in entry.items() if key != "parameters"}
        return {**own, **parameters, **budget}

    @cached_property
    def _records(self) -> Mapping[Pair, Mapping[str, Any]]:
        """The best mappings, where there are any."""
        path = self.folder / RECORDS_FILE
        if not path.exists():
            return {}
        return {(one["searcher"], one["layer"]): one for _, one in json_lines(path)}

    def _texts(self, searcher: str, workload: str) -> dict[str, str]:
        """The best mapping as a record and as a loop nest, and the workload's certificate."""
        texts = {}
        record = self._records.get((searcher, workload))
        if record is not None:
            texts[RECORD_FILE] = f"{json.dumps(record)}\n"
            # What another cost model maps is no loop nest.
            with suppress(MapspaceError):
                texts[NEST_FILE] = pseudo_text(nest_of(as_nest(record)))
        certificate = self.results.bounds[workload].certificate
        if certificate is not None and (self.folder / certificate).is_file():
            texts[CERTIFICATE_FILE] = read_text(self.folder / certificate)
        return texts

    def _note(self, searcher: str, workload: str, nest: str) -> str:
        """What MLflow shows as the description."""
        results = self.results
        bounds = results.bounds[workload]
        above = 100 * float(results.above(searcher, workload).mean)
        runs = results.of(searcher, workload)
        at_most = "" if bounds.proven or bounds.measured else "at most "
        reference = "the proven optimum" if bounds.proven else "the greatest lower bound"
        if bounds.measured:
            reference = "the best that was measured"
        note = (
            f"**{searcher}** on **{workload}** ({results.experiment['accelerator']}), "
            f"{len(runs)} seeds: {results.objective_name} ends {at_most}{_percents(above)} above "
            f"{reference}."
        )
        return f"{note}\n\nBest mapping:\n\n```\n{nest}```" if nest else note


# What curves over all workloads are drawn over: its name in a metric, and steps in one of it.
AXES: tuple[tuple[Axis, str, int], ...] = (("evaluation", "query", 1), ("seconds", "ms", 1000))


def in_percent(above: Interval) -> Iterator[tuple[str, float]]:
    """Mean and ends of an interval of shares, with what is added to a metric's name."""
    for name, share in (("", above.mean), ("_low", above.low), ("_high", above.high)):
        yield name, 100 * float(share)


def _now() -> int:
    return round(time.time() * 1000)


def _percents(value: float) -> str:
    return f"{value:.3g} %" if math.isfinite(value) else "n/a"


def _mean_curve(
    results: Results, searcher: str, axis: Axis, scale: int
) -> Iterator[tuple[int, float]]:
    """(step, per cent above the references) of the mean best-so-far over all workloads.

    It begins where every search has something; what has ended keeps what it has.
    """
    ends = {
        workload: max(
            run.iterations if axis == "evaluation" else run.seconds
            for run in results.of(searcher, workload)
        )
        for workload in results.workloads
    }
    last = math.ceil(round(scale * max(ends.values()), 6))
    steps = np.unique(np.append(np.round(np.geomspace(1, last, POINTS)), last))
    logs = [
        np.log1p(results.curve_above(searcher, workload, axis, np.minimum(steps / scale, end)).mean)
        for workload, end in ends.items()
    ]
    for step, value in zip(steps, np.expm1(np.mean(logs, axis=0)), strict=True):
        if math.isfinite(value):
            yield int(step), 100 * float(value)


def _bound_params(results: Results, workload: str) -> dict[str, Any]:
    """What the per cent of a workload are above."""
    bounds = results.bounds[workload]
    known = {"optimum": bounds.optimum} if bounds.proven else {"lower_bound": bounds.reference}
    return {**known, "optimum_proven": bounds.proven}


def _curve_metrics(
    results: Results, searcher: str, workload: str
) -> Iterable[tuple[str, float, float, int]]:
    """(name, value, seconds, evaluation) of the mean best-so-far over a grid of the budget."""
    axis = results.primary_axis
    runs = results.of(searcher, workload)
    objective = results.experiment["objective"]
    grid = results.grid(workload, axis, POINTS)
    end = max(run.iterations if axis == "evaluation" else run.seconds for run in runs)
    grid = np.unique(np.append(grid[grid < end], end))
    curve = results.curve(searcher, workload, axis, grid)
    above = results.as_above(curve, workload)
    # How far the other axis has come, on average over the seeds, at every point of the grid.
    own = "evaluation" if axis == "evaluation" else "time"
    other = "time" if axis == "evaluation" else "evaluation"
    along = np.mean(
        [
            np.interp(
                grid,
                np.concatenate([[0.0], getattr(run, own)]),
                np.concatenate([[0.0], getattr(run, other)]),
            )
            for run in runs
        ],
        axis=0,
    )
    seconds, evaluations = (along, grid) if axis == "evaluation" else (grid, along)
    bounds = results.bounds[workload]
    percent = percent_name(bounds.proven, bounds.measured)
    for index in range(len(grid)):
        mean = float(curve.mean[index])
        if not np.isfinite(mean):
            continue
        place = (float(seconds[index]), round(float(evaluations[index])))
        yield f"normalised_{objective}", mean, *place
        yield percent, 100 * float(above.mean[index]), *place


def _final_metrics(results: Results, searcher: str, workload: str) -> dict[str, float]:
    final, bounds = results.final(searcher, workload), results.bounds[workload]
    runs = results.of(searcher, workload)
    values = {
        "final": float(final.mean),
        "final_low": float(final.low),
        "final_high": float(final.high),
        # Its mean is the end of a curve.
        **{
            f"{percent_name(bounds.proven, bounds.measured)}{end}": value
            for end, value in in_percent(results.above(searcher, workload))
            if end
        },
        "mean_iterations": float(np.mean([run.iterations for run in runs])),
        "mean_true_queries": float(np.mean([run.true_queries for run in runs])),
        "mean_surrogate_queries": float(np.mean([run.surrogate_queries for run in runs])),
        "mean_seconds": float(np.mean([run.seconds for run in runs])),
        **{
            f"mean_{name}": float(results.column(name, searcher, workload).mean()) for name in TIMED
        },
    }
    lost = results.fruitless(searcher, workload).count
    if lost:
        values["found_nothing"] = float(lost)
    return {name: value for name, value in values.items() if np.isfinite(value)}
