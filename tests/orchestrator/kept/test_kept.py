"""Tables of pages are made of results that are kept beside them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call
from sample_results import make_results, make_run

from mapspace.errors import ConfigError, DataError, MapspaceError
from orchestrator.comparison.results import Bounds, Results
from orchestrator.comparison.results_files import load, save
from orchestrator.kept.pages import filled
from orchestrator.kept.results import departures, keep, origins
from orchestrator.report.document import LEFT as LEFT_ALIGNED
from orchestrator.report.document import Cell, Table
from orchestrator.runs.tables_file import TABLES_FILE, write_tables

LEFT, RIGHT = "resnet-conv4", "gemm-512"
SMOKE = [
    {"name": name, "label": name, "preset": None, "parameters": {}}
    for name in ("random", "annealing", "genetic", "structured")
]


def smoke(**experiment: Any) -> Results:
    """Results of the shipped experiment's name, with longer curves than are kept."""
    runs = []
    for place, entry in enumerate(SMOKE):
        for workload in (LEFT, RIGHT):
            for seed in range(2):
                end = 20.0 * (1 + 0.1 * place) * (1 + 0.02 * seed)
                points = [(n, n / 1000, end * (1 + (1000 - n) / 500)) for n in range(1, 1001, 3)]
                runs.append(make_run(str(entry["label"]), workload, seed, points))
    made = make_results(
        **{
            "name": "smoke",
            "kind": "benchmark",
            "accelerator": "mm256",
            "workloads": [LEFT, RIGHT],
            "searchers": SMOKE,
            "iterations": 1000,
            **experiment,
        }
    )
    bounds = {name: Bounds(10.0, 15.0, 20.0) for name in (LEFT, RIGHT)}
    provenance = {**made.provenance, "commit": "0123456789abcdef", "processor": "Z80"}
    return replace(made, runs=tuple(runs), bounds=bounds, provenance=provenance)


MEASURED = {(LEFT, "random"), (LEFT, "annealing")}


CLAIMS = Table(
    "claims",
    "",
    ("", "paper", "here"),
    (LEFT_ALIGNED, LEFT_ALIGNED, "{:.1f} %"),
    [("layers", "15", 12.34), ("cells", Cell("5 %", strong=True), None)],
)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    save(smoke(), tmp_path / "run")
    keep(tmp_path / "run", tmp_path / "kept")
    (tmp_path / "tables").mkdir()
    write_tables(tmp_path / "tables", "mapspace benchmark marvel", {"name": "marvel"}, [CLAIMS])
    return tmp_path


def test_what_is_kept_says_the_same_where_pages_ask(kept: Path) -> None:
    whole, small = load(kept / "run"), load(kept / "kept")
    assert small.provenance == whole.provenance
    for mine, theirs in zip(small.runs, whole.runs, strict=True):
        at = [1, 2, 5, 10, 25, 50, 100, 200, 500, 1000]
        assert mine.at(at, "evaluation").tolist() == theirs.at(at, "evaluation").tolist()
        assert (mine.best_loss, mine.iterations) == (theirs.best_loss, theirs.iterations)
        assert len(mine.loss) < 12 < len(theirs.loss)
    size = sum(file.stat().st_size for file in (kept / "kept").iterdir())
    assert size < (kept / "run" / "curves.parquet").stat().st_size


