"""Many runs lie in files, pair by pair, and results say of them what they say of runs at hand."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_results import make_results

from mapspace.errors import DataError
from orchestrator.comparison import results_files
from orchestrator.comparison.many_runs import ManyRuns
from orchestrator.comparison.page import benchmark_document, text_table
from orchestrator.comparison.results import Results, Run
from orchestrator.comparison.results_files import load, save


def made_up() -> Results:
    """Runs of unlike lengths; one failed, one found nothing."""
    results = make_results()
    runs = []
    for place, run in enumerate(results.runs):
        kept = slice(place % 3, None)
        part = {name: getattr(run, name)[kept] for name in ("evaluation", "time", "loss")}
        timed = {"processor_seconds": 0.5, "wall_seconds": 0.75} if place % 2 else {}
        runs.append(
            replace(run, **part, **timed, counted=run.evaluation[kept] // 2, best_code=(place, 2))
        )
    runs[3] = replace(runs[3], failure="the network diverged")
    lost = {"loss": np.full(len(runs[-1].loss), np.inf), "best_loss": np.inf, "best_code": ()}
    runs[-1] = replace(runs[-1], **lost)
    return replace(results, runs=tuple(runs))


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder of what counts as many runs."""
    monkeypatch.setattr(results_files, "MOST_IN_MEMORY", 5)
    (tmp_path / "many").mkdir()
    save(made_up(), tmp_path / "many")
    return tmp_path / "many"


def assert_same(one: Run, other: Run) -> None:
    for name in (field.name for field in fields(Run)):
        a, b = getattr(one, name), getattr(other, name)
        assert np.array_equal(a, b), name
        assert type(a) is type(b), name


def test_they_come_back_bit_for_bit(many: Path) -> None:
    there, found = made_up().runs, load(many).runs
    assert isinstance(found, ManyRuns)
    assert len(found) == len(there) == 12
    for one, other in zip(found, there, strict=True):
        assert_same(one, other)
    for place in (0, 5, -1):
        assert_same(found[place], there[place])
    assert [run.seed for run in found[1:4]] == [1, 0, 1]
    with pytest.raises(IndexError):
        found[12]
    assert "runs" not in json.loads((many / "summary.json").read_text())


def test_files_of_before_times_were_taken_are_read(many: Path) -> None:
    path, names = many / "runs.parquet", ["processor_seconds", "wall_seconds"]
    tables = [table.drop_columns(names) for table in parts(path)]
    with pq.ParquetWriter(path, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    found = load(many)
    assert found.runs[1].wall_seconds is None
    assert np.isnan(found.column("wall_seconds", "annealing")).all()


def test_statistics_and_pages_are_those_of_runs_at_hand(many: Path, tmp_path: Path) -> None:
    there, found = made_up(), load(many)
    assert text_table(found) == text_table(there)
    for label in there.searchers:
        assert found.fruitless(label) == there.fruitless(label)
        assert repr(found.ratio(label, "annealing")) == repr(there.ratio(label, "annealing"))
        for name in ("seed", "seconds", "iterations", "failure"):
            assert np.array_equal(found.column(name, label), there.column(name, label))
        for name in ("processor_seconds", "wall_seconds"):
            one, other = found.column(name, label), there.column(name, label)
            assert np.array_equal(one, other, equal_nan=True)
        for axis in ("evaluation", "seconds"):
            grid = there.grid("left", axis)
            assert np.array_equal(found.grid("left", axis), grid)
            curves = [one.curve(label, "left", axis, grid) for one in (found, there)]
            assert np.array_equal(curves[0].mean, curves[1].mean, equal_nan=True)
    assert len(found.column("seconds", "nobody", "left")) == len(found.of("nobody", "left")) == 0
    pages = [benchmark_document({many: one}, many) for one in (found, there)]
    assert pages[0].title == pages[1].title
    assert pages[0].lead == pages[1].lead


def test_few_runs_are_lines_of_the_summary(tmp_path: Path) -> None:
    save(made_up(), tmp_path)
    assert not (tmp_path / "runs.parquet").exists()
    for one, other in zip(load(tmp_path).runs, made_up().runs, strict=True):
        assert np.array_equal(one.loss, other.loss)


def test_saving_what_was_read_elsewhere_copies_it(many: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    save(load(many), tmp_path / "copy")
    for name in ("runs.parquet", "curves.parquet"):
        assert (tmp_path / "copy" / name).read_bytes() == (many / name).read_bytes()


def parts(file: Path) -> list[pa.Table]:
    found = pq.ParquetFile(file)
    return [found.read_row_group(part) for part in range(found.num_row_groups)]


def changed(table: pa.Table, name: str, values: Any) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize(
    ("file", "column", "value", "message"),
    [
        ("runs", "seed", -1, "seed: expected 0 or more, got -1"),
        ("runs", "points", 0, "points: expected 1 or more, got 0"),
        ("curves", "seed", -1, "seed: expected 0 or more, got -1"),
        ("runs", "best_loss", 1e200, r"best_loss: expected 1e-100 to 1e\+100"),
        ("runs", "best_loss", float("nan"), "best_loss: expected 0 or more"),
        ("runs", "seconds", float("inf"), "seconds: expected finite numbers"),
        ("runs", "searcher", "other", "searcher: expected one in every part, got 2"),
        ("runs", "failure", None, "failure: expected no gaps"),
        ("runs", "best_code", [None], "best_code: expected no gaps"),
        ("curves", "seed", 7, "its seeds are other ones"),
        ("curves", "best_loss", -1.0, "best_loss: expected 0 or more, got -1.0"),
        ("curves", "counted", None, "counted: expected no gaps"),
        ("curves", "seconds", float("inf"), "seconds: expected finite numbers"),
    ],
)
def test_damaged_values_are_named(
    many: Path, file: str, column: str, value: Any, message: str
) -> None:
    path = many / f"{file}.parquet"
    tables = parts(path)
    values = tables[1][column].to_pylist()
    values[0] = value
    tables[1] = changed(tables[1], column, values)
    with pq.ParquetWriter(path, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    with pytest.raises(DataError, match=rf"{file}\.parquet: the file is damaged \(.*{message}"):
        list(load(many).runs)


def test_files_that_do_not_belong_together_are_named(many: Path) -> None:
    tables = parts(many / "curves.parquet")
    with pq.ParquetWriter(many / "curves.parquet", tables[0].schema) as writer:
        for table in (*tables[:-1], tables[-1].slice(1)):
            writer.write_table(table)
    with pytest.raises(DataError, match=r"curves\.parquet: .*its parts are not as long"):
        load(many)


def test_damaged_and_missing_files_are_named(many: Path) -> None:
    for name in ("runs.parquet", "curves.parquet"):
        file = many / name
        whole = file.read_bytes()
        for broken in (whole[:100], b"", whole[:200] + b"\xff" * 50 + whole[250:]):
            file.write_bytes(broken)
            with pytest.raises(DataError, match=name):
                list(load(many).runs)
        file.unlink()
        with pytest.raises(DataError, match=f"{name}: there is no such file"):
            load(many)
        file.write_bytes(whole)
    # Of another benchmark.
    summary = json.loads((many / "summary.json").read_text())
    summary["experiment"]["searchers"].pop()
    (many / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(DataError, match=r"runs\.parquet: .*expected one of"):
        load(many)
