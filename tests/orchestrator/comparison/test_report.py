"""The report: its numbers are the results', its figures are drawn."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_results import make_results, make_run

from mapspace.errors import ConfigError
from orchestrator.comparison.conclusion import conclusion
from orchestrator.comparison.figures import draw_final, styles
from orchestrator.comparison.latency_section import paper_points
from orchestrator.comparison.page import benchmark_document, text_table, write_report
from orchestrator.comparison.results import Bounds, Results
from orchestrator.comparison.results_files import save
from orchestrator.comparison.tables import above_table
from orchestrator.report.document import NOTHING, Cell, Section, Table


def section_of(results: Results, folder: Path = Path("run")) -> Section:
    """A benchmark's part of the page."""
    return benchmark_document({folder: results}, folder).sections[0]


def table(results: Results, key: str) -> Table:
    return next(table for table in section_of(results).tables if table.key == key)


def cells(results: Results) -> list[str]:
    """What the cells of all tables hold, with their small print."""
    return [
        f"{cell.value} {cell.note}".strip()
        for table in section_of(results).tables
        for row in [*table.body(), *table.ends()]
        for cell in row
    ]


def test_one_page_for_several_benchmarks(tmp_path: Path) -> None:
    for name, budget in (("t-iso-time", {"seconds": 1.0, "iterations": None}), ("t-iso-iter", {})):
        (tmp_path / name).mkdir()
        save(make_results(name=name, **budget), tmp_path / name)
    path = write_report(tmp_path)
    found = {tmp_path / "a": make_results(name="t-iso-iter")}
    found[tmp_path / "b"] = make_results(name="t-iso-time", seconds=1.0, iterations=None)
    document = benchmark_document(found, tmp_path)
    assert document.title == "Mapping search compared: t"
    headings = [section.heading for section in document.sections]
    assert headings == ["t-iso-iter", "t-iso-time", "How it was measured"]
    # Only iterations can be replayed at other latencies.
    titles = [[figure.title for figure in section.figures] for section in document.sections]
    assert ["When each method pays" in some for some in titles] == [True, False, False]
    text = path.read_text()
    assert text.count("<img ") == 9
    # Iterations first, as in the paper.
    assert text.index("t-iso-iter</h2>") < text.index("t-iso-time</h2>")
    figures = sorted(file.name for file in (tmp_path / "figures").iterdir())
    assert figures == sorted(
        [
            "t-iso-iter-latency.png",
            *(
                f"{name}-{kind}.png"
                for name in ("t-iso-iter", "t-iso-time")
                for kind in ("final", "iterations", "reached", "time")
            ),
        ]
    )
    assert all(
        file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size > 5000
        for file in (tmp_path / "figures").iterdir()
    )


def test_the_numbers_are_the_results() -> None:
    results = make_results()
    assert table(results, "normalised").cells()[0] == ["annealing", "6.928", "6.000", "8.000"]
    above = table(results, "above")
    assert above.header[1:] == ("mean", "left", "right (at most)")
    # Annealing: in per cent above the optimum, and above the floor.
    assert above.cells()[0] == ["annealing", "287.30", "200.00", "400.00"]
    assert [row[2] for row in table(results, "bounds").cells()] == [
        "the optimum, from the table of proven ones",
        "a lower bound; the optimum is not proven (no proof was tried)",
    ]
    # Over gradient: sqrt(2 x 4).
    assert table(results, "matrix").cells()[0][2] == "2.83\N{MULTIPLICATION SIGN}"
    assert [row[1] for row in table(results, "spent").cells()][1] == "gradient chains=2"


def test_the_best_of_a_column_stands_out() -> None:
    rows = table(make_results(), "above").body()
    assert [[cell.strong for cell in row[1:]] for row in rows] == [
        [False, False, False],
        [True, True, True],
        [False, False, False],
    ]


def test_the_mean_has_the_interval_that_its_seeds_give() -> None:
    # Of annealing the logarithms of "left" alone vary, by ln(90 / 40) between two seeds.
    half = 12.706 * math.log(90 / 40) / 2 / 2
    interval = make_results().overall_interval("annealing", above=True)
    assert float(interval.mean) == pytest.approx(math.sqrt(3 * 5) - 1)
    assert float(interval.high) == pytest.approx(math.sqrt(3 * 5) * math.exp(half) - 1, rel=1e-4)
    assert float(interval.low) == 0.0
    cell = table(make_results(), "above").body()[0][1]
    assert cell.note == f"0 to {100 * float(interval.high):.2f}"
    # Nothing varies.
    assert table(make_results(), "above").body()[2][1].note == ""


