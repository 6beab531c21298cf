"""Statistics over seeds by hand, and files that survive."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sample_results import make_results, make_run

from costmodel.errors import DataError
from orchestrator.results import Bounds, Run, geometric_interval, load, save

pytestmark = pytest.mark.filterwarnings("error")


def test_geometric_interval_by_hand() -> None:
    # ln 1, ln 4: mean ln 2, standard deviation ln 4 / sqrt 2, t of 1 freedom 12.7062.
    interval = geometric_interval([1.0, 4.0])
    half = 12.706204736 * (math.log(4) / math.sqrt(2)) / math.sqrt(2)
    assert interval.mean == pytest.approx(2.0)
    assert interval.high == pytest.approx(2.0 * math.exp(half))
    assert interval.low == pytest.approx(2.0 / math.exp(half))


def test_an_interval_of_one_seed_is_its_value_and_of_an_infinite_one_is_none() -> None:
    interval = geometric_interval([[3.0, math.inf]])
    assert interval.low[0] == interval.mean[0] == interval.high[0] == pytest.approx(3.0)
    assert np.isnan(geometric_interval([[1.0, 1.0], [math.inf, 1.0]]).mean[0])


def test_a_curve_holds_its_last_improvement() -> None:
    run = make_run("a", "w", 0, [(5, 0.5, 9.0), (20, 2.0, 3.0), (30, 3.0, 3.0)])
    assert run.at([1, 4, 5, 19, 20, 99], "evaluation").tolist() == [
        math.inf,
        math.inf,
        9.0,
        9.0,
        3.0,
        3.0,
    ]
    assert run.at([0.4, 0.5, 2.5], "seconds").tolist() == [math.inf, 9.0, 3.0]


def test_finals_distances_and_ratios_by_hand() -> None:
    results = make_results()
    # sqrt(40 x 90) = 60, sqrt(20 x 45) = 30.
    assert results.final("annealing", "left").mean == pytest.approx(6.0)
    assert results.overall("annealing") == pytest.approx(math.sqrt(6.0 * 8.0))
    # The optimum of left is 20; of right only the floor is known, 80.
    assert results.above("annealing", "left").mean == pytest.approx(2.0)
    assert results.above("annealing", "right").mean == pytest.approx(4.0)
    assert results.overall_above("annealing") == pytest.approx(math.sqrt(3.0 * 5.0) - 1)
    assert not results.proven
    ratio = results.ratio("annealing", "gradient (visited)")
    assert ratio.mean == pytest.approx(math.sqrt(2.0 * 4.0))
    assert ratio.low < ratio.mean < ratio.high
    inverse = results.ratio("gradient (visited)", "annealing")
    assert inverse.mean == pytest.approx(1 / ratio.mean)
    assert inverse.low == pytest.approx(1 / ratio.high)
    assert results.ratio("random", "random").mean == 1.0


def test_a_curve_is_not_drawn_beyond_what_was_spent() -> None:
    results = make_results()
    curve = results.curve("random", "left", "evaluation", [1, 50, 100, 101])
    assert curve.mean[:3] == pytest.approx([90.0, 6.0, 6.0])
    assert np.isnan(curve.mean[3])


def test_the_reference_is_the_optimum_or_the_greatest_lower_bound() -> None:
    assert Bounds(10.0, 15.0, 20.0, lower_bound=20.0).reference == 20.0
    assert Bounds(10.0, 15.0, None).reference == 15.0
    assert Bounds(10.0, 15.0, None, lower_bound=17.0).reference == 17.0
    assert Bounds(10.0, 15.0, None, lower_bound=12.0).reference == 15.0


def test_no_interval_lies_below_the_optimum_and_rounding_is_nothing() -> None:
    results = make_results()
    assert results.final("annealing", "left").low < 2.0
    assert results.above("annealing", "left").low == 0.0
    optimum = results.of("random", "left")[0].best_loss * (1 + 1e-15)
    results = replace(results, bounds={"left": Bounds(10.0, 15.0, optimum)})
    assert results.above("random", "left").mean == 0.0
    above = results.curve_above("random", "left", "evaluation", [10, 100])
    assert above.mean.tolist() == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize("axis", ["evaluation", "seconds"])
def test_a_grid_covers_the_budget(axis: str) -> None:
    results = make_results()
    grid = results.grid("left", axis)  # type: ignore[arg-type]
    assert (np.diff(grid) > 0).all()
    assert grid[-1] == {"evaluation": 100, "seconds": 1.0}[axis]


def same(a: Run, b: Run) -> bool:
    names = ("evaluation", "time", "loss")
    arrays = all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)
    blank = {name: np.empty(0) for name in names}
    return arrays and repr(replace(a, **blank)) == repr(replace(b, **blank))


def test_files_survive(tmp_path: Path) -> None:
    results = make_results()
    fruitless = make_run("random", "right", 2, [(100, 1.0, math.inf)])
    results = replace(results, runs=(*results.runs, fruitless))
    save(results, tmp_path)
    again = load(tmp_path)
    assert all(map(same, again.runs, results.runs))
    assert len(again.runs) == len(results.runs)
    assert again.bounds == results.bounds
    assert again.experiment == results.experiment
    # Other programs read the summary: strict JSON, without NaN or Infinity.
    text = (tmp_path / "summary.json").read_text()
    summary = json.loads(text, parse_constant=pytest.fail)
    workloads = summary["searchers"]["annealing"]["workloads"]
    assert workloads["left"]["percent_above_optimum"] == pytest.approx(200.0)
    assert workloads["right"]["percent_above_lower_bound"] == pytest.approx(400.0)


def test_a_run_from_before_there_were_proofs_is_read(tmp_path: Path) -> None:
    results = make_results()
    save(results, tmp_path)
    path = tmp_path / "summary.json"
    summary = json.loads(path.read_text())
    for entry in summary["bounds"].values():
        for key in set(entry) - {"minimum", "floor", "optimum"}:
            del entry[key]
    path.write_text(json.dumps(summary))
    again = load(tmp_path)
    assert again.bounds == results.bounds
    assert again.above("annealing", "left").mean == pytest.approx(2.0)


def test_curves_have_the_promised_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    save(make_results(), tmp_path)
    table = pq.read_table(tmp_path / "curves.parquet")
    assert table.column_names == [
        "searcher",
        "workload",
        "seed",
        "evaluation",
        "seconds",
        "best_loss",
    ]
    assert table.num_rows == 12 * 4
    assert table.slice(4, 1).to_pylist() == [
        {
            "searcher": "annealing",
            "workload": "left",
            "seed": 1,
            "evaluation": 1,
            "seconds": 0.01,
            "best_loss": 900.0,
        }
    ]


def test_damage_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"summary\.json: there is no such file"):
        load(tmp_path)
    save(make_results(), tmp_path)
    curves = tmp_path / "curves.parquet"
    curves.write_bytes(curves.read_bytes()[:100])
    with pytest.raises(DataError, match=r"curves\.parquet: the file is damaged"):
        load(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(DataError, match=r"summary\.json: the file is damaged"):
        load(tmp_path)
