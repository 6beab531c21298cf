"""The report: its numbers are the results', its page needs nothing else, its figures are drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sample_results import make_results

from costmodel.errors import ConfigError
from orchestrator.latency_report import paper_points
from orchestrator.plots import styles
from orchestrator.report import NOTHING, paper_comparison, text_table, write_report
from orchestrator.results import Bounds, save


class Page(HTMLParser):
    """Collects tags and references."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]


def test_one_page_for_several_benchmarks(tmp_path: Path) -> None:
    for name, budget in (("t-iso-time", {"seconds": 1.0, "iterations": None}), ("t-iso-iter", {})):
        (tmp_path / name).mkdir()
        save(make_results(name=name, **budget), tmp_path / name)
    path = write_report(tmp_path)
    text = path.read_text()
    page = Page(text)
    assert page.references
    # No proof, no certificate: nothing is referred to.
    assert all(reference.startswith("data:image/png;base64,") for reference in page.references)
    assert page.tags.count("img") == 7
    # Only iterations can be replayed at other latencies.
    assert text.count("<h3>When each method pays</h3>") == 1
    assert text.index("When each method pays") < text.index("t-iso-time</h2>")
    assert "<h1>Mapping search compared: t</h1>" in text
    # Iterations first, as in the paper.
    assert text.index("t-iso-iter</h2>") < text.index("t-iso-time</h2>")
    figures = sorted(file.name for file in (tmp_path / "figures").iterdir())
    assert figures == sorted(
        [
            "t-iso-iter-latency.png",
            *(
                f"{name}-{kind}.png"
                for name in ("t-iso-iter", "t-iso-time")
                for kind in ("final", "iterations", "time")
            ),
        ]
    )
    assert all(
        file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size > 5000
        for file in (tmp_path / "figures").iterdir()
    )


def test_the_numbers_are_the_results(tmp_path: Path) -> None:
    results = make_results()
    save(results, tmp_path)
    text = re.sub(r"\s+", " ", write_report(tmp_path).read_text())
    assert "6.000" in text  # annealing on left, normalised
    assert ">200.00<" in text  # and in per cent above the optimum
    assert "right (at most)" in text
    assert ">400.00<" in text  # annealing on right, above the floor
    assert "the optimum, from the table of proven ones" in text
    assert "a lower bound; the optimum is not proven (no proof was tried)" in text
    assert "2.83\N{MULTIPLICATION SIGN}" in text  # over gradient: sqrt(2 x 4)
    assert "1.40\N{MULTIPLICATION SIGN}" in text  # the paper's
    assert "chains=2" in text


def test_when_each_method_pays(tmp_path: Path) -> None:
    results = make_results()
    slow = [dict(entry) for entry in results.experiment["searchers"]]
    slow[0]["iterations"] = 50
    results = replace(results, experiment={**results.experiment, "searchers": slow})
    save(results, tmp_path)
    text = re.sub(r"\s+", " ", write_report(tmp_path).read_text())
    section = text[text.index("When each method pays") : text.index("<h3>Normalised EDP</h3>")]
    assert section.count("annealing (after 50)") == 2
    # After 60 s all 100 queries are made up to 0.1 s each, not at 1 s: then the 50th decides, and
    # annealing still ends at sqrt(3 x 5) - 1; at 10 s each six are made: 900 for 20 and 80.
    cells = re.search(r"annealing \(after 50\)</td>(.*?)</tr>", section)
    assert cells is not None
    numbers = [float(value) for value in re.findall(r">([\d.]+)</td>", cells[1])]
    assert numbers == pytest.approx([287.30] * 5 + [2150.00], abs=0.01)
    # 20 and 80 are reached by nothing here within a tenth.
    assert "not reached" in section
    assert "bill of a surrogate" not in section


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
    assert points["workloads"] == ["mttkrp-0"]
    assert points["iterations"] == "100"
    # sqrt(20 x 45) and the optimum 20 over the minimum 10.
    assert [(row["label"], row["cells"]) for row in points["rows"]] == [
        ("Mind Mappings, in the paper", ["6.80"]),
        ("gradient (visited)", ["3.00"]),
        ("proven optimum of our cost model", ["2.00"]),
    ]


def test_names_are_escaped(tmp_path: Path) -> None:
    results = make_results(description="<script>alert(1)</script>")
    save(results, tmp_path)
    text = write_report(tmp_path).read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_the_paper_stands_beside_the_same_baselines_only() -> None:
    comparison = {label: paper for label, _, paper in paper_comparison(make_results())}
    assert comparison["annealing"] == 1.40
    assert comparison["random"] != comparison["random"]  # the paper has none: nan
    by_time = make_results(seconds=1.0, iterations=None)
    assert paper_comparison(by_time)[0][2] == 3.16
    without = replace(
        by_time, runs=tuple(run for run in by_time.runs if "gradient" not in run.searcher)
    )
    assert paper_comparison(without) == []


def test_certificates_are_linked_where_they_lie(tmp_path: Path) -> None:
    results = make_results(name="one")
    file = "certificates/left-1.json"
    proven = replace(results.bounds["left"], proof_seconds=0.125, certificate=file)
    lost = replace(results.bounds["right"], certificate="certificates/lost.json", note="too slow.")
    folder = tmp_path / "run 1"
    (folder / "certificates").mkdir(parents=True)
    (folder / file).write_text("{}")
    save(replace(results, bounds={"left": proven, "right": lost}), folder)
    for place, link in ((tmp_path, f"run%201/{file}"), (folder, file)):
        text = write_report(place).read_text()
        links = [name for name in Page(text).references if not name.startswith("data:")]
        assert links == [link]
        assert "the optimum, proven in 0.12 s" in text
        assert "a lower bound; the optimum is not proven (too slow)" in text


def test_the_table_for_a_terminal() -> None:
    lines = text_table(make_results()).splitlines()
    assert lines[0].split("  ")[0] == "EDP, % above the optimum"
    assert lines[0].split()[-5:] == ["left", "right", "(at", "most)", "mean"]
    # sqrt(3 x 5) - 1 is 287.3 %.
    assert lines[1].split() == ["annealing", "200.00", "400.00", "287.30"]
    assert lines[4].split()[-2:] == ["20", NOTHING]
    assert lines[5].split()[-2:] == [NOTHING, "80"]
    assert lines[6] == "at most: above a lower bound; no optimum is proven: no proof was tried"
    assert len({line.find("400.00") for line in lines if "400.00" in line}) == 1


def test_the_table_tells_the_optimum_from_what_is_close_to_it() -> None:
    results = make_results()
    values = {"left": 60.0 / (1 + 1e-6), "right": 600.0}
    bounds = {name: Bounds(10.0, 15.0, value) for name, value in values.items()}
    lines = text_table(replace(results, bounds=bounds)).splitlines()
    assert lines[0].startswith("EDP, % above the proven optimum")
    assert lines[3].split() == ["random", "<0.01", "0", "<0.01"]
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


def test_infeasible_runs_do_not_break_the_report(tmp_path: Path) -> None:
    results = make_results()
    first = results.runs[0]
    lost = replace(first, best_loss=float("inf"), best_code=(), loss=first.loss * float("inf"))
    save(replace(results, runs=(lost, *results.runs[1:])), tmp_path)
    assert write_report(tmp_path).exists()


def test_without_results_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no finished benchmark"):
        write_report(tmp_path)