def test_the_page_begins_with_who_ends_lowest_and_whether_that_is_certain() -> None:
    results = make_results()
    lead = benchmark_document({Path("run"): results}, Path("run")).lead
    assert lead.startswith(
        "After 100 iterations gradient (visited) ends 36.93 % (0 to 1699.81) above the optimum or "
        "a lower bound in EDP, and cannot be told apart from annealing at 287.30 % ("
    )
    # No interval of few seeds leaves a factor of five open.
    sure = [replace(run, best_loss=run.best_loss * (1 + 1e-3 * run.seed)) for run in results.runs]
    sure = [
        replace(run, best_loss={"left": 20.0, "right": 100.0}[run.workload] * (1 + 1e-3 * run.seed))
        if run.searcher == "gradient (visited)"
        else run
        for run in sure
    ]
    said = conclusion(replace(results, runs=tuple(sure)))
    assert "less than all others" not in said  # of annealing
    alone = tuple(run for run in sure if run.searcher != "annealing")
    said = conclusion(replace(results, runs=alone))
    # sqrt(3 x 7.5) is 4.743 and sqrt(1.25) 1.118, each with half a thousandth for the second seed.
    assert ", less than all others; the next is random at 374.58 % (373.86 to 375.30), 4.24" in said
    near = [
        replace(run, searcher="random", best_loss=1.002 * run.best_loss)
        for run in alone
        if run.searcher != "random"
    ]
    best = [run for run in alone if run.searcher != "random"]
    said = conclusion(replace(results, runs=(*near, *best)))
    # Less than twice as high is said in percent.
    assert re.search(
        r"next is random at [\d.]+ % \([^()]+\), 0.20 % more \(0.06 to 0.34\)\. In", said
    )
    one = tuple(run for run in results.runs if run.seed == 0)
    assert "may be chance" in conclusion(replace(results, runs=one))
    best = [run for run in one if run.searcher == "gradient (visited)"]
    twice = tuple(replace(run, searcher=name) for name in ("annealing", "random") for run in best)
    assert "above" in (said := conclusion(replace(results, runs=twice)))
    assert ", as random does; of one seed" in said
    assert conclusion(replace(results, runs=results.runs[:4])) == ""


def test_when_each_method_pays() -> None:
    results = make_results()
    slow = [dict(entry) for entry in results.experiment["searchers"]]
    slow[0]["iterations"] = 50
    results = replace(results, experiment={**results.experiment, "searchers": slow})
    after, reach = (table(results, key).cells() for key in ("after", "reach"))
    assert after[0][0] == reach[0][0] == "annealing (after 50)"
    # After 60 s all 100 queries are made up to 0.1 s each, not at 1 s: then the 50th decides, and
    # annealing still ends at sqrt(3 x 5) - 1; at 10 s each six are made: 900 for 20 and 80.
    assert list(map(float, after[0][1:])) == pytest.approx([287.30] * 5 + [2150.00], abs=0.01)
    # 20 and 80 are reached by nothing here within a tenth.
    assert "not reached" in reach[0]
    assert "bill of a surrogate" not in " ".join(section_of(results).notes)


def test_the_papers_end_points_stand_beside_ours() -> None:
    assert paper_points(make_results()) is None
    results = make_results()
    runs = tuple(
        replace(run, workload={"left": "mttkrp-0", "right": "right"}[run.workload])
        for run in results.runs
    )
    learned = tuple(
        replace(run, surrogate_queries=100) if run.searcher == "gradient (visited)" else run
        for run in runs
    )
    bounds = {"mttkrp-0": results.bounds["left"], "right": results.bounds["right"]}
    points = paper_points(replace(results, runs=learned, bounds=bounds))
    assert points is not None
    assert points.header == ("normalised EDP after 100 iterations", "mttkrp-0")
    # sqrt(20 x 45) and the optimum 20 over the minimum 10.
    assert points.cells() == [
        ["Mind Mappings, in the paper", "6.80"],
        ["gradient (visited)", "3.00"],
        ["proven optimum of our cost model", "2.00"],
    ]


