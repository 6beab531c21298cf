"""Runs that are too many for the memory: in two Parquet files, with a part for each pair.

```
runs.parquet      a row per run, with its best mapping
curves.parquet    a row per improvement
```

Part n of both is searcher and workload of pair n. What is asked for is read then, a pair at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from mapspace.arrow_columns import numbers, repeated
from mapspace.errors import DataError
from mapspace.parquet_parts import Parts
from mapspace.storage import Place, opened, remove_unfinished, whole_upload
from orchestrator.comparison.results import TIMED, Column, PairedRuns, Run

CURVES_FILE = "curves.parquet"
RUNS_FILE = "runs.parquet"
# With 2.3 KiB each these are 110 MiB.
MOST_IN_MEMORY = 50_000

Pair = tuple[str, str]
"""Label of the searcher, name of the workload."""

# Losses in any unit lie far within; their products and squares must stay finite.
LEAST, GREATEST = 1e-100, 1e100

# Columns of numbers, of either file; all are 0 or more.
WHOLE = ("seed", "iterations", "true_queries", "surrogate_queries", "points")
OF_CURVES = {"evaluation": np.int64, "seconds": np.float64, "best_loss": np.float64}


def runs_schema(timed: bool = True) -> Any:
    """The columns of `runs.parquet`; old ones have neither of the two times."""
    import pyarrow as pa

    types = {"searcher": pa.string(), "workload": pa.string()}
    types |= dict.fromkeys(WHOLE, pa.int64())
    types |= {"best_loss": pa.float64(), "seconds": pa.float64(), "failure": pa.string()}
    types |= dict.fromkeys(TIMED, pa.float64()) if timed else {}
    return pa.schema([*types.items(), ("best_code", pa.list_(pa.int64()))])


def curves_schema(counted: bool = True) -> Any:
    """The columns of `curves.parquet`; old ones have no counted queries."""
    import pyarrow as pa

    types = {"searcher": pa.string(), "workload": pa.string(), "seed": pa.int64()}
    types |= {"evaluation": pa.int64(), "seconds": pa.float64(), "best_loss": pa.float64()}
    types |= {"counted": pa.int64()} if counted else {}
    return pa.schema(list(types.items()))


def curve_columns(runs: Sequence[Run], counted: bool = True) -> dict[str, Any]:
    """The columns of some runs' curves, end to end, as Arrow arrays."""
    lengths = [len(run.loss) for run in runs]
    columns: dict[str, Any] = {
        "searcher": repeated([run.searcher for run in runs], lengths),
        "workload": repeated([run.workload for run in runs], lengths),
        "seed": numbers(np.repeat(np.array([run.seed for run in runs], dtype=np.int64), lengths)),
        "evaluation": numbers(np.concatenate([run.evaluation for run in runs]).astype(np.int64)),
        "seconds": numbers(np.concatenate([run.time for run in runs]).astype(np.float64)),
        "best_loss": numbers(np.concatenate([run.loss for run in runs]).astype(np.float64)),
    }
    if counted:
        parts = [run.counted for run in runs if run.counted is not None]
        columns["counted"] = numbers(np.concatenate(parts).astype(np.int64))
    return columns


