"""Results of a benchmark on disk: a summary as JSON, the curves as Parquet."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from mapspace.bounded_reading import parse_json, read_bytes
from mapspace.errors import DataError
from mapspace.parquet_parts import Parts
from mapspace.storage import Place, place, write_atomically
from mapspace.strict_yaml import validate
from orchestrator.comparison.many_runs import (
    CURVES_FILE,
    MOST_IN_MEMORY,
    RUNS_FILE,
    ManyRuns,
    curve_columns,
    curves_schema,
    write_runs,
)
from orchestrator.comparison.results import (
    Bounds,
    FloatArray,
    IntArray,
    Results,
    Run,
    percent_name,
)

if TYPE_CHECKING:
    from orchestrator.comparison.summary import Summary

SUMMARY_FILE = "summary.json"
RECORDS_FILE = "best.jsonl"
CERTIFICATES_FOLDER = "certificates"


def save(results: Results, folder: Place | str) -> None:
    """Writes `curves.parquet` and `summary.json`, each whole or not at all.

    Of many runs the summary has no lines: they are in `runs.parquet`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = place(folder)
    if len(results.runs) > MOST_IN_MEMORY:
        there = isinstance(results.runs, ManyRuns) and results.runs.folder == folder
        if not there:
            pairs = itertools.product(results.searchers, results.workloads)
            write_runs((results.of(*pair) for pair in pairs), folder)
        text = json.dumps(_summary(results), indent=1) + "\n"
        write_atomically(folder / SUMMARY_FILE, text.encode())
        return
    curves = pa.BufferOutputStream()
    counted = all(run.counted is not None for run in results.runs)
    schema = curves_schema(counted)
    columns = [*curve_columns(results.runs, counted).values()]
    with pq.ParquetWriter(curves, schema, compression="zstd") as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    write_atomically(folder / CURVES_FILE, curves.getvalue())
    write_atomically(folder / SUMMARY_FILE, _summary_text(results).encode())


def _summary_text(results: Results) -> str:
    """The summary, indented for people, and a line per run: there may be a million of them."""
    head = json.dumps(_summary(results), indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in _run_entries(results.runs))
    return f'{head},\n "runs": [\n{lines}\n ]\n}}\n'


def load(folder: Place | str) -> Results:
    """Reads what `save` wrote.

    Raises:
        DataError: a file is missing or damaged; the message names it.
    """
    from orchestrator.comparison.summary import Summary

    folder = place(folder)
    path = folder / SUMMARY_FILE
    content = _content(path)
    data = parse_json(content, str(path), DataError)
    summary = validate(Summary, data, str(path), DataError)
    if summary.runs is None:
        many = ManyRuns(folder)
        try:
            summary.check_pairs(many.pairs)
        except ValueError as error:
            raise DataError(f"{folder / RUNS_FILE}: {error}") from None
        return _results(data, summary, many)
    rows = sum(run.points for run in summary.runs)
    evaluation, seconds, loss, counted = _curves(folder / CURVES_FILE, rows)
    runs, start = [], 0
    for run in summary.runs:
        part = slice(start, start + run.points)
        fields = run.model_dump(exclude={"points"})
        fields["best_loss"] = math.inf if run.best_loss is None else run.best_loss
        runs.append(
            Run(
                **fields,
                evaluation=evaluation[part],
                time=seconds[part],
                loss=loss[part],
                counted=None if counted is None else counted[part],
            )
        )
        start += run.points
    return _results(data, summary, tuple(runs))


def _results(data: Mapping[str, Any], summary: Summary, runs: Sequence[Run]) -> Results:
    return Results(
        # As they were written: whoever compares two runs compares all of it.
        experiment=data["experiment"],
        bounds={name: Bounds(**entry.model_dump()) for name, entry in summary.bounds.items()},
        runs=runs,
        provenance=data["provenance"],
    )