def test_certificates_are_linked_where_they_lie(tmp_path: Path) -> None:
    results = make_results(name="one")
    file = "certificates/left-1.json"
    proven = replace(results.bounds["left"], proof_seconds=0.125, certificate=file)
    lost = replace(results.bounds["right"], certificate="certificates/lost.json", note="too slow.")
    folder = tmp_path / "run 1"
    (folder / "certificates").mkdir(parents=True)
    (folder / file).write_text("{}")
    made = replace(results, bounds={"left": proven, "right": lost})
    for place, link in ((tmp_path, f"run%201/{file}"), (folder, file)):
        bounds = benchmark_document({folder: made}, place).sections[0].tables[1]
        (_, _, first, certificate), (_, _, second, nothing) = bounds.body()
        assert certificate == Cell("certificate", link=link)
        assert nothing == Cell("")
        assert first.value == "the optimum, proven in 0.12 s"
        assert second.value == "a lower bound; the optimum is not proven (too slow)"


def test_the_table_for_a_terminal() -> None:
    lines = text_table(make_results()).splitlines()
    assert lines[0].split("  ")[0] == "EDP, % above the optimum"
    assert lines[0].split()[-5:] == ["mean", "left", "right", "(at", "most)"]
    # sqrt(3 x 5) - 1 is 287.3 %.
    assert lines[2].split() == ["annealing", "287.30", "200.00", "400.00"]
    assert set(lines[1]) == set(lines[5]) == {"-"}
    assert lines[6].split()[-2:] == ["20", NOTHING]
    assert lines[7].split()[-2:] == [NOTHING, "80"]
    assert lines[8] == "at most: above a lower bound; no optimum is proven: no proof was tried"
    assert len({line.find("400.00") for line in lines if "400.00" in line}) == 1


def test_what_is_measured_against_is_in_joules_and_seconds() -> None:
    results = make_results()
    slow = replace(results, provenance={**results.provenance, "clock_ghz": 0.2})
    # 20 pJ x cycles of 5 ns each.
    assert above_table(slow).cells()[3] == ["proven optimum, J s", "", "1e-19", NOTHING]
    # Runs from before the clock was noted.
    assert above_table(results).cells()[3][0] == "proven optimum, pJ x cycles"


def test_the_table_tells_the_optimum_from_what_is_close_to_it() -> None:
    results = make_results()
    values = {"left": 60.0 / (1 + 1e-6), "right": 600.0}
    bounds = {name: Bounds(10.0, 15.0, value) for name, value in values.items()}
    lines = text_table(replace(results, bounds=bounds)).splitlines()
    assert lines[0].startswith("EDP, % above the proven optimum")
    assert lines[4].split() == ["random", "<0.01", "<0.01", "0"]
    assert "at most" not in "\n".join(lines)


def test_a_method_has_one_hue_and_its_variants_differ() -> None:
    searchers = [
        {"name": name, "label": label, "preset": None, "parameters": {}}
        for name, label in (
            ("annealing", "annealing"),
            ("gradient", "gradient (visited)"),
            ("gradient", "random"),
        )
    ]
    look = styles(make_results(searchers=searchers))
    assert len({style.colour for style in look.values()}) == 3
    assert look["gradient (visited)"].dash != look["random"].dash


@pytest.mark.parametrize("budget", [{}, {"seconds": 1.0, "iterations": None}])
def test_a_search_that_found_nothing_is_said_and_harms_no_other_figure(
    budget: dict[str, Any],
) -> None:
    whole = make_results(**budget)
    first = whole.runs[0]
    lost = make_run(first.searcher, first.workload, first.seed, [(100, 1.0, math.inf)])
    lacking = replace(whole, runs=(lost, *whole.runs[1:]))
    before, after = cells(whole), cells(lacking)
    assert not {"nan", "inf"} & {word for text in (*before, *after) for word in text.split()}
    assert "found nothing" not in " ".join([*before, *section_of(whole).notes])
    assert "annealing: 1 of 4 found nothing" in " ".join(section_of(lacking).notes)
    assert len(before) == len(after)
    changed = Counter(new for old, new in zip(before, after, strict=True) if old != new)
    # Its share and its normalised loss, on the workload and in the mean; every ratio to it and of
    # it; and where latencies are compared, how far it is after a minute and where it was the best.
    latencies = Counter({NOTHING: 6, "gradient (visited) 2150.00": 2} if not budget else {})
    assert changed - latencies == {
        "n/a 1 of 2 found nothing": 2,
        "n/a, 1 of 4 found nothing": 2,
        "n/a": 6,
        # Its middle half is that of the other workload, and it ends lower than no other search.
        "400.00": 1,
        "0 %": 1,
    }
    assert latencies <= changed
    lines = text_table(lacking).splitlines()
    assert lines[2].split() == [
        *["annealing", "n/a,", "1", "of", "4", "found", "nothing", "n/a", "400.00"]
    ]
    # The mean's column has become wider.
    assert [line.strip("-").split() for line in lines[3:8]] == [
        line.strip("-").split() for line in text_table(whole).splitlines()[3:8]
    ]


