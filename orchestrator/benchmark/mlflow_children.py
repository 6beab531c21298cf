"""What MLflow gets of a benchmark's searches: a run per searcher and workload, and per searcher.

The mean best-so-far is a metric with the evaluation as `step` and the search time as `timestamp`,
so that MLflow's comparison page draws the iso-iteration chart over *Step* and the iso-time chart
over *Time (Relative)*.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.loop_nest.nest_loops import nest_of
from costmodel.loop_nest.nest_texts import pseudo_text
from costmodel.loop_nest.record_forms import as_nest
from mapspace.bounded_reading import json_lines
from mapspace.errors import MapspaceError
from orchestrator.comparison.results import Results, percent_name
from orchestrator.comparison.results_files import RECORDS_FILE
from orchestrator.runs.mlflow_many import NOTE_TAG, FinishedRun

# Points of a curve where there are few runs, and where there are more than a browser shows at once.
POINTS, FEW_POINTS = 160, 40
FEW_RUNS = 1000
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
        self._many = len(results.searchers) * len(results.workloads) > FEW_RUNS
        self._entries = {entry["label"]: entry for entry in results.experiment["searchers"]}

    def missing(self, there: set[Pair]) -> Iterator[FinishedRun]:
        """The runs but for those that are there, made as they are asked for."""
        for searcher in self.results.searchers:
            if (searcher, "") not in there and len(self.results.workloads) > 1:
                yield self._method(searcher)
        for searcher in self.results.searchers:
            for workload in self.results.workloads:
                if (searcher, workload) not in there:
                    yield self._pair(searcher, workload)

    def _pair(self, searcher: str, workload: str) -> FinishedRun:
        """A searcher on a workload."""
        results, started = self.results, _now()
        params = {
            **self._params(searcher),
            "workload": workload,
            **_bound_params(results, workload),
        }
        points = FEW_POINTS if self._many else POINTS
        metrics = [
            (name, value, step, started + round(1000 * seconds))
            for name, value, seconds, step in _curve_metrics(results, searcher, workload, points)
        ]
        final = _final_metrics(results, searcher, workload)
        if self._many:
            # Its curve is that of the per cent but for a factor and one: its end says all.
            normalised = f"normalised_{results.experiment['objective']}"
            metrics = [entry for entry in metrics if entry[0] != normalised]
            final |= {normalised: final["final"]} if "final" in final else {}
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
        metrics = []
        curves = [
            dict(_percent_curve(results, searcher, workload)) for workload in results.workloads
        ]
        for place, share in enumerate(SHARES):
            logs = [math.log1p(curve[place] / 100) for curve in curves if place in curve]
            if len(logs) == len(curves):
                mean = 100 * math.expm1(sum(logs) / len(logs))
                step = round(1000 * share)
                metrics.append((f"{percent}_by_per_mille_of_budget", mean, step, started + step))
        for step, workload in enumerate(results.workloads):
            value = 100 * float(results.above(searcher, workload).mean)
            metrics.append((f"{percent}_by_workload", value, step, started + step))
        final = {
            f"normalised_{results.experiment['objective']}": results.overall(searcher),
            percent: 100 * results.overall_above(searcher),
            "found_nothing": float(results.fruitless(searcher).count),
        }
        note = (
            f"**{searcher}** over {len(results.workloads):,} workloads of the benchmark "
            f"{results.experiment['name']}: {_percents(final[percent])} above "
            f"{results.reference_name}, geometric mean."
        )
        tags = {"mapspace.level": "method", NOTE_TAG: note}
        params = {**self._params(searcher), "workloads": len(results.workloads)}
        finite = [entry for entry in metrics if math.isfinite(entry[1])]
        return self._run(searcher, tags, params, finite, final, {}, started)

    def _run(
        self,
        searcher: str,
        tags: Mapping[str, str],
        params: Mapping[str, Any],
        metrics: list[tuple[str, float, int, int]],
        final: Mapping[str, float],
        texts: Mapping[str, str],
        started: int,
    ) -> FinishedRun:
        experiment = self.results.experiment
        # Relative time counts from a metric's first entry, which must be the start of the search
        # for every method alike: an entry without a value, that no chart draws.
        origin = {name: (name, math.nan, 0, started) for name, *_ in metrics}
        # A last point, so that single numbers show in MLflow's tables.
        end = max((when for *_, when in metrics), default=started)
        last = [(name, value, 0, end) for name, value in final.items() if math.isfinite(value)]
        common = {
            "mlflow.parentRunId": self.parent,
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
            (*origin.values(), *metrics, *last),
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
        parameters = {f"parameters.{key}": value for key, value in entry["parameters"].items()}
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
        # The same for every method: of many runs the parent alone has them.
        if certificate is not None and not self._many and (self.folder / certificate).is_file():
            texts[CERTIFICATE_FILE] = (self.folder / certificate).read_text()
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


# Shares of its budget at which a method is compared over workloads.
SHARES = np.linspace(0.05, 1.0, 20)


def _now() -> int:
    return round(time.time() * 1000)


def _percents(value: float) -> str:
    return f"{value:.3g} %" if math.isfinite(value) else "n/a"


def _percent_curve(results: Results, searcher: str, workload: str) -> Iterator[tuple[int, float]]:
    """(place in `SHARES`, per cent above the reference) of a searcher on a workload."""
    axis = results.primary_axis
    runs = results.of(searcher, workload)
    end = max(run.iterations if axis == "evaluation" else run.seconds for run in runs)
    above = results.curve_above(searcher, workload, axis, SHARES * end)
    for place, mean in enumerate(np.atleast_1d(above.mean)):
        if math.isfinite(mean):
            yield place, 100 * float(mean)


def _bound_params(results: Results, workload: str) -> dict[str, Any]:
    """What the per cent of a workload are above."""
    bounds = results.bounds[workload]
    known = {"optimum": bounds.optimum} if bounds.proven else {"lower_bound": bounds.reference}
    return {**known, "optimum_proven": bounds.proven}


def _curve_metrics(
    results: Results, searcher: str, workload: str, points: int
) -> Iterable[tuple[str, float, float, int]]:
    """(name, value, seconds, evaluation) of the mean best-so-far over a grid of the budget."""
    axis = results.primary_axis
    runs = results.of(searcher, workload)
    objective = results.experiment["objective"]
    grid = results.grid(workload, axis, points)
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
    final = results.final(searcher, workload)
    runs = results.of(searcher, workload)
    values = {
        "final": float(final.mean),
        "final_low": float(final.low),
        "final_high": float(final.high),
        "mean_iterations": float(np.mean([run.iterations for run in runs])),
        "mean_true_queries": float(np.mean([run.true_queries for run in runs])),
        "mean_surrogate_queries": float(np.mean([run.surrogate_queries for run in runs])),
        "mean_seconds": float(np.mean([run.seconds for run in runs])),
    }
    lost = results.fruitless(searcher, workload).count
    if lost:
        values["found_nothing"] = float(lost)
    return {name: value for name, value in values.items() if np.isfinite(value)}
