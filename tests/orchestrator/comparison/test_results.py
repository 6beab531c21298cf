"""Statistics over seeds by hand, and files that survive."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_results import make_results, make_run

from mapspace.errors import DataError
from orchestrator.comparison.cells import TIMES, percent_text, range_text, ratio_cell
from orchestrator.comparison.results import (
    NOT_COMPARABLE,
    Bounds,
    Ratio,
    Run,
    best_so_far,
    geometric_interval,
)
from orchestrator.comparison.results_files import load, save
from orchestrator.report.document import NOTHING, Cell

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


def test_many_curves_at_once_are_those_of_every_run() -> None:
    rng, runs = np.random.default_rng(0), []
    for seed in range(50):
        points = int(rng.integers(1, 9))
        evaluation = np.sort(rng.integers(1, 12, points))
        seconds = np.sort(rng.integers(1, 12, points) / 4)
        loss = np.sort(rng.choice([1.0, 2.0, 5.0, 9.0, math.inf], points))[::-1]
        runs.append(make_run("a", "w", seed, [*zip(evaluation, seconds, loss, strict=True)]))
    for axis, grid in (("evaluation", [3, 1, 12, 3, 5, 99]), ("seconds", np.arange(13) / 4)):
        for some in (runs, runs[:1]):
            expected = np.stack([run.at(grid, axis) for run in some])
            assert np.array_equal(best_so_far(some, grid, axis), expected)


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


def test_the_interval_of_a_ratio_by_hand() -> None:
    # On the left both have ln 2.25 between two seeds: each mean has variance (ln 2.25)^2 / 4, with
    # one freedom. On the right nothing varies. The sum has two freedoms: t = 4.30265.
    ratio = make_results().ratio("annealing", "gradient (visited)")
    half = 4.302652730 * math.sqrt(2 * math.log(2.25) ** 2 / 4) / 2
    assert ratio.low == pytest.approx(math.sqrt(8.0) * math.exp(-half))
    assert ratio.high == pytest.approx(math.sqrt(8.0) * math.exp(half))


@pytest.mark.parametrize("axis", ["evaluation", "seconds"])
def test_a_curve_goes_as_far_as_the_seed_that_spent_most(axis: Any) -> None:
    runs = (
        make_run("a", "left", 0, [(1, 1.0, 40.0), (60, 60.0, 40.0)]),
        make_run("a", "left", 1, [(1, 1.0, 40.0), (80, 80.0, 10.0), (100, 100.0, 10.0)]),
    )
    curve = replace(make_results(), runs=runs).curve("a", "left", axis, [60, 61, 100, 101])
    assert curve.mean[:3] == pytest.approx([4.0, 4.0, 2.0])
    assert np.isnan(curve.mean[3])
    assert np.isnan(curve.high[3])


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
    assert [workloads[name]["found_nothing"] for name in ("left", "right")] == [0, 0]
    lost = summary["searchers"]["random"]
    assert (lost["found_nothing"], lost["geometric_mean_normalised"]) == (1, None)
    assert (lost["workloads"]["right"]["found_nothing"], lost["workloads"]["right"]["mean"]) == (
        1,
        None,
    )
    assert lost["workloads"]["left"]["mean"] == pytest.approx(6.0)


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
    with pytest.raises(DataError, match=r"summary\.json: not JSON: "):
        load(tmp_path)


def test_damaged_numbers_are_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    results = make_results()
    path = tmp_path / "curves.parquet"
    for column, value, message in (
        ("seconds", math.inf, "seconds: expected finite numbers"),
        ("seconds", -1.0, "seconds: expected 0 or more, got -1.0"),
        ("evaluation", -2, "evaluation: expected 0 or more, got -2"),
        ("best_loss", math.nan, "best_loss: expected 0 or more, got nan"),
    ):
        save(results, tmp_path)
        table = pq.read_table(path).to_pydict()
        # One of them only.
        table[column][5] = value
        pq.write_table(pa.table(table), path)
        with pytest.raises(DataError, match=message):
            load(tmp_path)
    table[column][5] = 0.0
    table["seconds"][5] = 0.0
    pq.write_table(pa.table(table), path)
    assert load(tmp_path).runs[1].time[1] == 0.0


def test_the_summary_is_written_for_people_too(tmp_path: Path) -> None:
    save(make_results(), tmp_path)
    text = (tmp_path / "summary.json").read_text()
    data = json.loads(text)
    runs = data.pop("runs")
    head = json.dumps(data, indent=1).removesuffix("\n}") + ',\n "runs": [\n'
    assert text.startswith(head)
    # A line per run, of which there may be many.
    lines = text.removeprefix(head).splitlines()
    assert [json.loads(line.removesuffix(",")) for line in lines[:-2]] == runs
    assert lines[-2:] == [" ]", "}"]


def test_costs_are_measured_where_all_of_them_are() -> None:
    results = make_results()
    left, right = (replace(bounds, measured=True) for bounds in results.bounds.values())
    one = replace(results, bounds={**results.bounds, "left": left})
    assert not one.measured
    assert one.reference_name == "the optimum or a lower bound"
    every = replace(results, bounds={"left": replace(left, optimum=None), "right": right})
    assert every.measured
    assert every.reference_name == "the best in this run"
    unproven = replace(results, bounds={**results.bounds, "left": Bounds(1.0, 1.0, None)})
    assert unproven.reference_name == "a lower bound"


def test_grids_by_hand() -> None:
    runs = (
        make_run("a", "left", 0, [(1, 0.0, 9.0), (1, 0.25, 9.0)]),
        make_run("a", "right", 0, [(3, 0.5, 9.0), (100, 1.0, 9.0)]),
        make_run("b", "right", 0, [(3, 0.125, 9.0), (50, 4.0, 9.0)]),
        make_run("c", "late", 0, [(7, 7.0, 9.0)]),
        make_run("d", "early", 0, [(7, 1e-9, 9.0), (9, 8.0, 9.0)]),
    )
    results = replace(make_results(), runs=runs)
    # One iteration: the least that a logarithmic axis shows is 1 to 2.
    assert results.grid("left", "evaluation").tolist() == [1.0, 2.0]
    evaluations = results.grid("right", "evaluation")
    assert (evaluations[0], evaluations[-1]) == (1.0, 100.0)
    assert (evaluations == np.round(evaluations)).all()
    # From the first result that took time, but over at most four decades and at least an octave.
    for workload, first, last in (
        ("left", 0.125, 0.25), ("right", 0.125, 4.0), ("late", 3.5, 7.0), ("early", 8e-4, 8.0)
    ):  # fmt: skip
        seconds = results.grid(workload, "seconds", points=7)
        assert seconds == pytest.approx(np.geomspace(first, last, 7))


def test_ratios_without_a_spread() -> None:
    results = make_results()
    same = results.ratio("annealing", "annealing")
    assert same == Ratio(1.0, 1.0, 1.0)
    single = replace(results, runs=tuple(run for run in results.runs if run.seed == 0))
    ratio = single.ratio("annealing", "random")
    assert ratio.low == ratio.mean == ratio.high == pytest.approx(math.sqrt(40 / 60 * 400 / 600))
    constant = results.ratio("random", "random")
    assert constant == Ratio(1.0, 1.0, 1.0)


def test_the_freedom_of_unlike_numbers_of_seeds() -> None:
    """Welch and Satterthwaite by hand, with one and with two degrees of freedom."""
    runs = tuple(
        make_run(searcher, "left", seed, [(1, 1.0, loss)])
        for searcher, losses in (("a", (1.0, math.e)), ("b", (1.0, math.e, math.e**2)))
        for seed, loss in enumerate(losses)
    )
    ratio = replace(make_results(), runs=runs).ratio("a", "b")
    one, two = 0.5 / 2, 1.0 / 3
    freedom = (one + two) ** 2 / (one**2 / 1 + two**2 / 2)
    from scipy import stats

    half = stats.t.ppf(0.975, freedom) * math.sqrt(one + two)
    assert math.log(ratio.high / ratio.mean) == pytest.approx(half)
    assert math.log(ratio.mean) == pytest.approx(-0.5)


def test_numbers_as_tables_show_them() -> None:
    assert [percent_text(share) for share in (0.0, 1e-9, 0.000049, 0.00005, 0.5, math.nan)] == [
        "0", "<0.01", "<0.01", "0.01", "50.00", NOTHING,
    ]  # fmt: skip
    assert percent_text(math.inf) == NOTHING
    for low, high in ((1.0, math.inf), (math.nan, 1.0), (math.inf, math.inf)):
        assert range_text(str, low, high) == ""
    assert range_text(str, 1.0, 2.0) == "1.0 to 2.0"
    assert ratio_cell(Ratio(2.0, 2.0, 2.0)) == Cell(f"2.00{TIMES}")
    assert ratio_cell(Ratio(2.0, 1.0, 4.0)).note == "1.00 to 4.00"
    assert ratio_cell(Ratio(math.nan, math.nan, math.nan)).value == NOT_COMPARABLE