def write_runs(batches: Iterable[Sequence[Run]], folder: Place) -> ManyRuns:
    """Writes both files, each whole or not at all, and holds one batch at a time.

    Args:
        batches: the runs of one pair each, which have counted queries.
        folder: the run folder.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ExitStack() as stack:
        writers = []
        for name, schema in ((RUNS_FILE, runs_schema()), (CURVES_FILE, curves_schema())):
            remove_unfinished(folder / name)
            file = stack.enter_context(whole_upload(folder / name))
            writer = pq.ParquetWriter(file, schema, compression="zstd")
            writers.append((stack.enter_context(writer), schema))
        for runs in batches:
            for (writer, schema), columns in zip(
                writers, (_run_columns(runs), curve_columns(runs)), strict=True
            ):
                table = pa.table(columns, schema=schema)
                writer.write_table(table, row_group_size=len(table))
    return ManyRuns(folder)


class ManyRuns(PairedRuns):
    """Runs in the files of a folder; of each the best loss is in memory."""

    def __init__(self, folder: Place) -> None:
        """Looks through `runs.parquet`.

        Raises:
            DataError: a file is missing or damaged, or has a value that no search can have.
        """
        self.folder = folder
        self._runs = _Parts(folder / RUNS_FILE, runs_schema(), runs_schema(timed=False))
        self._curves = _Parts(folder / CURVES_FILE, curves_schema())
        self._losses: dict[Pair, npt.NDArray[np.float64]] = {}
        points: list[int] = []
        for part in range(self._runs.count):
            table = self._runs.read(part, ["searcher", "workload", *WHOLE, "best_loss", "seconds"])
            pair = self._runs.one(table, "searcher"), self._runs.one(table, "workload")
            if pair in self._losses:
                raise self._runs.damaged(f"{' on '.join(pair)} is there twice")
            for name in WHOLE:
                self._runs.numbers(table, name)
            if not self._runs.numbers(table, "points").all():
                raise self._runs.damaged("points: expected 1 or more, got 0")
            self._losses[pair] = losses = self._runs.numbers(table, "best_loss")
            if (np.isfinite(losses) & ((losses < LEAST) | (losses > GREATEST))).any():
                raise self._runs.damaged(f"best_loss: expected {LEAST:g} to {GREATEST:g}")
            if not np.isfinite(self._runs.numbers(table, "seconds")).all():
                raise self._runs.damaged("seconds: expected finite numbers")
            points.append(int(self._runs.numbers(table, "points").sum()))
        if not self._losses:
            raise self._runs.damaged("it has no runs")
        if self._curves.rows != points:
            raise self._curves.damaged(f"its parts are not as long as {RUNS_FILE} says")
        self._part = {pair: part for part, pair in enumerate(self._losses)}
        self._last: tuple[Pair, tuple[Run, ...]] | None = None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Searcher and workload, in the order of the runs."""
        return tuple(self._losses)

    def of(self, searcher: str, workload: str) -> tuple[Run, ...]:
        """The runs of one searcher on one workload, read from the files."""
        pair = searcher, workload
        if pair not in self._part:
            return ()
        if self._last is None or self._last[0] != pair:
            self._last = pair, self._read(pair)
        return self._last[1]

    def column(self, name: Column, searcher: str, workload: str) -> npt.NDArray[Any]:
        """`[S]` one value of each of them."""
        pair = searcher, workload
        if pair not in self._part:
            return np.empty(0)
        if name == "best_loss":
            return self._losses[pair]
        if name in TIMED and not self._runs.has(name):
            return np.full(len(self._losses[pair]), np.nan)
        table = self._runs.read(self._part[pair], [name])
        if name == "failure":
            return np.array(table[name].to_pylist())
        return self._runs.numbers(table, name)

    def __len__(self) -> int:
        return sum(len(losses) for losses in self._losses.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        for pair, losses in self._losses.items():
            if 0 <= place < len(losses):
                return self.of(*pair)[place]
            place -= len(losses)
        raise IndexError(index)

    def __iter__(self) -> Iterator[Run]:
        for pair in self._losses:
            yield from self.of(*pair)

    def _read(self, pair: Pair) -> tuple[Run, ...]:
        part = self._part[pair]
        runs = self._runs.read(part, None)
        curves = self._curves.read(part, ["seed", *OF_CURVES, "counted"])
        columns = {
            name: self._curves.numbers(curves, name) for name in (*OF_CURVES, "counted", "seed")
        }
        if np.isinf(columns["seconds"]).any():
            raise self._curves.damaged("seconds: expected finite numbers")
        if runs["best_code"].combine_chunks().flatten().null_count:
            raise self._runs.damaged("best_code: expected no gaps")
        ends = np.cumsum(self._runs.numbers(runs, "points"))
        found = []
        for values, end in zip(runs.to_pylist(), ends.tolist(), strict=True):
            rows = slice(end - values.pop("points"), end)
            if (columns["seed"][rows] != values["seed"]).any():
                raise self._curves.damaged(f"{' on '.join(pair)}: its seeds are other ones")
            found.append(
                Run(
                    **{**values, "best_code": tuple(values["best_code"])},
                    evaluation=columns["evaluation"][rows],
                    time=columns["seconds"][rows],
                    loss=columns["best_loss"][rows],
                    counted=columns["counted"][rows],
                )
            )
        return tuple(found)


class _Parts:
    """The parts of a Parquet file that may come from anywhere.

    Attributes:
        count: how many there are.
        rows: of each of them.
    """

    def __init__(self, path: Place, *schemas: Any) -> None:
        self._path = path
        try:
            self._file = Parts(opened(path))
        except FileNotFoundError as error:
            raise DataError(f"{path}: there is no such file; run the benchmark first.") from error
        except (OSError, ValueError) as error:
            raise self.damaged(str(error).splitlines()[0]) from error
        if not any(self._file.schema.equals(schema) for schema in schemas):
            raise self.damaged("expected other columns")
        metadata = self._file.metadata
        self.count = metadata.num_row_groups
        self.rows = [metadata.row_group(part).num_rows for part in range(self.count)]

    def has(self, name: str) -> bool:
        """Whether there is a column."""
        return name in self._file.schema.names

    def read(self, part: int, columns: list[str] | None) -> Any:
        """Columns of a part."""
        try:
            table = self._file.read(columns, part)
        except (OSError, ValueError) as error:
            raise self.damaged(str(error).splitlines()[0]) from error
        for name in table.column_names:
            if table[name].null_count and name not in TIMED:
                raise self.damaged(f"{name}: expected no gaps")
        return table

    def numbers(self, table: Any, name: str) -> npt.NDArray[Any]:
        """A column of numbers of 0 or more."""
        values: npt.NDArray[Any] = table[name].to_numpy()
        if not ((values >= 0) | (name in TIMED and np.isnan(values))).all():
            raise self.damaged(f"{name}: expected 0 or more, got {values.min()}")
        return values

    def one(self, table: Any, name: str) -> str:
        """The only text of a column."""
        found = table[name].unique().to_pylist()
        if len(found) != 1 or not isinstance(found[0], str):
            raise self.damaged(f"{name}: expected one in every part, got {len(found)}")
        return found[0]

    def damaged(self, why: str) -> DataError:
        """The error of this file."""
        return DataError(f"{self._path}: the file is damaged ({why.rstrip('.')}).")


def _run_columns(runs: Sequence[Run]) -> dict[str, Any]:
    names = ("searcher", "workload", "seed", "best_loss", "seconds", "failure", "best_code", *TIMED)
    counts = ("iterations", "true_queries", "surrogate_queries")
    columns = {name: [getattr(run, name) for run in runs] for name in (*names, *counts)}
    return {**columns, "points": [len(run.loss) for run in runs]}