def test_the_command_keeps_what_it_draws(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("report", kept / "run", "--keep", kept / "again") == 0
    assert capsys.readouterr().out.strip().endswith("run/report.html")
    for file in (kept / "kept").iterdir():
        assert (kept / "again" / file.name).read_bytes() == file.read_bytes()
    # And it can be reported itself.
    assert call("report", kept / "again") == 0
    assert call("report", kept / "nothing", "--keep", kept / "there") == 1


def test_a_method_that_was_searched_again_takes_its_own_place(kept: Path) -> None:
    whole = smoke()
    again = [replace(run, iterations=999) for run in whole.runs if run.searcher == "genetic"]
    made = {**whole.provenance, "commit": "fedcba9876543210", "weights": "x"}
    made |= {"hyperparameters": {"genetic": {}}}
    alone = replace(whole, runs=again, provenance=made)
    alone = replace(alone, experiment={**whole.experiment, "searchers": [SMOKE[2]]})
    (kept / "alone").mkdir()
    save(alone, kept / "alone")
    keep(kept / "alone", kept / "kept")
    found = load(kept / "kept")
    assert found.searchers == whole.searchers
    assert {*found.column("iterations", "genetic")} == {999}
    for label in ("random", "annealing", "structured"):
        assert [*found.column("best_loss", label)] == [*whole.column("best_loss", label)]
    assert "0123456789" in origins([found], ["random"])
    assert "fedcba9876" not in origins([found], ["random"])
    assert "; genetic: fedcba9876, " in origins([found])
    assert "fedcba9876" in origins([found])
    # One of another question is refused.
    save(replace(alone, experiment={**alone.experiment, "iterations": 7}), kept / "alone")
    with pytest.raises(DataError, match="got another in iterations"):
        keep(kept / "alone", kept / "kept")
    # All methods again are a run of their own.
    keep(kept / "run", kept / "kept")
    assert load(kept / "kept").provenance == load(kept / "run").provenance
    # One that the experiment does not have comes last.
    entry = {**SMOKE[2], "label": "tabu"}
    entered = replace(
        alone,
        runs=[replace(run, searcher="tabu") for run in again],
        experiment={**alone.experiment, "searchers": [entry]},
    )
    save(entered, kept / "alone")
    keep(kept / "alone", kept / "kept")
    assert load(kept / "kept").searchers == (*whole.searchers, "tabu")
    assert call("report", kept / "kept") == 0


def test_measured_costs_are_kept_with_what_they_are_held_against(tmp_path: Path) -> None:
    results = smoke(workloads=[LEFT], searchers=SMOKE[:2])
    bounds = {LEFT: Bounds(10.0, 10.0, None, 10.0, measured=True)}
    runs = [run for run in results.runs if (run.workload, run.searcher) in MEASURED]
    save(replace(results, runs=runs, bounds=bounds), tmp_path)
    keep(tmp_path, tmp_path / "kept")
    (tmp_path / "page.md").write_text("<!-- table: ends kept -->\n<!-- end -->\n")
    made = filled((tmp_path / "page.md").read_text(), tmp_path / "page.md")
    header, _, first, second = rows(made)
    assert header[1:] == ["best", "median", "mean", "worst", "% above the best in this run"]
    # Seeds end at 20 and 20.4, and at 22 and 22.44; the first on average at 20 x sqrt(1.02).
    assert first == ["random", "20", "20.2", "20.2", "20.4", "**101.99**"]
    assert second[:5] == ["annealing", "22", "22.22", "22.22", "22.44"]


PAGE = """# Page

Genetic search ends at <!-- value: genetic kept -->old<!-- end --> per cent, after 100 queries at
<!-- value: genetic kept after=100 --><!-- end -->.

<!-- table: {} -->
what stood here
<!-- end -->

Between the tables.
"""


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(
    ("mark", "header", "row"),
    [
        ("workloads kept", [LEFT, RIGHT, "mean"], ["genetic", "21.19", "21.19", "21.19"]),
        ("means kept kept", ["1,000 queries"] * 2, ["genetic", "21.19", "21.19"]),
        ('queries kept "after=100,1000"', ["100", "1,000", "ms a query"], ["genetic", "239.34"]),
        ("ratios kept over=random after=1000", ["after 1,000 queries"], ["genetic", "1.200"]),
        ("ratios kept over=random", ["after 1,000 queries"], ["genetic", "1.200"]),
        ("spent kept", ["iterations", "true queries"], ["genetic", "1,000", "1,000", "0", "1"]),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_a_page_is_filled(kept: Path, mark: str, header: list[str], row: list[str]) -> None:
    text = filled(PAGE.format(mark), kept / "page.md")
    table = rows(text)
    assert all(name in table[0] for name in header)
    (found,) = [line for line in table if line[0] == "genetic"]
    assert [cell.split(" (")[0] for cell in found[: len(row)]] == row
    assert "ends at <!-- value: genetic kept -->21.19<!-- end --> per cent" in text
    assert "what stood here" not in text
    assert text.endswith("Between the tables.\n")
    # Whence: command, seeds, commit, date, processor.
    assert (
        "`mapspace benchmark smoke`, 2 seeds: mapspace 0.1.0 at 0123456789, today, 2 proc" in text
    )
    assert text.count("2 processors (Z80), seconds are wall time.") == 1
    assert filled(text, kept / "page.md") == text


def test_what_made_two_tables_is_said_once(kept: Path) -> None:
    mark = "<!-- table: means kept -->\n<!-- end -->\n"
    text = filled(f"{mark}\n{mark}\n{mark}", kept / "p.md")
    assert text.count("(Z80)") == 1
    assert text.count("\n`mapspace benchmark smoke`, as above.\n") == 2
    assert text.index("(Z80)") < text.index("as above")
    assert filled(text, kept / "p.md") == text


def test_the_best_is_bold_and_methods_are_chosen(kept: Path) -> None:
    text = filled(
        '<!-- table: means kept "methods=genetic|random" -->\n<!-- end -->', kept / "p.md"
    )
    assert [line[0] for line in rows(text)[2:]] == ["genetic", "random"]
    assert [line[1][:2] for line in rows(text)[2:]] == ["21", "**"]


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("table: medians kept", "table: expected one of workloads, means"),
        ("table: means kept over=random", "table means: expected methods, got 'over'"),
        ("table: means", "expected a folder of results"),
        ("table: ratios kept over=nobody", "over: expected one of random"),
        ("table: means kept methods=nobody", "methods: expected some of random"),
        ("table: queries kept after=7", r"after: expected some of \[25, 50"),
        ("table: workloads kept kept", "expected one folder of results, got 2"),
        ("table: means nowhere", "nowhere.*there is no such file"),
        ("value: nobody kept", "value: expected a method"),
        ("table: rows kept key=claims", "kept/tables.json"),
        ("table: rows kept kept key=claims", "rows: expected one folder of results, got 2"),
        ("table: rows tables key=others", "key: expected one of claims, got 'others'"),
        ("table: rows tables key=claims columns=4", r"columns: expected 1 to 3, got \[4\]"),
        ("table: rows tables key=claims columns=a", "columns: expected numbers such as 1,2,5"),
    ],
)
def test_a_wrong_mark_is_one_line_that_names_it(kept: Path, mark: str, said: str) -> None:
    with pytest.raises(MapspaceError, match=rf"page\.md: line 3: .*{said}"):
        filled(f"# Page\n\n<!-- {mark} -->\n<!-- end -->\n", kept / "page.md")


def test_tables_of_other_kinds_of_runs(kept: Path) -> None:
    """As the run showed them, with the columns that are asked for."""
    keep(kept / "tables", kept / "copied")
    mark = "table: rows copied key=claims columns=1,3"
    text = filled(f"<!-- {mark} -->\n<!-- end -->", kept / "p.md")
    assert rows(text) == [["", "here"], ["---", "---:"], ["layers", "12.3 %"], ["cells", "\u2013"]]
    assert re.search(
        r"^`mapspace benchmark marvel`: mapspace \d.* at [0-9a-f]{10}, 20\d\d-.* processors?",
        text,
        re.MULTILINE,
    )
    assert filled(text, kept / "p.md") == text
    assert len(rows(filled(text.replace(" columns=1,3", ""), kept / "p.md"))[0]) == 3


def test_tables_that_come_out_again_keep_what_made_them(kept: Path) -> None:
    file = kept / "tables" / TABLES_FILE
    earlier = file.read_text().replace('"processors"', '"processors": 77, "other"')
    file.write_text(earlier)
    write_tables(kept / "tables", "mapspace benchmark marvel", {"name": "marvel"}, [CLAIMS])
    assert file.read_text() == earlier
    changed = replace(CLAIMS, rows=CLAIMS.rows[:1])
    write_tables(kept / "tables", "mapspace benchmark marvel", {"name": "marvel"}, [changed])
    assert '"processors": 77' not in file.read_text()


def test_what_was_published_stays_as_it_is(kept: Path) -> None:
    text = "<!-- published: Smith (2020) -->40 %<!-- end --> or so"
    assert filled(text, kept / "p.md") == text
    with pytest.raises(ConfigError, match="expected an `end`"):
        filled("<!-- published: Smith (2020) -->40 %", kept / "p.md")


def test_a_place_without_an_end(kept: Path) -> None:
    with pytest.raises(ConfigError, match=r"page\.md: expected an `end`"):
        filled("<!-- table: means kept -->\n", kept / "page.md")


def test_what_is_quoted_is_no_mark(kept: Path) -> None:
    text = "`<!-- value: a b -->` and\n\n```\n<!-- table: means there -->\n<!-- end -->\n```\n"
    assert filled(text, kept / "page.md") == text


def test_what_differs_from_the_shipped_experiment_is_said() -> None:
    assert departures(smoke().experiment) == []
    fewer = [{**SMOKE[0], "seeds": [0]}, *SMOKE[1:3], {**SMOKE[0], "label": "more"}]
    changed = smoke(seeds=[0, 1, 2], iterations=300, searchers=fewer)
    assert departures(changed.experiment) == [
        "seeds 3",
        "iterations 300",
        "without structured",
        "random: seeds 1",
        "with more",
    ]
    said = origins([replace(changed, runs=smoke().runs)])
    assert "(iterations 300; without structured; with more), 3 seeds (random: 2" in said
    alone = replace(smoke(), provenance={**smoke().provenance, "processors": 1})
    assert "1 processor (Z80)" in origins([alone])
    with pytest.raises(ConfigError, match="mine"):
        departures(smoke(name="mine").experiment)


def test_one_seed_has_no_interval(kept: Path) -> None:
    whole = smoke()
    runs = [run for run in whole.runs if run.searcher != "genetic" or run.seed == 0]
    save(replace(whole, runs=runs), kept / "run")
    keep(kept / "run", kept / "kept")
    text = filled("<!-- table: ratios kept over=random -->\n<!-- end -->", kept / "p.md")
    cells = {row[0]: row[1] for row in rows(text)}
    assert cells["genetic, 1 seed"] == "1.188"
    assert "`mapspace benchmark smoke`, 2 seeds where a row says no other number:" in text
    over = filled("<!-- table: ratios kept over=genetic -->\n<!-- end -->", kept / "p.md")
    assert rows(over)[0][0] == "EDP over that of genetic, 1 seed"
    means = filled("<!-- table: means kept -->\n<!-- end -->", kept / "p.md")
    assert "`mapspace benchmark smoke`, 2 seeds (genetic: 1):" in means
    others = "<!-- table: means kept methods=random|annealing -->\n<!-- end -->"
    assert "`mapspace benchmark smoke`, 2 seeds: mapspace" in filled(others, kept / "p.md")
    assert re.fullmatch(r"1\.100 \(1\.0\d+ to 1\.1\d+\)", cells["annealing"])


def test_beyond_its_queries_a_method_has_no_figure(kept: Path) -> None:
    results = smoke()
    short = [
        run if run.searcher != "genetic" else replace(run, iterations=100) for run in results.runs
    ]
    save(replace(results, runs=tuple(short)), kept / "run")
    keep(kept / "run", kept / "kept")
    text = filled("<!-- table: queries kept after=100,1000 -->\n<!-- end -->", kept / "p.md")
    (row,) = [line for line in rows(text) if line[0] == "genetic"]
    assert row[1:3] == ["239.34", ""]
    assert np.isfinite(float(row[3]))


def test_a_budget_between_the_counts_is_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    save(smoke(iterations=997), tmp_path / "run")  # where the curves end
    keep(tmp_path / "run", tmp_path / "kept")
    page = tmp_path / "p.md"
    text = filled("<!-- table: queries kept -->\n<!-- end -->", page)
    assert rows(text)[0][-3:] == ["500", "997", "ms a query"]
    assert all(row[-2] for row in rows(text)[2:])