def test_a_mean_over_the_other_workloads_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.axes import Axes

    texts: list[str] = []
    bars: list[float] = []
    annotate, barh = Axes.annotate, Axes.barh

    def note(panel: Axes, text: str, *arguments: Any, **options: Any) -> Any:
        texts.append(text)
        return annotate(panel, text, *arguments, **options)

    def bar(panel: Axes, place: float, *arguments: Any, **options: Any) -> Any:
        bars.append(place)
        return barh(panel, place, *arguments, **options)

    monkeypatch.setattr(Axes, "annotate", note)
    monkeypatch.setattr(Axes, "barh", bar)
    results = make_results()
    lost = tuple(
        make_run(run.searcher, run.workload, run.seed, [(100, 1.0, math.inf)])
        if run.searcher == "random" or (run.searcher, run.workload) == ("annealing", "left")
        else run
        for run in results.runs
    )
    draw_final(replace(results, runs=lost), tmp_path / "final.png")
    assert texts == [
        "n/a, 4 of 4 found nothing",
        f"{100 * results.overall_above('gradient (visited)'):.2f} %",
        "n/a, 2 of 4 found nothing",
    ]
    assert bars == [1]


def test_without_results_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no finished benchmark"):
        write_report(tmp_path)


def timed(processor: float | None, wall: float | None, **experiment: Any) -> Results:
    """Made-up results whose searches took so much in all."""
    results = make_results(**experiment)
    part = {"processor_seconds": processor, "wall_seconds": wall}
    count = len(results.runs)
    each = {name: None if sum_ is None else sum_ / count for name, sum_ in part.items()}
    return replace(results, runs=tuple(replace(run, **each) for run in results.runs))


def test_page_and_table_say_the_clock_and_that_a_machine_was_shared() -> None:
    shared = "The machine was shared: searches took 60.0 s by the wall, 24.0 s of processor time."
    busy = f"{shared} Figures over time are those of a busy machine."
    for clock, line in (("processor", shared), ("wall", busy)):
        results = timed(24.0, 60.0, seconds=1.0, iterations=None, clock=clock)
        assert line in " ".join(text_table(results).split())
        section = section_of(results)
        assert line in section.blocks
        assert any("processor time of the" in str(block) for block in section.blocks) == (
            clock == "processor"
        )
        spent = table(results, "spent")
        assert spent.header[6:8] == ("processor s", "wall s")
        assert [[cell.value for cell in row[6:8]] for row in spent.body()] == [["2", "5"]] * 3


@pytest.mark.parametrize(
    ("processor", "wall"),
    [(24.0, 25.0), (24.0, 12.0), (0.2, 0.9), (None, 60.0), (None, None)],
    ids=["alone", "threads", "too short to tell", "others answer", "before it was taken"],
)
def test_a_machine_that_was_not_shared_is_not_said_to_be(
    processor: float | None, wall: float | None
) -> None:
    assert "shared" not in text_table(timed(processor, wall, clock="processor"))


def test_more_seconds_than_the_processors_had_are_a_shared_machine() -> None:
    made = {"search_seconds": 50.0, "elapsed_seconds": 20.0, "processors": 2}
    results = timed(None, None)
    results = replace(results, provenance={**results.provenance, **made})
    assert "50.0 s in 20.0 s on 2 processors. Figures" in text_table(results)


def test_a_surrogate_that_is_followed_uncounted_is_said() -> None:
    """None of the made-up searches has counted a query of its surrogate."""
    rows = [[cell.value for cell in row] for row in table(make_results(), "spent").body()]
    assert {row[0]: row[4] for row in rows} == {
        "annealing": "0", "gradient (visited)": "not counted", "random": "0",
    }  # fmt: skip