def _content(path: Place) -> bytes:
    try:
        return read_bytes(path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; run the benchmark first.") from error
    except OSError as error:
        raise DataError(f"{path}: the file is damaged ({error.strerror or error}).") from error


def _curves(path: Place, rows: int) -> tuple[IntArray, FloatArray, FloatArray, IntArray | None]:
    """Evaluations, seconds, losses and counted queries `[rows]` of all curves, end to end.

    Raises:
        DataError: the file is missing or damaged, or has a value that no search can have.
    """
    import pyarrow as pa

    types = {"evaluation": pa.int64(), "seconds": pa.float64(), "best_loss": pa.float64()}
    try:
        file = Parts(pa.BufferReader(_content(path)))
        # Looked at first: so many rows are read as the file claims, however small it is.
        if file.metadata.num_rows != rows:
            raise DataError(
                f"{path}: expected {rows:,} rows as in {SUMMARY_FILE}, "
                f"found {file.metadata.num_rows:,}."
            )
        # Curves from before there were counted queries have none.
        if "counted" in file.schema.names:
            types["counted"] = pa.int64()
        table = file.read([*types])
        columns = {name: _column(table, name, kind) for name, kind in types.items()}
    except (ValueError, KeyError, OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: the file is damaged ({reason}).") from error
    if np.isinf(columns["seconds"]).any():
        raise DataError(f"{path}: seconds: expected finite numbers.")
    return (
        columns["evaluation"],
        columns["seconds"],
        columns["best_loss"],
        columns.get("counted"),
    )


def _column(table: Any, name: str, kind: Any) -> Any:
    """A column as an array, without gaps; numbers of 0 or more.

    Raises:
        ValueError: it is not there, or has another value.
    """
    import pyarrow as pa

    if name not in table.column_names:
        raise ValueError(f"the column {name} is missing")
    column = table[name]
    if not pa.types.is_integer(column.type) and column.type != pa.float64():
        raise ValueError(f"the column {name}: expected {kind}, got {column.type}")
    column = column.cast(kind)
    if column.null_count:
        raise ValueError(f"the column {name}: expected no gaps, got {column.null_count:,}")
    values = column.to_numpy()
    if not (values >= 0).all():
        raise ValueError(f"the column {name}: expected 0 or more, got {values.min()}")
    return values


def _summary(results: Results) -> dict[str, Any]:
    """JSON: the experiment, the bounds, statistics per searcher and workload."""
    statistics = {
        searcher: {
            "found_nothing": results.fruitless(searcher).count,
            "geometric_mean_normalised": _number(results.overall(searcher)),
            percent_name(results.proven, results.measured): _percent(
                results.overall_above(searcher)
            ),
            "workloads": {
                workload: {
                    "found_nothing": results.fruitless(searcher, workload).count,
                    **{
                        key: _number(float(value))
                        for key, value in asdict(results.final(searcher, workload)).items()
                    },
                    percent_name(
                        results.bounds[workload].proven, results.bounds[workload].measured
                    ): _percent(float(results.above(searcher, workload).mean)),
                }
                for workload in results.workloads
            },
        }
        for searcher in results.searchers
    }
    return {
        "experiment": dict(results.experiment),
        "provenance": dict(results.provenance),
        "bounds": {name: asdict(bounds) for name, bounds in results.bounds.items()},
        "searchers": statistics,
    }


def _run_entries(runs: Iterable[Run]) -> Iterable[dict[str, Any]]:
    for run in runs:
        yield {
            "searcher": run.searcher,
            "workload": run.workload,
            "seed": run.seed,
            "best_loss": _number(run.best_loss),
            "best_code": list(run.best_code),
            "iterations": run.iterations,
            "true_queries": run.true_queries,
            "surrogate_queries": run.surrogate_queries,
            "seconds": run.seconds,
            "processor_seconds": run.processor_seconds,
            "wall_seconds": run.wall_seconds,
            "failure": run.failure,
            "points": len(run.loss),
        }


def _number(value: float) -> float | None:
    """JSON has no inf and no nan: both become null."""
    return value if math.isfinite(value) else None


def _percent(share: float) -> float | None:
    return _number(100 * share)
