"""What is said to be sure: targets, middle halves and tests over problems, counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_results import LINED_UP, lined_up, make_results

from orchestrator.comparison import statistics_figures
from orchestrator.comparison.aggregates import few_seeds, improves, interquartile, profile, shares
from orchestrator.comparison.conclusion import conclusion, listed
from orchestrator.comparison.rank_tests import holm, paired_p, per_problem, ranks
from orchestrator.comparison.statistics_figures import draw_ranks, draw_reached
from orchestrator.comparison.statistics_section import (
    problems_table,
    statistics_blocks,
    sure_table,
    targets_table,
)
from orchestrator.comparison.targets import TARGETS, arrivals
from orchestrator.report.document import Figure, Table


def test_expected_running_times_count_what_never_arrives() -> None:
    # Only the left optimum, 20, is known. Of the gradient search one seed is there after 50
    # queries, the other spends its 100 and never is: 150 queries an arrival.
    found = arrivals(make_results(), "gradient (visited)")
    assert found.arrived.tolist() == [[50.0] * 4, [math.inf] * 4]
    assert found.reached.tolist() == [1] * 4
    assert found.expected.tolist() == [150.0] * 4
    assert found.share(np.array([49.0, 50.0, 100.0])).tolist() == [0.0, 0.5, 0.5]
    never = arrivals(make_results(), "random")
    assert np.isinf(never.expected).all()
    near = arrivals(make_results(), "gradient (visited)", [1.0, 0.99])
    # 40, twice the optimum, after 10 queries; the other seed, at 45, never.
    assert near.arrived.tolist() == [[10.0, 50.0], [math.inf, math.inf]]
    by_time = arrivals(make_results(iterations=None, seconds=1.0), "gradient (visited)")
    assert by_time.expected.tolist() == [1.5] * 4


def test_the_table_of_targets_says_who_arrived() -> None:
    table = targets_table(make_results())
    assert len(table.rows) == 3
    shown = {row[0].value: row[1:] for row in table.body()}
    assert [cell.value for cell in shown["gradient (visited)"]] == ["150"] * len(TARGETS)
    assert [cell.note for cell in shown["random"]] == ["0 of 2"] * len(TARGETS)
    assert "1 whose optimum is not proven are left out" in table.note


def test_the_middle_half_by_hand() -> None:
    # Of eight searches the middle four: 1.02, 1.02, 1.03, 1.03.
    strata = [np.array([0.0, 0.02, 0.03, 9.0]), np.array([0.01, 0.02, 0.03, 0.5])]
    spread = interquartile(strata)
    assert spread.value == pytest.approx(math.sqrt(1.02 * 1.03) - 1, rel=1e-12)
    assert 0.0 < spread.low < spread.value < spread.high < 9.0
    assert interquartile(strata) == spread
    # What found nothing is infinitely far: no mean where it is in the middle half.
    assert interquartile([np.array([0.0, 0.1, 0.1, math.inf])]).value == pytest.approx(0.1)
    assert math.isinf(interquartile([np.array([0.0, math.inf])]).value)
    same = interquartile([np.array([0.25, 0.25]), np.array([0.25])])
    assert same == pytest.approx((0.25, 0.25, 0.25))


def test_resamples_stay_within_their_problem() -> None:
    """Stratified: problems differ a hundredfold, seeds not at all, so nothing is uncertain."""
    spread = interquartile([np.full(4, 0.01), np.full(4, 1.0)])
    assert spread.low == spread.high == spread.value


def test_the_chance_to_end_lower_by_hand() -> None:
    first, second = [np.array([1.0, 2.0])], [np.array([1.0, 3.0])]
    # Of four pairs: level, lower, higher, lower.
    assert improves(first, second) == pytest.approx((0.5 + 1 + 0 + 1) / 4)
    assert improves(second, first) == pytest.approx(1.5 / 4)
    nothing = [np.array([math.inf, math.inf])]
    assert improves(nothing, nothing) == 0.5
    assert improves(first, nothing) == 1


def test_a_profile_counts_problems_alike() -> None:
    strata = [np.array([0.0, 0.0, 0.0, 0.5]), np.array([0.5])]
    assert profile(strata, np.array([0.0, 0.5])).tolist() == [0.375, 1.0]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []


def test_ranks_by_hand() -> None:
    found = ranks(lined_up())
    assert found is not None
    assert found.labels == LINED_UP
    assert found.average.tolist() == [1.0, 2.0, 3.0]
    # Chi squared: 12 / (5 x 3 x 4) x (25 + 100 + 225) - 3 x 5 x 4 = 10, of two degrees of freedom.
    assert found.friedman == pytest.approx(math.exp(-5))
    # Ranks differ by 1 and 2 of errors of sqrt(3 x 4 / (6 x 5)).
    z = np.array([1, 2]) / math.sqrt(0.4)
    p = [math.erfc(one / math.sqrt(2)) for one in z]
    assert found.holm.tolist() == pytest.approx([1.0, p[0], 2 * p[1]])
    assert found.level == ("genetic",)
    # Demsar's table 5: 2.343 for three methods.
    assert found.difference == pytest.approx(2.343 * math.sqrt(0.4), rel=1e-3)
    assert found.cliques() == [(0, 1), (1, 2)]


def test_level_methods_are_level() -> None:
    found = ranks(lined_up(factors=(1.0, 1.0, 1.0)))
    assert found is not None
    assert found.friedman == 1.0
    assert found.level == LINED_UP[1:]
    assert found.cliques() == [(0, 2)]
    assert ranks(lined_up(problems=4)) is None


def test_a_method_that_finds_nothing_is_last() -> None:
    found = ranks(lined_up(factors=(math.inf, 1.1, 1.0)))
    assert found is not None
    assert found.labels == LINED_UP[::-1]
    assert np.isfinite(found.average).all()


def test_pairs_of_seeds_are_tested_per_problem() -> None:
    results = lined_up()
    told = per_problem(results, "random", "annealing")
    assert [name for name, _, _ in told] == list(results.workloads)
    # Six pairs that all differ one way: 2 / 2^6, five times over.
    for _, ratio, p in told:
        assert ratio == pytest.approx(1.2)
        assert p == pytest.approx(5 * 2 / 64)
    assert paired_p(np.zeros(6), np.zeros(6)) == 1.0
    assert paired_p(np.full(6, math.inf), np.full(6, math.inf)) == 1.0


def test_the_conclusion_says_what_ranks_support() -> None:
    said = conclusion(lined_up())
    assert said.endswith(
        "By ranks over these 5 problems annealing is ahead of random (at most p = 0.0031); "
        "that it is ahead of genetic on others, too, they do not show."
    )
    assert "annealing ends 0.65 %" in said
    level = conclusion(lined_up(factors=(1.0, 1.0, 1.0)))
    assert "nothing shows that annealing is ahead on others, too" in level
    assert "By ranks" not in conclusion(make_results())
    assert conclusion(lined_up(seeds=4)).endswith("All methods have fewer than 5 seeds.")
    assert few_seeds(lined_up(seeds=4)) == dict.fromkeys(LINED_UP, 4)
    assert few_seeds(lined_up(seeds=5)) == {}


def test_many_names_are_counted() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefgh")) == "a, b, c, d and 4 others"


def test_tables_say_it_method_by_method() -> None:
    results = lined_up()
    found = ranks(results)
    table = sure_table(results, found)
    last = {row[0].value: [cell.value for cell in row[1:]] for row in table.body()}
    assert last["random"] == ["20.78", "0 %", "3.00", "p = 0.0031", ""]
    assert last["annealing"][1:] == ["", "1.00", "", ""]
    assert "Friedman's test that all are level: p = 0.0067." in table.note
    problems = problems_table(results, found)
    assert problems is not None
    assert [row[0].value for row in problems.body()] == ["genetic", "random"]
    assert problems.body()[1][1].value == "1.200"
    assert problems_table(lined_up(seeds=5), found) is None
    few = sure_table(make_results(), None).body()
    assert {row[5].value for row in few} == {"2 seeds"}


def test_a_page_shows_it(tmp_path: Path) -> None:
    results = lined_up()
    blocks = [block for block in statistics_blocks(results, "made-up") if block is not None]
    assert [type(block) for block in blocks] == [Figure, Table, Figure, Table, Table]
    found = ranks(results)
    assert found is not None
    draw_reached(results, tmp_path / "reached.png")
    draw_ranks(results, found, tmp_path / "ranks.png")
    assert all(file.stat().st_size > 5000 for file in tmp_path.iterdir())
    one = replace(results, runs=[run for run in results.runs if run.searcher == "random"])
    assert statistics_blocks(one, "made-up") == []
    # Nothing is known of the optimum, and nothing was found: no target, no failure.
    bounds = {name: replace(own, optimum=None) for name, own in results.bounds.items()}
    unknown = statistics_blocks(replace(results, bounds=bounds), "made-up")
    assert [block.key for block in unknown if isinstance(block, Figure)] == ["made-up-ranks"]


def test_what_the_pictures_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines, places and sizes: three methods of nine letters, whose order is counted by hand."""
    drawn: list[Any] = []
    monkeypatch.setattr(statistics_figures, "save", lambda figure, path: drawn.append(figure))
    results = lined_up()
    found = ranks(results)
    assert found is not None
    draw_reached(results, tmp_path)
    draw_ranks(results, found, tmp_path)
    reached, ranked = drawn
    # Of 10.5 inches an entry takes 0.75, and 0.085 a letter: six in a row.
    (legend,) = reached.legends
    assert (legend._ncols, [text.get_text() for text in legend.texts]) == (6, [*results.searchers])
    assert reached.get_size_inches() == pytest.approx([11.0, 4.24])
    left, right = reached.axes
    for panel in (left, right):
        assert (panel.get_ylim(), panel.get_xscale()) == ((-0.02, 1.02), "log")
        assert panel.get_yticks().tolist() == [0, 0.25, 0.5, 0.75, 1]
    for label, line in zip(results.searchers, right.lines, strict=True):
        points, shown = line.get_data()
        assert [points[0], points[-1]] == pytest.approx([0.001, 100.0])
        assert shown.tolist() == profile(shares(results, label), points / 100).tolist()
    for label, line in zip(results.searchers, left.lines[::2], strict=True):
        points, shown = line.get_data()
        assert shown.tolist() == arrivals(results, label).share(points).tolist()
        assert points[-1] == pytest.approx(float(arrivals(results, label).spent.max()))
    (panel,) = ranked.axes
    assert ranked.get_size_inches() == pytest.approx([9.2, 0.34 * 3 + 1.1])
    # From the best rank to that of each method, and a bar right of all over those not told apart.
    lines = [line.get_xydata().tolist() for line in panel.lines]
    stems = [[[1.0, place], [rank, place]] for place, rank in enumerate(found.average)]
    assert lines[:3] == stems
    right_of = float(found.average.max()) + 0.16
    bars = [
        [[right_of + 0.25 * place, first - 0.2], [right_of + 0.25 * place, last + 0.2]]
        for place, (first, last) in enumerate(found.cliques())
    ]
    assert lines[3:] == [pytest.approx(np.array(bar)) for bar in bars]
    assert [text.get_text() for text in panel.texts] == [f"{rank:.2f}" for rank in found.average]
    assert (panel.get_ylim(), panel.get_xlim()[0]) == ((2.6, -0.6), 0.9)
    assert [tick.get_text() for tick in panel.get_yticklabels()] == list(found.labels)


def test_shares_know_rounding() -> None:
    results = lined_up(problems=5, seeds=1)
    own = shares(results, "annealing")
    assert own[0].tolist() == [0.0]
    assert own[1].tolist() == pytest.approx([0.002])
